"""The pod that is asked about: one of the cluster, or one that is about to be created.

A pod that does not exist yet gets the claims that its templates would give it. Where claims have to
differ from the cluster's for a while, `exchanged` restores them before anything else looks.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from numakube.api.meta import ObjectMeta, OwnerReference
from numakube.api.pod import PodResourceClaimStatus, PodStatus, has_ended, is_rejected
from numakube.api.pod_resources import compute_qos_class, disputed_qos_class
from numakube.api.resource_claims import ResourceClaim
from numakube.dra.pod_claims import named_claims
from numakube.insight.explain.explanation_document import PodSummary
from numakube.insight.known_schedulers import said_of
from numakube.insight.planned_pods import planned_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from typing import TypeAlias

    from numakube.api.pod import Pod
    from numakube.api.resource_claims import ResourceClaimTemplate
    from numakube.api.workloads import PriorityClass
    from numakube.insight.explain.explanation_document import Explanation
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.snapshot.cluster import Cluster

    Addition: TypeAlias = Callable[[Explanation, Engine, "Subject"], Explanation]
    """Adds to the explanation of a pod what an annex knows of it; it may use the engine up."""


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
            qos_class=disputed_qos_class(self.pod),
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
            said=said_of(pod) if self.state == "waiting" else "",
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


def with_planned_claims(
    pod: Pod, templates: Mapping[str, ResourceClaimTemplate]
) -> tuple[Pod, dict[str, ResourceClaim]]:
    """Return *pod* with claims made from *templates*, and these claims by their keys."""
    made = list(_made(pod, templates))
    if not made:
        return pod, {}
    statuses = tuple(
        PodResourceClaimStatus(name=name, resource_claim_name=claim.metadata.name)
        for name, claim in made
    )
    status = replace(pod.status or PodStatus(), resource_claim_statuses=statuses)
    return replace(pod, status=status), {claim.metadata.key: claim for _, claim in made}


def _made(
    pod: Pod, templates: Mapping[str, ResourceClaimTemplate]
) -> Iterator[tuple[str, ResourceClaim]]:
    """Yield each claim with its name in the pod, as the claim controller would make it."""
    meta = pod.metadata
    owner = OwnerReference(
        api_version="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True
    )
    for entry, known in named_claims(pod):
        template = templates.get(f"{meta.namespace}/{entry.resource_claim_template_name}")
        if known is None and template is not None:
            name = f"{meta.name}-{entry.name}"
            metadata = ObjectMeta(
                name=name,
                namespace=meta.namespace,
                uid=f"planned:{name}",
                owner_references=(owner,),
            )
            yield entry.name, ResourceClaim(metadata=metadata, spec=template.spec.spec)


@contextmanager
def exchanged(
    cluster: Cluster, held: Mapping[str, ResourceClaim], now: Mapping[str, ResourceClaim]
) -> Iterator[None]:
    """Let *cluster* have the claims *now* instead of those *held*, for a while."""
    _put(cluster, held, now)
    try:
        yield
    finally:
        _put(cluster, now, held)


def _put(cluster: Cluster, old: Collection[str], new: Mapping[str, ResourceClaim]) -> None:
    claims = cluster.objects.resource_claims
    for key in old:
        claims.pop(key, None)
    claims.update(new)
    if old or new:
        cluster.objects_changed()
