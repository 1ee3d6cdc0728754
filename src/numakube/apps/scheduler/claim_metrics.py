"""Figures of claims: which are allocated, how long that takes, and why pods are refused for them.

Creations have kube-scheduler's name and labels (1.37). How long devices are searched for is in
``scheduler_plugin_execution_duration_seconds`` with the plugin DynamicResources.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from prometheus_client import Counter, Histogram

from numakube.apps.scheduler.claim_writer import ApiClaimActions
from numakube.dra.features import LATEST
from numakube.errors import NumakubeError
from numakube.scheduling.framework.status import TOO_COSTLY
from numakube.scheduling.plugins.dynamic_resources.claim_actions import ClaimConflict
from numakube.scheduling.plugins.dynamic_resources.claim_alignment import NOT_NEAR
from numakube.scheduling.plugins.dynamic_resources.kind_verdicts import NO_DEVICES
from numakube.scheduling.plugins.dynamic_resources.node_search import ELSEWHERE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry

    from numakube.api.resource_claims import ResourceClaim
    from numakube.kube.client import Client
    from numakube.kube.event_recorder import EventRecorder
    from numakube.scheduling.framework.diagnosis import Diagnosis
    from numakube.scheduling.framework.status import Status

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
