"""How a kubelet comes to its answer, step by step, also on its node when that is empty."""

from __future__ import annotations

from dataclasses import replace
from itertools import count as numbers
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.meta import ObjectMeta
from numakube.api.nrt import without_attribute
from numakube.api.pod import static_uid
from numakube.kubelet.admission_outcome import Admitted, Rejected
from numakube.kubelet.admission_trace import AdmissionTrace, amount
from numakube.kubelet.device_pairs import foresee
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.scheduling.snapshot.cluster_objects import Followed
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology import nrt_names
from numakube.topology.model_report import node_of, remove_pod, report_of
from numakube.topology.report_codec import with_exact
from numakube.topology.topology_view import NodeTopology
from numakube.values.cpuset import CpuSet
from numakube.values.display import zones_text
from numakube.values.numamask import nodes_of
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology, Zone
    from numakube.api.pod import Pod
    from numakube.api.resource_slices import ResourceSlice
    from numakube.insight.facts import ClusterFacts
    from numakube.kubelet.admission_trace import AlignmentTrace, ResourceTrace
    from numakube.kubelet.device_pairs import Prospect
    from numakube.values.numamask import NumaMask


_FEW: Final = 4
_RANGE: Final = 3
"""From this many zones on, a range is shown; two are named."""

_POLICY_WORDS: Final = {
    TopologyPolicy.SINGLE_NUMA_NODE: "accepts nothing but a single NUMA zone",
    TopologyPolicy.RESTRICTED: "accepts only as few NUMA zones as an idle machine would need",
    TopologyPolicy.BEST_EFFORT: "accepts it all the same",
    TopologyPolicy.NONE: "aligns nothing",
}


def steps_of(pod: Pod, model: KubeletNode) -> tuple[str, ...]:
    """Say how the kubelet *model* comes to its verdict about *pod*."""
    trace = AdmissionTrace()
    demand = model.demand_of(pod)
    outcome = model.clone().admit(demand, trace=trace)
    sentences = [line for step in trace.alignments for line in _alignment(step)]
    if model.topology.policy is TopologyPolicy.NONE:
        sentences.append("policy none aligns nothing: managers take what they find.")
    if trace.failed and isinstance(outcome, Rejected):
        aligned = {resource.resource for step in trace.alignments for resource in step.resources}
        sentences += [
            f"container {outcome.container}: {_resource(other)}."
            for other in trace.failed
            if other.resource not in aligned
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


# Another node of a kind, as it is when it has just joined the cluster.


_HOSTNAME: Final = "kubernetes.io/hostname"
_PASSING: Final = "node.kubernetes.io/"
"""What taints begin with that tell of troubles of one node."""


def stays_with_its_node(pod: PodInfo) -> bool:
    """Tell whether *pod* belongs to its node: static ones and daemons."""
    owner = pod.pod.metadata.controller
    return static_uid(pod.pod) is not None or (owner is not None and owner.kind == "DaemonSet")


def idle_copy(node: Node, name: str) -> Node:
    """Return a node like *node*, in good health."""
    labels = dict(node.metadata.labels)
    if _HOSTNAME in labels:
        labels[_HOSTNAME] = name
    metadata = msgspec.structs.replace(node.metadata, name=name, uid=name, labels=labels)
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith(_PASSING))
    spec = msgspec.structs.replace(node.spec, unschedulable=False, taints=taints)
    return msgspec.structs.replace(node, metadata=metadata, spec=spec)


def bound_copy(pod: PodInfo, node: str) -> PodInfo:
    """Return a daemon like *pod* on another node; its affinity named the node that it is on."""
    metadata = msgspec.structs.replace(pod.pod.metadata, uid=f"{pod.uid}@{node}")
    spec = msgspec.structs.replace(pod.pod.spec, node_name=node, affinity=None)
    return pod.sibling(msgspec.structs.replace(pod.pod, metadata=metadata, spec=spec))


def idle_report(topology: NodeResourceTopology) -> NodeResourceTopology:
    """Return what a node like that reports when nothing of it is given out."""
    attributes = without_attribute(topology.attributes, nrt_names.STALE)
    zones = tuple(map(_idle_zone, topology.zones))
    return msgspec.structs.replace(topology, attributes=attributes, zones=zones)


def idle_slices(slices: Iterable[ResourceSlice], like: str, name: str) -> dict[str, ResourceSlice]:
    """Return what drivers on a node called *name* offer if it is like another: pools of its own."""
    found = {}
    for piece in slices:
        if piece.spec.node_name == like:
            pool = msgspec.structs.replace(piece.spec.pool, name=f"{piece.spec.pool.name}@{name}")
            spec = msgspec.structs.replace(piece.spec, node_name=name, pool=pool)
            metadata = ObjectMeta(name=f"{piece.metadata.name}@{name}")
            copy = msgspec.structs.replace(piece, metadata=metadata, spec=spec)
            found[metadata.name] = copy
    return found


def with_nodes_like(facts: ClusterFacts, like: str, count: int) -> ClusterFacts:
    """Return the cluster with *count* more nodes like another, with its daemons alone on them."""
    nodes, topologies, pods = dict(facts.nodes), dict(facts.topologies), list(facts.pods)
    slices = dict(facts.objects.resource_slices)
    daemons = [pod for pod in map(PodInfo, facts.pods_on(like)) if stays_with_its_node(pod)]
    names = (name for number in numbers(1) if (name := f"{like}-new-{number}") not in facts.nodes)
    topology, view = facts.topologies.get(like), facts.view(like)
    report = None
    if topology is not None and isinstance(view, NodeTopology):
        report = new_report(topology, view, like)
    for name in islice(names, count):
        nodes[name] = idle_copy(facts.nodes[like], name)
        slices |= idle_slices(facts.objects.resource_slices.values(), like, name)
        pods += (bound_copy(pod, name).pod for pod in daemons)
        if report is not None:
            metadata = msgspec.structs.replace(report.metadata, name=name, uid=name)
            topologies[name] = msgspec.structs.replace(report, metadata=metadata)
    objects = replace(facts.objects, resource_slices=Followed(slices))
    return replace(facts, nodes=nodes, pods=tuple(pods), topologies=topologies, objects=objects)


def new_report(
    topology: NodeResourceTopology, view: NodeTopology, name: str
) -> NodeResourceTopology:
    """Return what a new node called *name* reports that is like the one of *topology*."""
    idle = idle_report(topology)
    attributes = without_attribute(idle.attributes, nrt_names.EXPORTER)
    metadata = ObjectMeta(name=name, uid=name)
    idle = msgspec.structs.replace(idle, metadata=metadata, attributes=attributes)
    model = node_of(view.report) if view.report is not None else None
    if isinstance(model, KubeletNode):
        for uid in tuple(model.pods):
            remove_pod(model, uid)
        model.collect_garbage()
        return with_exact(idle, report_of(model))
    return idle


def _idle_zone(zone: Zone) -> Zone:
    resources = tuple(
        msgspec.structs.replace(resource, available=resource.allocatable)
        for resource in zone.resources
    )
    return msgspec.structs.replace(zone, resources=resources)
