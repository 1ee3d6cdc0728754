"""The loop that all replay formats share: answer each case, print or compare."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from numakube.cli.replay.case_files import BadInput, Case, read_cases
from numakube.cli.replay.differences import explain
from numakube.errors import NumakubeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Answer: TypeAlias = dict[str, Any]

# Enough to see a pattern; the ids of all failed cases are printed anyway.
EXPLAINED_CASES: Final = 5
LINES_OF_A_CASE: Final = 8
PROGRESS_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of recording.

    Attributes:
        answer: gives our answer to a recorded row, in the shape of the recorded answer.
        recorded: takes the recorded answer out of a row.
        required: the keys without which a row cannot be answered.
    """

    answer: Callable[[Answer], Answer]
    recorded: Callable[[Answer], Answer]
    required: tuple[str, ...]


def replay_command(name: str, summary: str, load: Callable[[], Format]) -> click.Command:
    """Return the command that replays one format; *load* imports what is needed to answer."""

    @click.command(name, help=summary)
    @click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
    @click.option("--check", is_flag=True, help="Compare with the recorded answers.")
    @click.pass_context
    def command(ctx: click.Context, file: str, *, check: bool) -> None:
        cases = with_progress(read_cases(file), file)
        if not check:
            print_answers(load(), cases)
        elif print_check(load(), cases):
            ctx.exit(1)

    return command


def print_answers(form: Format, cases: Iterable[Case]) -> None:
    """Print our answer to each of *cases*, a line each."""
    for case in cases:
        click.echo(json.dumps(_answer(form, case), ensure_ascii=False, separators=(",", ":")))


def print_check(form: Format, cases: Iterable[Case]) -> int:
    """Print where our answers differ and the totals; return how many cases failed."""
    passed = failed = 0
    for case in cases:
        problems = list(_problems(form, case))
        if not problems:
            passed += 1
            continue
        failed += 1
        click.echo(f"{case.id}: differs")
        if failed <= EXPLAINED_CASES:
            for line in islice(problems, LINES_OF_A_CASE):
                click.echo(f"    {line}")
            if len(problems) > LINES_OF_A_CASE:
                click.echo(f"    and {len(problems) - LINES_OF_A_CASE} more")
    click.echo(f"{passed} passed, {failed} failed")
    return failed


def with_progress(cases: Iterable[Case], file: str) -> Iterator[Case]:
    """Pass *cases* on, counting them on standard error if that is a terminal."""
    if not sys.stderr.isatty() or file == "-":
        yield from cases
        return
    shown = time.monotonic()
    for count, case in enumerate(cases, start=1):
        yield case
        if time.monotonic() - shown > PROGRESS_SECONDS:
            shown = time.monotonic()
            click.echo(f"\r{count} cases ", err=True, nl=False)
    click.echo("\r\x1b[K", err=True, nl=False)


def _problems(form: Format, case: Case) -> Iterator[str]:
    try:
        ours = _answer(form, case)
    except BadInput:
        raise
    except Exception as error:
        # One case that breaks us must not hide the others.
        yield f"our answer broke with {type(error).__name__}: {error}"
        return
    yield from explain(form.recorded(case.row), ours)


def _answer(form: Format, case: Case) -> Answer:
    for key in form.required:
        if key not in case.row:
            raise BadInput(f"line {case.line}: there is no {key!r}")
    try:
        return form.answer(case.row)
    except NumakubeError as error:
        raise BadInput(f"line {case.line}: {error}") from error
