"""Each policy, manager and predicate that can refuse a pod."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from tests.insight.explain.case import Case, case, crowded

from numakube.api.affinity_and_taints import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    Taint,
    TopologySpreadConstraint,
)
from numakube.api.meta import LabelSelector, OwnerReference
from numakube.api.pod import (
    Container,
    ContainerPort,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodSchedulingGate,
    Volume,
)
from numakube.api.strictness import CLOSENESS, MISSING_DATA, REQUIRED_POLICY, WEAKER_POLICY
from numakube.insight.explain import pod_subject
from numakube.testing import World, kubelet_settings, pod, resources


@case
def single_numa_node_container() -> Case:
    """Six CPUs are free, but not in one zone."""
    return crowded("single-numa-node", "container")


@case
def single_numa_node_pod() -> Case:
    """Each container fits, the pod does not."""
    world = World()
    world.add_node("node-a", "single-numa-node", "pod")
    two = resources({"cpu": "5", "memory": "1Gi"})
    wide = pod("pair")
    spec = msgspec.structs.replace(
        wide.spec,
        containers=(Container(name="one", resources=two), Container(name="two", resources=two)),
    )
    return Case(world.facts(), pod_subject(msgspec.structs.replace(wide, spec=spec)))


@case
def restricted_container() -> Case:
    """One zone could do, so two are refused."""
    return crowded("restricted", "container")


@case
def restricted_pod() -> Case:
    """The same for the pod as a whole."""
    return crowded("restricted", "pod")


@case
def restricted_sizes() -> Case:
    """CPUs need two zones, the GPU one: policy restricted never accepts that."""
    world = World()
    world.add_node("node-a", "restricted")
    return Case(world.facts(), pod_subject(pod("uneven", cpu="10", memory="1Gi", gpu=1)))


@case
def strict_pod() -> Case:
    """One node has no report, the other a weaker policy than the pod asks for (B21)."""
    world = World()
    world.add_node("node-a", "single-numa-node")
    world.add_node("node-b", "best-effort")
    facts = world.facts()
    unknown = replace(facts, topologies={"node-b": facts.topologies["node-b"]})
    strict = pod("strict")
    words = {
        MISSING_DATA: "Refuse",
        REQUIRED_POLICY: "single-numa-node",
        WEAKER_POLICY: "Refuse",
    }
    metadata = msgspec.structs.replace(strict.metadata, annotations=words)
    return Case(unknown, pod_subject(msgspec.structs.replace(strict, metadata=metadata)))


@case
def best_effort_fits() -> Case:
    """The same pod is taken, unaligned."""
    return crowded("best-effort", "container")


@case
def none_policy_node_full() -> Case:
    """Nothing is aligned; the node as a whole has too little."""
    world = World()
    world.add_node("node-a", "none")
    world.run(pod("big", cpu="12", memory="4Gi"), "node-a")
    return Case(world.facts(), pod_subject(pod("late", cpu="6", memory="2Gi")))


@case
def counts_only() -> Case:
    """Without exact data the holders are not known."""
    return crowded("single-numa-node", "container", exact=False)


@case
def cpu_full_cores() -> Case:
    """The kubelet gives out whole cores only."""
    world = World()
    world.add_node("node-a", settings=kubelet_settings(cpu_options={"full-pcpus-only": "true"}))
    return Case(world.facts(), pod_subject(pod("odd", cpu="3")))


@case
def cpu_full_cores_left_over() -> Case:
    """Counts suffice, but siblings of reserved CPUs make no whole cores."""
    world = World()
    settings = kubelet_settings(reserved="0,1", cpu_options={"full-pcpus-only": "true"})
    world.add_node("node-a", settings=settings)
    world.run(pod("zone-b", cpu="8"), "node-a")
    return Case(world.facts(), pod_subject(pod("last", cpu="6")))


@case
def memory() -> Case:
    """No zone has the memory."""
    world = World()
    world.add_node("node-a")
    world.run(pod("zone-a", cpu="1", memory="10Gi"), "node-a")
    world.run(pod("zone-b", cpu="1", memory="10Gi"), "node-a")
    return Case(world.facts(), pod_subject(pod("hungry", cpu="1", memory="8Gi")))


@case
def hugepages() -> Case:
    """No zone has the hugepages."""
    world = World()
    world.add_node("node-a", machine="2 sockets, 4 cores, 16Gi, hugepages-2Mi 1024")
    wanted = pod("pages", cpu="1", also={"hugepages-2Mi": "3Gi"})
    return Case(world.facts(), pod_subject(wanted))


@case
def devices() -> Case:
    """A GPU is left in one zone, the CPUs in the other."""
    world = World()
    world.add_node("node-a")
    world.run(pod("gpus", cpu="1", gpu=2), "node-a")
    world.run(pod("cpus", cpu="8"), "node-a")
    return Case(world.facts(), pod_subject(pod("both", cpu="4", gpu=1)))


@case
def devices_exhausted() -> Case:
    """All GPUs are taken; a less important pod has some."""
    world = World()
    world.add_node("node-a")
    world.run(pod("keeps", cpu="1", gpu=2, priority=1000), "node-a")
    world.run(pod("yields", cpu="1", gpu=2, priority=10), "node-a")
    return Case(world.facts(), pod_subject(pod("urgent", cpu="1", gpu=1, priority=100)))


@case
def bigger_than_any_zone() -> Case:
    """Not even an idle zone has that many CPUs."""
    world = World()
    world.add_node("node-a")
    world.add_node("node-b")
    return Case(world.facts(), pod_subject(pod("too-wide", cpu="10")))


@case
def bigger_than_any_node() -> Case:
    """No node has it."""
    world = World()
    world.add_node("node-a")
    return Case(world.facts(), pod_subject(pod("huge", cpu="64", memory="1Ti")))


@case
def taint() -> Case:
    """The pod does not tolerate the node."""
    world = World()
    world.add_node("node-a", taints=(Taint(key="dedicated", value="db", effect="NoSchedule"),))
    return Case(world.facts(), pod_subject(pod("web")))


@case
def cordoned() -> Case:
    """The node is cordoned."""
    world = World()
    world.add_node("node-a", unschedulable=True)
    return Case(world.facts(), pod_subject(pod("web")))


@case
def selector() -> Case:
    """No node has the label."""
    world = World()
    world.add_node("node-a", labels={"disk": "hdd"})
    return Case(world.facts(), pod_subject(pod("db", node_selector={"disk": "ssd"})))


@case
def host_port() -> Case:
    """The port is taken on the only node."""
    world = World()
    world.add_node("node-a")
    ports = (ContainerPort(container_port=80, host_port=8080),)
    first, second = pod("first"), pod("second")
    world.run(_with_ports(first, ports), "node-a")
    return Case(world.facts(), pod_subject(_with_ports(second, ports)))


def _with_ports(one: Pod, ports: tuple[ContainerPort, ...]) -> Pod:
    containers = (msgspec.structs.replace(one.spec.containers[0], ports=ports),)
    spec = msgspec.structs.replace(one.spec, containers=containers)
    return msgspec.structs.replace(one, spec=spec)


@case
def resource_fit() -> Case:
    """The requests of pods that hold nothing exclusive fill the node."""
    world = World()
    world.add_node("node-a")
    world.run(pod("shared", cpu="14", guaranteed=False), "node-a")
    return Case(world.facts(), pod_subject(pod("late", cpu="2")))


@case
def volume_claim_missing() -> Case:
    """The claim does not exist."""
    world = World()
    world.add_node("node-a")
    claim = PersistentVolumeClaimVolumeSource(claim_name="data")
    volume = Volume(name="data", persistent_volume_claim=claim)
    return Case(world.facts(), pod_subject(pod("db", volumes=(volume,))))


@case
def topology_spread() -> Case:
    """Too many of them are in the only zone with room."""
    world = World()
    world.add_node("node-a", labels={"rack": "1"})
    world.add_node("node-b", labels={"rack": "2"}, unschedulable=True)
    world.run(pod("web-1", labels={"app": "web"}), "node-a")
    rule = TopologySpreadConstraint(
        max_skew=1,
        topology_key="rack",
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": "web"}),
    )
    wanted = pod("web-2", labels={"app": "web"}, topology_spread_constraints=(rule,))
    return Case(world.facts(), pod_subject(wanted))


@case
def pod_anti_affinity() -> Case:
    """A pod like it is there already."""
    world = World()
    world.add_node("node-a")
    world.run(pod("db-1", labels={"app": "db"}), "node-a")
    term = PodAffinityTerm(
        topology_key="kubernetes.io/hostname",
        label_selector=LabelSelector(match_labels={"app": "db"}),
    )
    affinity = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    return Case(world.facts(), pod_subject(pod("db-2", labels={"app": "db"}, affinity=affinity)))


@case
def pod_affinity() -> Case:
    """Nobody is there that it wants to be near to."""
    world = World()
    world.add_node("node-a")
    term = PodAffinityTerm(
        topology_key="kubernetes.io/hostname",
        label_selector=LabelSelector(match_labels={"app": "cache"}),
    )
    affinity = Affinity(pod_affinity=PodAffinity(required=(term,)))
    return Case(world.facts(), pod_subject(pod("web", affinity=affinity)))


@case
def scheduling_gates() -> Case:
    """Somebody holds it back on purpose."""
    world = World()
    world.add_node("node-a")
    gates = (PodSchedulingGate(name="example.com/quota"),)
    return Case(world.facts(), pod_subject(pod("held", scheduling_gates=gates)))


HGX = "2 sockets, 4 numa each, 24 cores, 200Gi, gpu 1"
"""Eight zones with a GPU each."""


@case
def eight_zones_ask_for_more() -> Case:
    """All GPUs need eight zones, the rest of the pod seven."""
    world = World()
    world.add_node("node-a", "restricted", machine=HGX)
    return Case(world.facts(), pod_subject(pod("train", cpu="160", memory="1200Gi", gpu=8)))


@case
def eight_zones_differ() -> Case:
    """Each zone has something else left; the table is no wider for it."""
    world = World()
    world.add_node("node-a", machine=HGX)
    for number, cpu in enumerate((3, 5, 5, 8, 13, 13, 20, 20, 17, 17)):
        world.run(pod(f"p-{number}", cpu=str(cpu), memory=f"{10 * cpu}Gi"), "node-a")
    return Case(world.facts(), pod_subject(pod("wide", cpu="22", memory="4Gi", gpu=1)))


@case
def eight_zones_fit() -> Case:
    """It takes several zones, as it may; no zone lacks anything then."""
    world = World()
    world.add_node("node-a", "restricted", machine=HGX)
    return Case(world.facts(), pod_subject(pod("train", cpu="170", memory="1410Gi", gpu=8)))


@case
def not_offered() -> Case:
    """Nobody has such devices, nor such pages."""
    world = World()
    for name in ("node-a", "node-b"):
        world.add_node(name)
    also = {"vendor.example/nic": "1", "hugepages-1Gi": "2Gi"}
    return Case(world.facts(), pod_subject(pod("dpdk", cpu="4", also=also)))


@case
def sibling() -> Case:
    """A replica of the same set would wait instead; another pod would not."""
    world = World()
    world.add_node("node-a")
    owner = OwnerReference(
        api_version="apps/v1", kind="ReplicaSet", name="web", uid="web", controller=True
    )
    for number in range(2):
        world.run(owned(pod(f"web-{number}", cpu="7", memory="6Gi"), owner), "node-a")
    return Case(world.facts(), pod_subject(owned(pod("web-2", cpu="7", memory="6Gi"), owner)))


def owned(one: Pod, owner: OwnerReference) -> Pod:
    """Return a pod that *owner* has made."""
    metadata = msgspec.structs.replace(one.metadata, owner_references=(owner,))
    return msgspec.structs.replace(one, metadata=metadata)


def _with_devices(closeness: str) -> Pod:
    """Return a pod with a GPU and a network card that are to be close."""
    wanted = {"cpu": "2", "memory": "1Gi", "vendor.example/gpu": "1", "vendor.example/nic": "1"}
    one = pod("train", annotations={CLOSENESS: closeness})
    main = Container(name="main", resources=resources(wanted))
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, containers=(main,)))


@case
def devices_too_far_apart() -> Case:
    """Every GPU and every card has a host bridge to itself."""
    world = World()
    world.add_node("node-a", machine="2 sockets, 8 cores, 16Gi, gpu 2, nic 2, 2 slots")
    return Case(world.facts(), pod_subject(_with_devices("same-switch")))


@case
def devices_close_by_luck() -> Case:
    """Each switch has a GPU and a card; the kubelet takes any of the NUMA node."""
    world = World()
    world.add_node("node-a", machine="2 sockets, 8 cores, 16Gi, gpu 2, nic 2, 2 switches")
    return Case(world.facts(), pod_subject(_with_devices("same-switch")))
