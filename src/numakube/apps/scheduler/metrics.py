"""Figures of the scheduler, and of claims for devices.

Those that mean the same as kube-scheduler's have its names; what is ours starts with ``numakube_``.
No label holds the name of a pod.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Gauge, Histogram

from numakube.apps.node_state_metrics import NodeStates
from numakube.apps.scheduler.binders import ApiClaimActions
from numakube.dra.features import LATEST
from numakube.errors import NumakubeError
from numakube.scheduling.framework.status import TOO_COSTLY
from numakube.scheduling.plugins.dynamic_resources.claim_alignment import NOT_NEAR
from numakube.scheduling.plugins.dynamic_resources.claim_binding import ClaimConflict
from numakube.scheduling.plugins.dynamic_resources.kind_verdicts import NO_DEVICES
from numakube.scheduling.plugins.dynamic_resources.node_search import ELSEWHERE
from numakube.scheduling.scheduling_queue import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from prometheus_client import CollectorRegistry

    from numakube.api.resource_claims import ResourceClaim
    from numakube.apps.cluster_mirror import Mirror
    from numakube.kube.client import Client
    from numakube.kube.event_recorder import EventRecorder
    from numakube.scheduling.framework.status import Diagnosis, Status
    from numakube.scheduling.plugins.gang_scheduling import GangMembers, Members
    from numakube.scheduling.scheduling_queue import SchedulingQueue


# Figures of claims: which are allocated, how long that takes, and why pods are refused for them.
#
# Creations have kube-scheduler's name and labels (1.37). How long devices are searched for is in
# ``scheduler_plugin_execution_duration_seconds`` with the plugin DynamicResources.


_PLUGIN: Final = "DynamicResources"
_SECONDS: Final = tuple(0.001 * 2**power for power in range(15))
_REASONS: Final = {
    NO_DEVICES.message: "no_devices",
    NOT_NEAR: "not_near",
    ELSEWHERE.message: "elsewhere",
}
"""How the plugin's refusals of nodes begin, and what they are counted as."""


class ClaimMetrics:
    """What is counted of claims."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.creates = Counter(
            "dynamic_resource_allocation_resourceclaim_creates_total",
            "Claims created for extended resources, by status: success or failure.",
            ("status", "admin_access", "owner_api_group", "owner_api_kind"),
            registry=registry,
        )
        self.allocations = Counter(
            "numakube_claim_allocations_total",
            "Allocations written to claims, by result: success, conflict (tried again) or failure.",
            ("result",),
            registry=registry,
        )
        self.write_seconds = Histogram(
            "numakube_claim_write_seconds",
            "Duration of writing an allocation to a claim.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.refusals = Counter(
            "numakube_claim_refusals_total",
            "Attempts that failed with nodes refused for claims, by reason: no_devices, not_near"
            " (free, but not where the kubelet will put the pod), elsewhere (it has devices of"
            " another node), not_ready (a claim or class is missing or in use), too_costly (it took"
            " all the time that an attempt may take) or other.",
            ("reason",),
            registry=registry,
        )

    def refused(self, diagnosis: Diagnosis) -> None:
        """Count an attempt that came to nothing, once for each reason that claims gave."""
        early = diagnosis.pre_filter
        if early is not None:
            reasons = {"not_ready"} if early.plugin == _PLUGIN else set()
        else:
            own = (status for _, status in diagnosis.groups() if status.plugin == _PLUGIN)
            reasons = {_reason(status) for status in own}
        for reason in reasons:
            self.refusals.labels(reason).inc()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Time and count the writing of an allocation."""
        result = "failure"
        try:
            with self.write_seconds.time():
                yield
            result = "success"
        except ClaimConflict:
            result = "conflict"
            raise
        finally:
            self.allocations.labels(result).inc()


def _reason(status: Status) -> str:
    if status.detail is TOO_COSTLY:
        return "too_costly"
    told = status.message
    return next((name for text, name in _REASONS.items() if told.startswith(text)), "other")


class MeteredClaimActions(ApiClaimActions):
    """Writes claims, and counts what it writes."""

    def __init__(
        self, client: Client, recorder: EventRecorder, metrics: ClaimMetrics, *, minor: int = LATEST
    ) -> None:
        super().__init__(client, recorder, minor=minor)
        self._metrics = metrics

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create *claim*; its name is generated."""
        # Claims for extended resources never ask for admin access, and belong to a pod.
        labels = ("false", "", "Pod")
        try:
            created = await super().create(claim)
        except NumakubeError:
            self._metrics.creates.labels("failure", *labels).inc()
            raise
        self._metrics.creates.labels("success", *labels).inc()
        return created

    async def set_status(self, claim: ResourceClaim, *, allocation: bool) -> ResourceClaim:
        """Write the reservations of *claim*, and with *allocation* what is allocated."""
        if not allocation or claim.status.allocation is None:
            return await super().set_status(claim, allocation=allocation)
        with self._metrics.writing():
            return await super().set_status(claim, allocation=allocation)


SAMPLED_ATTEMPTS: Final = 10
"""Plugins are timed in one attempt of so many, as in kube-scheduler: timing is not free."""

_QUEUES: Final = (Place.ACTIVE, Place.BACKOFF, Place.UNSCHEDULABLE, Place.GATED)
_PLUGIN_SECONDS: Final = tuple(0.00001 * 2**power for power in range(18))
_LATENCY_SECONDS: Final = tuple(0.01 * 2**power for power in range(20))
_UNTIMED: Final = nullcontext()


class SchedulerMetrics:
    """All metrics of one scheduler."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule pods, by result: scheduled, unschedulable or error.",
            ("result", "profile"),
            registry=registry,
        )
        self.attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Duration of an attempt, binding included.",
            ("result", "profile"),
            buckets=_SECONDS,
            registry=registry,
        )
        self.algorithm_seconds = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Duration of deciding, without binding.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.sli_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "From the first sight of a pod to its binding.",
            ("attempts",),
            buckets=_LATENCY_SECONDS,
            registry=registry,
        )
        self.pod_attempts = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts that a pod needed until it was bound.",
            buckets=(1, 2, 4, 8, 16),
            registry=registry,
        )
        self.pending = Gauge(
            "scheduler_pending_pods", "Waiting pods, by queue.", ("queue",), registry=registry
        )
        self.cache_size = Gauge(
            "scheduler_cache_size",
            "Objects in the cache: nodes, pods and assumed_pods.",
            ("type",),
            registry=registry,
        )
        self.victims = Histogram(
            "scheduler_preemption_victims",
            "Victims of a preemption.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=registry,
        )
        self.preemptions = Counter(
            "scheduler_preemption_attempts_total", "Preemptions carried out.", registry=registry
        )
        self.gang_attempts = Counter(
            "numakube_gang_attempts_total",
            "Attempts to place gangs: scheduled, preempting, unschedulable or released.",
            ("result",),
            registry=registry,
        )
        self.held = Gauge(
            "numakube_held_places",
            "Places kept for pods that are still to come, by holds of /v1/fit.",
            registry=registry,
        )
        self.unschedulable = Gauge(
            "scheduler_unschedulable_pods",
            "Pods that each plugin keeps from being scheduled.",
            ("plugin",),
            registry=registry,
        )
        self.mispredictions = Counter(
            "numakube_mispredictions_total",
            "Pods that a kubelet treated differently than predicted, by severity.",
            ("severity",),
            registry=registry,
        )
        self.rejections = Counter(
            "numakube_kubelet_rejections_total",
            "Pods of ours that a kubelet rejected after they were bound, by its reason.",
            ("reason",),
            registry=registry,
        )
        self.runaways = Gauge(
            "numakube_runaway_workloads",
            "Workloads held back because kubelets kept rejecting their pods.",
            registry=registry,
        )
        self.facts = Counter(
            "numakube_cache_facts_total",
            "Observations of the NUMA cache, by kind.",
            ("kind",),
            registry=registry,
        )
        self.plugin_seconds = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Duration of a plugin at a point, over all nodes, in one attempt of ten; of every "
            "binding with the plugin all.",
            ("plugin", "extension_point"),
            buckets=_PLUGIN_SECONDS,
            registry=registry,
        )
        self.woken = Counter(
            "numakube_woken_pods_total",
            "Pods tried again because something happened that may help them.",
            registry=registry,
        )
        self.leader = Gauge(
            "leader_election_master_status",
            "Whether this replica leads.",
            ("name",),
            registry=registry,
        )
        self.shard_nodes = Gauge(
            "numakube_shard_nodes",
            "Nodes that this scheduler binds pods to; all of them unless shards share them.",
            registry=registry,
        )
        self.misaligned = Gauge(
            "numakube_misaligned_pods",
            "Pods that want alignment and do not have it, by cause: kubectl numa check pods.",
            ("cause",),
            registry=registry,
        )
        self.gangs = Gauge(
            "numakube_gangs",
            "Gangs with pods that wait for a node (waiting), of which too few run (incomplete), or"
            " whose pods are held back for no reason (overlooked), which is a bug.",
            ("state",),
            registry=registry,
        )
        self.claims = ClaimMetrics(registry)
        self._begun = 0
        self._is_sampled = True
        self._plugin_timers: dict[tuple[str, str], Histogram] = {}
        self.node_states = NodeStates()
        registry.register(self.node_states)

    def begin_attempt(self) -> None:
        """Choose whether plugins are timed until the next attempt."""
        self._is_sampled = self._begun % SAMPLED_ATTEMPTS == 0
        self._begun += 1

    def stopwatch(self, point: str, plugin: str) -> AbstractContextManager[object]:
        """Return a context that measures *plugin* at *point*, in attempts that are sampled."""
        return self.timer(point, plugin) if self._is_sampled else _UNTIMED

    def timer(self, point: str, plugin: str) -> AbstractContextManager[object]:
        """Return a context that measures *plugin* at *point*, every time."""
        timer = self._plugin_timers.get((point, plugin))
        if timer is None:
            timer = self._plugin_timers[point, plugin] = self.plugin_seconds.labels(plugin, point)
        return timer.time()

    def watch_queue(self, queue: SchedulingQueue, plugins: Iterable[str]) -> None:
        """Let the gauges of the queue show what it holds whenever they are read."""
        for place in _QUEUES:
            self.pending.labels(place.value).set_function(_waiting_at(queue, place))
        for plugin in plugins:
            self.unschedulable.labels(plugin).set_function(_kept_by(queue, plugin))

    def watch_gangs(self, gangs: GangMembers, overlooked: Callable[[], int]) -> None:
        """Let the gauge of gangs show what there is whenever it is read."""
        self.gangs.labels("overlooked").set_function(overlooked)
        states: dict[str, Callable[[Members], bool]] = {
            "waiting": lambda one: bool(one.waiting),
            "incomplete": lambda one: one.incomplete_since is not None,
        }
        for state, holds in states.items():
            self.gangs.labels(state).set_function(_counting(gangs, holds))

    def watch_mirror(self, mirror: Mirror) -> None:
        """Let the gauges of the cache show what it holds whenever they are read."""
        cluster = mirror.cluster
        self.node_states.cluster = cluster
        self.cache_size.labels("nodes").set_function(lambda: len(cluster.row_of))
        self.cache_size.labels("pods").set_function(
            lambda: sum(len(node.pods) for node in cluster.nodes())
        )
        self.cache_size.labels("assumed_pods").set_function(lambda: mirror.assumed_count)


def _counting(gangs: GangMembers, holds: Callable[[Members], bool]) -> Callable[[], float]:
    return lambda: float(sum(map(holds, gangs)))


def _waiting_at(queue: SchedulingQueue, place: Place) -> Callable[[], float]:
    return lambda: float(sum(entry.place is place for entry in queue))


def _kept_by(queue: SchedulingQueue, plugin: str) -> Callable[[], float]:
    return lambda: float(
        sum(entry.place is Place.UNSCHEDULABLE and plugin in entry.refused_by for entry in queue)
    )
