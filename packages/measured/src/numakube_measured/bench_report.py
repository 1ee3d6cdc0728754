"""Measured speeds of memory, as a table and as a picture. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube_measured.memory_speed import Cell, MemorySpeed

_CELL: Final = (96, 44)
_LEFT: Final = 120
_TOP: Final = 70
_GIB_MI: Final = 1024


def table(speed: MemorySpeed) -> tuple[list[str], list[list[str]]]:
    """Return titles and rows: a row for the CPUs of each NUMA node, a column for each memory."""
    titles = ["", *(f"MEMORY {node}" for node in speed.memory_nodes)]
    rows = [
        [f"CPUs {cpus}", *(_text(speed, speed.cell(cpus, node)) for node in speed.memory_nodes)]
        for cpus in speed.cpu_nodes
    ]
    return titles, rows


def notes(speed: MemorySpeed) -> Iterator[str]:
    """Yield what a reader has to know."""
    yield (
        f"GiB/s copied (read and written), share of the row's best, and ns of a dependent read"
        f" beyond one in the cache. Medians of {speed.repeats}, with {speed.mebibytes} MiB."
    )
    noisy = sum(cell.is_noisy for cell in speed.cells)
    if noisy:
        yield (
            f"~ {noisy} of {len(speed.cells)} pairs differ by more than 15 % from repeat to repeat:"
            " something else runs here."
        )
    unknown = sum(cell.mi_per_second is None for cell in speed.cells)
    if unknown:
        yield f"- {unknown} pairs are unknown: the kernel gave memory of another node."
    yield from speed.warnings


def _text(speed: MemorySpeed, cell: Cell) -> str:
    if cell.mi_per_second is None:
        return "-"
    share = speed.share(cell.cpus, cell.memory)
    parts = [
        f"{cell.mi_per_second / _GIB_MI:.1f}",
        "" if share is None else f"{round(100 * share)}%",
        "" if cell.latency_ns is None else f"{round(cell.latency_ns)}ns",
    ]
    return " ".join(filter(None, parts)) + ("~" if cell.is_noisy else "")


def svg(speed: MemorySpeed) -> str:
    """Return the table as a picture: the darker, the slower."""
    width = _LEFT + _CELL[0] * len(speed.memory_nodes) + 20
    height = _TOP + _CELL[1] * len(speed.cpu_nodes) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f"<title>{escape(f'Memory between NUMA nodes of {speed.host}')}</title>",
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="10" y="24" font-size="15">{escape(speed.host or "this machine")}: GiB/s and'
        " ns from CPUs (rows) to memory (columns)</text>",
    ]
    for column, node in enumerate(speed.memory_nodes):
        place = _LEFT + _CELL[0] * column + _CELL[0] // 2
        parts.append(f'<text x="{place}" y="{_TOP - 8}" text-anchor="middle">memory {node}</text>')
    for row, cpus in enumerate(speed.cpu_nodes):
        y = _TOP + _CELL[1] * row
        parts.append(f'<text x="10" y="{y + 26}">CPUs {cpus}</text>')
        for column, node in enumerate(speed.memory_nodes):
            parts += _drawn(speed, speed.cell(cpus, node), _LEFT + _CELL[0] * column, y)
    return "\n".join((*parts, "</svg>")) + "\n"


def _drawn(speed: MemorySpeed, cell: Cell, x: int, y: int) -> Iterator[str]:
    share = speed.share(cell.cpus, cell.memory)
    light = 92 if share is None else round(45 + 45 * share)
    hue = 0 if share is None else 210
    yield (
        f'<rect x="{x}" y="{y}" width="{_CELL[0] - 4}" height="{_CELL[1] - 4}" rx="4"'
        f' fill="hsl({hue} {0 if share is None else 60}% {light}%)"/>'
    )
    middle = x + _CELL[0] // 2 - 2
    yield f'<text x="{middle}" y="{y + 25}" text-anchor="middle">{_text(speed, cell)}</text>'
