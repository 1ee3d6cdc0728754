"""What all replay formats share: read recorded cases, answer each, print or compare.

Cases are JSON lines, plain or gzip, from a file or from standard input.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
import zlib
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, TypeAlias, cast

import click

from numakube.errors import NumakubeError

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterable, Iterator


Answer: TypeAlias = dict[str, Any]

# Enough to see a pattern; the ids of all failed cases are printed anyway.
EXPLAINED_CASES: Final = 5
LINES_OF_A_CASE: Final = 8
PROGRESS_SECONDS: Final = 0.2
ABSENT: Final = "nothing"
MAX_TEXT: Final = 300
GZIP_MAGIC: Final = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Case:
    """One recorded case and the line it stands in."""

    line: int
    row: dict[str, Any]

    @property
    def id(self) -> str:
        """The case's own id, or its line for formats that have none."""
        return str(self.row.get("id") or f"line {self.line}")


class BadInput(click.ClickException):
    """What was given are not recorded cases; like wrong usage, no fault of the answers."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class RecordingFormat:
    """A kind of recording.

    Attributes:
        answer: gives our answer to a recorded row, in the shape of the recorded answer.
        recorded: takes the recorded answer out of a row; an empty one agrees with any of ours.
        required: the keys without which a row cannot be answered.
        compared: takes what counts out of our answer.
    """

    answer: Callable[[Answer], Answer]
    recorded: Callable[[Answer], Answer]
    required: tuple[str, ...]
    compared: Callable[[Answer], Answer] = dict


def replay_command(name: str, summary: str, load: Callable[[], RecordingFormat]) -> click.Command:
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


def print_answers(form: RecordingFormat, cases: Iterable[Case]) -> None:
    """Print our answer to each of *cases*, a line each."""
    for case in cases:
        click.echo(json.dumps(_answer(form, case), ensure_ascii=False, separators=(",", ":")))


def print_check(form: RecordingFormat, cases: Iterable[Case]) -> int:
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


def _problems(form: RecordingFormat, case: Case) -> Iterator[str]:
    try:
        ours = _answer(form, case)
    except BadInput:
        raise
    except Exception as error:
        # One case that breaks us must not hide the others.
        yield f"our answer broke with {type(error).__name__}: {error}"
        return
    recorded = form.recorded(case.row)
    if recorded:
        yield from differences(recorded, form.compared(ours))


def _answer(form: RecordingFormat, case: Case) -> Answer:
    for key in form.required:
        if key not in case.row:
            raise BadInput(f"line {case.line}: there is no {key!r}")
    try:
        return form.answer(case.row)
    except NumakubeError as error:
        raise BadInput(f"line {case.line}: {error}") from error


def differences(recorded: object, ours: object, path: str = "") -> Iterator[str]:
    """Yield a line for each place where *ours* is not what was *recorded*."""
    if recorded == ours and type(recorded) is type(ours):
        return
    if isinstance(recorded, dict) and isinstance(ours, dict):
        for key in [*recorded, *(key for key in ours if key not in recorded)]:
            where = f"{path}.{key}" if path else str(key)
            if key not in ours:
                yield f"{where}: recorded {_text(recorded[key])}, ours {ABSENT}"
            elif key not in recorded:
                yield f"{where}: recorded {ABSENT}, ours {_text(ours[key])}"
            else:
                yield from differences(recorded[key], ours[key], where)
    elif isinstance(recorded, list) and isinstance(ours, list) and len(recorded) == len(ours):
        for index, (one, other) in enumerate(zip(recorded, ours, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    else:
        yield f"{path or 'answer'}: recorded {_text(recorded)}, ours {_text(ours)}"


def _text(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."


def read_cases(file: str) -> Iterator[Case]:
    """Yield the cases of *file*, or of standard input for ``-``; empty lines are skipped."""
    name = "standard input" if file == "-" else file
    with _open(file) as stream:
        number = 0
        try:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    yield Case(number, _parse(name, number, line))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise BadInput(f"{name}: damaged gzip data after line {number}: {error}") from None


@contextmanager
def _open(file: str) -> Iterator[IO[bytes]]:
    with ExitStack() as stack:
        stream = sys.stdin.buffer if file == "-" else stack.enter_context(Path(file).open("rb"))
        buffered = cast("io.BufferedReader", stream)
        if buffered.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC):
            yield cast("IO[bytes]", stack.enter_context(gzip.open(buffered)))
        else:
            yield buffered


def _parse(name: str, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{name}: line {number}: not JSON: {error}") from None
    if not isinstance(row, dict):
        raise BadInput(f"{name}: line {number}: a JSON object is expected")
    return row
