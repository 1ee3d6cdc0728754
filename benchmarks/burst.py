"""The point of it all: a burst of pods, and what becomes of them under three schedulers.

(a) NUMA-blind: the nodes' sums decide, as in the stock kube-scheduler;
(b) overreserve: zones by counts, with upstream's way of booking pods that are on their way;
(c) predict: zones by counts and the kubelet model, with exact data.

The kubelet model is the arbiter: what it refuses has failed, and its controller makes a new pod.
Time is virtual: a decision every 5 ms, a binding reaches the kubelet after 200 ms, and a node
reports a change after 100 ms, but only once in a second or in ten. 15 % of the pods end after a
while, so that the room on a node also grows while pods are on their way to it.

The claim: with exact data predict has no admission failures, and places at least as many pods as
overreserve within the same time. A run that contradicts it ends with an error.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
import numpy as np

from benchmarks._burst_nodes import BurstNode
from benchmarks._burst_pods import SCHEDULER, BurstPod, burst, pod_of
from numakube.api.pod import Pod, PodStatus
from numakube.scheduling.cycle import Chosen, Cycle
from numakube.scheduling.framework.plugins import Nominations, VectorFilter, VectorScore
from numakube.scheduling.framework.registry import profile_of
from numakube.scheduling.framework.runtime import Runtime
from numakube.scheduling.framework.status import Verdicts, unschedulable
from numakube.scheduling.numa.caches.overreserve import OverReserve, OverReserveOptions
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.numa.native.native_engine import NativeEngine
from numakube.scheduling.numa.native.native_options import Fidelity, NativeOptions
from numakube.scheduling.numa.topology_match import NodeResourceTopologyMatch
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numakube.scheduling.arrays import IntArray, Rows
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.plugins import Plugin
    from numakube.scheduling.numa.caches.cache_contract import NumaCache
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges

_NODES: Final = 200
_PODS: Final = 2000
_RUNS: Final = ((1, 1.0), (2, 1.0), (1, 10.0), (2, 10.0))
"""Seed of the burst, and the seconds between two reports of a node."""
_HORIZON: Final = 30.0
_DECISION: Final = 0.005
_TO_KUBELET: Final = 0.2
_TO_SCHEDULER: Final = 0.02
_REPORT_DELAY: Final = 0.1
_RETRY: Final = 0.25
_MOST_ATTEMPTS: Final = 20


class How(StrEnum):
    """The three schedulers."""

    BLIND = "NUMA-blind"
    OVERRESERVE = "overreserve"
    PREDICT = "predict"


@dataclass(slots=True)
class Outcome:
    """What became of the burst; CPUs are stranded if they are free and no waiting pod fits."""

    failures: int = 0
    mispredictions: int = 0
    stranded_cpus: int = 0
    placed_at: list[float] = field(default_factory=list)

    def placed(self, until: float = _HORIZON) -> int:
        """Return how many pods had been placed by then."""
        return sum(at <= until for at in self.placed_at)


def run() -> Iterator[dict[str, object]]:
    """Yield the outcomes, and check the claim."""
    for seed, period in _RUNS:
        outcomes = {how: play(how, seed=seed, period=period) for how in How}
        name = f"burst {seed} of {_PODS} pods on {_NODES} nodes, a report every {period:.0f} s"
        for how, outcome in outcomes.items():
            yield from _results(f"{name}, {how}", outcome)
        check(outcomes)


def check(outcomes: dict[How, Outcome]) -> None:
    """Raise an error if *outcomes* contradict the claim."""
    predict, overreserve = outcomes[How.PREDICT], outcomes[How.OVERRESERVE]
    placed = predict.placed(), overreserve.placed()
    if predict.failures or placed[0] < placed[1]:
        raise AssertionError(f"failures: {predict.failures}; placed: {placed}")


def play(
    how: How, *, seed: int, period: float = 1.0, nodes: int = _NODES, pods: int = _PODS
) -> Outcome:
    """Let a burst of *pods* loose on *nodes* that report once in *period* seconds at most."""
    return World(how, nodes, period).play(burst(pods, seed=seed))


def _results(metric: str, outcome: Outcome) -> Iterator[dict[str, object]]:
    for name, value, unit in (
        ("placed within 12 s", outcome.placed(until=12), "pods"),
        ("placed within 30 s", outcome.placed(), "pods"),
        ("admission failures", outcome.failures, "pods"),
        ("mispredictions", outcome.mispredictions, "pods"),
        ("stranded", outcome.stranded_cpus, "CPUs"),
    ):
        yield {"metric": f"{metric}: {name}", "value": value, "unit": unit}


class Fit(VectorFilter, VectorScore):
    """The fit of the node as a whole; prefers nodes in use, as the NUMA engine does."""

    name: ClassVar[str] = "Fit"

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Compare sums."""
        table = snapshot.resources
        ok = np.ones(len(rows), dtype=np.bool_)
        for name, wanted in pod.requests.items():
            ok &= table.requested(name)[rows] + wanted <= table.allocatable(name)[rows]
        return Verdicts.where(ok, unschedulable("Insufficient resources"))

    def score_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> IntArray:
        """Rate by the part of the CPUs that is asked for."""
        table = snapshot.resources
        share = 100 * table.requested("cpu")[rows] // table.allocatable("cpu")[rows]
        return share.astype(np.int64)


@dataclass(order=True, slots=True)
class _Event:
    at: float
    number: int
    act: Callable[[], None] = field(compare=False)


class World:
    """A cluster in virtual time."""

    def __init__(self, how: How, nodes: int, period: float) -> None:
        self.now = 0.0
        self._period = period
        self.outcome = Outcome()
        self.cluster = Cluster()
        self.cache: NumaCache = (
            Predict()
            if how is How.PREDICT
            else OverReserve(OverReserveOptions(profiles=frozenset({SCHEDULER})))
        )
        self.nodes = {
            name: BurstNode(name, exact=how is How.PREDICT)
            for name in (f"n{number:03d}" for number in range(nodes))
        }
        self._plugins = _plugins(how, self.cache, self.cluster)
        self._runtime = Runtime(profile_of(SCHEDULER, self._plugins))
        self._cycle = Cycle(self.cluster, Nominations(), np.random.default_rng(0))
        self._events: list[_Event] = []
        self._numbers = count(1)
        self._queue: deque[tuple[BurstPod, int]] = deque()
        self._waiting: deque[tuple[BurstPod, int]] = deque()
        self._woken = False
        self._reported: dict[str, float] = {}
        self._pending_report: set[str] = set()

    def play(self, pods: list[BurstPod]) -> Outcome:
        """Let all of *pods* come at once and return what has become of them in the end."""
        for node in self.nodes.values():
            self.cluster.set_node(node.node())
            self._tell(self.cache.set_report(node.report(next(self._numbers))))
        self._queue.extend((pod, 0) for pod in pods)
        self._at(0.0, self._decide)
        self._at(_RETRY, self._retry)
        while self._events and self._events[0].at <= _HORIZON:
            event = heapq.heappop(self._events)
            self.now = event.at
            event.act()
        self.outcome.stranded_cpus = self._stranded()
        return self.outcome

    def _at(self, delay: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, _Event(self.now + delay, next(self._numbers), act))

    def _decide(self) -> None:
        """Decide about the next pod of the queue."""
        self._at(_DECISION, self._decide)
        if not self._queue:
            return
        wanted, attempt = self._queue.popleft()
        pod = pod_of(f"p{next(self._numbers)}", wanted.shape)
        info = PodInfo(pod)
        decision = self._cycle.decide(info, self._runtime)
        if not isinstance(decision, Chosen):
            self._waiting.append((wanted, attempt))
            return
        node = self.cluster.node(decision.node)
        assert node is not None
        self._tell(self._runtime.reserve(decision.state, info, node).changes)
        self.cluster.place(info, decision.node)
        spec = msgspec.structs.replace(pod.spec, node_name=decision.node)
        bound = msgspec.structs.replace(pod, spec=spec)
        self._at(_TO_SCHEDULER, lambda: self._see(bound))
        self._at(_TO_KUBELET, lambda: self._admit(bound, wanted, attempt))

    def _admit(self, pod: Pod, wanted: BurstPod, attempt: int) -> None:
        """Let the kubelet decide."""
        node = self.nodes[pod.spec.node_name]
        uid = pod.metadata.uid
        if node.admit(pod):
            self.outcome.placed_at.append(self.now)
            self._at(_TO_SCHEDULER, lambda: self._see(_with_phase(pod, "Running")))
            if wanted.seconds is not None:
                self._at(wanted.seconds, lambda: self._end(pod))
        else:
            self.outcome.failures += 1
            failed = _with_phase(pod, "Failed")
            self._at(_TO_SCHEDULER, lambda: self._see(failed))
            self._at(2 * _TO_SCHEDULER, lambda: self._forget(uid))
            if attempt + 1 < _MOST_ATTEMPTS:
                self._queue.append((wanted, attempt + 1))
        self._report_soon(node)

    def _end(self, pod: Pod) -> None:
        node = self.nodes[pod.spec.node_name]
        node.end(pod.metadata.uid)
        self._at(_TO_SCHEDULER, lambda: self._see(_with_phase(pod, "Succeeded")))
        self._at(2 * _TO_SCHEDULER, lambda: self._forget(pod.metadata.uid))
        self._report_soon(node)

    def _report_soon(self, node: BurstNode) -> None:
        if node.name in self._pending_report:
            return
        self._pending_report.add(node.name)
        earliest = self._reported.get(node.name, -self._period) + self._period
        self._at(max(_REPORT_DELAY, earliest - self.now), lambda: self._report(node))

    def _report(self, node: BurstNode) -> None:
        self._pending_report.discard(node.name)
        self._reported[node.name] = self.now
        report = node.report(next(self._numbers))
        self._at(_TO_SCHEDULER, lambda: self._tell(self.cache.set_report(report)))

    def _see(self, pod: Pod) -> None:
        info = PodInfo(pod)
        self._tell(self.cache.pod_seen(info))
        if info.has_ended:
            self.cluster.remove_pod(info.uid)
            self._woken = True
        else:
            self.cluster.place(info, info.node_name)

    def _forget(self, uid: str) -> None:
        self._tell(self.cache.pod_gone(uid))

    def _tell(self, changes: BeliefChanges) -> None:
        """Pass on what the cache says, as the scheduler's process does."""
        self.outcome.mispredictions += len(changes.mispredictions)
        self.cluster.take(changes, self.cache)
        self._woken = self._woken or bool(changes.freed)

    def _retry(self) -> None:
        """Try waiting pods again if something has made room."""
        self._at(_RETRY, self._retry)
        self._tell(self.cache.resync(self.now))
        if self._woken:
            self._queue.extend(self._waiting)
            self._waiting.clear()
            self._woken = False

    def _stranded(self) -> int:
        """Return the CPUs that are free although pods wait."""
        shapes = {pod.shape for pod, _ in (*self._waiting, *self._queue)}
        probes = [pod_of("probe", shape) for shape in shapes]
        return sum(
            node.free_cpus()
            for node in self.nodes.values()
            if probes and not any(node.would_admit(probe) for probe in probes)
        )


def _plugins(how: How, cache: NumaCache, cluster: Cluster) -> list[Plugin]:
    if how is How.BLIND:
        return [Fit()]
    fidelity = Fidelity.EXACT if how is How.PREDICT else Fidelity.COUNTS
    engine = NativeEngine(NativeOptions(fidelity=fidelity))
    return [Fit(), NodeResourceTopologyMatch(engine, cache, cluster)]


def _with_phase(pod: Pod, phase: str) -> Pod:
    reason = "TopologyAffinityError" if phase == "Failed" else ""
    status = PodStatus(phase=phase, reason=reason, start_time="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(pod, status=status)
