"""A run, and many runs: every arm with every seed.

One run: a cluster, a workload and an arm, from the first pod to the end.

    result = simulate(cluster, workload, arm, seed=1)

Pods arrive, are queued, decided upon and bound by the scheduler, and admitted or rejected by the
kubelet of their node; owners replace what failed; pods end. A few delays, which are named in
`SimulatorOptions`, stand for the API server and the network. Equal input gives an equal result, to
the byte.

Many runs: every arm with every seed, on whatever executes them.

Runs are independent of each other, so any `concurrent.futures.Executor` will do: processes of this
machine, or those of a cluster of computers. Results come as they are finished.
"""

from __future__ import annotations

import copyreg
import hashlib
import pickle
from concurrent.futures import as_completed
from dataclasses import dataclass
from functools import lru_cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace

from numakube.api.pod import PodStatus
from numakube.kubelet import Rejected
from numakube.scheduling.snapshot.pods import PodInfo
from numakube_planning.simulation.pod_owners import Owners
from numakube_planning.simulation.run_measures import Measures
from numakube_planning.simulation.virtual_node import NodeFactory
from numakube_planning.simulation.virtual_scheduler import Timeline, VirtualScheduler

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Executor

    from numakube_planning.simulation.compared_schedulers import Arm
    from numakube_planning.simulation.pod_owners import Owner, Replica
    from numakube_planning.simulation.run_measures import RunResult
    from numakube_planning.simulation.simulated_cluster import RunningPod, SimulatedCluster
    from numakube_planning.simulation.virtual_node import VirtualNode
    from numakube_planning.simulation.workload import Arrival, ArrivingWork

_STARTED: Final = "2026-01-01T00:00:00Z"
"""A start time says that the kubelet has acknowledged a pod; nothing reads which it is."""
_RUNNING: Final = PodStatus(phase="Running", start_time=_STARTED)
_SUCCEEDED: Final = PodStatus(phase="Succeeded", start_time=_STARTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorOptions:
    """What a run assumes of everything that is not simulated; printed with every result.

    Attributes:
        decision_seconds: how long the scheduler is busy with one pod.
        watch_seconds: from a change at the API server until the scheduler or a controller sees it.
        kubelet_seconds: from a binding until the kubelet has decided.
        eviction_seconds: how long an evicted pod takes to end.
        most_rejections: after so many rejections in a row a pod is not replaced any more.
        until: when the simulation ends at the latest.
        patience_seconds: it also ends when nothing has happened for so long; by then the scheduler
            has tried every waiting pod once more.
    """

    decision_seconds: float = 0.005
    watch_seconds: float = 0.02
    kubelet_seconds: float = 0.2
    eviction_seconds: float = 1.0
    most_rejections: int = 20
    until: float | None = None
    patience_seconds: float = 900.0


DEFAULTS: Final = SimulatorOptions()


def simulate(
    cluster: SimulatedCluster,
    workload: ArrivingWork,
    arm: Arm,
    *,
    seed: int = 0,
    options: SimulatorOptions = DEFAULTS,
) -> RunResult:
    """Let *workload* come to *cluster* as *arm* runs it; return what became of it.

    Raises:
        ConfigError: a kubelet does not start as it is configured, or the scheduler cannot be made.
    """
    return Run(cluster, arm, seed, options).play(workload)


class Run:
    """The cluster while it runs."""

    def __init__(
        self, cluster: SimulatedCluster, arm: Arm, seed: int, options: SimulatorOptions
    ) -> None:
        self._arm, self._seed, self._options = arm, seed, options
        self._timeline = Timeline()
        factory = NodeFactory(arm.kubelet)
        self._nodes = {node.name: factory.make(node) for node in cluster.nodes}
        self._scheduler = VirtualScheduler(
            arm.scheduler,
            self._timeline,
            self,
            seed=seed,
            decision_seconds=options.decision_seconds,
            objects=cluster.objects,
        )
        self._measures = Measures(self._nodes.values())
        self._replicas: list[Replica] = []
        self._by_uid: dict[str, Replica] = {}
        self._owners = Owners(self._scheduler.name)
        self._versions = 0
        self._phases = np.random.default_rng((seed, 2))
        self._phase_of = {name: float(self._phases.random()) for name in self._nodes}
        self._reported: dict[str, float] = {}
        self._reporting: set[str] = set()
        self._begin(cluster)

    def play(self, workload: ArrivingWork) -> RunResult:
        """Let everything happen."""
        for arrival in workload.arrivals:
            self._timeline.after(arrival.at, partial(self._arrive, arrival))
        options = self._options
        self._timeline.run(until=options.until, patience=options.patience_seconds)
        return self._measures.result(
            self._arm.name,
            self._seed,
            self._replicas,
            now=self._timeline.last_news,
            waiting=len(self._scheduler.queue),
            why_not=self._why_not,
        )

    def _why_not(self, replica: Replica) -> str:
        """Return why a pod that never ran did not."""
        if replica.rejected_for:
            return f"rejected by kubelets: {replica.rejected_for}"
        said = self._scheduler.why_not(replica.pod.uid) if replica.pod is not None else ""
        return said or "not tried"

    def nodes(self) -> tuple[VirtualNode, ...]:
        """Return the nodes, with what runs on them."""
        return tuple(self._nodes.values())

    def fates(self) -> dict[str, str]:
        """Return by name what has become of each pod that came.

        It is the node that it runs on, ``Succeeded``, ``Pending``, or why a kubelet rejected it.
        """
        return {replica.name: _fate(replica) for replica in self._replicas}

    def _begin(self, cluster: SimulatedCluster) -> None:
        """Start with the nodes and what runs on them."""
        for node in self._nodes.values():
            self._scheduler.set_node(node.object)
        for pod in cluster.running:
            self._take_over(pod)
        for node in self._nodes.values():
            self._report(node)
        self._measures.look(0.0, 0)

    # What the scheduler does.

    def bind(self, pod: PodInfo, node: str) -> None:
        """Bind a pod: the scheduler sees it soon, and the kubelet decides."""
        self._measures.bound += 1
        spec = replace(pod.pod.spec, node_name=node)
        bound = pod.sibling(replace(pod.pod, spec=spec))
        self._by_uid[pod.uid].pod = bound
        self._timeline.after(self._options.watch_seconds, partial(self._see, bound))
        self._timeline.after(self._options.kubelet_seconds, partial(self._admit, bound))

    def evict(self, pod: PodInfo) -> None:
        """Delete a pod that is in the way."""
        self._measures.evictions += 1
        self._delete(pod.uid)

    # What happens to pods.

    def _arrive(self, arrival: Arrival) -> None:
        owner = self._owners.of(arrival, self._timeline.now)
        self._replicas += owner.replicas
        for replica in owner.replicas:
            self._create(replica)

    def _create(self, replica: Replica) -> None:
        pod = replica.owner.next_pod(replica)
        self._by_uid[pod.uid] = replica
        self._timeline.after(self._options.watch_seconds, partial(self._see, pod))

    def _see(self, pod: PodInfo) -> None:
        """Let the scheduler see a pod, unless it is gone by now."""
        if pod.uid in self._by_uid:
            self._scheduler.see(pod)

    def _admit(self, pod: PodInfo) -> None:
        """Let the kubelet decide."""
        replica = self._by_uid.get(pod.uid)
        if replica is None:
            return
        node = self._nodes[pod.node_name]
        outcome = node.admit(pod)
        if replica.first_was_rejected is None:
            replica.first_was_rejected = isinstance(outcome, Rejected)
        if isinstance(outcome, Rejected):
            self._reject(replica, pod, outcome)
        else:
            self._measures.placed(node, outcome)
            self._start(replica, pod)
        self._report_soon(node)
        self._measures.look(self._timeline.now, len(self._scheduler.queue))

    def _start(self, replica: Replica, pod: PodInfo) -> None:
        now, owner = self._timeline.now, replica.owner
        running = pod.sibling(replace(pod.pod, status=_RUNNING))
        replica.pod, replica.running, replica.rejections = running, True, 0
        if not replica.ran:
            replica.ran = True
            self._measures.seconds_to_run.append(now - replica.arrived_at)
        self._measures.started(running)
        self._timeline.after(self._options.watch_seconds, partial(self._see, running))
        if not owner.arrival.together:
            self._end_after(replica, owner.arrival.seconds)
        elif owner.all_run:
            for one in owner.replicas:
                self._end_after(one, owner.arrival.seconds)

    def _end_after(self, replica: Replica, seconds: float | None) -> None:
        pod = replica.pod
        if seconds is not None and pod is not None and not replica.done:
            self._timeline.after(seconds, partial(self._succeed, pod.uid))

    def _succeed(self, uid: str) -> None:
        """Let a pod end that has done its work, unless it is gone by now."""
        replica = self._by_uid.get(uid)
        if replica is None or not replica.running or replica.pod is None:
            return
        pod = replica.pod
        replica.done, replica.owner.recent = True, 0
        self._leave(replica, pod)
        ended = pod.sibling(replace(pod.pod, status=_SUCCEEDED))
        self._timeline.after(self._options.watch_seconds, partial(self._end_is_seen, ended))

    def _reject(self, replica: Replica, pod: PodInfo, outcome: Rejected) -> None:
        self._measures.rejections[outcome.reason] += 1
        replica.rejections += 1
        replica.rejected_for = outcome.reason
        replica.pod = None
        del self._by_uid[pod.uid]
        status = PodStatus(
            phase="Failed",
            reason=outcome.reason,
            message=f"Pod was rejected: {outcome.message}",
            start_time=_STARTED,
        )
        failed = pod.sibling(replace(pod.pod, status=status))
        self._timeline.after(self._options.watch_seconds, partial(self._end_is_seen, failed))
        self._replace(replica)

    def _end_is_seen(self, pod: PodInfo) -> None:
        """Let the scheduler see how a pod ended; the object is deleted soon."""
        self._scheduler.see(pod)
        self._timeline.after(self._options.watch_seconds, partial(self._scheduler.forget, pod))

    def _delete(self, uid: str) -> None:
        """Delete a pod, which takes the time that its containers need to end."""
        replica = self._by_uid.get(uid)
        if replica is None or replica.pod is None or replica.pod.is_being_deleted:
            return
        pod = replica.pod
        metadata = replace(pod.pod.metadata, deletion_timestamp=_STARTED)
        going = pod.sibling(replace(pod.pod, metadata=metadata))
        replica.pod = going
        options = self._options
        self._timeline.after(options.watch_seconds, partial(self._see, going))
        self._timeline.after(options.eviction_seconds, partial(self._is_deleted, going))

    def _is_deleted(self, pod: PodInfo) -> None:
        replica = self._by_uid.get(pod.uid)
        if replica is None:
            return
        if replica.running:
            self._leave(replica, pod)
        else:
            replica.pod = None
            del self._by_uid[pod.uid]
        self._timeline.after(self._options.watch_seconds, partial(self._scheduler.forget, pod))
        if not replica.done:
            self._replace(replica)

    def _leave(self, replica: Replica, pod: PodInfo) -> None:
        """Free what a running pod holds."""
        node = self._nodes[pod.node_name]
        node.end(pod.uid)
        self._measures.ended(pod)
        replica.pod, replica.running = None, False
        del self._by_uid[pod.uid]
        self._report_soon(node)
        self._measures.look(self._timeline.now, len(self._scheduler.queue))

    # What owners do.

    def _replace(self, replica: Replica) -> None:
        """Do what the owner of a failed or deleted pod does."""
        owner, options = replica.owner, self._options
        pause = owner.after_failure(replica, self._timeline.now, options.most_rejections)
        if owner.failed:
            self._fail(owner)
        elif pause is not None:
            self._timeline.after(pause + options.watch_seconds, partial(self._make_due, replica))

    def _make_due(self, failed: Replica) -> None:
        for replica in failed.owner.due(failed, self._timeline.now):
            self._create(replica)

    def _fail(self, owner: Owner) -> None:
        """Let a Job fail: no more pods, and those that there are go."""
        for replica in owner.replicas:
            pod = replica.pod
            replica.done = True
            if pod is not None:
                self._delete(pod.uid)

    # What nodes report.

    def _report_soon(self, node: VirtualNode) -> None:
        reports = self._arm.reports
        if reports is None or node.name in self._reporting:
            return
        self._reporting.add(node.name)
        now, every = self._timeline.now, reports.every_seconds
        if reports.polled:
            phase = self._phase_of[node.name] * every
            wait = every - (now - phase) % every
        else:
            last = self._reported.get(node.name, -every)
            wait = max(reports.after_seconds, last + every - now)
        self._timeline.after(wait, partial(self._report, node))

    def _report(self, node: VirtualNode) -> None:
        reports = self._arm.reports
        if reports is None:
            return
        self._reporting.discard(node.name)
        self._reported[node.name] = self._timeline.now
        self._versions += 1
        report = node.report(self._versions, exact=reports.exact)
        if not self._timeline.now:
            self._scheduler.set_report(report)
            return
        seen = partial(self._scheduler.set_report, report)
        self._timeline.after(self._options.watch_seconds, seen)

    def _take_over(self, one: RunningPod) -> None:
        """Go on with a pod that runs; if its kubelet rejects it now, it has to go elsewhere."""
        owner = self._owners.of_running(one)
        (replica,) = owner.replicas
        info = PodInfo(one.pod)
        replica.pod = info
        self._by_uid[info.uid] = replica
        rejected = self._nodes[one.node].resume(info)
        if rejected is not None:
            self._replicas.append(replica)
            self._reject(replica, info, rejected)
            return
        replica.ran = replica.running = True
        self._measures.started(info)
        self._scheduler.see(info)
        self._end_after(replica, one.seconds)


def _fate(replica: Replica) -> str:
    if replica.pod is not None:
        return replica.pod.node_name or "Pending"
    if replica.ran:
        return "Succeeded" if replica.done else "Pending"
    return replica.rejected_for if replica.done else "Pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One arm with one seed."""

    cluster: SimulatedCluster
    workload: ArrivingWork
    arm: Arm
    seed: int
    options: SimulatorOptions = DEFAULTS

    @property
    def title(self) -> str:
        """The run in words."""
        return f"{self.arm.name}, seed {self.seed}"

    def execute(self) -> RunResult:
        """Simulate."""
        return simulate(self.cluster, self.workload, self.arm, seed=self.seed, options=self.options)


def digest(run: PlannedRun) -> str:
    """Return a text that tells this run from every other one."""
    return hashlib.sha256(msgspec.json.encode(run, enc_hook=_plain)).hexdigest()


def _plain(value: object) -> object:
    """Return what msgspec does not know as what it knows."""
    if hasattr(value, "items"):
        return dict(value.items())
    return repr(value)


def _frozen(items: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(items)


def _packed(proxy: MappingProxyType[Any, Any]) -> tuple[Any, tuple[dict[Any, Any]]]:
    return _frozen, (dict(proxy),)


# Runs travel to other processes, and have read-only maps in many places.
copyreg.pickle(MappingProxyType, _packed)


@lru_cache(maxsize=1)
def _world(packed: bytes) -> tuple[SimulatedCluster, ArrivingWork]:
    world: tuple[SimulatedCluster, ArrivingWork] = pickle.loads(packed)  # noqa: S301 - packed below
    return world


def _execute(world: bytes, arm: bytes) -> RunResult:
    cluster, workload = _world(world)
    run = PlannedRun(cluster=cluster, workload=workload, **pickle.loads(arm))  # noqa: S301
    return run.execute()


class _Packer:
    """Packs runs to travel; a cluster with its workload is packed once for all arms."""

    def __init__(self) -> None:
        self._worlds: dict[tuple[int, int], bytes] = {}

    def __call__(self, run: PlannedRun) -> tuple[bytes, bytes]:
        key = id(run.cluster), id(run.workload)
        if key not in self._worlds:
            self._worlds[key] = pickle.dumps((run.cluster, run.workload))
        return self._worlds[key], pickle.dumps(
            {"arm": run.arm, "seed": run.seed, "options": run.options}
        )


def sweep(
    runs: Sequence[PlannedRun], executor: Executor | None = None
) -> Iterator[tuple[PlannedRun, RunResult]]:
    """Yield each of *runs* with its result, in the order in which they are finished.

    Without an *executor* they are executed here, one after the other.
    """
    if executor is None:
        yield from ((run, run.execute()) for run in runs)
        return
    # Packed here: what cannot be packed is an error now, not in a thread of the executor.
    packed = _Packer()
    futures = {executor.submit(_execute, *packed(run)): run for run in runs}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()
