"""What a suggested change makes of the cluster and of the pod, worked out without `explain`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from numakube.api.affinity_and_taints import Toleration
from numakube.api.nrt import NodeResourceTopology, without_attribute
from numakube.api.pod import Container, Pod
from numakube.api.resource_claims import ResourceClaim
from numakube.insight.explain.explanation_document import Change
from numakube.insight.facts import ClusterFacts, model_of
from numakube.insight.scheduler_engine import engine_of
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.scheduling.cycle import Chosen, Cycle, Failed, Refused
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects, Followed
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology import nrt_names
from numakube.topology.exact_report import uid_hash
from numakube.topology.model_report import node_of, nrt_of, remove_pod, report_of
from numakube.topology.numa_zones import Unusable
from numakube.topology.report_codec import encode_report
from numakube.topology.topology_view import NodeTopology

SIZES = {
    "fewer-cpus", "less-memory", "fewer-hugepages", "fewer-devices", "whole-cpus", "more-cpus",
    "more-memory",
}  # fmt: skip


def applied(change: Change, facts: ClusterFacts, pod: Pod) -> tuple[ClusterFacts, Pod]:
    """Return the cluster and the pod after *change*."""
    if change.parts:
        for part in change.parts:
            facts, pod = applied(part, facts, pod)
        return facts, pod
    if change.kind in ON_CLUSTERS:
        return ON_CLUSTERS[change.kind](facts, change), pod
    if change.kind in ("fewer-claimed-devices", "claim-constraint"):
        return _claimed(facts, change), pod
    if change.kind in SIZES:
        return facts, _resized(pod, change)
    if change.kind == "offer":
        return facts, _without_resources(pod, change.resource.split(","))
    if change.kind in ("numa-scope", "numa-policy"):
        return facts, _wishing(pod, change)
    if change.kind == "closeness":
        return facts, _asking(pod, change)
    return facts, _relaxed(pod, change)


def _claimed(facts: ClusterFacts, change: Change) -> ClusterFacts:
    """Return a cluster whose claim asks for fewer devices, or lacks a constraint."""
    claims = facts.objects.resource_claims
    tree = msgspec.json.decode(msgspec.json.encode(claims[change.claim]))
    devices = tree["spec"]["devices"]
    if change.kind == "claim-constraint":
        del devices["constraints"][int(change.was)]
    else:
        (request,) = (
            request for request in devices["requests"] if request["name"] == change.resource
        )
        request["exactly"]["count"] = int(change.to)
    claims = Followed({**claims, change.claim: msgspec.convert(tree, ResourceClaim)})
    return replace(facts, objects=replace(facts.objects, resource_claims=claims))


def _asking(pod: Pod, change: Change) -> Pod:
    annotations = {**pod.metadata.annotations, "numakube.dev/closeness": change.to}
    if not change.to:
        del annotations["numakube.dev/closeness"]
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
    return msgspec.structs.replace(pod, metadata=metadata)


def _wishing(pod: Pod, change: Change) -> Pod:
    key = "scheduling.koordinator.sh/numa-topology-spec"
    spec = json.loads(pod.metadata.annotations[key])
    text = json.dumps({**spec, change.resource: change.to})
    annotations = {**pod.metadata.annotations, key: text}
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
    return msgspec.structs.replace(pod, metadata=metadata)


class First:
    """Dice that always choose the first."""

    def random(self, size: int) -> npt.NDArray[np.float64]:
        """Return zeros."""
        return np.zeros(size)


def decided(facts: ClusterFacts, pod: Pod) -> Chosen | Refused | Failed:
    """Return what a scheduler that has just started decides about *pod*."""
    engine = engine_of(facts)
    runtime = engine.runtime_for(pod.spec.scheduler_name)
    return Cycle(engine.cluster, engine.nominations, First()).decide(PodInfo(pod), runtime)


def helps(change: Change, facts: ClusterFacts, pod: Pod) -> bool:
    """Tell whether the pod is placed after *change*, and its kubelet takes it."""
    facts, pod = applied(change, facts, pod)
    if not isinstance(decided(facts, pod), Chosen):
        return False
    where = another(change.node) if change.kind == "add-node" else change.node
    model = model_of(facts, where)
    return isinstance(model, Unusable) or isinstance(model.admit(pod), Admitted)


def can_apply(change: Change) -> bool:
    """Tell whether the change is described well enough to be carried out by a program."""
    described = change.kind not in {"less-of-everything", "guaranteed"}
    return described and all(map(can_apply, change.parts))


def _resized(pod: Pod, change: Change) -> Pod:
    def side(known: Any) -> dict[str, Any]:
        rest = {name: text for name, text in known.items() if name != change.resource}
        if change.resource in known and change.to != "0":
            rest[change.resource] = change.to
        return rest

    def each(one: Container) -> Container:
        if one.name != change.container or one.resources is None:
            return one
        resources = msgspec.structs.replace(
            one.resources,
            requests=side(one.resources.requests),
            limits=side(one.resources.limits),
        )
        return msgspec.structs.replace(one, resources=resources)

    return _spec(
        pod,
        containers=tuple(map(each, pod.spec.containers)),
        init_containers=tuple(map(each, pod.spec.init_containers)),
    )


def _without_resources(pod: Pod, resources: Iterable[str]) -> Pod:
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        for resource in resources:
            change = Change(kind="", text="", container=container.name, resource=resource, to="0")
            pod = _resized(pod, change)
    return pod


def another(node: str) -> str:
    """Return the name of a node like *node*."""
    return f"another-{node}"


def _with_another(facts: ClusterFacts, change: Change) -> ClusterFacts:
    """Return the cluster with an idle node like another, whose daemons it does not have."""
    like = change.node
    name, node = another(like), facts.nodes[like]
    labels = {**node.metadata.labels, "kubernetes.io/hostname": name}
    metadata = msgspec.structs.replace(node.metadata, name=name, uid=name, labels=labels)
    spec = msgspec.structs.replace(node.spec, unschedulable=False)
    made = msgspec.structs.replace(node, metadata=metadata, spec=spec)
    topologies, model = dict(facts.topologies), _model(facts, like)
    if model is not None:
        for uid in tuple(model.pods):
            remove_pod(model, uid)
        model.collect_garbage()
        topologies[name] = _report(name, model)
    elif like in topologies:
        topologies[name] = _idle(topologies[like], name)
    objects = _with_slices(facts.objects, like, name)
    nodes = {**facts.nodes, name: made}
    return replace(facts, nodes=nodes, topologies=topologies, objects=objects)


def _with_slices(objects: ClusterObjects, like: str, name: str) -> ClusterObjects:
    """Return *objects* with the devices of another node like one, in a pool named after it."""
    slices = dict(objects.resource_slices)
    for piece in objects.resource_slices.values():
        if piece.spec.node_name == like:
            pool = msgspec.structs.replace(piece.spec.pool, name=name)
            spec = msgspec.structs.replace(piece.spec, node_name=name, pool=pool)
            slices[f"{name}-{piece.metadata.name}"] = msgspec.structs.replace(piece, spec=spec)
    return replace(objects, resource_slices=Followed(slices))


def _idle(nrt: NodeResourceTopology, name: str) -> NodeResourceTopology:
    metadata = msgspec.structs.replace(nrt.metadata, name=name)
    zones = tuple(
        msgspec.structs.replace(
            zone,
            resources=tuple(
                msgspec.structs.replace(resource, available=resource.allocatable)
                for resource in zone.resources
            ),
        )
        for zone in nrt.zones
    )
    attributes = without_attribute(nrt.attributes, nrt_names.STALE)
    return msgspec.structs.replace(nrt, metadata=metadata, zones=zones, attributes=attributes)


def _without(facts: ClusterFacts, change: Change) -> ClusterFacts:
    gone = [pod for pod in facts.pods if pod.metadata.key in change.pods]
    rest = tuple(pod for pod in facts.pods if pod not in gone)
    model = _model(facts, change.node)
    topologies = dict(facts.topologies)
    if model is not None:
        for pod in gone:
            remove_pod(model, pod.metadata.uid)
        model.collect_garbage()
        topologies[change.node] = _report(change.node, model)
    return replace(facts, pods=rest, topologies=topologies)


def _reconfigured(facts: ClusterFacts, change: Change) -> ClusterFacts:
    view = facts.view(change.node)
    assert isinstance(view, NodeTopology)
    if view.report is None:
        attributes = {change.resource: change.to}
        before = facts.topologies[change.node]
        kept = tuple(
            attribute for attribute in before.attributes if attribute.name != change.resource
        )
        added = tuple(
            type(before.attributes[0])(name=name, value=value) for name, value in attributes.items()
        )
        after = msgspec.structs.replace(before, attributes=(*kept, *added))
        return replace(facts, topologies={**facts.topologies, change.node: after})
    settings = view.report.settings
    match change.kind:
        case "scope":
            settings = replace(settings, topology_scope=change.to)
        case "policy":
            settings = replace(settings, topology_policy=change.to)
        case _:
            settings = replace(settings, cpu_options={})
    model = node_of(replace(view.report, settings=settings))
    assert isinstance(model, KubeletNode)
    after = _report(change.node, model)
    return replace(facts, topologies={**facts.topologies, change.node: after})


def _report(name: str, model: KubeletNode) -> NodeResourceTopology:
    """Return the report of a rebuilt model, whose pods are known by their hashes already."""
    report, made = report_of(model), nrt_of(name, model)
    known = {uid_hash(uid): uid for uid in model.pods}
    pods = {known.get(hashed, hashed): holding for hashed, holding in report.pods.items()}
    text = encode_report(replace(report, pods=pods))
    meta = msgspec.structs.replace(made.metadata, annotations={nrt_names.EXACT_ANNOTATION: text})
    return msgspec.structs.replace(made, metadata=meta)


def _refreshed(facts: ClusterFacts, change: Change) -> ClusterFacts:
    before = facts.topologies[change.node]
    attributes = without_attribute(before.attributes, nrt_names.STALE)
    after = msgspec.structs.replace(before, attributes=attributes)
    return replace(facts, topologies={**facts.topologies, change.node: after})


def _uncordoned(facts: ClusterFacts, change: Change) -> ClusterFacts:
    node = facts.nodes[change.node]
    spec = msgspec.structs.replace(node.spec, unschedulable=False)
    nodes = {**facts.nodes, change.node: msgspec.structs.replace(node, spec=spec)}
    return replace(facts, nodes=nodes)


def _relaxed(pod: Pod, change: Change) -> Pod:
    spec, affinity = pod.spec, pod.spec.affinity
    match change.kind:
        case "tolerate":
            more = tuple(_toleration(text) for text in change.to.split(", "))
            return _spec(pod, tolerations=(*spec.tolerations, *more))
        case "node-selector":
            key = change.was.partition("=")[0]
            rest = {name: value for name, value in spec.node_selector.items() if name != key}
            return _spec(pod, node_selector=rest)
        case "node-affinity":
            other = affinity and msgspec.structs.replace(affinity, node_affinity=None)
            return _spec(pod, node_selector={}, affinity=other)
        case "host-port":
            return _spec(
                pod,
                containers=tuple(
                    msgspec.structs.replace(container, ports=()) for container in spec.containers
                ),
            )
        case "topology-spread":
            return _spec(pod, topology_spread_constraints=())
        case "pod-affinity":
            return _spec(
                pod, affinity=affinity and msgspec.structs.replace(affinity, pod_affinity=None)
            )
        case "pod-anti-affinity":
            return _spec(
                pod, affinity=affinity and msgspec.structs.replace(affinity, pod_anti_affinity=None)
            )
        case "volume":
            return _spec(
                pod, volumes=tuple(volume for volume in spec.volumes if volume.name != change.was)
            )
        case "scheduling-gates":
            return _spec(pod, scheduling_gates=())
        case kind:
            raise AssertionError(f"nobody knows how to apply {kind}")


def _toleration(text: str) -> Toleration:
    pair, _, effect = text.partition(":")
    key, _, value = pair.partition("=")
    return Toleration(key=key, operator="Equal", value=value, effect=effect)


def _model(facts: ClusterFacts, name: str) -> KubeletNode | None:
    view = facts.view(name)
    if not isinstance(view, NodeTopology) or view.report is None:
        return None
    model = node_of(view.report)
    assert isinstance(model, KubeletNode)
    return model


def _spec(pod: Pod, **fields: Any) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **fields))


ON_CLUSTERS: dict[str, Callable[[ClusterFacts, Change], ClusterFacts]] = {
    "add-node": _with_another,
    "evict": _without,
    "preempt": _without,
    "scope": _reconfigured,
    "policy": _reconfigured,
    "cpu-option": _reconfigured,
    "refresh-nrt": _refreshed,
    "uncordon": _uncordoned,
}
