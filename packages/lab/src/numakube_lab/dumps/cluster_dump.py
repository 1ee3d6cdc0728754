"""What was dumped of a real cluster, for a lab with nodes like it.

A dump is what ``kubectl get nodes,pods,noderesourcetopologies -o yaml`` prints (with ``-A`` for all
pods), or a bundle of ``kubectl numa bundle``, which has the kubelets' configurations besides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from numakube.api.codec import convert
from numakube.api.kubelet_config import KubeletConfiguration, decode_configz
from numakube.api.nodes import Node
from numakube.api.nrt import NodeResourceTopology, convert_nrt
from numakube.api.nrt_update import NodeResourceTopologyUpdate
from numakube.api.yaml_text import load_manifests
from numakube.apps import unpack
from numakube.errors import MalformedObject
from numakube.insight import (
    NODES,
    PODS,
    TOPOLOGIES,
    TOPOLOGY_UPDATES,
    Collected,
    configz_file,
    list_file,
)
from numakube.insight.node_setup import observed_node
from numakube.topology import current_reports
from numakube.values.quantity import value
from numakube_lab.nodes.node_documents import STORAGE, STORAGE_BYTES, NodePlan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_GZIP: Final = b"\x1f\x8b"
_KINDS: Final = {
    NODES: "Node",
    TOPOLOGIES: "NodeResourceTopology",
    TOPOLOGY_UPDATES: "NodeResourceTopologyUpdate",
    PODS: "Pod",
}


@dataclass(frozen=True, slots=True)
class Dump:
    """What is known of a cluster.

    Attributes:
        topologies: by the name of their node.
        pods: as they were written.
        configs: of kubelets, by the name of their node.
    """

    nodes: tuple[Node, ...]
    topologies: Mapping[str, NodeResourceTopology]
    pods: tuple[Mapping[str, Any], ...] = ()
    configs: Mapping[str, KubeletConfiguration] = field(
        default_factory=lambda: MappingProxyType({})
    )


def read_dump(content: bytes, subject: str) -> Dump:
    """Return what is in the file *subject*.

    Raises:
        MalformedObject: it is no dump, and no bundle.
    """
    if content.startswith(_GZIP):
        return _from_bundle(content, subject)
    try:
        documents = load_manifests(content.decode(), subject)
    except (UnicodeDecodeError, MalformedObject):
        raise _neither(subject) from None
    return dump_of(documents, subject)


def dump_of(documents: Iterable[Mapping[str, Any]], subject: str) -> Dump:
    """Return what *documents* tell; those of other kinds are passed over."""
    found: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in _KINDS.values()}
    for document in documents:
        found.get(str(document.get("kind")), []).append(document)
    if not found["Node"]:
        raise MalformedObject(subject, "has no objects of kind Node")
    topologies = map(convert_nrt, found["NodeResourceTopology"])
    updates = (
        convert(NodeResourceTopologyUpdate, one) for one in found["NodeResourceTopologyUpdate"]
    )
    return Dump(
        nodes=tuple(convert(Node, one) for one in found["Node"]),
        topologies={
            report.metadata.name: report for report in current_reports(topologies, updates)
        },
        pods=tuple(found["Pod"]),
    )


def _from_bundle(content: bytes, subject: str) -> Dump:
    try:
        collected = unpack(content, name=subject)
    except MalformedObject:
        raise _neither(subject) from None
    dump = dump_of(_documents(collected, subject), subject)
    return Dump(dump.nodes, dump.topologies, dump.pods, dict(_configs(collected, dump.nodes)))


def _documents(collected: Collected, subject: str) -> Iterable[Mapping[str, Any]]:
    for plural, kind in _KINDS.items():
        text = collected.files.get(list_file(plural), b"")
        # The items of a list that an API server gives do not name their kind.
        for document in load_manifests(text, f"{subject}: {list_file(plural)}") if text else ():
            yield {**document, "kind": kind}


def _configs(
    collected: Collected, nodes: Iterable[Node]
) -> Iterable[tuple[str, KubeletConfiguration]]:
    for node in nodes:
        name = node.metadata.name
        if content := collected.files.get(configz_file(name)):
            yield name, decode_configz(content, configz_file(name))


def _neither(subject: str) -> MalformedObject:
    return MalformedObject(
        subject,
        "neither a dump of a cluster (kubectl get nodes,pods,noderesourcetopologies -A -o yaml) "
        "nor a bundle (kubectl numa bundle)",
    )


def plans_of(
    dump: Dump, words: Mapping[str, str], *, kubernetes: str | None = None
) -> tuple[NodePlan, ...]:
    """Return a plan for each node of *dump*; *words* and *kubernetes* go before what it says."""
    return tuple(_plan(node, dump, words, kubernetes) for node in dump.nodes)


def _plan(node: Node, dump: Dump, words: Mapping[str, str], kubernetes: str | None) -> NodePlan:
    name = node.metadata.name
    seen = observed_node(
        node, dump.topologies.get(name), dump.configs.get(name), words=words, kubernetes=kubernetes
    )
    disk = node.status.capacity.get(STORAGE)
    return NodePlan(
        name=name,
        machine=seen.machine,
        config=seen.config,
        kubernetes=seen.kubernetes,
        labels=seen.labels,
        taints=seen.taints,
        unschedulable=node.spec.unschedulable,
        ephemeral_storage_bytes=STORAGE_BYTES if disk is None else value(disk),
    )
