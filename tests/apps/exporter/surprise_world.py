"""One node whose exporter reports only surprises, its API server, and schedulers that come and go.

Everything takes its time: events of pods reach the kubelet, the exporter and the scheduler each on
their own, and reports and their updates reach the scheduler after they were written, each on their
own too. `Walk` lets things happen in any order; `Walk.settle` lets everything arrive.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from tests.scheduling.numa.caches.reported_node import (
    ReportedNode,
    ended,
    machine,
    of_surprises,
    pod,
    taken,
)

from numakube.api.pod import Pod, PodCondition, PodStatus
from numakube.apps.exporter.report import Report
from numakube.apps.exporter.surprises import WAIT_SECONDS, Silence
from numakube.apps.node_reports import node_reports
from numakube.kube.clock import SystemClock
from numakube.kube.store import Added, Removed, Store, Updated
from numakube.kubelet.admission_outcome import Admitted
from numakube.scheduling.numa.caches.model_belief import ExactBelief, annotations_for
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.numa.caches.since_report import DOUBT_SECONDS
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.foreseen_holdings import current_view
from numakube.topology.model_report import report_of, zones_of
from numakube.topology.report_update import update_of, updated
from numakube.topology.topology_view import NodeTopology, view_of

if TYPE_CHECKING:
    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.nrt_update import NodeResourceTopologyUpdate
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.values.resources import Amounts

NODE = "n1"
SILENCE = 60.0


class HandClock(SystemClock):
    """Time that passes when it is told to."""

    seconds = 0.0

    def monotonic(self) -> float:
        """Return the seconds that have passed."""
        return self.seconds


class Reader:
    """What a scheduler has: reports and their updates, and what it believes."""

    def __init__(self) -> None:
        self.cache = Predict()
        self.topologies: Store[NodeResourceTopology] = Store()
        self.updates: Store[NodeResourceTopologyUpdate] = Store()
        reports = node_reports(self.topologies, self.updates, Store())
        reports.subscribe(lambda change: self.take(change.object))
        self.mispredictions = 0

    def take(self, report: NodeResourceTopology) -> None:
        """Take over a report."""
        self.mispredictions += len(self.cache.set_report(report).mispredictions)


class Walk:
    """A random walk.

    Attributes:
        foreign: whether schedulers bind pods that write no forecast on them.
        force: whether running pods are deleted by force.
        writes: how many reports and updates were written.
        updates: how many of them were updates.
        bound: how many pods were bound.
    """

    def __init__(self, seed: int, *, foreign: bool = False, force: bool = False) -> None:
        self.rng = Random(seed)
        self.foreign, self.force = foreign, force
        policy = self.rng.choice(["best-effort", "restricted", "single-numa-node"])
        scope = self.rng.choice(["container", "pod"])
        self.site = ReportedNode.make(
            NODE, policy=policy, scope=scope, on=machine(cores=6, memory_gib=24, gpus=4)
        )
        self.clock = HandClock()
        self.api: dict[str, Pod] = {}
        self.listed_report = self.site.report()
        self.listed_update: NodeResourceTopologyUpdate | None = None
        self.arriving: deque[Pod] = deque()
        self.to_exporter: deque[tuple[Pod | None, Pod | None]] = deque()
        self.to_scheduler: deque[tuple[Pod | None, Pod | None]] = deque()
        self.reports: deque[NodeResourceTopology] = deque()
        self.report_updates: deque[NodeResourceTopologyUpdate] = deque()
        self.watched: dict[str, Pod] = {}
        self.reserved: list[Pod] = []
        self.forced: set[str] = set()
        self.writes = self.updates = self.bound = 0
        self._numbers = count()
        self.scheduler = Reader()
        self.start_exporter()
        self.look()

    @property
    def cache(self) -> Predict:
        """What the scheduler believes."""
        return self.scheduler.cache

    @property
    def mispredictions(self) -> int:
        """How many the scheduler noticed."""
        return self.scheduler.mispredictions

    # What happens

    def step(self) -> None:
        """Let something happen."""
        chances = {
            self.reserve: 4,
            self.bind: 4,
            self.admit: 5,
            self.end: 2,
            self.delete: 2,
            self.tell_exporter: 8,
            self.look: 3,
            self.tell_scheduler: 8,
            self.deliver_report: 3,
            self.deliver_update: 3,
            self.pass_time: 1,
            self.bind_foreign: int(self.foreign),
            self.delete_by_force: int(self.force),
        }
        self.rng.choices(list(chances), list(chances.values()))[0]()

    def reserve(self) -> None:
        """Decide on a pod that the model admits."""
        one = self._some_pod("p")
        belief = self.cache.belief(NODE)
        model = belief.model() if belief is not None else None
        if model is not None and isinstance(model.clone().admit(one), Admitted):
            self.cache.reserve(PodInfo(one), NODE)
            self.reserved.append(one)

    def bind(self) -> None:
        """Bind the pod that was reserved first, and write on it what is foreseen."""
        if self.reserved:
            one = self.reserved.pop(0)
            told = annotations_for(self.cache.belief(NODE), one.metadata.uid)
            metadata = msgspec.structs.replace(one.metadata, annotations=dict(told))
            self._bind(msgspec.structs.replace(one, metadata=metadata))

    def bind_foreign(self) -> None:
        """Let another scheduler bind a pod."""
        self._bind(self._some_pod("f"))

    def admit(self) -> None:
        """Let the kubelet decide about the next pod."""
        if self.arriving:
            one = self.arriving.popleft()
            if one.metadata.uid not in self.api:
                return
            if self.site.admit(one):
                self._change(taken(one))
            else:
                self._change(ended(one, reason="TopologyAffinityError"))

    def end(self) -> None:
        """End a pod."""
        if self.site.pods:
            uid = self.rng.choice(sorted(self.site.pods))
            one = self.site.pods[uid]
            self.site.remove(uid)
            if uid in self.api:
                self._change(ended(one))

    def delete(self) -> None:
        """Delete the object of a pod that has ended."""
        done = [uid for uid, one in self.api.items() if one.status and one.status.phase in _DONE]
        if done:
            self._remove(self.rng.choice(done))

    def delete_by_force(self) -> None:
        """Delete the object of a running pod, which runs on."""
        running = sorted(self.site.pods.keys() & self.api.keys())
        if running:
            uid = self.rng.choice(running)
            self.forced.add(uid)
            self._remove(uid)

    def pass_time(self) -> None:
        """Let some seconds pass."""
        self._wait(self.rng.choice([0.1, 1.0, 3.0]))

    def start_exporter(self) -> None:
        """Start the exporter, which lists all pods."""
        self.to_exporter.clear()
        self.stored: NodeResourceTopology | None = None
        self.watched = dict(self.api)
        self.silence = Silence(
            lambda: self.watched.values(), seconds=SILENCE, clock=self.clock, random=Random(1)
        )
        for one in self.watched.values():
            self.silence.note(Added(one))

    def look(self) -> None:
        """Let the exporter look at the node, and write what it must."""
        # It waits for the watch to bring the pods that the kubelet lists.
        while self.to_exporter and not self.site.pods.keys() <= self.watched.keys():
            self.tell_exporter()
        nrt = self._report()
        report = Report(
            zones=nrt.zones,
            attributes=nrt.attributes,
            annotations=nrt.metadata.annotations,
            fingerprints=MappingProxyType({}),
            method="all",
            pods=(),
            problems=(),
            exact=report_of(self.site.node),
        )
        if self.silence.covers(report):
            return
        self.silence.wrote(report)
        self.writes += 1
        whole_is_due = self.stored is None or self.rng.random() < 0.2
        time = f"2026-01-01T00:00:00.{self.writes:06d}Z"
        if self.stored is not None and not whole_is_due:
            update = update_of(self.stored, nrt, time=time)
            if update is not None:
                self.listed_update = update
                self.report_updates.append(update)
                self.updates += 1
                return
        self.stored = self.listed_report = of_surprises(nrt, SILENCE, at=time)
        self.reports.append(self.stored)

    def tell_exporter(self) -> None:
        """Let the exporter learn of the next change of a pod."""
        if not self.to_exporter:
            return
        old, new = self.to_exporter.popleft()
        if new is None:
            assert old is not None
            self.watched.pop(old.metadata.uid, None)
            self.silence.note(Removed(old))
        else:
            self.watched[new.metadata.uid] = new
            self.silence.note(Added(new) if old is None else Updated(old, new))

    def tell_scheduler(self) -> None:
        """Let the scheduler learn of the next change of a pod."""
        if not self.to_scheduler:
            return
        old, new = self.to_scheduler.popleft()
        if new is not None:
            self.cache.pod_seen(PodInfo(new))
        else:
            assert old is not None
            self.cache.pod_gone(old.metadata.uid)

    def deliver_report(self) -> None:
        """Let the scheduler have the next report."""
        if self.reports:
            self.scheduler.topologies.put(self.reports.popleft())

    def deliver_update(self) -> None:
        """Let the scheduler have the next update of a report."""
        if self.report_updates:
            self.scheduler.updates.put(self.report_updates.popleft())

    # What must hold

    def settle(self) -> None:
        """Let everything arrive."""
        while self.reserved:
            self.bind()
        for seconds in (0.0, WAIT_SECONDS, DOUBT_SECONDS, DOUBT_SECONDS):
            self._wait(seconds)
            while self.arriving:
                self.admit()
            while self.to_exporter:
                self.tell_exporter()
            self.look()
            while self.to_scheduler:
                self.tell_scheduler()
            while self.reports or self.report_updates:
                self.rng.choice([self.deliver_report, self.deliver_update])()

    def new_scheduler(self) -> Reader:
        """Return a scheduler that has just listed everything, in any order."""
        reader = Reader()
        listed: list[Any] = [*self.api.values(), self.listed_report]
        listed += [self.listed_update] if self.listed_update is not None else []
        self.rng.shuffle(listed)
        for one in listed:
            if isinstance(one, Pod):
                reader.cache.pod_seen(PodInfo(one))
            else:
                (reader.topologies if one is self.listed_report else reader.updates).put(one)
        return reader

    def wrong(self, cache: Predict) -> str:
        """Return how the belief differs from the kubelet's state; empty if it does not."""
        belief = cache.belief(NODE)
        assert isinstance(belief, ExactBelief)
        model = belief.model()
        assert model is not None
        mine, true = _state(model), _state(self.site.node)
        return "" if mine == true else f"{mine} instead of {true}"

    def free_for_tools(self) -> tuple[Amounts, ...]:
        """Return what is free in each zone for a tool that lists everything now."""
        view = view_of(updated(self.listed_report, self.listed_update))
        assert isinstance(view, NodeTopology)
        return tuple(zone.available for zone in current_view(view, self.api.values()).zones)

    def is_unsettled(self, cache: Predict) -> bool:
        """Tell whether *cache* cannot know of pods that they are gone, and believes in no more.

        These are pods that the report names, and pods that were deleted by force and ended soon:
        the report without them may have come before the news of the deletion, and a scheduler
        that does not know this waits for the next one.
        """
        belief = cache.belief(NODE)
        assert isinstance(belief, ExactBelief)
        waits = any(pod.uid in self.forced for pod in belief.basis.incoming)
        pairs = zip(belief.available, self.site.free, strict=True)
        return (bool(belief.basis.unknown) or waits) and all(
            free[name] <= amount for free, zone in pairs for name, amount in zone.items()
        )

    def _report(self) -> NodeResourceTopology:
        return self.site.report()

    def _wait(self, seconds: float) -> None:
        self.clock.seconds += seconds
        self.cache.resync(self.clock.monotonic())

    def _some_pod(self, prefix: str) -> Pod:
        rng = self.rng
        return pod(
            f"{prefix}{next(self._numbers)}",
            cpus=rng.choice([0.5, 1, 2, 3]),
            memory_gib=rng.choice([1, 2, 5]),
            gpus=rng.choice([0, 0, 1]),
            guaranteed=rng.random() < 0.8,
            containers=rng.choice([1, 1, 2]),
        )

    def _bind(self, one: Pod) -> None:
        at = f"2026-01-01T00:{self.bound:05d}Z"
        scheduled = PodCondition(type="PodScheduled", status="True", last_transition_time=at)
        spec = msgspec.structs.replace(one.spec, node_name=NODE)
        status = PodStatus(phase="Pending", conditions=(scheduled,))
        one = msgspec.structs.replace(one, spec=spec, status=status)
        self.bound += 1
        self.arriving.append(one)
        self._change(one)

    def _change(self, one: Pod) -> None:
        uid = one.metadata.uid
        old = self.api.get(uid)
        if old is not None and old.status is not None and one.status is not None:
            status = msgspec.structs.replace(one.status, conditions=old.status.conditions)
            one = msgspec.structs.replace(one, status=status)
        self.api[uid] = one
        self.to_exporter.append((old, one))
        self.to_scheduler.append((old, one))

    def _remove(self, uid: str) -> None:
        old = self.api.pop(uid)
        self.to_exporter.append((old, None))
        self.to_scheduler.append((old, None))


_DONE = ("Succeeded", "Failed")


def _state(node: KubeletNode) -> tuple[object, ...]:
    """Return what decides about the next pod, with devices by zone."""
    exact = report_of(node)
    cells = {numa: (cell.group, dict(cell.reserved)) for numa, cell in exact.memory.items()}
    free = [dict(zone.available) for zone in zones_of(node)]
    return exact.shared_cpus, cells, free
