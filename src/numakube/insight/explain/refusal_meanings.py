"""What a refusal means, in a sentence for readers who do not know the plugin that refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.insight.explain.plugin_explainer import meaning_by_plugin
from numakube.insight.near_names import nearest_device
from numakube.kubelet.admission_outcome import NO_ANSWER
from numakube.scheduling.numa.alignment_refusal import Kind
from numakube.values.resources import is_hugepages

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal

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
    "DynamicResources": "The devices that the pod claims (DRA) are not available.",
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
    Kind.WAITING: "Its kubelet would give it what a pod needs that is still to be bound there.",
}


def meaning_of(
    status: Status,
    numa_refusal: AlignmentRefusal | None,
    unoffered: Collection[str] = (),
    offered: Collection[str] = (),
) -> str:
    """Say what a refusal means, for readers who do not know the plugin.

    No node gives *unoffered* resources to anybody; nodes have those *offered*.
    """
    missing = [name for name in unoffered if f"Insufficient {name}" in status.reasons]
    if missing:
        return f"No node offers {' or '.join(missing)}: {_why_unoffered(missing, offered)}?"
    if numa_refusal is None and "not found" in status.message:
        return "Something that the pod refers to does not exist; the pod waits until it is created."
    if numa_refusal is None:
        return meaning_by_plugin(status) or _MEANINGS.get(status.plugin, "")
    if numa_refusal.kind is Kind.ALIGN and numa_refusal.hopeless:
        return "Not even an idle node of this kind has that much in one place."
    if numa_refusal.kind is Kind.NODE and numa_refusal.hopeless:
        return "Not even an idle node of this kind has that much."
    if numa_refusal.reason == NO_ANSWER:
        return f"{numa_refusal.detail[:1].upper()}{numa_refusal.detail[1:]}."
    return _NUMA_MEANINGS[numa_refusal.kind]


def _why_unoffered(resources: Sequence[str], offered: Collection[str]) -> str:
    pages = any(map(is_hugepages, resources))
    devices = [name for name in resources if not is_hugepages(name)]
    asked = ["are such pages set aside on the machines"] * pages
    meant = [near for name in devices if (near := nearest_device(name, offered))]
    asked += [f"did you mean {near}" for near in meant]
    return ", ".join([*asked, *["does its device plugin run"] * (len(devices) > len(meant))])
