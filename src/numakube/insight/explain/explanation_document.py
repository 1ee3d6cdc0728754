"""An explanation as a document: stable, complete, free of words that only a screen needs.

Amounts are Kubernetes quantities as texts. Fields are only ever added.
"""

from __future__ import annotations

from typing import Any

import msgspec

API_VERSION = "insight.numakube.dev/v1"


class Document(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the parts; everything is written, defaults included."""


class PodSummary(Document, frozen=True):
    """The pod in question.

    Attributes:
        source: ``cluster``, or ``manifest`` for one that does not exist yet.
        state: ``waiting``, ``gated``, ``bound``, ``running``, ``rejected`` (by a kubelet),
            ``ended`` or ``planned`` (a manifest).
        scheduler: the scheduler that the pod asks for.
        ours: whether that is one of the profiles that decided here.
        untried: that no scheduler tries its gang although it has all it needs; else empty.
        unserved: that no scheduler of that name was found, and which may be meant; else empty.
        said: what its scheduler said last, if it waits; as in its condition PodScheduled.
        reason: why it ended or was rejected, in the kubelet's words; so is ``message``.
    """

    namespace: str
    name: str
    uid: str = ""
    source: str = "cluster"
    state: str = "waiting"
    node: str = ""
    scheduler: str = ""
    ours: bool = True
    unserved: str = ""
    untried: str = ""
    said: str = ""
    qos_class: str = ""
    priority: int = 0
    reason: str = ""
    message: str = ""


class ReasonGroup(Document, frozen=True):
    """Nodes that refused the pod for the same reason.

    Attributes:
        plugin: who refused.
        reason: in the scheduler's words, as in the pod's event.
        meaning: the same for people who do not know the plugin.
        eviction_helps: whether evicting pods may make room there.
        then: what would refuse the first of them next, if this did not; empty if nothing would, or
            if it is unknown.
        nodes: all of them, the closest to fitting first.
    """

    plugin: str
    reason: str
    meaning: str = ""
    eviction_helps: bool = False
    then: str = ""
    nodes: tuple[str, ...] = ()


class NodeVerdict(Document, frozen=True):
    """What one node says, in short.

    Attributes:
        reason: with the node's own numbers; empty if it fits.
        score: how good it is among those that fit; 0 for the others.
    """

    node: str
    fits: bool = False
    plugin: str = ""
    reason: str = ""
    score: int = 0


class ZoneAmount(Document, frozen=True):
    """What one NUMA zone has of a resource."""

    zone: int
    free: str
    allocatable: str
    missing: str = "0"


class ResourceAsk(Document, frozen=True):
    """One resource that is asked for.

    Attributes:
        aligned: whether the node's kubelet aligns it, so that zones matter.
        free: what the whole node has left, as the scheduler counts; empty if it does not.
        missing: how much of that lacks.
        zones: what each zone has; empty without data.
    """

    resource: str
    wanted: str
    aligned: bool = False
    free: str = ""
    missing: str = "0"
    zones: tuple[ZoneAmount, ...] = ()


class ContainerAsk(Document, frozen=True):
    """What a container asks for, or the pod as a whole if ``container`` is empty."""

    container: str
    role: str = ""
    resources: tuple[ResourceAsk, ...] = ()


class Holder(Document, frozen=True):
    """What a pod holds in a set of zones.

    Attributes:
        zones: one zone, or those that a piece of memory or a device belongs to together.
        coming: it is not reported yet: bound, and where the kubelet model puts it.
    """

    pod: str
    priority: int
    zones: tuple[int, ...]
    amounts: dict[str, str]
    coming: bool = False


class Candidate(Document, frozen=True):
    """One node in detail.

    Attributes:
        fits: whether the pod would be placed there.
        data: how well the node is known: ``exact``, ``counts``, ``stale``, ``unusable``, ``none``.
        data_reason: why the data cannot be used, if it cannot.
        containers: what was asked and what there is; the whole pod first. Of containers only zones
            are given, of the pod the node, and zones too if its kubelet aligns pods as a whole.
        holders: who holds what, the largest part first.
        kept_for: pods for which the scheduler keeps room there, and that go first.
        steps: how the kubelet comes to its verdict, sentence by sentence.
        decided_by: who decides where on the node the pod runs, if the pod asks for alignment by
            annotations or labels: ``scheduler``, ``kubelet`` or ``nobody``; empty if it does not.
            If the scheduler does, ``policy``, ``scope`` and the zones are its own.
        rules: how that is decided, by which rule, and what came of it, sentence by sentence.
    """

    node: str
    fits: bool = False
    plugin: str = ""
    reason: str = ""
    data: str = "none"
    data_reason: str = ""
    policy: str = ""
    scope: str = ""
    cpu_manager_policy: str = ""
    memory_manager_policy: str = ""
    containers: tuple[ContainerAsk, ...] = ()
    holders: tuple[Holder, ...] = ()
    kept_for: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    decided_by: str = ""
    rules: tuple[str, ...] = ()


class DeviceStep(Document, frozen=True):
    """How many devices are left after one more condition, and on how many nodes."""

    what: str
    devices: int
    nodes: int


class ClaimHolder(Document, frozen=True):
    """A claim that holds devices which the pod could use; *pods* may use it."""

    claim: str
    pods: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


class CapacityLeft(Document, frozen=True):
    """What is left of a device of which claims take amounts.

    Attributes:
        wanted: what the request would take of it, rounded as its driver says.
        enough: whether that is left.
    """

    node: str
    device: str
    capacity: str
    numa_nodes: tuple[int, ...] = ()
    wanted: str = ""
    left: str = ""
    total: str = ""
    enough: bool = False


class DeviceRequestAsk(Document, frozen=True):
    """One request of a claim, or one alternative of a request.

    Attributes:
        count: how many devices are wanted; 0 for all.
        nodes: how many nodes could serve it, were it the only request.
        steps: from all devices that nodes offer to those that are free.
        amounts: what is left of devices that claims share, those with most first.
    """

    request: str
    device_class: str
    count: int = 0
    nodes: int = 0
    steps: tuple[DeviceStep, ...] = ()
    holders: tuple[ClaimHolder, ...] = ()
    amounts: tuple[CapacityLeft, ...] = ()


class ClaimAsk(Document, frozen=True):
    """A resource claim of the pod that has no devices yet.

    Attributes:
        nodes: how many nodes could serve it, were it the only claim.
        constraints: those that stand in the way, each with how many nodes would do without it.
    """

    claim: str
    nodes: int = 0
    requests: tuple[DeviceRequestAsk, ...] = ()
    constraints: tuple[str, ...] = ()


class Change(Document, frozen=True):
    """Something that would make the pod fit; it was tried.

    Attributes:
        kind: what is changed, such as ``fewer-cpus``; see docs/reference/explain.md.
        text: what to do, in a sentence.
        node: where the pod would go then.
        container: the container to change; so are ``resource``, ``was`` and ``to``.
        claim: the resource claim to change; ``resource`` is then one of its requests.
        pods: who has to go, with ``evict`` and ``preempt``.
        parts: the changes that help together, with ``combined``.
    """

    kind: str
    text: str
    node: str = ""
    container: str = ""
    claim: str = ""
    resource: str = ""
    was: str = ""
    to: str = ""
    pods: tuple[str, ...] = ()
    parts: tuple[Change, ...] = ()


class PlacedContainer(Document, frozen=True):
    """What a container, or the whole pod, holds where it runs."""

    container: str
    zones: tuple[int, ...] = ()
    cpus: str = ""
    amounts: dict[str, str] = {}


class PodPlacement(Document, frozen=True):
    """Where a pod runs and how well.

    Attributes:
        source: ``exact`` (the node's report), ``placement`` (upstream's vectors), ``predicted``
            (not reported yet), ``allotted`` (annotations that a scheduler wrote) or ``unknown``.
        quality: ``single`` zone, ``fewest`` zones possible, ``spread`` over more than needed,
            ``shared`` (nothing exclusive) or ``unknown``.
        distance: the largest distance between two of its zones; 10 is local, 0 is unknown.
        better: nodes that would align it better now.
        observed: what annexes saw of it, by the name of the observer, such as ``measured``.
    """

    node: str
    source: str = "unknown"
    zones: tuple[int, ...] = ()
    quality: str = "unknown"
    distance: int = 0
    containers: tuple[PlacedContainer, ...] = ()
    better: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    observed: dict[str, dict[str, Any]] = {}


class Explanation(Document, frozen=True, kw_only=True):
    """Everything there is to say.

    Attributes:
        verdict: ``fits``, ``refused``, ``held`` if it is not even tried, ``unknown`` if it may be
            aligned and only nodes of whose NUMA zones nothing is known have room.
        summary: the whole answer in a sentence or two.
        zones_known: whether the NUMA zones of any node are known; if not, changes were tried on
            amounts of whole nodes only.
        chosen: the node that the scheduler would take.
        fitting: nodes that would take the pod, best first; at most a few hundred are checked to
            the last detail, ``unchecked`` passed the filters only.
        verdicts: every node that was asked, those that fit first, then group by group.
        claims: what resource claims ask for, if nodes refused the pod because of them.
        changes: what would help, the smallest change first.
        notes: what the answer rests on or leaves open.
    """

    api_version: str = API_VERSION
    kind: str = "PodExplanation"
    taken_at: str = ""
    pod: PodSummary
    verdict: str
    summary: str
    nodes: int = 0
    zones_known: bool = True
    chosen: str = ""
    fitting: tuple[str, ...] = ()
    unchecked: int = 0
    groups: tuple[ReasonGroup, ...] = ()
    verdicts: tuple[NodeVerdict, ...] = ()
    placement: PodPlacement | None = None
    candidates: tuple[Candidate, ...] = ()
    claims: tuple[ClaimAsk, ...] = ()
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()


class WorkloadSummary(Document, frozen=True):
    """The workload in question.

    Attributes:
        replicas: how many pods it wants at the same time.
        placed: how many of them have a node already.
        planned: whether it does not exist yet.
    """

    kind: str
    namespace: str
    name: str
    replicas: int = 0
    placed: int = 0
    planned: bool = False


class GangDomain(Document, frozen=True, kw_only=True):
    """A domain of the network as a gang sees it.

    Attributes:
        depth: how many domains are around it.
        takes: pods of the gang that it takes.
        why: why not more.
    """

    level: str
    name: str
    depth: int = 0
    nodes: int = 0
    takes: int = 0
    why: str = ""


class WorkloadExplanation(Document, frozen=True, kw_only=True):
    """What there is to say of a whole workload.

    Attributes:
        verdict: ``fits`` if all of it does, ``refused``, ``held`` if it is not even tried, or
            ``unknown`` as for a pod.
        fit: how many of the pods without a node fit, one beside the other.
        nodes: how many of them each node would get.
        domains: those from which a gang chooses, each before those in it.
        changes: what would make all of them fit.
        first_refused: the first pod that does not fit, on the cluster with those that do.
    """

    api_version: str = API_VERSION
    kind: str = "WorkloadExplanation"
    taken_at: str = ""
    workload: WorkloadSummary
    verdict: str
    summary: str
    fit: int = 0
    nodes: dict[str, int] = {}
    domains: tuple[GangDomain, ...] = ()
    changes: tuple[Change, ...] = ()
    first_refused: Explanation | None = None
