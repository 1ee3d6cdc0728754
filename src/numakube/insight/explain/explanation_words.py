"""The words of an explanation: what plugins mean, which taints, how a kubelet merges its hints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.insight.explain.koordinator_rules import meaning_of_refusal, refusal_in
from numakube.kubelet.admission_trace import AdmissionTrace, amount
from numakube.kubelet.device_pairs import foresee
from numakube.kubelet.outcome import NO_ANSWER, Admitted, Rejected
from numakube.scheduling.matching.taints import FORBIDDING, is_tolerated
from numakube.scheduling.numa.rejection import Kind
from numakube.values.cpuset import CpuSet
from numakube.values.display import zones_text
from numakube.values.numamask import nodes_of
from numakube.values.resources import is_hugepages
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numakube.api.nodes import Node
    from numakube.api.placement import Taint
    from numakube.api.pod import Pod
    from numakube.kubelet.admission_trace import AlignmentTrace, ResourceTrace
    from numakube.kubelet.device_pairs import Prospect
    from numakube.kubelet.node import KubeletNode
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.numa.rejection import Rejection
    from numakube.values.numamask import NumaMask

_FEW: Final = 4
_RANGE: Final = 3
"""From this many zones on, a range is shown; two are named."""

_MEANINGS: Final = {
    "NodeName": "The pod names another node in spec.nodeName.",
    "NodeUnschedulable": "The node is cordoned.",
    "TaintToleration": "The node has a taint that the pod does not tolerate.",
    "NodeAffinity": "The labels of the node do not match the pod's nodeSelector or node affinity.",
    "NodePorts": "Another pod on the node has the host port.",
    "NodeResourcesFit": "The requests of all pods on the node leave too little, aligned or not.",
    "VolumeRestrictions": "A volume of the pod is in use by a pod that does not share it.",
    "NodeVolumeLimits": "The node cannot attach more volumes of that kind.",
    "VolumeBinding": "A claim of the pod has no volume that can be used from the node.",
    "VolumeZone": "A volume of the pod is in another zone of the cloud.",
    "PodTopologySpread": "There are too many pods like it in that domain already.",
    "InterPodAffinity": "A rule about the pods it should be near to, or far from, forbids it.",
    "DynamicResources": "The devices that the pod claims (DRA) are not to be had.",
    "NodeDeclaredFeatures": "Its kubelet does not declare a feature that the pod's spec uses.",
    "NodeShards": "Another scheduler, which shares the cluster with this one, owns the node.",
    "RejectionGuard": "Its kubelet has just rejected a pod like this; it is left alone.",
    "SchedulingGates": "The pod has scheduling gates; their owner has to remove them.",
}

_NUMA_MEANINGS: Final = {
    Kind.BLOCKED: "What is known of its zones is too old to be trusted.",
    Kind.ANNOTATION: "An annotation of the pod cannot be understood; correct it.",
    Kind.MISSING_DATA: "Its zones are not known, and missingData is Refuse; see its exporter.",
    Kind.WEAKER_POLICY: "Its kubelet need not align the pod, and weakerPolicy is Refuse.",
    Kind.CLOSENESS: "The devices that its kubelet would give are farther apart than allowed.",
    Kind.UNREPORTED: "Its kubelet aligns a resource of which no zone is known; see its exporter.",
    Kind.NODE: "All NUMA zones together have too little.",
    Kind.SIZES: "Resources need different numbers of zones, which policy restricted never accepts.",
    Kind.ALIGN: "There is enough on the node, but not in one place: the kubelet would reject it.",
    Kind.WHOLE_CORES: "The kubelet gives out whole cores only (full-pcpus-only).",
    Kind.KUBELET: "Counts suffice, but the CPUs, memory or devices that are left do not match.",
}

_POLICY_WORDS: Final = {
    TopologyPolicy.SINGLE_NUMA_NODE: "accepts nothing but a single NUMA zone",
    TopologyPolicy.RESTRICTED: "accepts only as few NUMA zones as an idle machine would need",
    TopologyPolicy.BEST_EFFORT: "accepts it all the same",
    TopologyPolicy.NONE: "aligns nothing",
}


def meaning_of(status: Status, rejection: Rejection | None, unoffered: Collection[str] = ()) -> str:
    """Say what a refusal means, for readers who do not know the plugin.

    No node gives *unoffered* resources to anybody.
    """
    missing = [name for name in unoffered if f"Insufficient {name}" in status.reasons]
    if missing:
        return f"No node offers {' or '.join(missing)}: {_why_unoffered(missing)}?"
    if rejection is None and "not found" in status.message:
        return "Something that the pod refers to does not exist; the pod waits until it is created."
    refusal = refusal_in(status)
    if refusal is not None:
        return meaning_of_refusal(refusal)
    if rejection is None:
        return _MEANINGS.get(status.plugin, "")
    if rejection.kind is Kind.ALIGN and rejection.hopeless:
        return "Not even an idle node of this kind has that much in one place."
    if rejection.kind is Kind.NODE and rejection.hopeless:
        return "Not even an idle node of this kind has that much."
    if rejection.reason == NO_ANSWER:
        return f"{rejection.detail[:1].upper()}{rejection.detail[1:]}."
    return _NUMA_MEANINGS[rejection.kind]


def _why_unoffered(resources: Sequence[str]) -> str:
    pages = any(map(is_hugepages, resources))
    devices = not all(map(is_hugepages, resources))
    asked = ["are such pages set aside on the machines"] * pages
    return ", ".join([*asked, *["does its device plugin run"] * devices])


def untolerated(pod: Pod, node: Node) -> tuple[Taint, ...]:
    """Return the taints of *node* that keep *pod* away."""
    return tuple(
        taint
        for taint in node.spec.taints
        if taint.effect in FORBIDDING and not is_tolerated(taint, pod.spec.tolerations)
    )


def taint_text(taint: Taint) -> str:
    """Write a taint as kubectl does."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def steps_of(pod: Pod, model: KubeletNode) -> tuple[str, ...]:
    """Say how the kubelet *model* comes to its verdict about *pod*."""
    trace = AdmissionTrace()
    demand = model.demand_of(pod)
    outcome = model.clone().admit(demand, trace=trace)
    sentences = [line for step in trace.alignments for line in _alignment(step)]
    if model.topology.policy is TopologyPolicy.NONE:
        sentences.append("policy none aligns nothing: managers take what they find.")
    if trace.failed and isinstance(outcome, Rejected):
        aligned = {one.resource for step in trace.alignments for one in step.resources}
        sentences += [
            f"container {outcome.container}: {_resource(one)}."
            for one in trace.failed
            if one.resource not in aligned
        ]
        sentences.append(f"The allocation fails: {outcome.reason}: {outcome.message}.")
    if isinstance(outcome, Admitted) and model.machine.tree.paths:
        sentences += map(_closeness, foresee(model, demand, outcome))
    return tuple(dict.fromkeys(sentences))


def _closeness(prospect: Prospect) -> str:
    """Say how close devices will be, in the words of ``nvidia-smi topo -m``."""
    who = f"container {prospect.container}" if prospect.container else "the pod as a whole"
    names = " and ".join(prospect.resources)
    if not prospect.chances:
        unknown = " and ".join(prospect.unknown) or names
        return f"{who}: it is not known how {unknown} are connected to other devices."
    if len(prospect.chances) == 1:
        return f"{who}: {names} will be {prospect.chances[0][0].name}."
    ways = " or ".join(
        level.name if share is None else f"{level.name} ({share:.0%})"
        for level, share in prospect.chances
    )
    return f"{who}: {names} may be {ways}: which devices the kubelet takes is luck."


def _alignment(step: AlignmentTrace) -> Iterator[str]:
    who = f"container {step.container}" if step.container else "the pod as a whole"
    for resource in step.resources:
        yield f"{who}: {_resource(resource)}."
    decision = step.decision
    if decision.hint.preferred:
        yield f"{who}: {_agreed(decision.hint.mask)}."
        return
    verb = "rejects the pod" if not decision.admitted else _POLICY_WORDS[step.policy]
    rule = "" if decision.admitted else f", which {_POLICY_WORDS[step.policy]},"
    yield f"{who}: no set of zones suits all of it; policy {step.policy}{rule} {verb}."


def _agreed(mask: NumaMask | None) -> str:
    if mask is None:
        return "no zone is better than another"
    return f"{mask_text(mask)} suit{'s' if len(nodes_of(mask)) == 1 else ''} all of it"


def _resource(resource: ResourceTrace) -> str:
    name = resource.resource
    wanted = amount(name, resource.wanted)
    if not resource.free_by_node:
        return f"{name} {wanted}, no NUMA zone is known of it"
    texts = {zone: amount(name, size) for zone, size in resource.free_by_node.items()}
    free = ", ".join(
        f"{zones} {'has' if zones.startswith('zone ') else 'have'} {text}{_each(zones)}"
        for zones, text in folded_zones(texts)
    )
    return f"{name} {wanted} wanted; {free}{_preference(resource)}"


def _each(zones: str) -> str:
    return "" if zones.startswith("zone ") else " each"


def _preference(resource: ResourceTrace) -> str:
    if resource.fits_nowhere:
        return "; that fits nowhere"
    masks = resource.preferred_masks
    if resource.hints is None:
        return "; any zone will do"
    if not masks and resource.shortfall is not None:
        return "; no zone alone has enough"
    if not masks:
        return "; what is left needs more zones than on an idle machine"
    listed = [zones_text(nodes_of(mask)) for mask in masks[:_FEW]]
    more = f" and {len(masks) - _FEW} more" if len(masks) > _FEW else ""
    return f"; prefers {' or '.join(listed)}{more}"


def folded_zones(texts: Mapping[int, str]) -> Iterator[tuple[str, str]]:
    """Yield each text with its zones; of more than two, those with the same text together."""
    zones_of: dict[str, list[int]] = {}
    for zone, text in texts.items():
        zones_of.setdefault(text if len(texts) >= _RANGE else f"{zone}", []).append(zone)
    for zones in zones_of.values():
        ranges = f"zone {zones[0]}" if len(zones) == 1 else f"zones {CpuSet.of(zones)}"
        yield ranges, texts[zones[0]]


def mask_text(mask: NumaMask) -> str:
    """Name the zones of a mask."""
    return zones_text(nodes_of(mask))
