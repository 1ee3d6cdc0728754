"""Before and after: the picture of a plan, with what it takes and what it frees marked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from numakube.insight.drawing.picture import Change, letter_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.insight.drawing.picture import (
        Cache,
        Core,
        Cpu,
        Device,
        Memory,
        NodePicture,
        Zone,
    )


def compared(before: NodePicture, after: NodePicture) -> NodePicture:
    """Return *after* with everything marked that differs from *before*, two states of one node.

    Pods keep the letters and colours that they have in *before*. Those that are gone stay in the
    legend, marked as freed, with what they held.
    """
    after = _in_old_order(before, after)
    pen = _Comparison(before, after)
    return replace(
        after,
        zones=tuple(map(pen.zone, after.zones)),
        homeless=tuple(map(pen.device, after.homeless)),
        planned=True,
    )


def _in_old_order(before: NodePicture, after: NodePicture) -> NodePicture:
    """Return *after* with all pods of *before* first, in the same places."""
    now = {pod.name: pod for pod in after.pods}
    old = {pod.name for pod in before.pods}
    kept = [
        replace(now[pod.name], letter=pod.letter)
        if pod.name in now
        else replace(pod, change=Change.FREED)
        for pod in before.pods
    ]
    new = [pod for pod in after.pods if pod.name not in old]
    marked = [
        replace(pod, change=Change.TAKEN, letter=letter_of(len(kept) + number))
        for number, pod in enumerate(new)
    ]
    places = {pod.name: number for number, pod in enumerate([*kept, *marked])}
    mover = _Mover({number: places[pod.name] for number, pod in enumerate(after.pods)})
    return replace(
        after,
        pods=(*kept, *marked),
        zones=tuple(map(mover.zone, after.zones)),
        homeless=tuple(map(mover.device, after.homeless)),
    )


class _Mover:
    """Gives owners other numbers."""

    def __init__(self, numbers: Mapping[int, int]) -> None:
        self._numbers = numbers

    def zone(self, zone: Zone) -> Zone:
        return replace(
            zone,
            caches=tuple(map(self._cache, zone.caches)),
            memory=tuple(map(self._bar, zone.memory)),
            devices=tuple(map(self.device, zone.devices)),
        )

    def device(self, device: Device) -> Device:
        sharers = tuple(self._numbers[owner] for owner in device.sharers)
        return replace(device, owner=self._owner(device.owner), sharers=sharers)

    def _owner(self, owner: int | None) -> int | None:
        return None if owner is None else self._numbers[owner]

    def _cache(self, cache: Cache) -> Cache:
        return replace(cache, cores=tuple(map(self._core, cache.cores)))

    def _core(self, core: Core) -> Core:
        cpus = (replace(cpu, owner=self._owner(cpu.owner)) for cpu in core.cpus)
        return replace(core, cpus=tuple(cpus))

    def _bar(self, bar: Memory) -> Memory:
        parts = (
            replace(part, owners=tuple(self._numbers[owner] for owner in part.owners))
            for part in bar.parts
        )
        return replace(bar, parts=tuple(parts))


class _Comparison:
    """Looks up in one picture what another one shows."""

    def __init__(self, before: NodePicture, after: NodePicture) -> None:
        self._after = after
        self._cpus = {cpu.id: before.owner_name(cpu.owner) for cpu in before.cpus()}
        self._devices = {
            (one.resource, one.position): before.owner_name(one.owner) for one in before.devices()
        }
        self._memory = {
            (zone.id, bar.kind): {
                tuple(before.owner_name(owner) for owner in part.owners): part.size_bytes
                for part in bar.parts
            }
            for zone in before.zones
            for bar in zone.memory
        }

    def zone(self, zone: Zone) -> Zone:
        return replace(
            zone,
            caches=tuple(map(self._cache, zone.caches)),
            memory=tuple(self._bar(zone.id, bar) for bar in zone.memory),
            devices=tuple(map(self.device, zone.devices)),
        )

    def _cache(self, cache: Cache) -> Cache:
        return replace(cache, cores=tuple(map(self._core, cache.cores)))

    def _core(self, core: Core) -> Core:
        return replace(core, cpus=tuple(map(self._cpu, core.cpus)))

    def _cpu(self, cpu: Cpu) -> Cpu:
        was, now = self._cpus.get(cpu.id, ""), self._after.owner_name(cpu.owner)
        return cpu if was == now else replace(cpu, change=_change(now), was=was)

    def device(self, device: Device) -> Device:
        was = self._devices.get((device.resource, device.position), "")
        now = self._after.owner_name(device.owner)
        return device if was == now else replace(device, change=_change(now), was=was)

    def _bar(self, zone: int, bar: Memory) -> Memory:
        was = self._memory.get((zone, bar.kind), {})
        parts = []
        for part in bar.parts:
            owners = tuple(self._after.owner_name(owner) for owner in part.owners)
            same = was.get(owners, 0) == part.size_bytes
            parts.append(part if same else replace(part, change=Change.TAKEN))
        still = {tuple(map(self._after.owner_name, part.owners)) for part in bar.parts}
        freed = sum(size for owners, size in was.items() if owners not in still)
        return replace(bar, parts=tuple(parts), freed_bytes=min(freed, bar.free_bytes))


def _change(now: str) -> Change:
    return Change.TAKEN if now else Change.FREED
