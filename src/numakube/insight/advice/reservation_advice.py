"""Which reservations of kubelets cost a whole slot, and how the same could be reserved for less.

Two things are tried on idle nodes, each with CPUs and with memory: the same amount, all of it in
the zone that has the most reserved already, and less of it. A CPU Manager that gives out CPUs needs
at least one for the system.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from numakube.insight.advice.advice_document import ReservationAdvice
from numakube.insight.drawing.picture_from_report import zone_cpus
from numakube.values.cpuset import CpuSet
from numakube.values.display import bytes_text, counted, zones_text
from numakube.values.resources import CPU, MEMORY, MILLI_PER_CPU

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod
    from numakube.insight.advice.idle_nodes import IdleKind
    from numakube.kubelet.manager_settings import KubeletSettings

    Trial = tuple[KubeletSettings, str, int]
    """Other settings, what they reserve in words, and how much less that is, in base units."""

_SHARES: Final = (3, 2, 1, 0)
"""Quarters of the reserved memory that are tried, the largest first."""


def cheaper_reservations(kind: IdleKind, pod: Pod) -> Iterator[ReservationAdvice]:
    """Yield the smallest change of CPUs and of memory reserved that gives a node more slots."""
    held = kind.slots(pod)
    for resource, was, trials in (
        (CPU, str(_reserved(kind)), _cpu_trials(kind)),
        (MEMORY, _memory_words(kind.model.settings), _memory_trials(kind)),
    ):
        for settings, to, freed in trials:
            slots = kind.slots_with(settings, pod, {resource: freed})
            if slots > held:
                yield _advice(kind, resource, (was, to), (held, slots))
                break


def _advice(
    kind: IdleKind, resource: str, words: tuple[str, str], slots: tuple[int, int]
) -> ReservationAdvice:
    was, to = words
    before, after = slots
    name = "reservedSystemCPUs" if resource == CPU else "reservedMemory"
    return ReservationAdvice(
        like=kind.nodes[0],
        nodes=len(kind.nodes),
        resource=resource,
        setting=name,
        was=was,
        to=to,
        slots=before,
        slots_then=after,
        text=(
            f"{name} {was} costs {counted(after - before, 'slot')} of {_nodes(kind)}:"
            f" with {to} it holds {after} instead of {before}."
        ),
    )


def _nodes(kind: IdleKind) -> str:
    first, more = kind.nodes[0], len(kind.nodes) - 1
    return f"each of {len(kind.nodes)} nodes like {first}" if more else first


def _reserved(kind: IdleKind) -> CpuSet:
    return CpuSet(kind.model.cpus.reserved) if kind.model.cpus else CpuSet()


def _cpu_trials(kind: IdleKind) -> Iterator[Trial]:
    """Yield the same number of CPUs in one zone, then one less at a time."""
    reserved, settings = _reserved(kind), kind.model.settings
    if not reserved:
        return
    zones = {zone: CpuSet(bits) for zone, bits in zone_cpus(kind.model.machine).items()}
    by_zone = {zone: len(reserved & cpus) for zone, cpus in zones.items()}
    most = max(by_zone, key=lambda zone: by_zone[zone])
    order = _by_core(kind, most, reserved)
    for count in range(len(reserved), 0, -1):
        chosen = CpuSet.of(order[:count])
        if len(order) >= count and chosen != reserved:
            freed = (len(reserved) - count) * MILLI_PER_CPU
            changed = replace(settings, reserved_cpus=chosen, reserved_cpu_milli=None)
            yield changed, f"{chosen} (zone {most} alone)", freed


def _by_core(kind: IdleKind, zone: int, reserved: CpuSet) -> list[int]:
    """Return the CPUs of a zone core by core, partly reserved cores first."""
    node = next(one for one in kind.model.machine.nodes if one.id == zone)
    cores = sorted(node.cores, key=lambda core: not any(cpu in reserved for cpu in core.threads))
    return [cpu for core in cores for cpu in core.threads]


def _memory_words(settings: KubeletSettings) -> str:
    held = {zone: kinds.get(MEMORY, 0) for zone, kinds in settings.reserved_memory.items()}
    parts = (f"{bytes_text(size)} of {zones_text([zone])}" for zone, size in held.items() if size)
    return " and ".join(parts) or "nothing"


def _memory_trials(kind: IdleKind) -> Iterator[Trial]:
    """Yield the same memory in one zone, then a quarter less of it at a time."""
    settings = kind.model.settings
    by_zone = Counter(
        {zone: kinds.get(MEMORY, 0) for zone, kinds in settings.reserved_memory.items()}
    )
    total = by_zone.total()
    if not total:
        return
    ((most, _),) = by_zone.most_common(1)
    if by_zone[most] < total:
        yield _with_memory(settings, {most: total}, 0)
    for quarters in _SHARES:
        left = {zone: size * quarters // 4 for zone, size in by_zone.items()}
        yield _with_memory(settings, left, total - sum(left.values()))


def _with_memory(settings: KubeletSettings, sizes: dict[int, int], freed: int) -> Trial:
    zones = {*settings.reserved_memory, *sizes}
    reserved = {
        zone: {**settings.reserved_memory.get(zone, {}), MEMORY: sizes.get(zone, 0)}
        for zone in sorted(zones)
    }
    sums = settings.memory_reservation
    if sums is not None:
        sums = {**sums, MEMORY: sum(sizes.values())}
    changed = replace(settings, reserved_memory=reserved, memory_reservation=sums)
    return changed, _memory_words(changed), freed
