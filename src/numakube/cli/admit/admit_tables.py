"""Verdicts as a table, and the kubelet's words for refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from numakube.kubelet.outcome import ContainerPlacement, Rejected
from numakube.values.display import brief_text, short_name
from numakube.values.numamask import nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType

    from numakube.cli.admit.admissions import Verdict


def verdict_table(
    verdicts: Sequence[Verdict], styles: Mapping[str, str], *, wide: bool = False
) -> Table:
    """Return a row for each container of an admitted pod and one for each refused pod.

    *styles* are those of the pods' names. The *wide* table names devices instead of counting them.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("POD", "VERDICT", "CONTAINER", "NUMA", "CPUS", "MEMORY", "DEVICES"):
        table.add_column(title, overflow="fold")
    for verdict in verdicts:
        name = Text(verdict.name, style=styles.get(verdict.name, ""))
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
        f"{brief_text(block.type, block.size_bytes)} on {_nodes(block.numa_nodes)}"
        for block in placement.memory
        if block.size_bytes
    )
    devices = ", ".join(
        " ".join(ids) if wide else f"{len(ids)} {short_name(name)}"
        for name, ids in placement.devices.items()
    )
    return (
        "any" if mask is None else _nodes(nodes_of(mask)),
        str(placement.cpus) or "shared",
        memory or "-",
        devices or "-",
    )


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
