"""The plugin NodeResourceTopologyMatch: an engine that judges, and a cache that remembers.

The name and the arguments are upstream's. What-ifs of preemption put the belief without the victims
on a copy of the node, so that filters need no state of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from numakube.api.strictness import KEYS as STRICTNESS_KEYS
from numakube.errors import ConfigError
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey, annotate_late
from numakube.scheduling.framework.plugins import (
    Booking,
    Confirm,
    Filter,
    PostBind,
    PreFilter,
    PreFilterResult,
    Reserve,
    Score,
    VectorFilter,
    VectorScore,
)
from numakube.scheduling.framework.registry import Service
from numakube.scheduling.framework.status import SUCCESS, unschedulable
from numakube.scheduling.numa.caches.model_belief import annotations_for, rejection_of
from numakube.scheduling.numa.caches.overreserve import OverReserve, OverReserveOptions
from numakube.scheduling.numa.caches.passthrough import DiscardReserved, Passthrough
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.numa.native.native_engine import NativeEngine
from numakube.scheduling.numa.native.native_options import Fidelity, NativeOptions
from numakube.scheduling.numa.topology_match_args import CacheKind, Mode, read_args
from numakube.scheduling.numa.upstream.upstream_engine import UpstreamEngine
from numakube.scheduling.snapshot.pod_equivalence import encoded, kubelet_key
from numakube.scheduling.snapshot.zone_belief import is_extensible

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numakube.scheduling.arrays import Ratings, Rows
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.registry import Handle, Registry
    from numakube.scheduling.framework.status import Status, Verdicts
    from numakube.scheduling.numa.caches.cache_contract import NumaCache
    from numakube.scheduling.numa.topology_match_args import CacheSettings, Settings
    from numakube.scheduling.snapshot.cluster import Cluster, Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges


# ------------------------------------------------------------------------------------------------
# What decides about NUMA alignment: one of several engines behind one plugin.
#
# `numakube.scheduling.numa.native` predicts what the kubelet will do, for every policy;
# `numakube.scheduling.numa.upstream` answers as the Go plugin NodeResourceTopologyMatch does. Both
# look at the snapshot and at beliefs only, so that caches and engines combine freely.


class NumaEngine(Protocol):
    """Judges and rates nodes by their zones.

    The forms for one node read `NodeInfo.numa`, also of clones in what-ifs; the others read
    `Snapshot.zones`. Both give equal answers. *state* carries what an engine wants to keep from one
    call to the next within a cycle.
    """

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Tell whether *node* can take *pod*."""
        ...

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Tell which of *rows* can take *pod*; ``None`` if all of them can."""
        ...

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate *node* from 0 to `MAX_NODE_SCORE`."""
        ...

    def score_all(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Ratings:
        """Rate the nodes at *rows* from 0 to `MAX_NODE_SCORE`."""
        ...

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Check *node*, which passed the filter, by means too costly for every node."""
        ...


# ------------------------------------------------------------------------------------------------
# The plugin NodeResourceTopologyMatch: an engine that judges, and a cache that remembers.

NAME: Final = "NodeResourceTopologyMatch"


@dataclass(frozen=True, slots=True)
class SharedCache:
    """The cache of all profiles, and the settings that it was made with, by the first profile."""

    cache: NumaCache
    settings: CacheSettings
    profile: str


SHARED_CACHE: Final = Service[SharedCache]("numa-cache")
SCHEDULER_NAMES: Final = Service["frozenset[str]"]("scheduler-names")
"""The names of all profiles of the process, whose pods are not foreign."""

_FITTED: Final = StateKey[bool]("numa-fitted")
"""Whether no refusal was foreseen when the pod was reserved for; counts alone decide for some."""


class NodeResourceTopologyMatch(
    PreFilter, Filter, VectorFilter, Score, VectorScore, Confirm, Reserve, PostBind
):
    """Places pods where their containers can be aligned."""

    name = NAME
    wakes_on = (
        EventKind.POD_DELETED
        | EventKind.POD_UPDATED
        | EventKind.UNSCHEDULED_POD_UPDATED
        | EventKind.NODE_ADDED
        | EventKind.NODE_UPDATED
        | EventKind.TOPOLOGY_CHANGED
    )
    judges_nodes_alone = True

    def __init__(
        self,
        engine: NumaEngine,
        cache: NumaCache,
        cluster: Cluster,
        *,
        simulates_evictions: bool = True,
        notes: tuple[str, ...] = (),
    ) -> None:
        # Upstream's example disables reserve, because its own default cache books nothing.
        books = type(cache) is not Passthrough
        self.insists_on = frozenset({"confirm", *(("reserve", "postBind") if books else ())})
        self.engine = engine
        self.cache = cache
        self.notes = notes
        """What the process should log about the settings."""
        self._cluster = cluster
        self._simulates_evictions = simulates_evictions

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Let every node be judged; profiles written for upstream name the plugin here."""
        return PreFilterResult()

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Book the zones of *added* on *node*, a copy, if it is nominated and not there yet."""
        if not added.node_name and is_extensible(node.numa):
            node.numa = node.numa.followed_by(added) or node.numa

    def likeness(self, pod: PodInfo) -> Hashable:
        """What kubelets look at, and what the pod asks of the scheduler about NUMA nodes."""
        annotations = pod.pod.metadata.annotations
        asked = [annotations.get(key) for key in STRICTNESS_KEYS]
        return kubelet_key(pod), encoded(pod.pod.spec.overhead, asked)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Tell whether *node* can take *pod*."""
        return self.engine.filter(state, pod, self._believed(node))

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Tell which of *rows* can take *pod*."""
        return self.engine.filter_all(state, pod, snapshot, rows)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate *node* for *pod*."""
        return self.engine.score(state, pod, node)

    def score_all(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Ratings:
        """Rate the nodes at *rows* for *pod*."""
        return self.engine.score_all(state, pod, snapshot, rows)

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Ask the kubelet model about *node* if there is exact data."""
        return self.engine.confirm(state, pod, self._believed(node))

    def reserve(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Booking:
        """Book the zones that *pod* will use on *node*."""
        changes = self.cache.reserve(pod, node.name)
        annotate_late(state, lambda: annotations_for(self.cache.belief(node.name), pod.uid))
        state.write(_FITTED, rejection_of(self.cache.belief(node.name), pod.uid) is None)
        return Booking(changes=changes)

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """Give back what was booked."""
        return self.cache.unreserve(pod.uid, node)

    def postpone(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """Let the kubelet meet those before *pod* that come while it waits."""
        return self.cache.postpone(pod.uid, node)

    def resume(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """Let the kubelet meet *pod* next."""
        return self.cache.resume(pod.uid, node)

    def still_holds(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Refuse if the kubelet would, after all that has come to *node* in the meantime."""
        rejection = rejection_of(self.cache.belief(node), pod.uid)
        if rejection is None or not state.read(_FITTED):
            return SUCCESS
        return unschedulable(f"its kubelet would refuse the pod by now ({rejection.reason})")

    def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """Note that the booking has become a pod on the node."""
        return self.cache.bound(pod.uid, node)

    def _believed(self, node: NodeInfo) -> NodeInfo:
        """Return *node*, with the zones of its victims still taken if evictions do not count."""
        if self._simulates_evictions:
            return node
        real = self._cluster.node(node.name)
        if real is None or real.numa is node.numa:
            return node
        copy = node.clone()
        copy.numa = real.numa
        return copy


def make_plugin(args: Mapping[str, object], handle: Handle) -> NodeResourceTopologyMatch:
    """Make the plugin from its arguments; all profiles share one cache."""
    settings = read_args(args)
    return NodeResourceTopologyMatch(
        make_engine(settings),
        _shared_cache(settings.cache, handle),
        handle.cluster,
        simulates_evictions=settings.simulates_evictions,
        notes=settings.notes,
    )


def make_engine(settings: Settings) -> NumaEngine:
    """Make the engine of the mode."""
    if settings.mode is Mode.UPSTREAM:
        return UpstreamEngine(settings.strategy, settings.weights)
    native = settings.native
    return NativeEngine(
        NativeOptions(
            fidelity=Fidelity(native.fidelity),
            alignment_weight=native.alignment_weight,
            packing_weight=native.packing_weight,
            balance_weight=native.balance_weight,
            typical=settings.typical,
            closeness_weight=native.closeness_weight,
            strictness=settings.strictness,
        )
    )


def make_cache(settings: CacheSettings, scheduler_names: frozenset[str]) -> NumaCache:
    """Make the cache; pods of schedulers with other names are foreign to it."""
    match settings.kind:
        case CacheKind.PASSTHROUGH:
            return Passthrough()
        case CacheKind.DISCARD_RESERVED:
            return DiscardReserved()
        case CacheKind.OVER_RESERVE:
            return OverReserve(
                OverReserveOptions(
                    profiles=scheduler_names,
                    foreign_pods=settings.foreign_pods,
                    fingerprint_pods=settings.fingerprint_pods,
                    resync_scope=settings.resync_scope,
                )
            )
        case CacheKind.PREDICT:
            return Predict()


def _shared_cache(settings: CacheSettings, handle: Handle) -> NumaCache:
    names = handle.services.get(SCHEDULER_NAMES) or frozenset()
    shared = handle.services.shared(
        SHARED_CACHE, lambda: SharedCache(make_cache(settings, names), settings, handle.profile)
    )
    differing = "; ".join(
        f"{argument} is {own} here and {other} in profile {shared.profile}"
        for argument, own, other in settings.differences(shared.settings)
    )
    if differing:
        raise ConfigError(
            f"{differing}; all profiles of a scheduler share one cache: give them equal values, or"
            " run a scheduler of its own for each profile"
        )
    return shared.cache


REGISTRY: Final[Registry] = {NAME: make_plugin}
