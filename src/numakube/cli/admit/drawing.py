"""Verdicts as a table and zones as boxes, with colours on a terminal.

A letter stands for the pod that holds a CPU or a device. Threads of one core stand together::

    ╭─ NUMA node 0 · socket 0 · CPUs 0-7,16-23 ──────╮
    │ CPUs    rr AA AA AA ·· ·· ·· ··                │
    │ memory  ▒█████░░░░░░░░░░░░░░ 23Gi of 32Gi free │
    │ gpu     A ·                                    │
    ╰────────────────────────────────────────────────╯
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, cycle, repeat
from string import ascii_uppercase
from typing import TYPE_CHECKING, Final

from rich import box
from rich.columns import Columns
from rich.console import Group
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from numakube.kubelet.outcome import Admitted, ContainerPlacement, Rejected
from numakube.kubelet.trace import amount
from numakube.values.numamask import nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from numakube.cli.admit.verdicts import Verdict
    from numakube.cli.admit.zones import DeviceUse, MemoryUse, Zone

PALETTE: Final = (
    "cyan",
    "magenta",
    "green",
    "yellow",
    "blue",
    "red",
    "bright_cyan",
    "bright_green",
)
BAR_WIDTH: Final = 20
CELLS_A_LINE: Final = 64
MANY: Final = "#"


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of a drawing."""

    shared: str
    used: str
    reserved: str
    free: str
    dot: str
    frame: box.Box


UNICODE: Final = Glyphs("·", "█", "▒", "░", " · ", box.ROUNDED)
ASCII: Final = Glyphs(".", "#", "r", ".", ", ", box.ASCII)


@dataclass(frozen=True, slots=True)
class Mark:
    """How a pod appears in the drawing."""

    letter: str
    style: str


def marks_of(verdicts: Sequence[Verdict]) -> dict[str, Mark]:
    """Give a letter and a colour to each pod that holds something of its own."""
    holders = [verdict.name for verdict in verdicts if _holds_something(verdict)]
    letters = chain(ascii_uppercase, repeat(MANY))
    return {
        name: Mark(letter, style)
        for name, letter, style in zip(holders, letters, cycle(PALETTE), strict=False)
    }


def _holds_something(verdict: Verdict) -> bool:
    return isinstance(verdict.outcome, Admitted) and any(
        placement.cpus or placement.devices or placement.memory
        for placement in verdict.outcome.containers.values()
    )


def verdict_table(
    verdicts: Sequence[Verdict], marks: Mapping[str, Mark], *, wide: bool = False
) -> Table:
    """Return a row for each container of an admitted pod and one for each refused pod.

    The *wide* table names devices instead of counting them.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("POD", "VERDICT", "CONTAINER", "NUMA", "CPUS", "MEMORY", "DEVICES"):
        table.add_column(title, overflow="fold")
    for verdict in verdicts:
        name = Text(verdict.name, style=marks[verdict.name].style if verdict.name in marks else "")
        if isinstance(verdict.outcome, Rejected):
            table.add_row(name, Text("rejected", style="bold red"))
            continue
        for container, placement in verdict.outcome.containers.items():
            table.add_row(
                name, Text("admitted", style="green"), container, *_cells(placement, wide=wide)
            )
            name = Text()
    return table


def _cells(placement: ContainerPlacement, *, wide: bool) -> tuple[str, str, str, str]:
    mask = placement.hint.mask
    memory = ", ".join(
        f"{amount(block.type, block.size_bytes)}{_kind(block.type)} on {_nodes(block.numa_nodes)}"
        for block in placement.memory
        if block.size_bytes
    )
    devices = ", ".join(
        " ".join(ids) if wide else f"{len(ids)} {_short(name)}"
        for name, ids in placement.devices.items()
    )
    return (
        "any" if mask is None else _nodes(nodes_of(mask)),
        str(placement.cpus) or "shared",
        memory or "-",
        devices or "-",
    )


def _kind(memory_type: str) -> str:
    return "" if memory_type == "memory" else f" {memory_type}"


def _nodes(nodes: Sequence[int]) -> str:
    return "+".join(map(str, nodes))


def refusals(verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    """Yield the kubelet's words for each refused pod, and ours if they say more."""
    for verdict in verdicts:
        if isinstance(verdict.outcome, Rejected):
            head = f"{verdict.name}: {verdict.outcome.reason}: "
            yield Text.assemble((head, "bold red"), verdict.outcome.message)
            if verdict.why:
                yield Padding(Text(verdict.why, style="dim"), (0, 0, 0, 4), expand=False)


def draw_zones(
    zones: Sequence[Zone], marks: Mapping[str, Mark], glyphs: Glyphs
) -> Iterator[RenderableType]:
    """Yield the boxes of all zones, then what the letters mean."""
    pen = _Pen(marks, glyphs, max(len(label) for zone in zones for label in _labels(zone)))
    yield Columns([pen.box(zone) for zone in zones], padding=(0, 1))
    yield pen.legend(zones)


def _labels(zone: Zone) -> Iterator[str]:
    yield "CPUs"
    yield from (use.kind for use in zone.memory)
    yield from (_short(use.resource) for use in zone.devices)


@dataclass(frozen=True, slots=True)
class _Pen:
    """Draws one zone after the other in the same manner."""

    marks: Mapping[str, Mark]
    glyphs: Glyphs
    label_width: int

    def box(self, zone: Zone) -> Panel:
        lines = [
            *self.cpu_lines(zone),
            *(self.memory_line(use) for use in zone.memory),
            *(self.device_line(use) for use in zone.devices),
        ]
        return Panel(
            Group(*lines),
            title=self.title(zone),
            title_align="left",
            box=self.glyphs.frame,
            expand=False,
        )

    def title(self, zone: Zone) -> str:
        if zone.id is None:
            return "no NUMA node"
        parts = [f"NUMA node {zone.id}"]
        if zone.cores:
            parts += [f"socket {_nodes(zone.sockets)}", f"CPUs {zone.cpus}"]
        return self.glyphs.dot.join(parts)

    def cpu_lines(self, zone: Zone) -> Iterator[Text]:
        label = "CPUs"
        line = self.label(label)
        for core in zone.cores:
            if line.cell_len + len(core) > CELLS_A_LINE:
                yield line
                line = self.label("")
            for cpu in core:
                line.append_text(self.cpu_cell(zone, cpu))
            line.append(" ")
        if zone.cores:
            yield line

    def cpu_cell(self, zone: Zone, cpu: int) -> Text:
        if cpu in zone.cpu_owners:
            return self.owned(zone.cpu_owners[cpu])
        if cpu in zone.reserved_cpus:
            return Text("r", style="dim")
        return Text(self.glyphs.shared, style="dim")

    def memory_line(self, use: MemoryUse) -> Text:
        line = self.label(use.kind)
        if not use.managed:
            return line.append(f"{_size(use.total)}, not managed")
        used, reserved = (_share(part, use.total) for part in (use.used, use.reserved))
        line.append(self.glyphs.reserved * reserved, style="dim")
        line.append(self.glyphs.used * min(used, BAR_WIDTH - reserved), style="bold")
        line.append(self.glyphs.free * max(BAR_WIDTH - reserved - used, 0), style="dim")
        line.append(f" {_size(use.free)} of {_size(use.total)} free")
        return line

    def device_line(self, use: DeviceUse) -> Text:
        line = self.label(_short(use.resource))
        for owner in use.owners.values():
            line.append_text(self.owned(owner) if owner else Text(self.glyphs.shared, style="dim"))
            line.append(" ")
        return line

    def label(self, name: str) -> Text:
        return Text(f"{name:{self.label_width}}  ")

    def owned(self, pod: str) -> Text:
        mark = self.marks[pod]
        return Text(mark.letter, style=f"bold {mark.style}")

    def legend(self, zones: Sequence[Zone]) -> Text:
        line = Text()
        for pod, mark in self.marks.items():
            line.append_text(Text.assemble((mark.letter, f"bold {mark.style}"), f" {pod}   "))
        line.append(f"{self.glyphs.shared} shared or free", style="dim")
        if any(zone.reserved_cpus for zone in zones):
            line.append("   r reserved", style="dim")
        return line


def _share(part: int, total: int) -> int:
    """Return how many cells of a bar *part* fills; at least one if it is anything at all."""
    if not part or not total:
        return 0
    return min(max(round(part * BAR_WIDTH / total), 1), BAR_WIDTH)


def _size(count: int) -> str:
    """Return bytes for a quick look, with one decimal at most: ``23.5Gi``."""
    for power, unit in ((50, "Pi"), (40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if count >= 1 << power:
            return f"{count / (1 << power):.1f}".removesuffix(".0") + unit
    return str(count)


def _short(resource: str) -> str:
    return resource.rpartition("/")[2]
