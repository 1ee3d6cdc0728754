"""Nodes to draw: small, large and odd ones, with pods on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from numakube.api.codec import encode, to_tree
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeStatus
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.apps.bundle import pack
from numakube.insight.collected import Collected, list_file
from numakube.insight.facts import ClusterFacts
from numakube.insight.node_map.picture import NodePicture
from numakube.insight.node_map.picture_from_facts import picture_of_counts
from numakube.insight.node_map.picture_from_report import picture_of_report
from numakube.insight.node_map.planned_picture import compared
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Machine
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.topology.exact_report import uid_hash
from numakube.topology.model_report import nrt_of, report_of
from numakube.topology.topology_view import NodeTopology, view_of
from numakube.values.cpuset import CpuSet

GIB = 1 << 30
SMALL = "2 sockets, 4 cores, smt 2, 32Gi, gpu 2"
LARGE = "2 sockets, 4 numa each, 16 cores, smt 2, uncore 8, 128Gi, hugepages-1Gi 8, gpu 1, nic 2"
EXPANDED = "2 sockets, 8 cores, smt 2, 64Gi, 2 cxl 128Gi, gpu 2@-"


def named(name: str, **resources: str) -> Pod:
    """Return a pod of namespace ``team`` that asks for *resources* (``gpu`` in short)."""
    full = {_resource(key): value for key, value in resources.items()}
    asked = ResourceRequirements(requests=full, limits=full) if full else None
    return Pod(
        metadata=ObjectMeta(name=name, namespace="team", uid=f"uid of {name}"),
        spec=PodSpec(containers=(Container(name="app", resources=asked),)),
    )


def _resource(key: str) -> str:
    native = key in ("cpu", "memory") or key.startswith("hugepages")
    return key.replace("_", "-") if native else f"vendor.example/{key}"


def kubelet(
    machine: str | Machine,
    *,
    reserved: str = "0",
    policy: str = "single-numa-node",
    options: dict[str, str] | None = None,
) -> KubeletNode:
    """Return a kubelet with all managers on, 1 GiB of each zone with CPUs reserved."""
    parsed = from_shape(machine) if isinstance(machine, str) else machine
    kept = {node.id: {"memory": GIB} for node in parsed.nodes if node.cores}
    settings = KubeletSettings(
        topology_policy=policy,
        cpu_policy="static",
        cpu_options=options or {},
        reserved_cpus=CpuSet.parse(reserved),
        memory_policy="Static",
        reserved_memory=kept,
    )
    return KubeletNode(parsed, settings)


def admitted(node: KubeletNode, *pods: Pod) -> KubeletNode:
    """Let *node* admit all of *pods*, and return it."""
    for pod in pods:
        outcome = node.admit(pod)
        assert isinstance(outcome, Admitted), outcome
    return node


def picture(name: str, node: KubeletNode, *pods: Pod) -> NodePicture:
    """Return the picture of *node* after it admitted *pods*."""
    admitted(node, *pods)
    names = {uid_hash(pod.metadata.uid): pod.metadata.key for pod in pods}
    ids = {kind: [device.id for device in some] for kind, some in node.machine.devices.items()}
    return picture_of_report(name, report_of(node), pods=names, device_ids=ids)


def small() -> NodePicture:
    """Two zones, two pods."""
    web = named("web", cpu="2", memory="4Gi")
    trainer = named("trainer", cpu="4", memory="8Gi", gpu="1")
    return picture("worker-1", kubelet(SMALL), web, trainer)


def large() -> NodePicture:
    """256 CPUs in eight zones with GPUs and network cards, twenty pods."""
    node = kubelet(LARGE, reserved="0,128,16,144", options={"full-pcpus-only": "true"})
    trainers = [named(f"trainer-{n}", cpu="8", memory="24Gi", gpu="1", nic="1") for n in range(5)]
    stores = [named(f"store-{n}", cpu="4", memory="40Gi") for n in range(6)]
    caches = [named(f"cache-{n}", cpu="2", memory="8Gi") for n in range(9)]
    return picture("gpu-node-17.eu-west.example", node, *trainers, *stores, *caches)


def expanded() -> NodePicture:
    """Zones without CPUs, and devices without zone."""
    pods = named("a", cpu="4", memory="8Gi"), named("b", cpu="6", memory="8Gi", gpu="1")
    return picture("cxl", kubelet(EXPANDED), *pods)


def with_holes() -> NodePicture:
    """NUMA ids 0 and 8, four threads a core."""
    node = kubelet("power9-2s", reserved="0-3")
    return picture("power", node, named("a", cpu="16", memory="1Gi"))


def partly_offline() -> NodePicture:
    """A machine whose CPUs 3 and 5 are switched off."""
    machine = from_shape("1 socket, 4 cores, smt 2, numbering adjacent, 16Gi")
    cores = tuple(
        replace(core, threads=tuple(cpu for cpu in core.threads if cpu not in (3, 5)))
        for core in machine.nodes[0].cores
    )
    bare = replace(machine, nodes=(replace(machine.nodes[0], cores=cores),), cpu_count=6)
    return picture("offline", kubelet(bare), named("a", cpu="2", memory="1Gi"))


def facts(nodes: dict[str, KubeletNode], *pods: Pod, exact: bool = True) -> ClusterFacts:
    """Return a cluster of *nodes*; pods name their node, and need not be known to its kubelet."""
    return ClusterFacts(
        taken_at="2026-01-01T00:00:00Z",
        nodes={name: _object(name) for name in nodes},
        pods=pods,
        topologies={name: nrt_of(name, node, exact=exact) for name, node in nodes.items()},
    )


def _object(name: str) -> Node:
    roomy = {"cpu": "1000", "memory": "10Ti", "pods": "110", "vendor.example/gpu": "100"}
    return Node(
        metadata=ObjectMeta(name=name, labels={"pool": name.partition("-")[0]}),
        status=NodeStatus(allocatable=roomy),
    )


def on(node: str, one: Pod) -> Pod:
    """Return the pod, bound to *node*."""
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, node_name=node))


def bundle(path: Path, cluster: ClusterFacts) -> Path:
    """Write the objects of *cluster* as a bundle, and return where."""
    lists = {
        "nodes": cluster.nodes.values(),
        "pods": cluster.pods,
        "noderesourcetopologies": cluster.topologies.values(),
    }
    files = {
        list_file(plural): encode({"items": [to_tree(wire) for wire in objects]})
        for plural, objects in lists.items()
    }
    path.write_bytes(pack(Collected(cluster.taken_at, files)))
    return path


def counts() -> NodePicture:
    """Return a node of which amounts are known only."""
    node = admitted(kubelet(SMALL), named("web", cpu="2", memory="4Gi"))
    view = view_of(nrt_of("counts", node, exact=False))
    assert isinstance(view, NodeTopology)
    return picture_of_counts(view)


def plan() -> NodePicture:
    """Return a node from which a pod is taken and to which another comes."""
    after = picture(
        "worker-1",
        kubelet(SMALL),
        named("trainer", cpu="4", memory="8Gi", gpu="1"),
        named("other", cpu="6", memory="16Gi", gpu="2"),
    )
    return compared(small(), after)
