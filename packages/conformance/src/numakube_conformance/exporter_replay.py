"""Answer recorded scans of the Resource Topology Exporter (``vectors/exporter.jsonl``).

A case has a machine, the two PodResources answers and the exporter's options; the answer has the
recorded shape. ``expected`` is what RTE v0.24 publishes, ``expectedV025`` the attributes of v0.25,
which also tells NUMA placement.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from numakube.apps.exporter import Hardware, NodeInputs, ReportOptions, ScanCause
from numakube.apps.exporter.node_scan import KubeletFacts
from numakube.apps.exporter.numa_hardware import ZoneHardware
from numakube.apps.exporter.report import topology_of
from numakube.apps.exporter.report_options import (
    Accounting,
    PodPattern,
    Problem,
    ReferenceContainer,
    Trouble,
)
from numakube.node import AllocatableResources, ContainerResources, Devices, Memory, PodResources
from numakube.values.cpuset import CpuSet
from numakube.values.resources import hugepage_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.nrt import Attribute, Zone
    from numakube.apps.exporter import Report
    from numakube.apps.exporter.report import ReportedPod

KIB: Final = 1024
# Changes of the Node object after which RTE reads its resources again, if told to.
_REFRESHING: Final = ("capacity", "allocatable")

Tree = dict[str, Any]


def answer(row: Mapping[str, Any], *, accounting: Accounting = Accounting.KUBELET) -> Tree:
    """Return what we publish for the case *row*, in the recorded shape."""
    inputs = _inputs(row)
    options = _options(row["options"], accounting)
    cause = ScanCause(row["options"]["trigger"])
    report = topology_of(inputs, options, cause=cause)
    result = {"id": row["id"], **_both(report, "expected")}
    if "refresh" in row:
        later = topology_of(_refreshed(inputs, row), options, cause=cause)
        result |= _both(later, "expectedAfterRefresh")
    if "panic" in row:
        result["problems"] = [problem.detail for problem in report.problems]
    return result


def unhandled(row: Mapping[str, Any], ours: Mapping[str, Any]) -> list[str]:
    """Return what is missing in our answer to a case on which RTE fails.

    Each NUMA node of the machine must be a zone with its resources, and there must be a word about
    what is wrong.
    """
    zones = {zone["name"] for zone in ours["expected"]["zones"] if "resources" in zone}
    nodes = [f"node-{node['id']}" for node in row["machine"]["numaNodes"] or ()]
    missing = [f"zone {name} is missing" for name in nodes if name not in zones]
    odd = set(row["tags"]) - {"numa-id-holes", "device-numa-minus-one"}
    return missing if ours["problems"] or not odd else [*missing, "no problem is reported"]


def _inputs(row: Mapping[str, Any]) -> NodeInputs:
    kubelet = row["kubelet"]
    return NodeInputs(
        hardware=_hardware(row["machine"]),
        allocatable=_allocatable(row["allocatable"]),
        pods=_pods(row["list"]),
        kubelet=KubeletFacts(
            topology_policy=kubelet["topologyManagerPolicy"],
            topology_scope=kubelet["topologyManagerScope"],
        ),
    )


def _refreshed(inputs: NodeInputs, row: Mapping[str, Any]) -> NodeInputs:
    change = row["refresh"]
    later = replace(inputs, pods=_pods(change["list"]))
    if row["options"]["refreshNodeResources"] and change["nodeChange"] in _REFRESHING:
        return replace(
            later,
            hardware=_hardware(change["machine"]),
            allocatable=_allocatable(change["allocatable"]),
        )
    return later


def _hardware(machine: Tree) -> Hardware:
    nodes = sorted(machine["numaNodes"] or (), key=lambda node: int(node["id"]))
    problems = []
    for node in nodes:
        where = f"node-{node['id']}"
        if node["distances"] is None:
            problems.append(Problem(Trouble.NO_DISTANCES, f"{where}: there is no distance file"))
        if node["hugepages"] is None:
            problems.append(Problem(Trouble.NO_HUGEPAGES, f"{where}: no hugepages directory"))
    return Hardware(zones=tuple(map(_zone, nodes)), problems=tuple(problems))


def _zone(node: Tree) -> ZoneHardware:
    pools = node["hugepages"]
    return ZoneHardware(
        id=node["id"],
        cpus=CpuSet.of(cpu for core in node["cores"] for cpu in core["cpus"]),
        offline_cpus=CpuSet.of(node["offlineCpus"]),
        memory_bytes=node["memTotalKB"] * KIB,
        hugepages=None if pools is None else dict(map(_pool, pools)),
        distances=None if node["distances"] is None else tuple(node["distances"]),
    )


def _pool(pool: Tree) -> tuple[str, int]:
    size = pool["sizeKB"] * KIB
    return hugepage_name(size), size * pool["total"]


def _allocatable(message: Tree) -> AllocatableResources:
    return AllocatableResources(
        cpu_ids=tuple(message.get("cpu_ids", ())),
        memory=tuple(map(_memory, message.get("memory", ()))),
        devices=tuple(map(_devices, message.get("devices", ()))),
    )


def _pods(message: Tree) -> tuple[PodResources, ...]:
    return tuple(
        PodResources(
            name=pod.get("name", ""),
            namespace=pod.get("namespace", ""),
            containers=tuple(map(_container, pod.get("containers", ()))),
        )
        for pod in message.get("pod_resources", ())
    )


def _container(message: Tree) -> ContainerResources:
    return ContainerResources(
        name=message.get("name", ""),
        cpu_ids=tuple(message.get("cpu_ids", ())),
        memory=tuple(map(_memory, message.get("memory", ()))),
        devices=tuple(map(_devices, message.get("devices", ()))),
    )


def _memory(message: Tree) -> Memory:
    return Memory(message.get("memory_type", ""), message.get("size", 0), _numa_nodes(message))


def _devices(message: Tree) -> Devices:
    ids = tuple(message.get("device_ids", ()))
    return Devices(message.get("resource_name", ""), ids, _numa_nodes(message))


def _numa_nodes(message: Tree) -> tuple[int, ...]:
    nodes = (message.get("topology") or {}).get("nodes", ())
    return tuple(node.get("ID", 0) for node in nodes)


def _options(recorded: Tree, accounting: Accounting) -> ReportOptions:
    return ReportOptions(
        node_name=recorded["nodeName"],
        watch_namespace=recorded["watchNamespace"],
        resource_exclude={
            node: tuple(resources) for node, resources in recorded["resourceExclude"].items()
        },
        pod_exclude=tuple(
            PodPattern(entry["namespacePattern"], entry["namePattern"])
            for entry in recorded["podExclude"]
        ),
        reference_container=ReferenceContainer.parse(recorded["referenceContainer"]),
        fingerprint=recorded["podSetFingerprint"],
        fingerprint_method=recorded["podSetFingerprintMethod"],
        # The recordings tell nothing that exact data could be made of.
        exact=False,
        accounting=accounting,
    )


def _both(report: Report, key: str) -> Tree:
    """Return the answer in both versions: the older one knows no placement."""
    older = [
        attribute for attribute in report.attributes if not attribute.name.startswith(_PLACEMENT)
    ]
    return {
        key: {
            "annotations": dict(report.annotations),
            "attributes": _attributes(older),
            "zones": [_zone_tree(zone) for zone in report.zones],
            "fingerprints": dict(report.fingerprints),
            "pods": [_pod_tree(pod) for pod in report.pods],
        },
        f"{key}V025": {
            "attributes": _attributes(report.attributes),
            "zoneAttributes": {
                zone.name: _attributes(zone.attributes) for zone in report.zones if zone.attributes
            },
        },
    }


_PLACEMENT: Final = "topology.node.k8s.io/numaplacement"


def _attributes(attributes: Iterable[Attribute]) -> list[Tree]:
    return [{"name": attribute.name, "value": attribute.value} for attribute in attributes]


def _zone_tree(zone: Zone) -> Tree:
    tree: Tree = {"name": zone.name, "type": zone.type}
    if zone.costs:
        tree["costs"] = [{"name": cost.name, "value": cost.value} for cost in zone.costs]
    if zone.resources:
        tree["resources"] = [
            {
                "name": resource.name,
                "capacity": resource.capacity,
                "allocatable": resource.allocatable,
                "available": resource.available,
            }
            for resource in zone.resources
        ]
    return tree


def _pod_tree(pod: ReportedPod) -> Tree:
    tree: Tree = {"namespace": pod.namespace, "name": pod.name, "exclusive": bool(pod.exclusive)}
    if pod.exclusive:
        if pod.exclusive.container:
            tree["container"] = pod.exclusive.container
        tree["reason"] = pod.exclusive.reason
    return tree
