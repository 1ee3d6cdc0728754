"""Odd data, pods in other states than waiting, and pods of odd shapes."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from tests.insight.explain.case import Case, case, crowded

from numakube.api.affinity_and_taints import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    Taint,
)
from numakube.api.meta import LabelSelector, Lease, ObjectMeta
from numakube.api.nrt import Attribute, NodeResourceTopology, Zone
from numakube.api.pod import (
    Container,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodCondition,
    PodResourceClaim,
    PodStatus,
    Volume,
)
from numakube.api.storage_objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
    VolumeNodeAffinity,
)
from numakube.insight.explain import manifest_subject, pod_subject
from numakube.insight.list_reading import Unreadable
from numakube.testing import World, kubelet_settings, pod, rejected, resources
from numakube.topology import nrt_names
from numakube.topology.fingerprint import ContainerName, Placement, encode_placement


@case
def stale_data() -> Case:
    """The exporter itself says that its data is old."""
    world = World()
    world.add_node("node-a")
    stale = {"node-a": {nrt_names.STALE: "the kubelet does not answer"}}
    return Case(world.facts(attributes=stale), pod_subject(pod("web")))


@case
def no_scheduler() -> Case:
    """Nobody serves the scheduler that the pod names; one of a similar name leads."""
    world = World()
    world.add_node("node-a")
    lease = Lease(metadata=ObjectMeta(name="numakube-scheduler", namespace="numakube"))
    lost = pod("web", scheduler_name="numa-scheduler")
    return Case(world.facts(leases=(lease,)), pod_subject(lost))


@case
def mistyped_device() -> Case:
    """No node offers such a device, but one that is called nearly so, and another one."""
    world = World()
    world.add_node("node-a", machine="2 sockets, 4 cores, 16Gi, sriov_netdevice 2, gpu 2")
    asked = pod("web", also={"vendor.example/sriov_netdevic": "1"})
    return Case(world.facts(), pod_subject(asked))


@case
def room_without_zones() -> Case:
    """The node with a report is full; the other one has room, and no report."""
    world = World()
    for name in ("node-a", "node-b"):
        world.add_node(name)
    for number in range(2):
        world.run(pod(f"busy-{number}", cpu="7", memory="1Gi"), "node-a")
    facts = world.facts()
    known = {name: one for name, one in facts.topologies.items() if name == "node-a"}
    return Case(replace(facts, topologies=known), pod_subject(pod("web")))


@case
def no_data() -> Case:
    """Nobody reports; the pod is placed blindly."""
    world = World()
    world.add_node("node-a")
    facts = replace(world.facts(), topologies={})
    return Case(facts, pod_subject(pod("web")))


@case
def unusable_report() -> Case:
    """The report cannot be read, so the node is one without data."""
    world = World()
    world.add_node("node-a")
    zone = Zone(name="left-half", type="Node")
    broken = NodeResourceTopology(metadata=ObjectMeta(name="node-a"), zones=(zone,))
    world.topologies["node-a"] = broken
    return Case(world.facts(), pod_subject(pod("web", cpu="20")))


@case
def fractional_cpu() -> Case:
    """It fits, but is aligned nowhere."""
    world = World()
    world.add_node("node-a")
    return Case(world.facts(), pod_subject(pod("half", cpu="1500m")))


@case
def not_guaranteed() -> Case:
    """It fits, but is aligned nowhere."""
    world = World()
    world.add_node("node-a")
    return Case(world.facts(), pod_subject(pod("burst", cpu="4", guaranteed=False)))


@case
def rejected_by_kubelet() -> Case:
    """The kubelet refused it, and would do so again."""
    made = crowded("single-numa-node", "container")
    failed = rejected(
        made.subject.pod,
        "node-a",
        "TopologyAffinityError",
        "Pod was rejected: Resources cannot be allocated with Topology locality",
    )
    return Case(made.facts, pod_subject(failed))


@case
def rejected_and_fits_now() -> Case:
    """The kubelet refused it; meanwhile there is room."""
    world = World()
    world.add_node("node-a")
    failed = rejected(
        pod("again", gpu=1),
        "node-a",
        "UnexpectedAdmissionError",
        "Pod was rejected: Allocate failed due to requested number of devices unavailable",
    )
    return Case(world.facts(), pod_subject(failed))


@case
def runs_aligned() -> Case:
    """Why there, and aligned how well."""
    world = World()
    world.add_node("node-a")
    there = world.run(pod("web", cpu="4", gpu=1), "node-a")
    return Case(world.facts(), pod_subject(there))


@case
def runs_and_cannot_be_resized() -> Case:
    """A static CPU Manager leaves its pods as they were admitted."""
    world = World()
    world.add_node("node-a")
    there = world.run(pod("web", cpu="2"), "node-a")
    assert there.status is not None
    refused = PodCondition(
        type="PodResizePending",
        status="True",
        reason="Infeasible",
        message='Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"',
    )
    status = msgspec.structs.replace(there.status, conditions=(refused,))
    world.pods[-1] = msgspec.structs.replace(there, status=status)
    return Case(world.facts(), pod_subject(world.pods[-1]))


@case
def no_answer_from_a_kubelet_of_many_zones() -> Case:
    """It would try every set of 34 NUMA nodes."""
    world = World()
    options = {"max-allowable-numa-nodes": "34"}
    settings = kubelet_settings("restricted", topology_options=options)
    world.add_node("tray", machine="gb200-nvl4", settings=settings)
    return Case(world.facts(), pod_subject(pod("web", cpu="2")))


@case
def runs_spread() -> Case:
    """It had to be spread when it came; now there is a better place."""
    world = World()
    world.add_node("node-a", "best-effort")
    world.add_node("node-b", "best-effort")
    world.run(pod("one", cpu="5"), "node-a")
    world.run(pod("two", cpu="5"), "node-a")
    there = world.run(pod("wide", cpu="4"), "node-a")
    return Case(world.facts(), pod_subject(there))


@case
def manifest_of_another_scheduler() -> Case:
    """A pod that is not created yet, and is for the default scheduler."""
    world = World()
    world.add_node("node-a")
    unreadable = (Unreadable("persistentvolumes", "not allowed: no"),)
    planned = msgspec.structs.replace(pod("new", cpu="10"), metadata=ObjectMeta(name="new"))
    spec = msgspec.structs.replace(planned.spec, scheduler_name="")
    facts = world.facts(unreadable=unreadable)
    return Case(facts, manifest_subject(msgspec.structs.replace(planned, spec=spec)))


@case
def many_nodes() -> Case:
    """One screen on many nodes with several reasons."""
    world = World()
    for number in range(40):
        world.add_node(f"small-{number:02}", machine="2 sockets, 2 cores, 8Gi")
    for number in range(12):
        tainted = (Taint(key="dedicated", value=f"team-{number % 2}", effect="NoSchedule"),)
        world.add_node(f"team-{number:02}", taints=tainted)
    world.add_node("full")
    world.run(pod("holder", cpu="4"), "full")
    world.run(pod("other", cpu="4"), "full")
    return Case(world.facts(), pod_subject(pod("wide", cpu="6")))


@case
def whole_cores() -> Case:
    """The report itself says that the kubelet gives out whole cores only."""
    world = World()
    world.add_node("node-a", settings=kubelet_settings(cpu_options={"full-pcpus-only": "true"}))
    told = {"node-a": {"cpuManagerOptionFullPcpusOnly": "true"}}
    return Case(world.facts(attributes=told), pod_subject(pod("odd", cpu="3")))


@case
def all_zones_too_small() -> Case:
    """The node promises more CPUs than its zones have to give."""
    world = World()
    world.add_node("node-a", settings=kubelet_settings("best-effort", reserved="0-3"))
    node = world.nodes["node-a"]
    status = msgspec.structs.replace(
        node.status, allocatable={**node.status.allocatable, "cpu": "16"}
    )
    world.nodes["node-a"] = msgspec.structs.replace(node, status=status)
    return Case(world.facts(), pod_subject(pod("wide", cpu="14")))


@case
def unreported_resource() -> Case:
    """The kubelet aligns CPUs, but no zone tells of them."""
    world = World()
    world.add_node("node-a")
    facts = world.facts(exact=False)
    report = facts.topologies["node-a"]
    zones = tuple(
        msgspec.structs.replace(
            zone, resources=tuple(resource for resource in zone.resources if resource.name != "cpu")
        )
        for zone in report.zones
    )
    world.topologies["node-a"] = msgspec.structs.replace(report, zones=zones)
    return Case(world.facts(), pod_subject(pod("web")))


@case
def init_container() -> Case:
    """The init container is wider than a zone."""
    world = World()
    world.add_node("node-a")
    one = pod("prepared", cpu="2")
    wide = Container(name="prepare", resources=resources({"cpu": "10", "memory": "1Gi"}))
    spec = msgspec.structs.replace(one.spec, init_containers=(wide,))
    return Case(world.facts(), pod_subject(msgspec.structs.replace(one, spec=spec)))


@case
def sidecar() -> Case:
    """The sidecar takes the zone that the container would need."""
    world = World()
    world.add_node("node-a", machine="1 socket, 4 cores, smt 2, 16Gi")
    one = pod("assisted", cpu="6")
    beside = Container(
        name="proxy", resources=resources({"cpu": "2", "memory": "1Gi"}), restart_policy="Always"
    )
    spec = msgspec.structs.replace(one.spec, init_containers=(beside,))
    return Case(world.facts(), pod_subject(msgspec.structs.replace(one, spec=spec)))


@case
def on_its_way() -> Case:
    """A pod that was just bound, and is in no report yet, counts where it will be."""
    world = World()
    world.add_node("node-a")
    world.run(pod("first", cpu="6"), "node-a")
    coming = pod("second", cpu="6")
    world.pods.append(
        msgspec.structs.replace(
            coming, spec=msgspec.structs.replace(coming.spec, node_name="node-a")
        )
    )
    return Case(world.facts(), pod_subject(pod("third", cpu="3")))


@case
def placement_vectors() -> Case:
    """Another producer names the zone of each container."""
    world = World()
    world.add_node("node-a")
    world.run(pod("left", cpu="6"), "node-a")
    world.run(pod("right", cpu="6"), "node-a")
    places = {
        ContainerName("default", "left", "main"): 0,
        ContainerName("default", "right", "main"): 1,
    }
    placement = encode_placement(places, numa_nodes=2)
    assert isinstance(placement, Placement)
    facts = world.facts(exact=False)
    report = facts.topologies["node-a"]
    zones = tuple(_with_vector(zone, placement) for zone in report.zones)
    attribute = Attribute(name=nrt_names.PLACEMENT_METADATA, value=placement.metadata)
    world.topologies["node-a"] = msgspec.structs.replace(
        report, zones=zones, attributes=(*report.attributes, attribute)
    )
    return Case(world.facts(), pod_subject(pod("third", cpu="3")))


def _with_vector(zone: Zone, placement: Placement) -> Zone:
    vector = placement.vectors.get(int(zone.name.removeprefix("node-")))
    if vector is None:
        return zone
    added = Attribute(name=nrt_names.PLACEMENT_VECTOR, value=vector)
    return msgspec.structs.replace(zone, attributes=(*zone.attributes, added))


@case
def devices_without_cpu_manager() -> Case:
    """Only devices are aligned: two resources that are in different zones."""
    nic = "vendor.example/nic"
    world = World()
    world.add_node("node-a", machine="2 sockets, 4 cores, 16Gi, gpu 1, nic 1")
    world.run(pod("gpu", cpu="1", gpu=1), "node-a")
    world.run(pod("nic", cpu="4", also={nic: "1"}), "node-a")
    wanted = pod("both", cpu="1", gpu=1, also={nic: "1"})
    return Case(world.facts(), pod_subject(wanted))


@case
def existing_anti_affinity() -> Case:
    """A pod that is there does not want to have it near."""
    world = World()
    world.add_node("node-a")
    term = PodAffinityTerm(
        topology_key="kubernetes.io/hostname",
        label_selector=LabelSelector(match_labels={"app": "web"}),
    )
    affinity = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    world.run(pod("loner", affinity=affinity), "node-a")
    return Case(world.facts(), pod_subject(pod("web", labels={"app": "web"})))


@case
def volume_unbound() -> Case:
    """The claim waits for a volume."""
    world = World()
    world.add_node("node-a")
    spec = PersistentVolumeClaimSpec(storage_class_name="slow")
    meta = ObjectMeta(name="data", namespace="default")
    world.objects.claims["default/data"] = PersistentVolumeClaim(metadata=meta, spec=spec)
    slow = StorageClass(metadata=ObjectMeta(name="slow"), volume_binding_mode="Immediate")
    world.objects.storage_classes["slow"] = slow
    return Case(world.facts(), pod_subject(_with_claim(pod("db"))))


@case
def volume_elsewhere() -> Case:
    """The volume can be used from another node only."""
    world = World()
    world.add_node("node-a")
    meta = ObjectMeta(
        name="data", namespace="default", annotations={"pv.kubernetes.io/bind-completed": "yes"}
    )
    claim = PersistentVolumeClaim(metadata=meta, spec=PersistentVolumeClaimSpec(volume_name="pv"))
    world.objects.claims["default/data"] = claim
    only = NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=("node-b",))
    there = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(only,)),))
    spec = PersistentVolumeSpec(node_affinity=VolumeNodeAffinity(required=there))
    world.objects.volumes["pv"] = PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec)
    return Case(world.facts(), pod_subject(_with_claim(pod("db"))))


def _with_claim(one: Pod) -> Pod:
    source = PersistentVolumeClaimVolumeSource(claim_name="data")
    volume = Volume(name="data", persistent_volume_claim=source)
    spec = msgspec.structs.replace(one.spec, volumes=(volume,))
    return msgspec.structs.replace(one, spec=spec)


@case
def resource_claims() -> Case:
    """A claim that does not exist is waited for."""
    world = World()
    world.add_node("node-a")
    claims = (PodResourceClaim(name="gpu", resource_claim_name="one"),)
    return Case(world.facts(), pod_subject(pod("dra", resource_claims=claims)))


@case
def node_affinity() -> Case:
    """A required affinity matches no node."""
    world = World()
    world.add_node("node-a", labels={"generation": "3"})
    newer = NodeSelectorRequirement(key="generation", operator="Gt", values=("3",))
    there = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(newer,)),))
    affinity = Affinity(node_affinity=NodeAffinity(required=there))
    return Case(world.facts(), pod_subject(pod("modern", affinity=affinity)))


@case
def pod_level_resources() -> Case:
    """Resources of the pod as a whole are not aligned without a feature gate."""
    world = World()
    world.add_node("node-a")
    one = pod("shared")
    level = resources({"cpu": "4", "memory": "2Gi"})
    spec = msgspec.structs.replace(one.spec, resources=level, containers=(Container(name="a"),))
    return Case(world.facts(), pod_subject(msgspec.structs.replace(one, spec=spec)))


@case
def room_for_somebody_else() -> Case:
    """The room is kept for a more important pod that is about to come."""
    world = World()
    world.add_node("node-a", machine="1 socket, 4 cores, 16Gi")
    first = pod("important", cpu="3", priority=100)
    status = PodStatus(phase="Pending", nominated_node_name="node-a")
    world.pods.append(msgspec.structs.replace(first, status=status))
    return Case(world.facts(), pod_subject(pod("other", cpu="2")))


@case
def no_nodes() -> Case:
    """An empty cluster."""
    return Case(World().facts(), pod_subject(pod("web")))


@case
def manifest_with_node_name() -> Case:
    """No scheduler looks at it: the kubelet of that node decides."""
    world = World()
    world.add_node("node-a")
    world.add_node("node-b")
    planned = pod("pinned", cpu="10", node_name="node-b")
    return Case(world.facts(), manifest_subject(planned))


@case
def two_obstacles() -> Case:
    """A taint, and behind it no room."""
    world = World()
    world.add_node("node-a", taints=(Taint(key="dedicated", value="db", effect="NoSchedule"),))
    return Case(world.facts(), pod_subject(pod("wide", cpu="10")))
