"""Whatever happens in whatever order, caches believe what the node is about to be, or less.

A world of one node: pods are reserved, bound by us or by others, admitted, end and are deleted;
reports are written, lost, repeated, delayed and overtake each other; the scheduler restarts.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import msgspec
from hypothesis import settings as run_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.scheduling.numa.caches.reported_node import (
    SCHEDULER,
    ReportedNode,
    ended,
    machine,
    pod,
    taken,
)

from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Pod, PodCondition, PodStatus
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.scheduling.numa.caches.cache_contract import NumaCache
from numakube.scheduling.numa.caches.overreserve import OverReserve, OverReserveOptions
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.model_report import zones_of

if TYPE_CHECKING:
    from numakube.values.resources import Amounts

shapes = st.fixed_dictionaries(
    {
        "cpus": st.sampled_from((0.5, 1, 2, 3, 5)),
        "memory_gib": st.integers(1, 6),
        "gpus": st.integers(0, 2),
        "guaranteed": st.booleans(),
        "containers": st.integers(1, 2),
    }
)
policies = st.sampled_from(("none", "best-effort", "restricted", "single-numa-node"))


class World(RuleBasedStateMachine):
    """One node, one API server and one scheduler."""

    exact = True

    def new_cache(self) -> NumaCache:
        """Return the cache to be tested, without any knowledge."""
        return Predict()

    def __init__(self) -> None:
        super().__init__()
        self.numbers = count()
        self.seconds = count()
        self.cache = self.new_cache()
        self.api: dict[str, Pod] = {}
        self.reserved: list[Pod] = []
        self.arriving: list[Pod] = []
        self.pod_events: list[Pod | str] = []
        self.reports: list[NodeResourceTopology] = []
        self.stored: NodeResourceTopology | None = None
        self.known_version = 0
        self.certain_from = 1
        """The first version of the NRT from which on the belief must be right."""
        self.departed_at = 0
        """The version of the NRT when a pod ended or was refused last."""

    @initialize(policy=policies, scope=st.sampled_from(("container", "pod")))
    def start(self, policy: str, scope: str) -> None:
        """Start with an empty node."""
        self.site = ReportedNode.make(
            policy=policy, scope=scope, on=machine(cores=3, memory_gib=8), exact=self.exact
        )
        self.write_report()

    # What the scheduler does

    @rule(shape=shapes)
    def reserve(self, shape: dict[str, float]) -> None:
        """Reserve for a pod that the model admits."""
        one = pod(f"p{next(self.numbers)}", **shape)  # type: ignore[arg-type]
        belief = self.cache.belief("n1")
        model = belief.model() if belief is not None else None
        if model is None or isinstance(model.clone().admit(one), Admitted):
            self.cache.reserve(PodInfo(one), "n1")
            self.reserved.append(one)

    @precondition(lambda self: self.reserved)
    @rule()
    def bind(self) -> None:
        """Bind the pod that was reserved first."""
        self.to_kubelet(self.reserved.pop(0))

    @precondition(lambda self: self.reserved)
    @rule()
    def fail_to_bind(self) -> None:
        """Give up the pod that was reserved last."""
        self.cache.unreserve(self.reserved.pop().metadata.uid, "n1")

    @rule(order=st.randoms(use_true_random=False))
    def restart(self, order: object) -> None:
        """Lose everything but what the API server has, and list that in any order."""
        self.cache = self.new_cache()
        # Who ended before or after whom was admitted is lost.
        self.certain_from = max(self.certain_from, self.departed_at)
        self.reserved.clear()
        self.pod_events.clear()
        self.reports.clear()
        listed: list[Pod | NodeResourceTopology] = [*self.api.values()]
        if self.stored is not None:
            listed.append(self.stored)
        order.shuffle(listed)  # type: ignore[attr-defined]
        for one in listed:
            if isinstance(one, Pod):
                self.cache.pod_seen(PodInfo(one))
            else:
                self.cache.set_report(one)
                self.known_version = int(one.metadata.resource_version)

    # What others do

    @rule(shape=shapes)
    def bind_foreign(self, shape: dict[str, float]) -> None:
        """Let another scheduler bind a pod, whether it fits or not."""
        one = pod(f"f{next(self.numbers)}", scheduler="other", **shape)  # type: ignore[arg-type]
        self.to_kubelet(one)

    @precondition(lambda self: self.arriving)
    @rule()
    def admit(self) -> None:
        """Let the kubelet decide about the next pod."""
        one = self.arriving.pop(0)
        if one.metadata.uid not in self.api:
            return
        if self.site.admit(one):
            self.update(taken(one, phase="Pending"))
        else:
            self.departed_at = self.next_version()
            self.update(ended(one, reason="TopologyAffinityError"))

    @precondition(lambda self: self.site.pods)
    @rule(choice=st.integers(0, 99), delete=st.booleans())
    def end(self, choice: int, *, delete: bool) -> None:
        """End a pod, and perhaps delete it."""
        uid = sorted(self.site.pods)[choice % len(self.site.pods)]
        one = self.site.pods[uid]
        self.site.remove(uid)
        self.departed_at = self.next_version()
        if uid not in self.api:
            self.certain_from = self.departed_at
            return
        self.update(ended(one))
        if delete:
            self.delete(uid)

    @precondition(lambda self: self.site.pods)
    @rule(choice=st.integers(0, 99))
    def delete_by_force(self, choice: int) -> None:
        """Delete the object of a running pod; the pod ends when it likes."""
        uid = sorted(self.site.pods)[choice % len(self.site.pods)]
        if uid in self.api:
            self.delete(uid)
            self.certain_from = self.next_version()

    @rule()
    def write_report(self) -> None:
        """Report the state of the node."""
        self.stored = self.site.report()
        self.reports.append(self.stored)

    # What arrives when

    @precondition(lambda self: self.pod_events)
    @rule()
    def deliver_pod_event(self) -> None:
        """Tell the scheduler of the next change of a pod."""
        event = self.pod_events.pop(0)
        if isinstance(event, str):
            self.cache.pod_gone(event)
        else:
            self.cache.pod_seen(PodInfo(event))

    @precondition(lambda self: self.reports)
    @rule(choice=st.integers(0, 3), keep=st.booleans())
    def deliver_report(self, choice: int, *, keep: bool) -> None:
        """Tell the scheduler of a report, not always the next, and not always only once."""
        position = choice % len(self.reports)
        report = self.reports[position] if keep else self.reports.pop(position)
        before = self.is_certain() and not self.pod_events
        version = int(report.metadata.resource_version)
        if version < self.departed_at:
            # It does not tell whether it is older than pods that have ended since.
            self.certain_from = max(self.certain_from, self.departed_at)
        changes = self.cache.set_report(report)
        if before and self.is_certain() and self.exact:
            assert not changes.mispredictions
        self.known_version = max(self.known_version, version)

    @precondition(lambda self: self.reports)
    @rule()
    def lose_report(self) -> None:
        """Lose all reports but the latest."""
        del self.reports[:-1]

    # What must hold

    @invariant()
    def nobody_believes_in_more_than_there_is(self) -> None:
        """No zone has more available than it may give out, or less than nothing."""
        belief = self.cache.belief("n1") if hasattr(self, "site") else None
        if belief is None or belief.topology is None:
            return
        for zone, free in zip(belief.topology.zones, belief.available, strict=True):
            assert free.keys() == zone.available.keys()
            assert all(0 <= free[name] <= zone.allocatable[name] for name in free)

    @invariant()
    def what_is_believed_is_what_will_be(self) -> None:
        """With nothing unknown, the belief is the node after everything on its way."""
        if not hasattr(self, "site") or not self.is_certain() or self.pod_events:
            return
        belief = self.cache.belief("n1")
        assert belief is not None
        if not belief.blocked:
            self.compare(belief.available, self.future())

    def teardown(self) -> None:
        """When all has arrived, the belief is the node, and nothing is left over."""
        if not hasattr(self, "site"):
            return
        while self.reserved:
            self.bind()
        while self.arriving:
            self.admit()
        while self.pod_events:
            self.deliver_pod_event()
        self.reports.clear()
        fresh = self.new_cache()
        for one in self.api.values():
            fresh.pod_seen(PodInfo(one))
        for _ in range(1 if self.exact else 3):
            self.write_report()
            fresh.set_report(self.reports[0])
            self.deliver_report(0, keep=False)
        self.is_as_reported(self.cache)
        self.is_as_reported(fresh)

    def is_as_reported(self, cache: NumaCache) -> None:
        """Check that *cache* believes what the node is, and nothing else."""
        belief = cache.belief("n1")
        assert belief is not None
        assert belief.available == self.site.free
        assert not belief.blocked

    def compare(self, believed: tuple[Amounts, ...], future: KubeletNode) -> None:
        """Compare with what will be."""
        assert believed == tuple(zone.available for zone in zones_of(future))

    def future(self) -> KubeletNode:
        """Return the node after everything that is on its way to it."""
        node = self.site.node.clone()
        for one in (*self.arriving, *self.reserved):
            if one.metadata.uid in self.api or one in self.reserved:
                node.admit(one)
        return node

    def is_certain(self) -> bool:
        """Tell whether the scheduler has all it needs to know what the kubelet did."""
        return self.known_version >= self.certain_from

    def next_version(self) -> int:
        """Return the smallest version that the next report may have."""
        return int(self.site.report().metadata.resource_version)

    def to_kubelet(self, one: Pod) -> None:
        """Bind a pod."""
        at = f"2026-01-01T00:{next(self.seconds):05d}Z"
        scheduled = PodCondition(type="PodScheduled", status="True", last_transition_time=at)
        spec = msgspec.structs.replace(one.spec, node_name="n1")
        status = PodStatus(phase="Pending", conditions=(scheduled,))
        one = msgspec.structs.replace(one, spec=spec, status=status)
        self.arriving.append(one)
        self.update(one)

    def update(self, one: Pod) -> None:
        """Change a pod in the API server."""
        before = self.api.get(one.metadata.uid)
        if before is not None and before.status is not None and one.status is not None:
            conditions = before.status.conditions
            status = msgspec.structs.replace(one.status, conditions=conditions)
            one = msgspec.structs.replace(one, status=status)
        self.api[one.metadata.uid] = one
        self.pod_events.append(one)

    def delete(self, uid: str) -> None:
        """Delete a pod in the API server."""
        del self.api[uid]
        self.pod_events.append(uid)


class WorldOfCounts(World):
    """The same with reports that have a fingerprint, but no names."""

    exact = False

    def compare(self, believed: tuple[Amounts, ...], future: KubeletNode) -> None:
        """Believe in nothing that will not be."""
        if future.settings.topology_policy != "single-numa-node":
            return
        for free, zone in zip(believed, zones_of(future), strict=True):
            assert all(free[name] <= amount for name, amount in zone.available.items())


class WorldOfFlakyData(WorldOfCounts):
    """The same with names in every other report."""

    @rule()
    def write_report(self) -> None:
        """Report the state of the node, with names or without."""
        self.site.exact = not self.site.exact
        super().write_report()


class WorldOfOverReserve(WorldOfCounts):
    """The same with upstream's cache."""

    def new_cache(self) -> NumaCache:
        """Return a cache for which pods of others are foreign."""
        return OverReserve(OverReserveOptions(profiles=frozenset({SCHEDULER})))


for machine_class in (World, WorldOfCounts, WorldOfFlakyData, WorldOfOverReserve):
    machine_class.TestCase.settings = run_settings(
        max_examples=25, stateful_step_count=25, deadline=None
    )

TestWithNames = World.TestCase
TestWithFingerprints = WorldOfCounts.TestCase
TestWithFlakyData = WorldOfFlakyData.TestCase
TestOverReserve = WorldOfOverReserve.TestCase
