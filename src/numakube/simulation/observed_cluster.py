"""A real cluster as the beginning of a simulation: what runs, where, and what waits.

The facts come from a live cluster, a bundle or a dump. Pods keep their nodes and, where the node's
report says exactly what they hold, their CPUs, memory and devices.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from numakube.api.pod import has_ended
from numakube.errors import MalformedObject
from numakube.insight.collected import (
    NODES,
    PODS,
    PRIORITY_CLASSES,
    TOPOLOGIES,
    TOPOLOGY_UPDATES,
    Collected,
    list_file,
)
from numakube.simulation.cluster_model import RunningPod, SimulatedCluster, SimulatedNode
from numakube.simulation.observed_node import observed_node
from numakube.simulation.pod_owners import kind_of_owner
from numakube.simulation.workload import Arrival, Workload
from numakube.topology.exact_report import uid_hash
from numakube.topology.topology_view import NodeTopology

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube.insight.facts import ClusterFacts
    from numakube.kubelet.machine import Machine
    from numakube.topology.exact_report import ExactReport

T = TypeVar("T")

_KINDS: Final = {
    "Node": NODES,
    "Pod": PODS,
    "NodeResourceTopology": TOPOLOGIES,
    "NodeResourceTopologyUpdate": TOPOLOGY_UPDATES,
    "PriorityClass": PRIORITY_CLASSES,
}


def collected_of(documents: Iterable[Mapping[str, Any]], subject: str) -> Collected:
    """Return what a dump (``kubectl get nodes,pods,noderesourcetopologies -A -o yaml``) tells.

    Raises:
        MalformedObject: there are no nodes in it.
    """
    found: dict[str, list[Mapping[str, Any]]] = {plural: [] for plural in _KINDS.values()}
    for document in documents:
        plural = _KINDS.get(str(document.get("kind")))
        if plural is not None:
            found[plural].append(document)
    if not found[NODES]:
        raise MalformedObject(subject, "has no objects of kind Node")
    files = {
        list_file(plural): msgspec.json.encode({"items": items}) for plural, items in found.items()
    }
    return Collected("", files)


def cluster_of(
    facts: ClusterFacts, subject: str, *, machine: Machine | None = None
) -> SimulatedCluster:
    """Return the cluster of *facts* with everything that runs.

    Args:
        facts: what is known.
        subject: names the source in errors.
        machine: what every node is to be instead of what it is.

    Raises:
        MalformedObject: an object cannot be read, or a node has no zones; it says which.
    """
    for one in facts.unreadable:
        if one.what.split(" ")[0] in _KINDS.values():
            raise MalformedObject(subject, f"{one.what}: {one.why}")
    nodes = tuple(_shared(_node(facts, name, subject, machine) for name in sorted(facts.nodes)))
    running = [pod for node in nodes for pod in _running(facts, node)]
    known = facts.objects
    objects = {one.name: dict(getattr(known, one.name)) for one in fields(known) if one.init}
    return SimulatedCluster(nodes=nodes, running=tuple(running), objects=objects)


def waiting_in(facts: ClusterFacts) -> Workload:
    """Return the pods of *facts* that have no node."""
    waiting = [pod for pod in facts.pods if not pod.spec.node_name and not has_ended(pod)]
    arrivals = (Arrival(at=0.0, pod=pod, owner=kind_of_owner(pod)) for pod in waiting)
    return Workload(arrivals=tuple(arrivals))


def _node(facts: ClusterFacts, name: str, subject: str, machine: Machine | None) -> SimulatedNode:
    view = facts.view(name)
    if not isinstance(view, NodeTopology) and machine is None:
        why = "has no NodeResourceTopology" if view is None else f"NodeResourceTopology: {view}"
        raise MalformedObject(
            subject, f"{why}; without its zones nothing can be simulated", path=f"Node {name}"
        )
    topology, config = facts.topologies.get(name), facts.kubelet_configs.get(name)
    found = observed_node(facts.nodes[name], topology, config)
    if machine is not None:
        return replace(found, machine=machine)
    return replace(found, held=_held(facts, name))


def _shared(nodes: Iterable[SimulatedNode]) -> Iterator[SimulatedNode]:
    """Yield *nodes*, those that are alike with one machine and one configuration."""
    machines: list[Machine] = []
    configs: list[Any] = []
    for node in nodes:
        machine, config = _one_of(node.machine, machines), _one_of(node.config, configs)
        yield replace(node, machine=machine, config=config)


def _one_of(value: T, known: list[T]) -> T:
    for one in known:
        if one == value:
            return one
    known.append(value)
    return value


def _running(facts: ClusterFacts, node: SimulatedNode) -> Iterator[RunningPod]:
    """Yield the pods of a node in the order in which its kubelet admitted them."""
    held = node.held.pods if node.held is not None else {}
    places = {uid: place for place, uid in enumerate(held)}
    pods = sorted(
        facts.pods_on(node.name),
        key=lambda pod: (
            places.get(pod.metadata.uid, len(places)),
            pod.metadata.creation_timestamp or "",
        ),
    )
    yield from (RunningPod(pod=pod, node=node.name) for pod in pods)


def _held(facts: ClusterFacts, name: str) -> ExactReport | None:
    """Return the exact report of a node, with pods by uid instead of by what stands for it."""
    view = facts.view(name)
    report = view.report if isinstance(view, NodeTopology) else None
    if report is None:
        return None
    uids = {uid_hash(pod.metadata.uid): pod.metadata.uid for pod in facts.pods_on(name)}
    # What nothing is known of but that it holds something goes on holding it.
    return replace(report, pods={uids.get(one, one): held for one, held in report.pods.items()})
