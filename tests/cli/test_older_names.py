"""Names that commands had before still work, and say the new one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import Ended

from numakube.cli.command_table import COMMANDS, joined, other_names, path_in

OTHERS = other_names()
TOLD = sorted(name for name, other in OTHERS.items() if other.told)
SILENT = sorted(OTHERS.keys() - set(TOLD))


def test_every_other_name_is_of_a_command() -> None:
    commands = {**COMMANDS, **joined()}
    assert TOLD
    assert SILENT
    assert {other.path for other in OTHERS.values()} <= commands.keys()
    assert not OTHERS.keys() & commands.keys()


@pytest.mark.parametrize("name", [name for name in TOLD if name != "check"])
def test_an_older_name_is_the_command_and_says_its_new_name(
    name: str, numakube: Callable[..., Ended]
) -> None:
    new = numakube(*OTHERS[name].path.split(), "--help")
    old = numakube(name, "--help")
    assert (old.code, old.out) == (0, new.out)
    assert f"`numakube {name}` is `numakube {OTHERS[name].path}` now" in old.err
    assert len(old.err.splitlines()) == 1


@pytest.mark.parametrize("name", SILENT)
def test_short_names_that_containers_and_scripts_use_say_nothing(
    name: str, numakube: Callable[..., Ended]
) -> None:
    assert numakube(name, "--help") == numakube(*OTHERS[name].path.split(), "--help")


def test_check_with_a_file_checks_manifests(tmp_path: Path, numakube: Callable[..., Ended]) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: []}\n")
    ended = numakube("check", file)
    assert (ended.code, ended.out) == (0, "nothing is wrong with 1 object\n")
    assert "`numakube check manifests` now" in ended.err
    assert "Did you mean 'kubelets'?" in numakube("check", "kublets").err
    assert "No such command ''" in numakube("check", "").err


def test_a_file_that_is_called_like_a_command_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, numakube: Callable[..., Ended]
) -> None:
    """Folders are often called manifests, or pods."""
    monkeypatch.chdir(tmp_path)
    for line in (("check", "manifests"), ("check", "pods"), ("plan", "defrag"), ("run", "gc")):
        (tmp_path / line[1]).mkdir()
        ended = numakube(*line, "--help")
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.startswith(f"Usage: numakube {' '.join(line)} ")


def test_a_mistyped_older_name_gets_the_new_one(numakube: Callable[..., Ended]) -> None:
    assert "Did you mean 'plan simulate'?" in numakube("simulat").err
    assert "Did you mean 'run scheduler'?" in numakube("schedulr").err


def test_help_knows_older_names(numakube: Callable[..., Ended]) -> None:
    assert numakube("help", "defrag").out == numakube("plan", "defrag", "--help").out


def test_options_before_a_program_reach_it_below_run(numakube: Callable[..., Ended]) -> None:
    for line in (("run", "gc"), ("gc",)):
        ended = numakube("--kubeconfig", "/nonexistent", *line, "--oneshot")
        assert (ended.code, ended.err.count("/nonexistent: ")) == (1, 1)
        assert numakube("--server", "http://x", *line).err.startswith(
            "error: gc takes --kubeconfig"
        )


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("--debug plan defrag -f x", "plan defrag"),
        ("defrag --for pod/web", "plan defrag"),
        ("--context a scheduler", "run scheduler"),
        ("explain pod check", "explain"),
        ("nothing at all", None),
    ],
)
def test_the_command_is_found_in_a_line(line: str, path: str | None) -> None:
    assert path_in(line.split()) == path
