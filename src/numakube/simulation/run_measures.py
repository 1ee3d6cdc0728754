"""Counts what happens in a run and adds it up: alignment, allocation, rejections."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.insight.usage.stranded_amounts import proportion, stranded
from numakube.simulation.run_result import Moment, RunResult
from numakube.topology.zone_amounts import zones_of
from numakube.values.resources import CPU, MILLI_PER_CPU, PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from numakube.kubelet.admission_outcome import Admitted, ContainerPlacement
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.simulation.pod_owners import Replica
    from numakube.simulation.virtual_node import VirtualNode

_MOST_MOMENTS: Final = 400
_QUANTILES: Final = {"p50": 50, "p90": 90, "p99": 99}
_DIGITS: Final = 6
_MOST_REASONS: Final = 10


def is_aligned(node: KubeletNode, outcome: Admitted) -> bool | None:
    """Tell whether all that the pod's containers have for themselves is on one NUMA node.

    ``None`` if they have nothing for themselves. A device that belongs to several NUMA nodes is on
    each of them; one whose plugin does not say is anywhere.
    """
    places = [one for held in outcome.containers.values() for one in _places(node, held)]
    return any(all(zone in one for one in places) for zone in _zones(node)) if places else None


def has_its_devices_together(node: KubeletNode, outcome: Admitted) -> bool | None:
    """Tell whether devices of several resources are on one NUMA node; ``None`` without such."""
    together = [held.devices for held in outcome.containers.values()]
    names = {name for devices in together for name in devices}
    if len(names) < 2:
        return None
    places = [one for held in outcome.containers.values() for one in _device_places(node, held)]
    return any(all(zone in one for one in places) for zone in _zones(node))


def _zones(node: KubeletNode) -> list[int]:
    return [numa.id for numa in node.machine.nodes]


def _places(node: KubeletNode, held: ContainerPlacement) -> Iterator[tuple[int, ...]]:
    """Yield, for each thing that a container holds, the NUMA nodes that it is on."""
    if held.cpus and node.cpus is not None:
        for zone, mask in node.cpus.topology.numa.items():
            if held.cpus.bits & mask:
                yield (zone,)
    for block in held.memory:
        yield from ((zone,) for zone in block.numa_nodes)
    yield from _device_places(node, held)


def _device_places(node: KubeletNode, held: ContainerPlacement) -> Iterator[tuple[int, ...]]:
    for resource, ids in held.devices.items():
        for device in ids:
            zones = node.devices.numa_nodes_of(resource, device)
            if zones:
                yield zones


class Measures:
    """What has happened so far."""

    def __init__(self, nodes: Collection[VirtualNode]) -> None:
        self._nodes = nodes
        self._capacity = Counter[str]()
        for node in nodes:
            self._capacity.update({k: v for k, v in node.allocatable.items() if k != PODS})
        self._used = Counter[str]()
        self._peak = Counter[str]()
        self._running = 0
        self._moments: list[Moment] = []
        self._spacing = 0.0
        self.bound = self.evictions = 0
        self.rejections = Counter[str]()
        self.aligned = Counter[bool | None]()
        self.pairs = Counter[bool | None]()
        self.seconds_to_run: list[float] = []

    def started(self, pod: PodInfo) -> None:
        """Count a pod that runs."""
        self._running += 1
        for name, amount in pod.requests.items():
            self._used[name] += amount
            self._peak[name] = max(self._peak[name], self._used[name])

    def placed(self, node: VirtualNode, outcome: Admitted) -> None:
        """Look at what a pod was given."""
        self.aligned[is_aligned(node.kubelet, outcome)] += 1
        self.pairs[has_its_devices_together(node.kubelet, outcome)] += 1

    def ended(self, pod: PodInfo) -> None:
        """Count a pod no more."""
        self._running -= 1
        self._used.subtract(pod.requests)

    def look(self, now: float, waiting: int) -> None:
        """Remember how things are, as often as a plot needs."""
        if self._moments and now < self._moments[-1].at + self._spacing:
            return
        self._moments.append(self._moment(now, waiting))
        if len(self._moments) > _MOST_MOMENTS:
            self._moments = self._moments[::2]
            self._spacing = 2 * max(self._spacing, now / _MOST_MOMENTS)

    def result(
        self,
        arm: str,
        seed: int,
        replicas: Iterable[Replica],
        *,
        now: float,
        waiting: int,
        why_not: Callable[[Replica], str],
    ) -> RunResult:
        """Return the answers."""
        wanted = list(replicas)
        unplaced = Counter(why_not(one) for one in wanted if not one.ran)
        last = self._moment(now, waiting)
        return RunResult(
            arm=arm,
            seed=seed,
            pods=len(wanted),
            ran=sum(one.ran for one in wanted),
            never_placed=unplaced.total(),
            unplaced=dict(unplaced.most_common(_MOST_REASONS)),
            bound=self.bound,
            rejections=dict(sorted(self.rejections.items())),
            first_refused=sum(one.first_was_rejected is True for one in wanted),
            given_up=sum(one.done and not one.ran for one in wanted),
            evictions=self.evictions,
            seconds_to_run=self._quantiles(),
            allocated=last.allocated,
            peak_allocated=self._shares(self._peak),
            stranded=self._stranded(),
            aligned=self.aligned[True],
            alignable=self.aligned[True] + self.aligned[False],
            pairs_together=self.pairs[True],
            pairs=self.pairs[True] + self.pairs[False],
            ended_at=round(now, _DIGITS),
            moments=(*self._moments, last),
            pods_by_node=tuple(len(node.pods) for node in self._nodes),
        )

    def _moment(self, now: float, waiting: int) -> Moment:
        return Moment(
            at=round(now, _DIGITS),
            running=self._running,
            waiting=waiting,
            rejected=self.rejections.total(),
            allocated=self._shares(self._used),
        )

    def _shares(self, amounts: Counter[str]) -> dict[str, float]:
        """Return *amounts* of what the cluster can give out as shares of it."""
        return {
            name: round(amounts[name] / total, _DIGITS)
            for name, total in sorted(self._capacity.items())
            if total
        }

    def _quantiles(self) -> dict[str, float]:
        if not self.seconds_to_run:
            return {}
        shares = list(_QUANTILES.values())
        found = np.percentile(self.seconds_to_run, shares, method="higher")
        return {
            name: round(float(one), _DIGITS) for name, one in zip(_QUANTILES, found, strict=True)
        }

    def _stranded(self) -> dict[str, float]:
        total = Counter[str]()
        for node in self._nodes:
            for zone in zones_of(node.kubelet):
                cpus = zone.available.get(CPU, 0) // MILLI_PER_CPU
                ratio = proportion(zone.allocatable)
                total.update(stranded(zone.allocatable, zone.available, cpus, ratio))
        shares = self._shares(total)
        return {name: share for name, share in shares.items() if name in total}
