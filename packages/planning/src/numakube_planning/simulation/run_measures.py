"""What is counted in a run, what became of it, and what runs with several seeds say together.

What became of a workload in one run: one arm, one seed.

Counts what happens in a run and adds it up: alignment, allocation, rejections.

Runs of the same arm with several seeds, as means with their confidence intervals.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.api.codec import Wire
from numakube.insight.usage.stranded_amounts import proportion, stranded
from numakube.topology import zones_of
from numakube.values.resources import CPU, MILLI_PER_CPU, PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numakube.kubelet import Admitted, ContainerPlacement, KubeletNode
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube_planning.simulation.pod_owners import Replica
    from numakube_planning.simulation.virtual_node import VirtualNode

_TOPOLOGY_ERROR: Final = "TopologyAffinityError"


class Moment(Wire, frozen=True):
    """The cluster at one time.

    Attributes:
        at: seconds since the beginning.
        running: pods that run; ``waiting`` ones have no node.
        rejected: pods that kubelets have rejected so far.
        allocated: what running pods have requested, by resource, as a share of what there is.
    """

    at: float
    running: int = 0
    waiting: int = 0
    rejected: int = 0
    allocated: dict[str, float] = {}  # noqa: RUF012 - msgspec gives each instance its own


class RunResult(Wire, frozen=True, omit_defaults=False):
    """The answers of one run.

    A pod here is what its owner wants: replacements of a rejected pod are the same pod.

    Attributes:
        arm: the name of the arm.
        pods: how many came.
        ran: how many ran, be it for a while.
        never_placed: how many did not run until the end of the simulation.
        unplaced: why, and how many of them: the scheduler's last words, or the kubelets' reason.
        bound: how often a pod was bound, replacements included.
        rejections: how often kubelets rejected a bound pod, by reason.
        first_refused: pods whose first binding was rejected.
        given_up: pods that were rejected so often that they were not replaced any more.
        evictions: pods that were preempted.
        seconds_to_run: from the arrival of a pod until it ran: ``p50``, ``p90``, ``p99`` of those
            that ran.
        allocated: of each resource, the share that running pods have requested at the end.
        peak_allocated: the same at its highest.
        stranded: of each resource, the share that is free in a zone but cannot be used there.
        aligned: pods with resources of their own, all of which were on one NUMA node; of
            ``alignable`` ones.
        pairs_together: pods with devices of several resources, all on one NUMA node; of ``pairs``.
        ended_at: when nothing happened any more.
        moments: the course of the run.
        pods_by_node: how many pods ran on each node at the end, nodes in order.
    """

    arm: str
    seed: int
    pods: int = 0
    ran: int = 0
    never_placed: int = 0
    unplaced: dict[str, int] = {}  # noqa: RUF012
    bound: int = 0
    rejections: dict[str, int] = {}  # noqa: RUF012
    first_refused: int = 0
    given_up: int = 0
    evictions: int = 0
    seconds_to_run: dict[str, float] = {}  # noqa: RUF012
    allocated: dict[str, float] = {}  # noqa: RUF012
    peak_allocated: dict[str, float] = {}  # noqa: RUF012
    stranded: dict[str, float] = {}  # noqa: RUF012
    aligned: int = 0
    alignable: int = 0
    pairs_together: int = 0
    pairs: int = 0
    ended_at: float = 0.0
    moments: tuple[Moment, ...] = ()
    pods_by_node: tuple[int, ...] = ()

    @property
    def topology_errors_per_1000(self) -> float:
        """TopologyAffinityErrors per 1,000 bound pods."""
        return self._per_1000(self.rejections.get(_TOPOLOGY_ERROR, 0))

    @property
    def other_errors_per_1000(self) -> float:
        """Rejections for any other reason per 1,000 bound pods."""
        return self._per_1000(
            sum(self.rejections.values()) - self.rejections.get(_TOPOLOGY_ERROR, 0)
        )

    def _per_1000(self, errors: int) -> float:
        return 1000 * errors / self.bound if self.bound else 0.0


_MOST_MOMENTS: Final = 400
_QUANTILES: Final = {"p50": 50, "p90": 90, "p99": 99}
_DIGITS: Final = 6
_MOST_REASONS: Final = 10


def is_aligned(node: KubeletNode, outcome: Admitted) -> bool | None:
    """Tell whether all that the pod's containers have for themselves is on one NUMA node.

    ``None`` if they have nothing for themselves. A device that belongs to several NUMA nodes is on
    each of them; one whose plugin does not say is anywhere.
    """
    places = [place for held in outcome.containers.values() for place in _places(node, held)]
    return any(all(zone in place for place in places) for zone in _zones(node)) if places else None


def has_its_devices_together(node: KubeletNode, outcome: Admitted) -> bool | None:
    """Tell whether devices of several resources are on one NUMA node; ``None`` without such."""
    together = [held.devices for held in outcome.containers.values()]
    names = {name for devices in together for name in devices}
    if len(names) < 2:
        return None
    places = [place for held in outcome.containers.values() for place in _device_places(node, held)]
    return any(all(zone in place for place in places) for zone in _zones(node))


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
        unplaced = Counter(why_not(replica) for replica in wanted if not replica.ran)
        last = self._moment(now, waiting)
        return RunResult(
            arm=arm,
            seed=seed,
            pods=len(wanted),
            ran=sum(replica.ran for replica in wanted),
            never_placed=unplaced.total(),
            unplaced=dict(unplaced.most_common(_MOST_REASONS)),
            bound=self.bound,
            rejections=dict(sorted(self.rejections.items())),
            first_refused=sum(replica.first_was_rejected is True for replica in wanted),
            given_up=sum(replica.done and not replica.ran for replica in wanted),
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


_STUDENT: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""The 97.5 % quantiles of Student's t distribution for 1 to 30 degrees of freedom."""
_NORMAL: Final = 1.960


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over runs.

    Attributes:
        half_width: of the 95 % confidence interval around it; ``None`` of a single run.
    """

    mean: float
    half_width: float | None = None


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean of *values*, and how sure it is."""
    if len(values) == 1:
        return Estimate(values[0])
    freedom = len(values) - 1
    quantile = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else _NORMAL
    return Estimate(fmean(values), quantile * stdev(values) / sqrt(len(values)))


def share(part: float, whole: float) -> float:
    """Return *part* of *whole* in percent."""
    return 100 * part / whole if whole else 0.0


ANSWERS: Final[Mapping[str, Callable[[RunResult], float]]] = {
    "pods": lambda run: run.pods,
    "neverPlaced": lambda run: run.never_placed,
    "topologyErrorsPer1000": lambda run: run.topology_errors_per_1000,
    "otherErrorsPer1000": lambda run: run.other_errors_per_1000,
    "rejections": lambda run: sum(run.rejections.values()),
    "firstRefusedPercent": lambda run: share(run.first_refused, run.pods),
    "givenUp": lambda run: run.given_up,
    "evictions": lambda run: run.evictions,
    "secondsToRunP50": lambda run: run.seconds_to_run.get("p50", 0.0),
    "secondsToRunP99": lambda run: run.seconds_to_run.get("p99", 0.0),
    "alignedPercent": lambda run: share(run.aligned, run.alignable),
    "pairsTogetherPercent": lambda run: share(run.pairs_together, run.pairs),
}
"""What is said of an arm, besides what is said of each resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """All runs of one arm.

    Attributes:
        answers: by the names of `ANSWERS`.
        allocated: percent of each resource at the end of the run; ``peak`` at its highest.
        stranded: percent of each resource.
        runs: one for each seed.
    """

    arm: str
    answers: Mapping[str, Estimate]
    allocated: Mapping[str, Estimate]
    peak: Mapping[str, Estimate]
    stranded: Mapping[str, Estimate]
    runs: tuple[RunResult, ...]


def summaries_of(results: Iterable[RunResult]) -> tuple[Summary, ...]:
    """Return a summary of each arm, in the order in which arms come first."""
    arms: dict[str, list[RunResult]] = {}
    for result in results:
        arms.setdefault(result.arm, []).append(result)
    return tuple(_summary(arm, sorted(runs, key=lambda r: r.seed)) for arm, runs in arms.items())


def _summary(arm: str, runs: Sequence[RunResult]) -> Summary:
    return Summary(
        arm=arm,
        answers={name: estimate([of(run) for run in runs]) for name, of in ANSWERS.items()},
        allocated=_by_resource([run.allocated for run in runs]),
        peak=_by_resource([run.peak_allocated for run in runs]),
        stranded=_by_resource([run.stranded for run in runs]),
        runs=tuple(runs),
    )


def _by_resource(shares: Sequence[Mapping[str, float]]) -> dict[str, Estimate]:
    names = sorted({name for one in shares for name in one})
    return {name: estimate([100 * one.get(name, 0.0) for one in shares]) for name in names}


def summary_document(summaries: Iterable[Summary]) -> list[dict[str, object]]:
    """Return *summaries* as plain values."""
    return [
        {
            "arm": summary.arm,
            "seeds": [run.seed for run in summary.runs],
            **{name: _plain(answer) for name, answer in summary.answers.items()},
            "allocatedPercent": {name: _plain(each) for name, each in summary.allocated.items()},
            "peakAllocatedPercent": {name: _plain(each) for name, each in summary.peak.items()},
            "strandedPercent": {name: _plain(each) for name, each in summary.stranded.items()},
            "rejectionsByReason": [run.rejections for run in summary.runs],
            "neverPlacedByReason": [run.unplaced for run in summary.runs],
        }
        for summary in summaries
    ]


def _plain(one: Estimate) -> dict[str, float]:
    known = {"mean": one.mean, "halfWidth95": one.half_width}
    return {name: round(value, 4) for name, value in known.items() if value is not None}
