"""Tables as kubectl prints them: columns of text, nothing cut, made for thousands of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.values.printing import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GAP: Final = "   "


def column_lines(
    titles: Sequence[str], rows: Sequence[Sequence[str]], *, headers: bool = True
) -> Iterator[str]:
    """Yield the lines of a table; empty cells are shown as kubectl shows them."""
    filled = [[printable(cell) or "-" for cell in row] for row in rows]
    everything = [list(titles), *filled] if headers else filled
    widths = [max(map(len, column)) for column in zip(*everything, strict=True)]
    for row in everything:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield _GAP.join(cells).rstrip()
