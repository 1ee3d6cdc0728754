"""How the devices of a node are connected, in a terminal.

closeness     gpu                 nic
zone          0    1    2    3    0    1
0     gpu 0 A X    NV18 NV18 NV18 PIX  NODE
0     gpu 1 · NV18 X    NV18 NV18 NODE PIX
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Final

from numakube.insight.drawing.connection_matrix import SELF
from numakube.insight.drawing.terminal_zone import Span
from numakube.values.display import short_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.insight.drawing.connection_matrix import Connections, Function
    from numakube.insight.drawing.picture import NodePicture
    from numakube.insight.drawing.terminal_zone import Glyphs

_CELL: Final = 5
_GAP: Final = 2
_PAINTS: Final = {"PIX": "p2", "PXB": "p2", "SYS": "muted", "NODE": "muted", SELF: "muted"}


class MatrixPen:
    """Writes what is between the devices of one picture."""

    def __init__(self, picture: NodePicture, connections: Connections, glyphs: Glyphs) -> None:
        self._picture = picture
        self._connections = connections
        self._glyphs = glyphs
        self._label = max(len(one.label) for one in connections.functions)
        self._zone = len("zone") + _GAP

    def switches(self) -> Iterator[tuple[Span, ...]]:
        """Yield a line for each PCIe switch with several devices, and who has them."""
        for group in self._connections.switches():
            line = [Span(f"  zone {self._zone_of(group[0])}  ")]
            for number, one in enumerate(group):
                line += [Span(", " if number else ""), Span(f"{one.label} "), *self._owners(one)]
            yield tuple(line)

    def matrix(self, width: int) -> Iterator[tuple[Span, ...]]:
        """Yield the matrix, in several parts one below the other if it is too wide."""
        functions = self._connections.functions
        indent = self._zone + self._label + 1 + self._owner_width() + 1
        cell = max(_CELL, *(len(one.number) + 1 for one in functions))
        columns = max((width - indent) // cell, 1)
        for start in range(0, len(functions), columns):
            if start:
                yield ()
            yield from self._part(functions[start : start + columns], indent, cell)

    def _part(
        self, columns: Sequence[Function], indent: int, cell: int
    ) -> Iterator[tuple[Span, ...]]:
        yield (Span(f"{'closeness':{indent}}", bold=True), Span(_heads(columns, cell)))
        numbers = "".join(f"{one.number:{cell}}" for one in columns)
        yield (Span(f"{'zone':{indent}}{numbers}", "muted"),)
        for one in self._connections.functions:
            owners = self._owners(one)
            filling = self._owner_width() - len(owners) + 1
            yield (
                Span(f"{self._zone_of(one):{self._zone}}", "muted"),
                Span(f"{one.label:{self._label}} "),
                *owners,
                Span(" " * filling),
                *(self._cell(one, other, cell) for other in columns),
            )

    def _cell(self, one: Function, other: Function, width: int) -> Span:
        word = self._connections.word(one, other)
        return Span(f"{word:{width}}", _PAINTS.get(word, ""), bold=word in ("PIX", "PXB"))

    def _owner_width(self) -> int:
        return max(len(self._owners(one)) for one in self._connections.functions)

    def _owners(self, function: Function) -> list[Span]:
        """Return the letters of the pods that have devices of a function."""
        spans = [Span(self._picture.pods[one].letter, f"p{one}") for one in function.owners()]
        free = any(one.is_free for one in function.devices)
        mark = Span(self._glyphs.free, "muted") if free else Span("!", "broken")
        return spans if spans and not free else [*spans, mark]

    def _zone_of(self, function: Function) -> str:
        node = function.path.numa_node
        return "-" if node is None else str(node)


def _heads(columns: Sequence[Function], cell: int) -> str:
    """Return the names of resources, each above its first column."""
    parts = []
    for resource, group in groupby(columns, key=lambda one: one.resource):
        room = len(list(group)) * cell
        parts.append(f"{short_name(resource)[: room - 1]:{room}}")
    return "".join(parts).rstrip()
