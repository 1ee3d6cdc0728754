"""Each way in which alignment by annotations and labels can be refused, and where it is not."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from tests.insight.explain.case import Case, case

from numakube.api.koordinator import keys
from numakube.api.koordinator.devices import (
    GPU,
    GPU_CORE,
    GPU_MEMORY_RATIO,
    RDMA,
    RDMA_SHARE,
    DeviceCr,
    DeviceInfo,
    DeviceSpec,
    DeviceTopology,
)
from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, Pod, ResourceRequirements
from numakube.insight.explain import pod_subject
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.testing import World, pod, resources, running

SINGLE = "SingleNUMANode"
SHAPE = "2 sockets, 4 cores, smt 2, 16Gi"
UNALIGNED = KubeletSettings(memory_reservation={"memory": 1 << 30})


def wish(name: str, cpu: str = "6", policy: str = SINGLE, **more: Any) -> Pod:
    """Return a pod with a policy of its own; ``bound`` gives it CPUs of its own."""
    spec = {"numaTopologyPolicy": policy, **more.pop("spec", {})}
    annotations = {keys.NUMA_TOPOLOGY_SPEC: json.dumps(spec), **more.pop("annotations", {})}
    labels = {}
    if more.pop("bound", False):
        labels = {keys.QOS_CLASS: "LSR", keys.PRIORITY_CLASS: "koord-prod"}
    return pod(name, cpu=cpu, labels=labels, annotations=annotations, **more)


def world(*nodes: str, **more: Any) -> World:
    """Return a cluster whose kubelets align nothing."""
    found = World()
    for name in nodes or ("node-a",):
        found.add_node(name, machine=SHAPE, settings=UNALIGNED, **more)
    return found


def hold(found: World, name: str, node: str, status: str) -> None:
    """Let a pod run that a scheduler gave something."""
    one = pod(name, cpu="5", annotations={keys.RESOURCE_STATUS: status})
    found.pods.append(running(one, node))


def on_zone(zone: int, cpu: int) -> str:
    """Return a result: CPU of one NUMA node."""
    return json.dumps({"numaNodeResources": [{"node": zone, "resources": {"cpu": str(cpu)}}]})


@case
def level_bad_wish() -> Case:
    """The annotation has a word that means nothing."""
    return Case(world().facts(), pod_subject(wish("typo", policy="SingleNuma")))


@case
def level_policy_conflict() -> Case:
    """The label says Restricted, the pod SingleNUMANode."""
    found = world(labels={keys.NODE_POLICY: "Restricted"})
    return Case(found.facts(), pod_subject(wish("strict")))


@case
def level_scope_conflict() -> Case:
    """The label says container, the pod pod."""
    found = world(labels={keys.NODE_POLICY: SINGLE, keys.NODE_SCOPE: "container"})
    return Case(found.facts(), pod_subject(wish("whole", spec={"numaTopologyScope": "pod"})))


@case
def level_kubelet_policy() -> Case:
    """A kubelet is at work, by another policy."""
    found = World()
    found.add_node("node-a", "restricted", labels={keys.NODE_POLICY: SINGLE})
    return Case(found.facts(), pod_subject(wish("strict")))


@case
def level_kubelet_scope() -> Case:
    """A kubelet is at work, by another scope."""
    found = World()
    found.add_node("node-a", "single-numa-node", "container")
    return Case(found.facts(), pod_subject(wish("whole", spec={"numaTopologyScope": "pod"})))


@case
def level_no_zones() -> Case:
    """Nobody reports the node."""
    found = world()
    found.kubelets.clear()
    return Case(found.facts(), pod_subject(wish("blind")))


@case
def level_no_cpu_layout() -> Case:
    """Counts do not tell which CPUs there are."""
    found = world()
    return Case(found.facts(exact=False), pod_subject(wish("pinned", bound=True)))


@case
def level_not_whole_cpus() -> Case:
    """The node binds everybody's CPUs, and the pod wants a fraction."""
    found = world(labels={keys.NODE_BIND_POLICY: "SpreadByPCPUs"})
    return Case(found.facts(), pod_subject(pod("fraction", cpu="1500m")))


@case
def level_not_whole_cores() -> Case:
    """The node gives out whole cores only."""
    found = world(labels={keys.NODE_BIND_POLICY: "FullPCPUsOnly"})
    return Case(found.facts(), pod_subject(pod("odd", cpu="3")))


@case
def level_bind_conflict() -> Case:
    """The node spreads, the pod insists on whole cores."""
    found = world(labels={keys.NODE_BIND_POLICY: "SpreadByPCPUs"})
    spec = {keys.RESOURCE_SPEC: '{"requiredCPUBindPolicy":"FullPCPUs"}'}
    return Case(found.facts(), pod_subject(wish("full", cpu="4", annotations=spec, bound=True)))


@case
def level_amplified_cpu() -> Case:
    """The node says it has twice its CPUs, and most of them are bound."""
    found = world(annotations={keys.NODE_AMPLIFICATION: '{"cpu":2}'})
    node = found.nodes["node-a"]
    status = msgspec.structs.replace(
        node.status, allocatable={**node.status.allocatable, "cpu": "32"}
    )
    found.nodes["node-a"] = msgspec.structs.replace(node, status=status)
    one = pod("pinned", cpu="14", annotations={keys.RESOURCE_STATUS: '{"cpuset":"0-13"}'})
    found.pods.append(running(one, "node-a"))
    return Case(found.facts(), pod_subject(pod("plain", cpu="6")))


@case
def level_too_few_cpus() -> Case:
    """No policy, but CPUs of its own, and nearly all are taken."""
    found = world()
    hold(found, "pinned", "node-a", '{"cpuset":"0-12"}')
    return Case(found.facts(), pod_subject(wish("late", cpu="6", policy="", bound=True)))


@case
def level_zones_too_small() -> Case:
    """What is placed leaves too little in both NUMA nodes together."""
    found = world(labels={keys.NODE_POLICY: "BestEffort"})
    hold(found, "one", "node-a", on_zone(0, 6))
    hold(found, "two", "node-a", on_zone(1, 6))
    return Case(found.facts(), pod_subject(pod("late", cpu="6")))


@case
def level_unsatisfied() -> Case:
    """Both NUMA nodes together have too little."""
    found = world()
    hold(found, "one", "node-a", on_zone(0, 6))
    hold(found, "two", "node-a", on_zone(1, 6))
    return Case(found.facts(), pod_subject(wish("late", cpu="5")))


@case
def level_unaligned() -> Case:
    """There is enough, but not in one place."""
    found = world("node-a", "node-b")
    for name in ("node-a", "node-b"):
        for zone in (0, 1):
            hold(found, f"{name}-{zone}", name, on_zone(zone, 5))
    return Case(found.facts(), pod_subject(wish("wide", cpu="5")))


@case
def level_unaligned_pair() -> Case:
    """Two containers fit one NUMA node each, but not one together."""
    pair = wish("pair")
    five = resources({"cpu": "5", "memory": "1Gi"})
    containers = (Container(name="one", resources=five), Container(name="two", resources=five))
    spec = msgspec.structs.replace(pair.spec, containers=containers)
    return Case(world().facts(), pod_subject(msgspec.structs.replace(pair, spec=spec)))


@case
def level_exclusive() -> Case:
    """A pod across both NUMA nodes keeps out those that want one to themselves."""
    found = world()
    both = [{"node": zone, "resources": {"cpu": "1"}} for zone in (0, 1)]
    hold(found, "across", "node-a", json.dumps({"numaNodeResources": both}))
    return Case(found.facts(), pod_subject(wish("alone", cpu="2")))


@case
def level_restricted() -> Case:
    """A container that cannot be had in the same NUMA nodes as its GPUs."""
    found = devices(world(), [(GPU, 0), (GPU, 1)])
    hold(found, "one", "node-a", on_zone(0, 7))
    return Case(found.facts(), pod_subject(gpus("aligned", 2, cpu="10", policy="Restricted")))


@case
def level_devices() -> Case:
    """All GPUs are taken or ill."""
    found = devices(world(), [(GPU, 0)], ill=True)
    return Case(found.facts(), pod_subject(gpus("render", 1, cpu="2")))


@case
def level_joint_devices() -> Case:
    """The card is on another switch than the GPU, and the pod insists."""
    found = devices(world(), [(GPU, 0), (RDMA, 1)])
    joint = {keys.DEVICE_JOINT_ALLOCATE: json.dumps(
        {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}
    )}  # fmt: skip
    also = {"koordinator.sh/gpu": "100", RDMA_SHARE: "100"}
    one = pod("joint", cpu="2", annotations=joint, also=also)
    return Case(found.facts(), pod_subject(one))


@case
def level_device_closeness() -> Case:
    """The card is below another PCIe root than the GPU."""
    found = devices(world(), [(GPU, 0), (RDMA, 0)])
    also = {"koordinator.sh/gpu": "100", RDMA_SHARE: "100"}
    one = pod("train", cpu="2", annotations={"numakube.dev/closeness": "same-root"}, also=also)
    return Case(found.facts(), pod_subject(one))


@case
def level_no_gpu_partitions() -> Case:
    """The node gives GPUs by partitions, and its Device lists none."""
    found = partitioned()
    return Case(found.facts(), pod_subject(gpus("train", 2, cpu="2", policy="BestEffort")))


@case
def level_gpu_partition_size() -> Case:
    """No partition has as many GPUs as the pod wants."""
    found = partitioned((0, 1), (2, 3))
    return Case(found.facts(), pod_subject(gpus("train", 3, cpu="2", policy="BestEffort")))


@case
def level_gpu_partitions() -> Case:
    """Two GPUs are free, but not two that can be linked."""
    found = partitioned((0, 1), (2, 3))
    held = {"gpu": [{"minor": one, "resources": {GPU_CORE: "100", GPU_MEMORY_RATIO: "100"}}
                    for one in (0, 2)]}  # fmt: skip
    other = pod("other", cpu="2", annotations={keys.DEVICE_ALLOCATED: json.dumps(held)})
    found.pods.append(running(other, "node-a"))
    return Case(found.facts(), pod_subject(gpus("train", 2, cpu="2", policy="BestEffort")))


@case
def level_fits() -> Case:
    """The scheduler gives one NUMA node and CPUs, the sidecar is left out."""
    found = world(labels={keys.NODE_POLICY: SINGLE, keys.NODE_SCOPE: "container"})
    hold(found, "one", "node-a", '{"cpuset":"0-2,8-10"}')
    main = wish("served", cpu="4", bound=True)
    uneven = ResourceRequirements(
        requests={"cpu": "100m", "memory": "64Mi"}, limits={"cpu": "1", "memory": "64Mi"}
    )
    containers = (*main.spec.containers, Container(name="sidecar", resources=uneven))
    spec = msgspec.structs.replace(main.spec, containers=containers)
    return Case(found.facts(), pod_subject(msgspec.structs.replace(main, spec=spec)))


@case
def level_runs() -> Case:
    """Each container was given a NUMA node of its own."""
    found = world(labels={keys.NODE_POLICY: SINGLE, keys.NODE_SCOPE: "container"})
    parts = [
        {
            "name": name,
            "cpuset": cpus,
            "numaNodeResources": [{"node": zone, "resources": {"cpu": 4}}],
        }
        for name, cpus, zone in (("main", "0-1,8-9", 0), ("second", "4-5,12-13", 1))
    ]
    both = [{"node": zone, "resources": {"cpu": "4"}} for zone in (0, 1)]
    status = {"cpuset": "0-1,4-5,8-9,12-13", "numaNodeResources": both, "containers": parts}
    main = wish("pair", cpu="4", bound=True, annotations={keys.RESOURCE_STATUS: json.dumps(status)})
    (one,) = main.spec.containers
    containers = (one, msgspec.structs.replace(one, name="second"))
    spec = msgspec.structs.replace(main.spec, containers=containers)
    there = running(msgspec.structs.replace(main, spec=spec), "node-a")
    found.pods.append(there)
    return Case(found.facts(), pod_subject(there))


def gpus(name: str, count: int, **more: Any) -> Pod:
    """Return a pod that wants GPUs."""
    return wish(name, also={"koordinator.sh/gpu": str(100 * count)}, **more)


def devices(found: World, places: list[tuple[str, int]], *, ill: bool = False) -> World:
    """Let node-a publish devices, each on a switch and NUMA node of its own."""
    sizes = {GPU: {GPU_CORE: "100", GPU_MEMORY_RATIO: "100"}, RDMA: {RDMA_SHARE: "100"}}
    infos = tuple(
        DeviceInfo(
            type=kind,
            minor=minor,
            health=not ill,
            resources=sizes[kind],
            topology=DeviceTopology(node_id=numa, pcie_id=f"pci{minor}", bus_id=f"{minor}"),
        )
        for minor, (kind, numa) in enumerate(places)
    )
    found.objects.devices["node-a"] = DeviceCr(
        metadata=ObjectMeta(name="node-a"), spec=DeviceSpec(devices=infos)
    )
    node = found.nodes["node-a"]
    offered = {**node.status.allocatable, "koordinator.sh/gpu": "800", RDMA_SHARE: "800"}
    status = msgspec.structs.replace(node.status, allocatable=offered)
    found.nodes["node-a"] = msgspec.structs.replace(node, status=status)
    return found


def partitioned(*sets: tuple[int, ...]) -> World:
    """Return a node that gives four GPUs in these sets only."""
    found = devices(world(), [(GPU, 0), (GPU, 0), (GPU, 1), (GPU, 1)])
    table: dict[str, list[dict[str, object]]] = {}
    for minors in sets:
        one = {"minors": list(minors), "gpuLinkType": "NVLink", "ringBusBandwidth": "400Gi"}
        table.setdefault(str(len(minors)), []).append({**one, "allocationScore": 1})
    device = found.objects.devices["node-a"]
    metadata = ObjectMeta(
        name="node-a",
        labels={keys.GPU_PARTITION_POLICY: "Honor"},
        annotations={keys.GPU_PARTITIONS: json.dumps(table)} if table else {},
    )
    found.objects.devices["node-a"] = msgspec.structs.replace(device, metadata=metadata)
    return found
