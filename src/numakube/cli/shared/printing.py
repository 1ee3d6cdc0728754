"""Tables of what schedulers tell, and looking at it again and again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import click

from numakube.cli.shared.output_option import print_document
from numakube.values.display import age_text
from numakube.values.printing import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numakube.cli.shared.output_option import Output

WATCH_SECONDS: Final = 2.0


def watch_option(command: Callable[..., object]) -> Callable[..., object]:
    """Declare ``-w``; it arrives as ``watch``."""
    option = click.option(
        "-w", "--watch", is_flag=True, help=f"Look again every {WATCH_SECONDS:g} s."
    )
    return option(command)


def repeated(look: Callable[[], None], *, watch: bool) -> None:
    """Look once, or until interrupted."""
    look()
    while watch:
        time.sleep(WATCH_SECONDS)
        click.echo()
        look()


def say(line: str) -> None:
    """Print a line with words of others in it."""
    click.echo(printable(line))


def print_rows(
    titles: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str = "nothing"
) -> None:
    """Print a table as kubectl does, of full width; *empty* says what there is none of."""
    lines = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    if not lines:
        click.echo(empty)
        return
    table = [list(titles), *lines]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo("   ".join(cells).rstrip())


def print_list(kind: str, items: Sequence[object], output: Output) -> None:
    """Print plain data as a list in JSON or YAML."""
    head = {"apiVersion": "debug.numakube.dev/v1alpha1", "kind": kind}
    print_document({**head, "items": list(items)}, output)


def age(seconds: float | None) -> str:
    """Return how long ago something was; ``?`` if that is not known."""
    return "?" if seconds is None else age_text(seconds)
