"""What is installed is found, whoever wrote it, and in one order."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from tests.annexes.installing import installed, write_distribution

from numakube.annexes import Group, annexes, load, points
from numakube.errors import ConfigError
from numakube.scheduling.framework.registry import ENTRY_POINTS

CHECKS = f"[{Group.CHECKS}]\n"
TOY = """
from numakube.annexes import Added, Annex
from numakube.programs import ProgramEntry

ANNEX = Annex(
    name="toy",
    summary="Something to play with.",
    extra="toy",
    programs=(ProgramEntry(name="top-spin", summary="Spin on and on.", port=1),),
    commands=(Added(name="play", summary="Play once.", section="Play"),),
    examples={"play": ("--loud",)},
)
"""
TOY_POINTS = f"""
[{Group.ANNEXES}]
toy = numakube_toy.annex:ANNEX

[{Group.COMMANDS}]
play = numakube_toy.playing:command

[{Group.PROGRAMS}]
top-spin = numakube_toy.spinning:PROGRAM
"""
PLAYING = """
import click

@click.command()
@click.option("--loud", is_flag=True)
def command(loud):
    '''Play once.'''
    click.echo("HURRAY" if loud else "hurray")
"""


def test_the_standard_library_reads_the_same() -> None:
    for group in Group:
        theirs = {point.name: point.value for point in entry_points(group=group)}
        assert dict(points(group)) == theirs
    assert points(Group.COMMANDS)


def test_plugins_have_the_group_that_is_documented() -> None:
    assert Group.PLUGINS.value == str(ENTRY_POINTS)


def test_names_come_in_their_own_order_whatever_the_order_of_distributions(tmp_path: Path) -> None:
    with (
        installed(tmp_path / "1", f"{CHECKS}b = json\nA = math\n", name="zz"),
        installed(tmp_path / "2", f"{CHECKS}c = json\n", name="aa"),
    ):
        assert [*points(Group.CHECKS)] == sorted(points(Group.CHECKS))
        assert {"A", "b", "c"} <= points(Group.CHECKS).keys()


def test_what_two_add_is_an_error_that_names_both(tmp_path: Path) -> None:
    with (
        installed(tmp_path / "1", f"{CHECKS}a = json\n", name="one"),
        installed(tmp_path / "2", f"{CHECKS}a = math\n", name="other"),
        pytest.raises(ConfigError, match="other and one both add 'a' to numakube"),
    ):
        points(Group.CHECKS)


def test_of_a_distribution_that_is_there_twice_the_first_counts(tmp_path: Path) -> None:
    with (
        installed(tmp_path / "1", f"{CHECKS}a = json\n"),
        installed(tmp_path / "2", f"{CHECKS}a = math\n"),
    ):
        assert points(Group.CHECKS)["a"] == "math"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a = json",
        "[numakube.checks]\n# a = json\nb\n; c = d",
        "[numakube.checks",
        "[other]\na = b",
    ],
)
def test_odd_lists_add_nothing(text: str, tmp_path: Path) -> None:
    before = {*points(Group.CHECKS)}
    with installed(tmp_path, text):
        assert {*points(Group.CHECKS)} == before


def test_a_list_in_another_encoding_counts_for_nothing(tmp_path: Path) -> None:
    folder = write_distribution(tmp_path, "")
    (folder / "toy-1.0.dist-info" / "entry_points.txt").write_bytes(CHECKS.encode("utf-16"))
    with installed(tmp_path / "2", f"{CHECKS}a = json\n", name="other"):
        sys.path.insert(0, str(folder))
        try:
            assert points(Group.CHECKS)["a"] == "json"
        finally:
            sys.path.remove(str(folder))


def test_an_object_in_an_object_is_found(tmp_path: Path) -> None:
    with installed(tmp_path, f"{CHECKS}a = os:path.join [extra]\n"):
        assert load(Group.CHECKS, "a") is __import__("os").path.join


def run(folder: Path, *words: str) -> tuple[int, str, str]:
    """Run numakube where the toy is installed in *folder*."""
    code = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); import numakube.cli.main as m; m.main()"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """Return where an annex of somebody else is installed."""
    modules = {
        "numakube_toy.__init__": "",
        "numakube_toy.annex": TOY,
        "numakube_toy.playing": PLAYING,
        # To import it would fail.
        "numakube_toy.spinning": "raise RuntimeError('imported')",
    }
    return write_distribution(tmp_path, TOY_POINTS, name="numakube_toy", **modules)


def test_commands_of_an_annex_are_listed_without_importing_them(toy: Path) -> None:
    code, out, err = run(toy, "--help")
    assert (code, err) == (0, "")
    assert "\nPlay:\n  play  Play once.\n" in out
    assert "  top-spin         Spin on and on.\n" in run(toy, "run", "--help")[1]


def test_a_command_of_an_annex_runs_and_has_its_examples(toy: Path) -> None:
    assert run(toy, "play", "--loud") == (0, "HURRAY\n", "")
    assert "Examples:\n    numakube play --loud\n" in run(toy, "play", "--help")[1]


def test_a_mistyped_command_of_an_annex_gets_a_suggestion(toy: Path) -> None:
    assert "Did you mean 'play'?" in run(toy, "plya")[2]


def test_an_annex_of_somebody_else_is_one_of_all(toy: Path) -> None:
    sys.path.insert(0, str(toy))
    try:
        names = [annex.name for annex in annexes()]
    finally:
        sys.path.remove(str(toy))
        for module in ("numakube_toy", "numakube_toy.annex"):
            sys.modules.pop(module, None)
    assert "toy" in names
    assert names == sorted(names)
