"""Help is where people look for it, and has examples that work."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from numakube.annexes import annexes
from numakube.cli.command_table import COMMANDS, joined, sections
from numakube.cli.examples import EXAMPLES
from numakube.cli.help_topics import TOPICS
from numakube.cli.main import cli, run

MISSING = {
    f"numakube {path}"
    for annex in annexes()
    if not annex.is_installed
    for path in (*annex.called(), *(f"replay {replay.name}" for replay in annex.replays))
}
"""Commands of annexes that are not installed; `tests.annexes` tests what they say."""


def everything(ctx: click.Context) -> Iterator[click.Context]:
    """Yield a context for every command below that of *ctx*."""
    group = ctx.command
    assert isinstance(group, click.Group)
    for name in group.list_commands(ctx):
        if f"{ctx.command_path} {name}" in MISSING:
            continue
        command = group.get_command(ctx, name)
        assert command is not None
        below = click.Context(command, info_name=name, parent=ctx)
        yield below
        if isinstance(command, click.Group):
            yield from everything(below)
    if ctx.parent is None:
        for noun in joined():  # such as ``top domains``, which an annex adds to a command of ours
            if noun.partition(" ")[0] in COMMANDS and f"numakube {noun}" not in MISSING:
                command = group.get_command(ctx, noun)
                assert command is not None
                yield click.Context(command, info_name=noun, parent=ctx)


ALL = {
    ctx.command_path.partition(" ")[2]: ctx
    for ctx in everything(click.Context(cli, info_name="numakube"))
}
ALL_EXAMPLES = EXAMPLES | {
    path: words
    for annex in annexes()
    if annex.is_installed
    for path, words in annex.examples.items()
}
GROUPS = ["", *(path for path, ctx in ALL.items() if isinstance(ctx.command, click.Group))]


@pytest.mark.parametrize("path", [path for path in GROUPS if path != "run extender"])
@pytest.mark.parametrize("program", ["numakube", "kubectl numa"])
def test_a_group_alone_prints_its_help(
    path: str, program: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """To standard output, and that is no error."""
    assert run(path.split(), program=program) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert out.startswith(f"Usage: {program} {path}".rstrip())
    assert "\n\nOptions:\n" in out


def test_commands_are_listed_by_what_people_come_for(numakube: Any) -> None:
    """Each is in one section, or in a group that is."""
    listing = numakube("--help").out
    titles = [line[:-1] for line in listing.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == ["Options", *sections()]
    assert sorted(name for names in sections().values() for name in names) == sorted(
        {path.split()[0] for path in (*COMMANDS, *joined())}
    )


@pytest.mark.parametrize("name", TOPICS)
def test_a_topic_fits_on_one_screen_and_its_examples_are_commands(name: str, numakube: Any) -> None:
    """They are read as the commands would read them."""
    ended = numakube("help", "topic", name)
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    for line in lines:
        example = re.fullmatch(r"  (?:numakube|kubectl numa) (.*)", line)
        if example is not None:
            called: click.Command | None = cli
            rest = shlex.split(example[1])
            while isinstance(called, click.Group) and rest:
                _, called, rest = called.resolve_command(click.Context(called), rest)
            assert called is not None
            called.make_parser(click.Context(called)).parse_args(rest)


def test_topics_are_listed_and_mistakes_named(numakube: Any) -> None:
    """The list has a line for each."""
    listed = numakube("help", "topic").out.splitlines()
    assert [line.split()[0] for line in listed] == [*TOPICS]
    assert numakube("help", "topics").out.splitlines() == listed
    assert "No topic 'pod'; there are cluster, " in numakube("help", "topic", "pod").err


def test_help_explains_a_command(numakube: Any) -> None:
    """As ``--help`` does, at any depth; mistakes get the same suggestions."""
    assert numakube("help") == numakube("--help")
    assert numakube("help", "lab", "node", "kill") == numakube("lab", "node", "kill", "--help")
    wrong = numakube("help", "lab", "stauts")
    assert (wrong.code, "Did you mean 'status'?" in wrong.err) == (2, True)
    assert numakube("help", "top", "nodes").code == 2


@pytest.mark.parametrize(
    ("typed", "meant"), [("explian", "explain"), ("doctr", "doctor"), ("tpo", "top")]
)
def test_a_mistyped_command_gets_a_suggestion(numakube: Any, typed: str, meant: str) -> None:
    """And exit code 2."""
    ended = numakube(typed)
    assert ended.code == 2
    assert ended.err.startswith(f"error: No such command '{typed}'. Did you mean '{meant}'?\n")


def test_no_message_has_tabs(numakube: Any) -> None:
    """Lists of choices among them."""
    ended = numakube("completion")
    assert ended.err.startswith(
        "error: Missing argument 'SHELL'. Choose from: bash, zsh, fish\nsee "
    )


def test_every_command_has_examples() -> None:
    """And no example is of a command that is gone."""
    assert ALL_EXAMPLES.keys() == ALL.keys()


@pytest.mark.parametrize("path", ALL_EXAMPLES)
def test_examples_are_command_lines_that_the_command_takes(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stand at the end of its help, with the program's name."""
    monkeypatch.chdir(tmp_path)
    ctx = ALL[path]
    assert f"Examples:\n    {f'numakube {path} {ALL_EXAMPLES[path][0]}'.rstrip()}\n" in (
        ctx.get_help() + "\n"
    )
    for words in ALL_EXAMPLES[path]:
        line = shlex.split(words.partition("<")[0])
        for file in line:
            if ".jsonl" in file:
                (tmp_path / file).touch()
        ctx.command.make_context(str(ctx.info_name), line, parent=ctx.parent)
