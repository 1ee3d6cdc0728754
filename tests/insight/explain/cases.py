"""One case for every way in which a pod can be refused, and a few in which it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
from tests.insight.explain.town import GPU, SCHEDULER, Town, pod, rejected, resources

from numakube.api.core import (
    Affinity,
    Container,
    ContainerPort,
    ObjectMeta,
    Pod,
    PodResourceClaim,
    PodSchedulingGate,
    PodStatus,
    Taint,
    TopologySpreadConstraint,
    Volume,
)
from numakube.api.meta import LabelSelector
from numakube.api.nrt import Attribute, NodeResourceTopology, Zone
from numakube.api.placement import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
)
from numakube.api.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    StorageClass,
    VolumeNodeAffinity,
)
from numakube.api.volumes import (
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource,
)
from numakube.insight.explain import Subject, manifest_subject, pod_subject
from numakube.insight.facts import ClusterFacts
from numakube.insight.unreadable import Unreadable
from numakube.topology import names
from numakube.topology.placement import ContainerName, Placement, encode_placement


@dataclass(frozen=True)
class Case:
    """A cluster and a pod in it."""

    facts: ClusterFacts
    subject: Subject


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    """Register a case under the name of its function."""
    CASES[make.__name__.replace("_", "-")] = make
    return make


def crowded(policy: str, scope: str, *, exact: bool = True) -> Case:
    """Two nodes, each zone half taken; the pod fits on a node, but not as the policy wants."""
    town = Town()
    for name in ("node-a", "node-b"):
        town.add(name, policy, scope)
        for number in range(2):
            town.run(pod(f"{name}-{number}", cpu="4", memory="6Gi"), name)
    return Case(town.facts(exact=exact), pod_subject(pod("wide", cpu="6", memory="2Gi")))


@case
def single_numa_node_container() -> Case:
    """Six CPUs are free, but not in one zone."""
    return crowded("single-numa-node", "container")


@case
def single_numa_node_pod() -> Case:
    """Each container fits, the pod does not."""
    town = Town()
    town.add("node-a", "single-numa-node", "pod")
    two = resources({"cpu": "5", "memory": "1Gi"})
    wide = pod("pair")
    spec = msgspec.structs.replace(
        wide.spec,
        containers=(Container(name="one", resources=two), Container(name="two", resources=two)),
    )
    return Case(town.facts(), pod_subject(msgspec.structs.replace(wide, spec=spec)))


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
    town = Town()
    town.add("node-a", "restricted")
    return Case(town.facts(), pod_subject(pod("uneven", cpu="10", memory="1Gi", gpu=1)))


@case
def best_effort_fits() -> Case:
    """The same pod is taken, unaligned."""
    return crowded("best-effort", "container")


@case
def none_policy_node_full() -> Case:
    """Nothing is aligned; the node as a whole has too little."""
    town = Town()
    town.add("node-a", "none")
    town.run(pod("big", cpu="12", memory="4Gi"), "node-a")
    return Case(town.facts(), pod_subject(pod("late", cpu="6", memory="2Gi")))


@case
def counts_only() -> Case:
    """Without exact data the holders are not known."""
    return crowded("single-numa-node", "container", exact=False)


@case
def cpu_full_cores() -> Case:
    """The kubelet gives out whole cores only."""
    town = Town()
    town.add("node-a", cpu_options={"full-pcpus-only": "true"})
    return Case(town.facts(), pod_subject(pod("odd", cpu="3")))


@case
def cpu_full_cores_left_over() -> Case:
    """Counts suffice, but siblings of reserved CPUs make no whole cores."""
    town = Town()
    town.add("node-a", cpu_options={"full-pcpus-only": "true"}, reserved="0,1")
    town.run(pod("zone-b", cpu="8"), "node-a")
    return Case(town.facts(), pod_subject(pod("last", cpu="6")))


@case
def memory() -> Case:
    """No zone has the memory."""
    town = Town()
    town.add("node-a")
    town.run(pod("zone-a", cpu="1", memory="10Gi"), "node-a")
    town.run(pod("zone-b", cpu="1", memory="10Gi"), "node-a")
    return Case(town.facts(), pod_subject(pod("hungry", cpu="1", memory="8Gi")))


@case
def hugepages() -> Case:
    """No zone has the hugepages."""
    town = Town()
    town.add("node-a", shape="2 sockets, 4 cores, 16Gi, hugepages-2Mi 1024")
    wanted = pod("pages", cpu="1", also={"hugepages-2Mi": "3Gi"})
    return Case(town.facts(), pod_subject(wanted))


@case
def devices() -> Case:
    """A GPU is left in one zone, the CPUs in the other."""
    town = Town()
    town.add("node-a")
    town.run(pod("gpus", cpu="1", gpu=2), "node-a")
    town.run(pod("cpus", cpu="8"), "node-a")
    return Case(town.facts(), pod_subject(pod("both", cpu="4", gpu=1)))


@case
def devices_exhausted() -> Case:
    """All GPUs are taken; a less important pod has some."""
    town = Town()
    town.add("node-a")
    town.run(pod("keeps", cpu="1", gpu=2, priority=1000), "node-a")
    town.run(pod("yields", cpu="1", gpu=2, priority=10), "node-a")
    return Case(town.facts(), pod_subject(pod("urgent", cpu="1", gpu=1, priority=100)))


@case
def bigger_than_any_zone() -> Case:
    """Not even an idle zone has that many CPUs."""
    town = Town()
    town.add("node-a")
    town.add("node-b")
    return Case(town.facts(), pod_subject(pod("too-wide", cpu="10")))


@case
def bigger_than_any_node() -> Case:
    """No node has it."""
    town = Town()
    town.add("node-a")
    return Case(town.facts(), pod_subject(pod("huge", cpu="64", memory="1Ti")))


@case
def taint() -> Case:
    """The pod does not tolerate the node."""
    town = Town()
    town.add("node-a", taints=(Taint(key="dedicated", value="db", effect="NoSchedule"),))
    return Case(town.facts(), pod_subject(pod("web")))


@case
def cordoned() -> Case:
    """The node is cordoned."""
    town = Town()
    town.add("node-a", unschedulable=True)
    return Case(town.facts(), pod_subject(pod("web")))


@case
def selector() -> Case:
    """No node has the label."""
    town = Town()
    town.add("node-a", labels={"disk": "hdd"})
    return Case(town.facts(), pod_subject(pod("db", node_selector={"disk": "ssd"})))


@case
def host_port() -> Case:
    """The port is taken on the only node."""
    town = Town()
    town.add("node-a")
    ports = (ContainerPort(container_port=80, host_port=8080),)
    first, second = pod("first"), pod("second")
    town.run(_with_ports(first, ports), "node-a")
    return Case(town.facts(), pod_subject(_with_ports(second, ports)))


def _with_ports(one: Pod, ports: tuple[ContainerPort, ...]) -> Pod:
    containers = (msgspec.structs.replace(one.spec.containers[0], ports=ports),)
    spec = msgspec.structs.replace(one.spec, containers=containers)
    return msgspec.structs.replace(one, spec=spec)


@case
def resource_fit() -> Case:
    """The requests of pods that hold nothing exclusive fill the node."""
    town = Town()
    town.add("node-a")
    town.run(pod("shared", cpu="14", guaranteed=False), "node-a")
    return Case(town.facts(), pod_subject(pod("late", cpu="2")))


@case
def volume_claim_missing() -> Case:
    """The claim does not exist."""
    town = Town()
    town.add("node-a")
    claim = PersistentVolumeClaimVolumeSource(claim_name="data")
    volume = Volume(name="data", persistent_volume_claim=claim)
    return Case(town.facts(), pod_subject(pod("db", volumes=(volume,))))


@case
def topology_spread() -> Case:
    """Too many of them are in the only zone with room."""
    town = Town()
    town.add("node-a", labels={"rack": "1"})
    town.add("node-b", labels={"rack": "2"}, unschedulable=True)
    town.run(pod("web-1", labels={"app": "web"}), "node-a")
    rule = TopologySpreadConstraint(
        max_skew=1,
        topology_key="rack",
        when_unsatisfiable="DoNotSchedule",
        label_selector=LabelSelector(match_labels={"app": "web"}),
    )
    wanted = pod("web-2", labels={"app": "web"}, topology_spread_constraints=(rule,))
    return Case(town.facts(), pod_subject(wanted))


@case
def pod_anti_affinity() -> Case:
    """A pod like it is there already."""
    town = Town()
    town.add("node-a")
    town.run(pod("db-1", labels={"app": "db"}), "node-a")
    term = PodAffinityTerm(
        topology_key="kubernetes.io/hostname",
        label_selector=LabelSelector(match_labels={"app": "db"}),
    )
    affinity = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    return Case(town.facts(), pod_subject(pod("db-2", labels={"app": "db"}, affinity=affinity)))


@case
def pod_affinity() -> Case:
    """Nobody is there that it wants to be near to."""
    town = Town()
    town.add("node-a")
    term = PodAffinityTerm(
        topology_key="kubernetes.io/hostname",
        label_selector=LabelSelector(match_labels={"app": "cache"}),
    )
    affinity = Affinity(pod_affinity=PodAffinity(required=(term,)))
    return Case(town.facts(), pod_subject(pod("web", affinity=affinity)))


@case
def scheduling_gates() -> Case:
    """Somebody holds it back on purpose."""
    town = Town()
    town.add("node-a")
    gates = (PodSchedulingGate(name="example.com/quota"),)
    return Case(town.facts(), pod_subject(pod("held", scheduling_gates=gates)))


@case
def stale_data() -> Case:
    """The exporter itself says that its data is old."""
    town = Town()
    town.add("node-a")
    stale = {"node-a": {names.STALE: "the kubelet does not answer"}}
    return Case(town.facts(attributes=stale), pod_subject(pod("web")))


@case
def no_data() -> Case:
    """Nobody reports; the pod is placed blindly."""
    town = Town()
    town.add("node-a")
    facts = replace(town.facts(), topologies={})
    return Case(facts, pod_subject(pod("web")))


@case
def unusable_report() -> Case:
    """The report cannot be read, so the node is one without data."""
    town = Town()
    town.add("node-a")
    zone = Zone(name="left-half", type="Node")
    broken = NodeResourceTopology(metadata=ObjectMeta(name="node-a"), zones=(zone,))
    town.topologies["node-a"] = broken
    return Case(town.facts(), pod_subject(pod("web", cpu="20")))


@case
def fractional_cpu() -> Case:
    """It fits, but is aligned nowhere."""
    town = Town()
    town.add("node-a")
    return Case(town.facts(), pod_subject(pod("half", cpu="1500m")))


@case
def not_guaranteed() -> Case:
    """It fits, but is aligned nowhere."""
    town = Town()
    town.add("node-a")
    return Case(town.facts(), pod_subject(pod("burst", cpu="4", guaranteed=False)))


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
    town = Town()
    town.add("node-a")
    failed = rejected(
        pod("again", gpu=1),
        "node-a",
        "UnexpectedAdmissionError",
        "Pod was rejected: Allocate failed due to requested number of devices unavailable",
    )
    return Case(town.facts(), pod_subject(failed))


@case
def runs_aligned() -> Case:
    """Why there, and aligned how well."""
    town = Town()
    town.add("node-a")
    there = town.run(pod("web", cpu="4", gpu=1), "node-a")
    return Case(town.facts(), pod_subject(there))


@case
def runs_spread() -> Case:
    """It had to be spread when it came; now there is a better place."""
    town = Town()
    town.add("node-a", "best-effort")
    town.add("node-b", "best-effort")
    town.run(pod("one", cpu="5"), "node-a")
    town.run(pod("two", cpu="5"), "node-a")
    there = town.run(pod("wide", cpu="4"), "node-a")
    return Case(town.facts(), pod_subject(there))


@case
def manifest_of_another_scheduler() -> Case:
    """A pod that is not created yet, and is for the default scheduler."""
    town = Town()
    town.add("node-a")
    town.extra["unreadable"] = (Unreadable("persistentvolumes", "not allowed: no"),)
    planned = msgspec.structs.replace(pod("new", cpu="10"), metadata=ObjectMeta(name="new"))
    spec = msgspec.structs.replace(planned.spec, scheduler_name="")
    return Case(town.facts(), manifest_subject(msgspec.structs.replace(planned, spec=spec)))


@case
def many_nodes() -> Case:
    """One screen on many nodes with several reasons."""
    town = Town()
    for number in range(40):
        town.add(f"small-{number:02}", shape="2 sockets, 2 cores, 8Gi")
    for number in range(12):
        tainted = (Taint(key="dedicated", value=f"team-{number % 2}", effect="NoSchedule"),)
        town.add(f"team-{number:02}", taints=tainted)
    town.add("full")
    town.run(pod("holder", cpu="4"), "full")
    town.run(pod("other", cpu="4"), "full")
    return Case(town.facts(), pod_subject(pod("wide", cpu="6")))


@case
def whole_cores() -> Case:
    """The report itself says that the kubelet gives out whole cores only."""
    town = Town()
    town.add("node-a", cpu_options={"full-pcpus-only": "true"})
    told = {"node-a": {"cpuManagerOptionFullPcpusOnly": "true"}}
    return Case(town.facts(attributes=told), pod_subject(pod("odd", cpu="3")))


@case
def all_zones_too_small() -> Case:
    """The node promises more CPUs than its zones have to give."""
    town = Town()
    town.add("node-a", "best-effort", reserved="0-3")
    node = town.nodes["node-a"]
    status = msgspec.structs.replace(
        node.status, allocatable={**node.status.allocatable, "cpu": "16"}
    )
    town.nodes["node-a"] = msgspec.structs.replace(node, status=status)
    return Case(town.facts(), pod_subject(pod("wide", cpu="14")))


@case
def unreported_resource() -> Case:
    """The kubelet aligns CPUs, but no zone tells of them."""
    town = Town()
    town.add("node-a")
    facts = town.facts(exact=False)
    report = facts.topologies["node-a"]
    zones = tuple(
        msgspec.structs.replace(
            zone, resources=tuple(one for one in zone.resources if one.name != "cpu")
        )
        for zone in report.zones
    )
    town.topologies["node-a"] = msgspec.structs.replace(report, zones=zones)
    return Case(town.facts(), pod_subject(pod("web")))


@case
def init_container() -> Case:
    """The init container is wider than a zone."""
    town = Town()
    town.add("node-a")
    one = pod("prepared", cpu="2")
    wide = Container(name="prepare", resources=resources({"cpu": "10", "memory": "1Gi"}))
    spec = msgspec.structs.replace(one.spec, init_containers=(wide,))
    return Case(town.facts(), pod_subject(msgspec.structs.replace(one, spec=spec)))


@case
def sidecar() -> Case:
    """The sidecar takes the zone that the container would need."""
    town = Town()
    town.add("node-a", shape="1 socket, 4 cores, smt 2, 16Gi")
    one = pod("assisted", cpu="6")
    beside = Container(
        name="proxy", resources=resources({"cpu": "2", "memory": "1Gi"}), restart_policy="Always"
    )
    spec = msgspec.structs.replace(one.spec, init_containers=(beside,))
    return Case(town.facts(), pod_subject(msgspec.structs.replace(one, spec=spec)))


@case
def on_its_way() -> Case:
    """A pod that was just bound, and is in no report yet, counts where it will be."""
    town = Town()
    town.add("node-a")
    town.run(pod("first", cpu="6"), "node-a")
    coming = pod("second", cpu="6")
    town.pods.append(
        msgspec.structs.replace(
            coming, spec=msgspec.structs.replace(coming.spec, node_name="node-a")
        )
    )
    return Case(town.facts(), pod_subject(pod("third", cpu="3")))


@case
def placement_vectors() -> Case:
    """Another producer names the zone of each container."""
    town = Town()
    town.add("node-a")
    town.run(pod("left", cpu="6"), "node-a")
    town.run(pod("right", cpu="6"), "node-a")
    places = {
        ContainerName("default", "left", "main"): 0,
        ContainerName("default", "right", "main"): 1,
    }
    placement = encode_placement(places, numa_nodes=2)
    assert isinstance(placement, Placement)
    facts = town.facts(exact=False)
    report = facts.topologies["node-a"]
    zones = tuple(_with_vector(zone, placement) for zone in report.zones)
    attribute = Attribute(name=names.PLACEMENT_METADATA, value=placement.metadata)
    town.topologies["node-a"] = msgspec.structs.replace(
        report, zones=zones, attributes=(*report.attributes, attribute)
    )
    return Case(town.facts(), pod_subject(pod("third", cpu="3")))


def _with_vector(zone: Zone, placement: Placement) -> Zone:
    vector = placement.vectors.get(int(zone.name.removeprefix("node-")))
    if vector is None:
        return zone
    added = Attribute(name=names.PLACEMENT_VECTOR, value=vector)
    return msgspec.structs.replace(zone, attributes=(*zone.attributes, added))


@case
def devices_without_cpu_manager() -> Case:
    """Only devices are aligned: two resources that are in different zones."""
    nic = "vendor.example/nic"
    town = Town()
    town.add("node-a", shape="2 sockets, 4 cores, 16Gi, gpu 1, nic 1")
    town.run(pod("gpu", cpu="1", gpu=1), "node-a")
    town.run(pod("nic", cpu="4", also={nic: "1"}), "node-a")
    wanted = pod("both", cpu="1", gpu=1, also={nic: "1"})
    return Case(town.facts(), pod_subject(wanted))


@case
def existing_anti_affinity() -> Case:
    """A pod that is there does not want to have it near."""
    town = Town()
    town.add("node-a")
    term = PodAffinityTerm(
        topology_key="kubernetes.io/hostname",
        label_selector=LabelSelector(match_labels={"app": "web"}),
    )
    affinity = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    town.run(pod("loner", affinity=affinity), "node-a")
    return Case(town.facts(), pod_subject(pod("web", labels={"app": "web"})))


@case
def volume_unbound() -> Case:
    """The claim waits for a volume."""
    town = Town()
    town.add("node-a")
    spec = PersistentVolumeClaimSpec(storage_class_name="slow")
    meta = ObjectMeta(name="data", namespace="default")
    town.objects.claims["default/data"] = PersistentVolumeClaim(metadata=meta, spec=spec)
    slow = StorageClass(metadata=ObjectMeta(name="slow"), volume_binding_mode="Immediate")
    town.objects.storage_classes["slow"] = slow
    return Case(town.facts(), pod_subject(_with_claim(pod("db"))))


@case
def volume_elsewhere() -> Case:
    """The volume can be used from another node only."""
    town = Town()
    town.add("node-a")
    meta = ObjectMeta(
        name="data", namespace="default", annotations={"pv.kubernetes.io/bind-completed": "yes"}
    )
    claim = PersistentVolumeClaim(metadata=meta, spec=PersistentVolumeClaimSpec(volume_name="pv"))
    town.objects.claims["default/data"] = claim
    only = NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=("node-b",))
    there = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(only,)),))
    spec = PersistentVolumeSpec(node_affinity=VolumeNodeAffinity(required=there))
    town.objects.volumes["pv"] = PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec)
    return Case(town.facts(), pod_subject(_with_claim(pod("db"))))


def _with_claim(one: Pod) -> Pod:
    source = PersistentVolumeClaimVolumeSource(claim_name="data")
    volume = Volume(name="data", persistent_volume_claim=source)
    spec = msgspec.structs.replace(one.spec, volumes=(volume,))
    return msgspec.structs.replace(one, spec=spec)


@case
def resource_claims() -> Case:
    """Dynamic resource allocation is not scheduled here."""
    town = Town()
    town.add("node-a")
    claims = (PodResourceClaim(name="gpu", resource_claim_name="one"),)
    return Case(town.facts(), pod_subject(pod("dra", resource_claims=claims)))


@case
def node_affinity() -> Case:
    """A required affinity matches no node."""
    town = Town()
    town.add("node-a", labels={"generation": "3"})
    newer = NodeSelectorRequirement(key="generation", operator="Gt", values=("3",))
    there = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(newer,)),))
    affinity = Affinity(node_affinity=NodeAffinity(required=there))
    return Case(town.facts(), pod_subject(pod("modern", affinity=affinity)))


@case
def pod_level_resources() -> Case:
    """Resources of the pod as a whole are not aligned without a feature gate."""
    town = Town()
    town.add("node-a")
    one = pod("shared")
    level = resources({"cpu": "4", "memory": "2Gi"})
    spec = msgspec.structs.replace(one.spec, resources=level, containers=(Container(name="a"),))
    return Case(town.facts(), pod_subject(msgspec.structs.replace(one, spec=spec)))


@case
def room_for_somebody_else() -> Case:
    """The room is kept for a more important pod that is about to come."""
    town = Town()
    town.add("node-a", shape="1 socket, 4 cores, 16Gi")
    first = pod("important", cpu="3", priority=100)
    status = PodStatus(phase="Pending", nominated_node_name="node-a")
    town.pods.append(msgspec.structs.replace(first, status=status))
    return Case(town.facts(), pod_subject(pod("other", cpu="2")))


@case
def no_nodes() -> Case:
    """An empty cluster."""
    return Case(Town().facts(), pod_subject(pod("web")))


@case
def manifest_with_node_name() -> Case:
    """No scheduler looks at it: the kubelet of that node decides."""
    town = Town()
    town.add("node-a")
    town.add("node-b")
    planned = pod("pinned", cpu="10", node_name="node-b")
    return Case(town.facts(), manifest_subject(planned))


@case
def two_obstacles() -> Case:
    """A taint, and behind it no room."""
    town = Town()
    town.add("node-a", taints=(Taint(key="dedicated", value="db", effect="NoSchedule"),))
    return Case(town.facts(), pod_subject(pod("wide", cpu="10")))


__all__ = ["CASES", "GPU", "SCHEDULER", "Case"]
