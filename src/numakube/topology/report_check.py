"""Whether the parts of a report fit together, so that a model can be made of it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from numakube.values.cpuset import CpuSet
from numakube.values.resources import MEMORY, hugepage_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.kubelet.machine import NumaNode
    from numakube.topology.exact_report import DeviceTable, ExactReport, Holding


def defect_of(report: ExactReport, *, cpus: int) -> str | None:
    """Return the first contradiction in *report*, whose machine has *cpus*; ``None`` if none."""
    return next(_defects(report, cpus), None)


def _defects(report: ExactReport, cpus: int) -> Iterator[str]:
    kinds = {node.id: _kinds(node) for node in report.machine.nodes}
    if len(kinds) != len(report.machine.nodes):
        yield "two NUMA nodes have the same id"
    yield from _wrong_books(report, kinds)
    for name, table in report.devices.items():
        yield from _wrong_positions(f"{name}: unhealthy", table.unhealthy, table)
        for group in table.choice.groups if table.choice else ():
            yield from _wrong_positions(f"{name}: choice", tuple(sorted(group)), table)
    for uid, holding in report.pods.items():
        if unknown := holding.cpus.bits & ~cpus:
            yield f"pod {uid}: CPUs {CpuSet(unknown)} do not exist"
        yield from _wrong_holding(f"pod {uid}", holding, report, kinds)


def _kinds(node: NumaNode) -> set[str]:
    return {MEMORY, *(_kind(pool.page_bytes) for pool in node.hugepages)}


@lru_cache(maxsize=64)
def _kind(page_bytes: int) -> str:
    return hugepage_name(page_bytes)


def _wrong_books(report: ExactReport, kinds: Mapping[int, set[str]]) -> Iterator[str]:
    for number, cell in report.memory.items():
        if unknown := {number, *cell.group} - kinds.keys():
            yield f"memory of NUMA node {number}: there is no NUMA node {min(unknown)}"
        elif number not in cell.group:
            yield f"memory of NUMA node {number}: not in its own group"
        elif missing := cell.reserved.keys() - kinds[number]:
            yield f"memory of NUMA node {number}: has no {min(missing)}"


def _wrong_holding(
    where: str, holding: Holding, report: ExactReport, kinds: Mapping[int, set[str]]
) -> Iterator[str]:
    for block in holding.memory:
        if unknown := set(block.numa_nodes) - kinds.keys():
            yield f"{where}: there is no NUMA node {min(unknown)}"
    for name, positions in holding.devices.items():
        if name in report.devices:
            yield from _wrong_positions(f"{where}: {name}", positions, report.devices[name])
        else:
            yield f"{where}: there is no {name}"


def _wrong_positions(where: str, positions: tuple[int, ...], table: DeviceTable) -> Iterator[str]:
    if positions and positions[-1] >= len(table.numa_nodes):
        yield f"{where}: device {positions[-1]} of {len(table.numa_nodes)}"
