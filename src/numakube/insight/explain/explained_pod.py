"""The pod that is asked about: one of the cluster, or one that is about to be created."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from numakube.api.pod import PodStatus
from numakube.api.pod_phase import has_ended, is_rejected
from numakube.api.pod_resources import compute_qos_class
from numakube.insight.explain.explanation import PodSummary
from numakube.insight.planned_pods import planned_pod

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numakube.api.pod import Pod
    from numakube.api.workloads import PriorityClass


@dataclass(frozen=True, slots=True)
class Subject:
    """A pod and what has become of it.

    Attributes:
        pod: as it is.
        planned: whether it does not exist yet.
    """

    pod: Pod
    planned: bool = False

    @property
    def state(self) -> str:
        """How far it has come: see `document.PodSummary`."""
        status = self.pod.status or PodStatus()
        if self.planned:
            return "planned"
        if is_rejected(self.pod):
            return "rejected"
        if has_ended(self.pod):
            return "ended"
        if self.pod.spec.node_name:
            return "running" if status.phase == "Running" else "bound"
        return "gated" if self.pod.spec.scheduling_gates else "waiting"

    @property
    def gates(self) -> str:
        """The scheduling gates that keep it from being tried, with commas."""
        return ", ".join(gate.name for gate in self.pod.spec.scheduling_gates)

    @property
    def scheduler(self) -> str:
        """Who is to place it."""
        return self.pod.spec.scheduler_name or "default-scheduler"

    def unbound(self) -> Pod:
        """Return the pod as a scheduler first tries it: without a node and scheduling gates."""
        spec = msgspec.structs.replace(self.pod.spec, node_name="", scheduling_gates=())
        status = self.pod.status or PodStatus()
        fresh = PodStatus(
            phase="Pending",
            nominated_node_name=status.nominated_node_name,
            resource_claim_statuses=status.resource_claim_statuses,
        )
        return msgspec.structs.replace(self.pod, spec=spec, status=fresh)

    def summary(self, profiles: Collection[str]) -> PodSummary:
        """Return what is said of the pod."""
        pod, status = self.pod, self.pod.status or PodStatus()
        return PodSummary(
            namespace=pod.metadata.namespace,
            name=pod.metadata.name,
            uid="" if self.planned else pod.metadata.uid,
            source="manifest" if self.planned else "cluster",
            state=self.state,
            node=pod.spec.node_name,
            scheduler=self.scheduler,
            ours=self.scheduler in profiles,
            qos_class=status.qos_class or compute_qos_class(pod),
            priority=pod.spec.priority or 0,
            reason=status.reason,
            message=status.message,
        )


def pod_subject(pod: Pod) -> Subject:
    """Return a pod of the cluster as a subject."""
    return Subject(pod)


def manifest_subject(
    pod: Pod, *, namespace: str = "default", classes: Mapping[str, PriorityClass] | None = None
) -> Subject:
    """Return a pod that is not created yet, completed as the API server would."""
    return Subject(planned_pod(pod, namespace=namespace, classes=classes), planned=True)
