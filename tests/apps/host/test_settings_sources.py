"""Files, environment and flags."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import click
import pytest

from numakube.apps.host.common_settings import ServingSettings, listen_of
from numakube.apps.host.settings_sources import DURATION, SettingsTable, group, setting
from numakube.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Settings that several programs have."""

    interval: float = setting(
        "--interval", type=DURATION, default=5.0, key="loop.interval", env="INTERVAL"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Settings of one program."""

    pace: Pace = group(Pace, interval={"default": 60.0})
    count: int = setting("--count", type=click.INT, default=1, key="loop.count")
    fast: bool = setting("--fast/--no-fast", default=True, key="loop.fast", env="FAST")
    names: tuple[str, ...] = setting("--name", multiple=True, default=(), key="names", env="NAMES")
    words: tuple[str, ...] = setting("", multiple=True, default=())


SETTINGS = SettingsTable(Example)


def flags_of(*words: str) -> dict[str, Any]:
    """Return what is given on a command line."""
    command = click.Command("test", params=SETTINGS.parameters())
    with command.make_context("test", list(words)) as context:
        return SETTINGS.given(context)


def test_defaults_hold_until_somebody_sets_a_value() -> None:
    """Of every setting."""
    found = SETTINGS.resolve(env={}, flags=flags_of())
    assert found == Example()
    assert SETTINGS.flat(found) == {
        "interval": 60.0,
        "count": 1,
        "fast": True,
        "names": (),
        "words": (),
    }


def test_flags_win_over_the_environment_and_that_over_files() -> None:
    """And a later file over an earlier one."""
    first = SETTINGS.from_tree({"loop": {"interval": "1s", "count": 2, "fast": False}}, "a")
    second = SETTINGS.from_tree({"loop": {"count": 3}, "names": ["x"]}, "b")
    env = {"INTERVAL": "2s", "FAST": "", "NAMES": "y,z"}
    found = SETTINGS.resolve(files=[first, second], env=env, flags=flags_of("--interval", "3s"))
    assert found == Example(pace=Pace(interval=3.0), count=3, fast=False, names=("y", "z"))


def test_a_flag_equal_to_the_default_still_wins() -> None:
    """It was said."""
    files = [SETTINGS.from_tree({"loop": {"count": 9, "fast": False}}, "a")]
    found = SETTINGS.resolve(files=files, env={}, flags=flags_of("--count", "1", "--fast"))
    assert (found.count, found.fast) == (1, True)


def test_words_without_a_flag_are_taken_too() -> None:
    """As many as there are."""
    assert SETTINGS.resolve(env={}, flags=flags_of("a", "--count", "2", "b")).words == ("a", "b")


def test_durations_in_files_may_be_nanoseconds() -> None:
    """As older agents wrote them."""
    assert SETTINGS.from_tree({"loop": {"interval": 1_500_000_000}}, "a") == {"interval": 1.5}


def test_everything_wrong_with_a_file_is_said_at_once() -> None:
    """With the key that was probably meant."""
    tree = {"loop": {"intervall": "1s", "count": "many", "fast": 3}, "more": {"x": 1}}
    with pytest.raises(ConfigError) as caught:
        SETTINGS.from_tree(tree, "config.yaml")
    text = str(caught.value)
    assert text.startswith("config.yaml: ")
    assert "unknown key 'loop.intervall' (is 'loop.interval' meant?)" in text
    assert "loop.count: 'many' is not a valid integer" in text
    assert "loop.fast" in text
    assert "unknown key 'more.x'" in text


def test_keys_of_others_are_left_alone() -> None:
    """Some keys of a file are read elsewhere."""
    tree = {"exclude": {"*": ["cpu"]}, "loop": {"count": 2}}
    assert SETTINGS.from_tree(tree, "a", beside=["exclude"]) == {"count": 2}


@pytest.mark.parametrize("tree", [[], "text", 3])
def test_a_file_must_be_a_mapping(tree: object) -> None:
    """Or empty."""
    with pytest.raises(ConfigError, match="a: must be a mapping"):
        SETTINGS.from_tree(tree, "a")
    assert SETTINGS.from_tree(None, "a") == {}


def test_wrong_variables_are_named() -> None:
    """The environment is hard to see."""
    with pytest.raises(ConfigError, match=r"environment variable INTERVAL: .*soon"):
        SETTINGS.resolve(env={"INTERVAL": "soon"}, flags={})


def test_the_help_shows_defaults_and_variables() -> None:
    """So that nobody has to look them up."""
    command = click.Command("test", params=SETTINGS.parameters())
    with command.make_context("test", []) as context:
        text = re.sub(r"\s+", " ", command.get_help(context))
    assert "[default: 1m0s]" in text
    assert "[INTERVAL]" in text


def test_processes_serve_on_loopback_unless_told_otherwise() -> None:
    """Where others can reach it, only with a certificate or the word that plain HTTP is meant."""
    assert (listen_of(ServingSettings()).host, listen_of(ServingSettings()).port) == (
        "127.0.0.1",
        8080,
    )
    with pytest.raises(ConfigError, match="can be reached by others"):
        listen_of(ServingSettings(bind_address=":80"))
    assert listen_of(ServingSettings(bind_address=":80", insecure_serving=True)).host == "0.0.0.0"
    tls = listen_of(ServingSettings(bind_address=":80", tls_cert_file="c", tls_key_file="k")).tls
    assert tls is not None
    with pytest.raises(ConfigError, match="must be given together"):
        listen_of(ServingSettings(tls_cert_file="c"))
