"""The answer in a sentence or two, and what it rests on.

What a refusal means, in a sentence for readers who do not know the plugin that refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from numakube.insight.collected import SCHEDULER, TOPOLOGIES
from numakube.insight.explain.plugin_explainer import meaning_by_plugin
from numakube.insight.list_reading import rights_text
from numakube.insight.near_names import nearest_device
from numakube.insight.unknown_zones import nothing_known
from numakube.kubelet.admission_outcome import NO_ANSWER
from numakube.scheduling.numa.alignment_refusal import Kind
from numakube.scheduling.plugins.pod_gangs import group_named_by
from numakube.values.resources import is_hugepages

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numakube.api.pod import Pod
    from numakube.insight.explain.explanation_document import PodPlacement, PodSummary
    from numakube.insight.explain.node_verdicts import Judgement
    from numakube.insight.facts import ClusterFacts
    from numakube.insight.list_reading import Unreadable
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal

_WAITS: Final = " If it still waits, the scheduler has not tried it since: is it running?"


def summary_of(
    pod: PodSummary,
    judgement: Judgement,
    placement: PodPlacement | None,
    *,
    gates: str = "",
    unknown: str = "",
) -> str:
    """Return the whole answer in short.

    *gates* are the pod's scheduling gates; *unknown* says why it is not known whether it fits.
    """
    if placement is not None:
        where = f"It runs on {pod.node}." if pod.state == "running" else f"Bound to {pod.node}."
        return " ".join((where, *placement.words))
    now = _now(pod, judgement, gates, unknown)
    if pod.state == "rejected":
        words = f"The kubelet of {pod.node} rejected it: {pod.reason}: {pod.message}"
        return f"{words.rstrip('.')}. {now}"
    if pod.state == "ended":
        reason = f" ({pod.reason})" if pod.reason else ""
        return f"It has ended{reason}. {now}"
    return now


def _now(pod: PodSummary, judgement: Judgement, gates: str, unknown: str) -> str:
    again = pod.state in ("rejected", "ended")
    one = "A pod like it" if again else "It"
    if gates:
        then = _now(pod, judgement, "", unknown)
        waits = f"{one} is not tried while it has scheduling gates ({gates})."
        return f"{waits} Without them, {then[0].lower()}{then[1:]}"
    if judgement.held is not None:
        return f"{one} is not tried: {judgement.held.message}."
    if not judgement.total:
        return "There are no nodes."
    if pod.unserved:
        then = _now(msgspec.structs.replace(pod, unserved=""), judgement, "", unknown)
        stop = "" if pod.unserved.endswith("?") else "."
        return (
            f"Nobody schedules it: {pod.unserved}{stop} Were there one: {then[0].lower()}{then[1:]}"
        )
    count = len(judgement.fitting) + judgement.unchecked
    if unknown:
        room = f"{count} of {judgement.total} nodes {'has' if count == 1 else 'have'} room"
        room = "the only node has room" if judgement.total == 1 else room
        return (
            f"Whether {one[0].lower()}{one[1:]} fits is not known: {unknown}."
            f" By amounts of whole nodes alone, {room}."
        )
    if judgement.fits:
        now = " now" if again else ""
        chosen = judgement.fitting[0]
        waits = f" But {pod.untried} (kubectl numa doctor)." if pod.untried else _WAITS
        ending = waits if pod.state == "waiting" and pod.ours else ""
        if judgement.total == 1:
            return f"{one} fits{now} on the only node, {chosen}.{ending}"
        return f"{one} fits{now} on {count} of {judgement.total} nodes; best is {chosen}.{ending}"
    none = f"{one} fits on none of {judgement.total} nodes"
    if judgement.total == 1:
        none = f"{one} does not fit on the only node"
    if judgement.nomination is not None:
        return f"{none} yet; the scheduler makes room on {judgement.nomination.node}."
    return f"{none}."


def notes_of(
    facts: ClusterFacts,
    pod: PodSummary,
    summary: str,
    profiles: Collection[str],
    unaligned: tuple[str, ...],
) -> tuple[str, ...]:
    """Return what is to be known about the answer besides its *summary*."""
    notes = list(unaligned)
    if pod.state == "planned" and pod.node:
        notes.append(
            f"It names its node itself: no scheduler looks at it, the kubelet of {pod.node} decides"
            " alone."
        )
    inside = [fact for fact in facts.unreadable if fact.what.partition("/")[0] == SCHEDULER]
    if pod.unserved:
        notes.append(f"The verdict is that of {', '.join(profiles)}.")
    elif not pod.ours:
        notes.append(_foreign(pod, ", ".join(profiles), inside))
    elif inside and not facts.schedulers:
        notes.append(f"It is judged by the usual configuration: {_silence(inside)}.")
    blind = nothing_known(facts)
    if blind and blind not in summary:
        notes.append(f"{blind[0].upper()}{blind[1:]}.")
    return (*notes, *unread_notes(facts))


def gang_note(pod: Pod) -> tuple[str, ...]:
    """Say which gang *pod* belongs to, and where to read about the others."""
    group = group_named_by(pod)
    if group is None:
        return ()
    _, namespace, name = group
    ask = f"kubectl numa explain podgroup {name} -n {namespace}"
    return (f"It belongs to gang {namespace}/{name}, whose pods run together: {ask}",)


def _foreign(pod: PodSummary, ours: str, inside: list[Unreadable]) -> str:
    """Return who decides about a pod that names another scheduler, as far as that is known."""
    asks = f"The pod asks for the scheduler {pod.scheduler}"
    if inside:
        silence = _silence(inside)
        return f"{asks}, of which nothing is known: {silence}. This is what {ours} would do."
    return f"{asks}, which decides by itself; this is what {ours} would do."


def _silence(inside: list[Unreadable]) -> str:
    reasons = dict.fromkeys(unreadable.why for unreadable in inside)
    return f"no scheduler could be asked ({'; '.join(reasons)})"


def unread_notes(facts: ClusterFacts) -> Iterator[str]:
    """Yield what was not taken into account: what was refused in one line, the rest one by one."""
    kinds = [fact for fact in facts.unreadable if fact.what.partition("/")[0] != SCHEDULER]
    lacking = [kind for kind in kinds if kind.right and kind.what != TOPOLOGIES]
    if lacking:
        yield f"Not taken into account, since you may not (403): {rights_text(lacking)}."
    for kind in kinds:
        if not kind.right and kind.what != TOPOLOGIES:
            yield f"Not taken into account: {kind.what} ({kind.why})."


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
