"""Why a resource claim has its devices, or has none: where they are, for whom, and what it lacks.

A claim gets its devices when a pod that uses it is placed. So one without devices is explained by a
pod: the first that waits with it, or, if there is none, one that asks for nothing but the claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, Pod, PodResourceClaim, PodSpec, has_ended
from numakube.api.scheduler_config import DEFAULT_SCHEDULER
from numakube.dra.device_ids import DeviceId
from numakube.dra.pod_claims import used_claims
from numakube.dra.pools import selects
from numakube.insight.explain.explained_pod import Subject, manifest_subject, pod_subject
from numakube.insight.explain.explanation_document import API_VERSION, Document, Explanation
from numakube.insight.explain.explanation_summary import unread_notes
from numakube.insight.explain.explanation_text import EMPTY, Line, LineRole, lines_of, table_lines
from numakube.insight.known_schedulers import profiles
from numakube.values.display import counted, zones_text
from numakube.values.safe_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numakube.api.resource_claims import (
        DeviceRequestAllocationResult,
        ResourceClaim,
        ResourceClaimConsumerReference,
    )
    from numakube.insight.facts import ClusterFacts

    ExplainPod = Callable[[Subject], Explanation]

_MOST_SHOWN: Final = 20
_STAND_IN: Final = "uses-the-claim"


class AllocatedDevice(Document, frozen=True):
    """A device that the claim has.

    Attributes:
        numa_nodes: those that it is local to; none if neither driver nor report tells.
        admin_access: whether it is looked at only, so that others may have it too.
    """

    request: str
    driver: str
    pool: str
    device: str
    node: str = ""
    numa_nodes: tuple[int, ...] = ()
    admin_access: bool = False


class ClaimUser(Document, frozen=True):
    """A pod that uses the claim.

    Attributes:
        state: as in `PodSummary`; ``gone`` if the claim is kept for a pod that is no more.
        reserved: whether the claim is reserved for it.
    """

    pod: str
    state: str
    node: str = ""
    reserved: bool = False


class ClaimExplanation(Document, frozen=True, kw_only=True):
    """Everything there is to say of a claim.

    Attributes:
        verdict: ``allocated``; else what becomes of the pod that explains it: ``fits``,
            ``refused``, ``held`` or ``unknown``.
        nodes: where pods can use its devices; all if the allocation does not say.
        users: pods that use it, and those that it is reserved for.
        pod: what there is to say of the pod that shows why it has no devices.
        planned: whether that pod is made up, since none waits with the claim.
    """

    api_version: str = API_VERSION
    kind: str = "ClaimExplanation"
    taken_at: str = ""
    claim: str
    verdict: str
    summary: str
    nodes: tuple[str, ...] = ()
    devices: tuple[AllocatedDevice, ...] = ()
    users: tuple[ClaimUser, ...] = ()
    pod: Explanation | None = None
    planned: bool = False


@dataclass(frozen=True, slots=True)
class _Uses:
    """The pods that use a claim."""

    pods: tuple[Pod, ...]
    claim: ResourceClaim

    def users(self) -> Iterator[ClaimUser]:
        consumers = {consumer.uid: consumer for consumer in self.claim.status.reserved_for}
        for pod in self.pods:
            yield ClaimUser(
                pod=pod.metadata.key,
                state=pod_subject(pod).state,
                node=pod.spec.node_name,
                reserved=consumers.pop(pod.metadata.uid, None) is not None,
            )
        yield from map(self._gone, consumers.values())

    def _gone(self, consumer: ResourceClaimConsumerReference) -> ClaimUser:
        kind = "" if consumer.resource == "pods" else f"{consumer.resource} "
        name = f"{kind}{self.claim.metadata.namespace}/{consumer.name}"
        return ClaimUser(pod=name, state="unknown" if kind else "gone", reserved=True)

    def waiting(self) -> Pod | None:
        """Return the pod that has to be placed first so that the claim gets its devices."""
        waiting = [pod for pod in self.pods if not pod.spec.node_name and not has_ended(pod)]
        return min(waiting, key=lambda pod: -(pod.spec.priority or 0), default=None)


def explain_claim(
    facts: ClusterFacts, claim: ResourceClaim, explain_pod: ExplainPod
) -> ClaimExplanation:
    """Return why *claim* has its devices, or none.

    Args:
        facts: the cluster.
        claim: one of its claims.
        explain_pod: explains a pod on *facts*.
    """
    meta = claim.metadata
    used = (pod for pod in facts.pods if pod.metadata.namespace == meta.namespace)
    uses = _Uses(tuple(pod for pod in used if meta.name in used_claims(pod)), claim)
    users = tuple(uses.users())
    if claim.status.allocation is not None:
        return _allocated(facts, claim, users)
    waiting = uses.waiting()
    subject = _stand_in(claim, _scheduler(facts)) if waiting is None else pod_subject(waiting)
    found = explain_pod(subject)
    if waiting is None:
        # The others are about its CPUs, its memory and the scheduler's name.
        found = replace(found, notes=tuple(unread_notes(facts)))
    return ClaimExplanation(
        taken_at=facts.taken_at,
        claim=meta.key,
        verdict=found.verdict,
        summary=_why_none(found, planned=waiting is None),
        users=users,
        pod=found,
        planned=waiting is None,
    )


def _scheduler(facts: ClusterFacts) -> str:
    """Return who would place a pod that nobody has written yet: ours, if there is one."""
    return min(profiles(facts), default=DEFAULT_SCHEDULER)


def _stand_in(claim: ResourceClaim, scheduler: str) -> Subject:
    """Return a pod that asks for *claim* and nothing else."""
    space, uses = claim.metadata.namespace, PodResourceClaim("claim", claim.metadata.name)
    spec = PodSpec(
        containers=(Container(name="main"),), resource_claims=(uses,), scheduler_name=scheduler
    )
    pod = Pod(metadata=ObjectMeta(name=_STAND_IN, namespace=space), spec=spec)
    return manifest_subject(pod, namespace=space)


def _why_none(found: Explanation, *, planned: bool) -> str:
    none = "It has no devices yet"
    if not planned:
        return f"{none}: it gets them when pod {found.pod.namespace}/{found.pod.name} is placed."
    if found.verdict == "fits":
        return (
            f"{none}, since no pod uses it. {counted(len(found.fitting), 'node')} could serve it."
        )
    return f"{none}, and no pod uses it. As things are, no node is known that could serve it."


def _allocated(
    facts: ClusterFacts, claim: ResourceClaim, users: tuple[ClaimUser, ...]
) -> ClaimExplanation:
    allocation = claim.status.allocation
    selector = allocation.node_selector if allocation is not None else None
    nodes = tuple(
        name for name, node in facts.nodes.items() if selector is None or selects(selector, node)
    )
    results = allocation.devices.results if allocation is not None else ()
    devices = tuple(_device(facts, result) for result in results)
    return ClaimExplanation(
        taken_at=facts.taken_at,
        claim=claim.metadata.key,
        verdict="allocated",
        summary=_where(claim, nodes, users),
        nodes=nodes,
        devices=devices,
        users=users,
    )


def _device(facts: ClusterFacts, result: DeviceRequestAllocationResult) -> AllocatedDevice:
    names = {
        piece.spec.node_name
        for piece in facts.objects.resource_slices.values()
        if (piece.spec.driver, piece.spec.pool.name) == (result.driver, result.pool)
    }
    places = {
        device.id: (name, device.zones)
        for name in names
        if name
        for device in facts.dra_devices(name)
    }
    node, zones = places.get(DeviceId(result.driver, result.pool, result.device), ("", ()))
    return AllocatedDevice(
        request=result.request,
        driver=result.driver,
        pool=result.pool,
        device=result.device,
        node=node,
        numa_nodes=zones,
        admin_access=bool(result.admin_access),
    )


def _where(claim: ResourceClaim, nodes: Sequence[str], users: Sequence[ClaimUser]) -> str:
    if not nodes:
        where = "on nodes that are not there any more"
    elif len(nodes) == 1:
        where = f"on {nodes[0]}"
    else:
        where = f"which {counted(len(nodes), 'node')} can reach"
    words = f"It has {counted(_count(claim), 'device')} {where}"
    reserved = [user for user in users if user.reserved]
    gone = [user for user in reserved if user.state == "gone"]
    if not reserved:
        return f"{words}, and is reserved for no pod: the next that uses it takes it over."
    if len(gone) == len(reserved):
        return f"{words}, kept for pods that are gone; the claim controller has yet to free it."
    return f"{words}, reserved for {counted(len(reserved), 'pod')}."


def _count(claim: ResourceClaim) -> int:
    allocation = claim.status.allocation
    return 0 if allocation is None else len(allocation.devices.results)


def claim_lines(found: ClaimExplanation, *, wide: bool = False) -> Iterator[Line]:
    """Yield the explanation for people."""
    for line in _lines(found, len(found.users) if wide else _MOST_SHOWN):
        yield line._replace(text=printable(line.text))
    if found.pod is None:
        return
    yield EMPTY
    title, *rest = lines_of(found.pod, wide=wide)
    yield Line("A pod that asks for the claim and nothing else:") if found.planned else title
    yield from rest


def _lines(found: ClaimExplanation, most: int) -> Iterator[Line]:
    yield Line(f"Claim {found.claim} ({found.verdict})", LineRole.TITLE)
    yield Line(found.summary)
    if found.devices:
        rows = [["request", "driver", "device", "node", "where"]]
        rows += [_row(device) for device in found.devices]
        yield from table_lines(rows)
    if found.users:
        rows = [["pod", "state", "node", "reserved"]]
        rows += [
            [user.pod, user.state, user.node, "yes" if user.reserved else "no"]
            for user in found.users[:most]
        ]
        yield from table_lines(rows)
    if len(found.users) > most:
        yield Line(f"  and {counted(len(found.users) - most, 'more pod')}; -o wide lists all")


def _row(device: AllocatedDevice) -> list[str]:
    where = zones_text(device.numa_nodes) if device.numa_nodes else "not known"
    name = f"{device.pool}/{device.device}" + (" (admin access)" if device.admin_access else "")
    return [device.request, device.driver, name, device.node or "-", where]
