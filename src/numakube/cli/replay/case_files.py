"""Recorded cases from a file: JSON lines, plain or gzip, or from standard input."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

import click

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator

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
