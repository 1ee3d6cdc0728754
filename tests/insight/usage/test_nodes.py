"""Usage of nodes, of clusters and of pods."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from tests.insight.node_map import nodes

from numakube.api.nrt import Attribute, NodeResourceTopology
from numakube.api.pod import Pod
from numakube.insight.facts import ClusterFacts
from numakube.insight.usage.close_pairs import ClosePairs
from numakube.insight.usage.largest_pod import PodShape
from numakube.insight.usage.pod_alignment import Alignment, PodUsage, pod_usages
from numakube.insight.usage.usage_json import nodes_document, pods_document, zones_document
from numakube.insight.usage.zone_usage import cluster_usage, fragmentation_of, node_usage
from numakube.kubelet.machine import Closeness, Device
from numakube.topology import nrt_names
from numakube.topology.fingerprint import ContainerName, Placement, encode_placement, fingerprint_of
from numakube.topology.model_report import nrt_of

GIB = 1 << 30
GPU, NIC = "vendor.example/gpu", "vendor.example/nic"
FOUR_AND_FOUR = "2 sockets, 8 cores, smt 2, 64Gi, gpu 4"


def sprinkled() -> ClusterFacts:
    """Two GPUs of each zone are taken: four are free, and no pod of four fits."""
    pods = [nodes.on("n1", nodes.named(f"p{n}", cpu="4", memory="8Gi", gpu="2")) for n in range(2)]
    first, second = nodes.kubelet(FOUR_AND_FOUR), nodes.kubelet(FOUR_AND_FOUR)
    nodes.admitted(first, pods[0])
    nodes.admitted(second, nodes.named("filler", cpu="15", memory="1Gi"), pods[1])
    return nodes.facts({"n1": first, "n2": second}, *pods)


def test_a_node_adds_up_its_zones() -> None:
    """Allocatable, used and free."""
    node, zones = node_usage(sprinkled(), "n1")
    assert (node.policy, node.zones, node.exact) == ("single-numa-node", 2, True)
    assert node.allocatable == {"cpu": 31000, "memory": 126 * GIB, GPU: 8}
    assert node.used == {"cpu": 4000, "memory": 8 * GIB, GPU: 2}
    assert [zone.free[GPU] for zone in zones] == [2, 4]
    assert node.largest == PodShape(16, 63 * GIB)
    assert node.with_devices[GPU] == PodShape(16, 63 * GIB, {GPU: 4})


def test_a_device_near_two_zones_counts_once_on_the_node() -> None:
    """Each of the zones can give it out, but only one of them will."""
    kubelet = nodes.kubelet("2 sockets, 8 cores, smt 2, 64Gi")
    near_both = [Device(f"c{number}", (0, 1)) for number in range(2)]
    kubelet.register_devices(GPU, [Device("a", (0,)), Device("b", (1,)), *near_both])
    facts = nodes.facts({"n1": nodes.admitted(kubelet, nodes.named("p", cpu="2", gpu="2"))})

    node, zones = node_usage(facts, "n1")

    assert [(zone.free[GPU], zone.allocatable[GPU]) for zone in zones] == [(1, 3), (2, 3)]
    assert (node.free[GPU], node.allocatable[GPU]) == (2, 4)


def test_fragmentation_is_how_far_the_best_zone_is_from_what_one_could_have() -> None:
    """Two and two of four are half as good as four."""
    pods = [nodes.named(f"p{n}", cpu="9", memory="8Gi", gpu="2") for n in range(2)]
    node = nodes.admitted(nodes.kubelet(FOUR_AND_FOUR), *pods)
    _, zones = node_usage(nodes.facts({"n1": node}), "n1")
    assert [zone.free[GPU] for zone in zones] == [2, 2]
    found = fragmentation_of(zones)
    assert found[GPU] == pytest.approx(0.5)
    assert found["cpu"] == pytest.approx(1 - 7 / 13)


def test_an_empty_node_is_not_fragmented() -> None:
    """No zone can have more than all of it."""
    node, _ = node_usage(nodes.facts({"n1": nodes.kubelet(nodes.LARGE)}), "n1")
    assert set(node.fragmentation.values()) == {0.0}


def test_whole_cores_are_counted_where_the_kubelet_insists() -> None:
    """A core of which one thread is reserved has nothing to give."""
    options = {"full-pcpus-only": "true"}
    facts = nodes.facts({"n1": nodes.kubelet(nodes.SMALL, options=options)})
    node, zones = node_usage(facts, "n1")
    assert [zone.cpus for zone in zones] == [6, 8]
    assert node.stranded == {"cpu": 1000}
    plain, _ = node_usage(nodes.facts({"n1": nodes.kubelet(nodes.SMALL)}), "n1")
    assert plain.stranded == {}


def test_a_cluster_has_its_largest_shape_somewhere() -> None:
    """And says where."""
    facts = sprinkled()
    total = cluster_usage([node_usage(facts, name)[0] for name in ("n1", "n2", "n3")])
    assert total.zones == 4
    assert total.allocatable[GPU] == 16
    assert total.largest_on == "n1"


def test_a_node_without_data_says_so() -> None:
    """It counts for nothing."""
    node, zones = node_usage(ClusterFacts(), "n1")
    assert (node.why_unknown, zones) == ("no NodeResourceTopology", [])
    assert nodes_document([node], cluster_usage([node]))["items"] == [
        {"node": "n1", "whyUnknown": "no NodeResourceTopology"}
    ]


def test_pods_that_are_not_reported_yet_are_counted() -> None:
    """They will take something of what is said to be free."""
    pod = nodes.on("n1", nodes.named("new", cpu="1", memory="1Gi"))
    node, _ = node_usage(nodes.facts({"n1": nodes.kubelet(nodes.SMALL)}, pod), "n1")
    assert node.pending == 1


def usages(facts: ClusterFacts) -> dict[str, PodUsage]:
    """Return the usage of all pods by name."""
    return {usage.name: usage for usage in pod_usages(facts, facts.pods)}


def placed(policy: str, *pods: Pod) -> ClusterFacts:
    """Return a node of some policy that admitted *pods*."""
    bound = [nodes.on("n1", pod) for pod in pods]
    node = nodes.admitted(nodes.kubelet(FOUR_AND_FOUR, policy=policy), *bound)
    return nodes.facts({"n1": node}, *bound)


def test_pods_are_aligned_or_spread_or_share() -> None:
    """By what they have for themselves."""
    facts = placed(
        "best-effort",
        nodes.named("small", cpu="2", memory="1Gi", gpu="1"),
        nodes.named("shared"),
    )
    wide = placed("best-effort", nodes.named("wide", cpu="20", memory="80Gi"))
    found = usages(facts) | usages(wide)
    assert found["small"].alignment is Alignment.ALIGNED
    assert found["small"].zones == (0,)
    assert found["small"].devices == {GPU: 1}
    assert found["wide"].words == "spread over 2 zones"
    assert len(found["wide"].cpus) == 20
    assert found["shared"].alignment is Alignment.SHARED


def test_the_worst_pair_of_a_pods_devices_is_told() -> None:
    """Paired as well as can be: two GPUs with a card behind each switch, of which one is taken."""
    shape = "2 sockets, 8 cores, smt 2, 64Gi, gpu 2, nic 2, 2 switches"
    pods = [
        nodes.on("n1", nodes.named("pair", cpu="2", memory="1Gi", gpu="1", nic="1")),
        nodes.on("n1", nodes.named("gpus", cpu="2", memory="1Gi", gpu="2")),
        nodes.on("n1", nodes.named("late", cpu="2", memory="1Gi", gpu="1", nic="2")),
    ]
    node = nodes.admitted(nodes.kubelet(shape, policy="best-effort"), *pods)
    found = usages(nodes.facts({"n1": node}, *pods))
    assert {name: one.closeness for name, one in found.items()} == {
        "pair": "PIX",
        "gpus": "",
        "late": "PIX",
    }


def test_pairs_behind_a_switch_are_counted_among_free_devices() -> None:
    """A GPU and a card are left, behind different switches; more free devices would say nothing."""
    shape = "1 socket, 8 cores, smt 2, 64Gi, gpu 2, nic 2, 2 switches"
    kubelet = nodes.kubelet(shape)
    gpus = kubelet.machine.devices[GPU]
    kubelet.register_devices(GPU, [gpus[0], replace(gpus[1], healthy=False)])
    cards = kubelet.machine.devices[NIC]
    kubelet.register_devices(NIC, [replace(cards[0], healthy=False), cards[1]])

    node, zones = node_usage(nodes.facts({"n1": kubelet}), "n1")

    assert node.pairs == zones[0].pairs == (ClosePairs((GPU, NIC), 2, 0, Closeness.NODE),)
    (item,) = nodes_document([node], cluster_usage([node]))["items"]
    assert item["closePairs"] == [
        {"resources": [GPU, NIC], "total": 2, "free": 0, "best": "NODE"},
    ]


def test_what_is_not_known_of_a_pod_is_told() -> None:
    """Rather than guessed."""
    new = nodes.on("n1", nodes.named("new", cpu="1", memory="1Gi"))
    waiting = nodes.named("waiting", cpu="1", memory="1Gi")
    node = nodes.kubelet(nodes.SMALL)
    found = usages(nodes.facts({"n1": node}, new, waiting))
    assert found["new"].why_unknown == "not in its report yet"
    assert found["waiting"].alignment is Alignment.PENDING
    counts = usages(nodes.facts({"n1": node}, new, exact=False))
    assert counts["new"].why_unknown == "the node has no exact report"


def test_devices_without_numa_node_leave_it_open() -> None:
    """A pod that has nothing else is neither aligned nor spread."""
    pod = nodes.on("n1", nodes.named("a", gpu="1"))
    node = nodes.admitted(nodes.kubelet("2 sockets, 4 cores, 16Gi, gpu 2@-"), pod)
    found = usages(nodes.facts({"n1": node}, pod))["a"]
    assert found.alignment is Alignment.UNKNOWN
    assert found.why_unknown == "its devices have no NUMA node"


def with_vectors(
    nrt: NodeResourceTopology, placement: Placement, *pods: Pod
) -> NodeResourceTopology:
    """Return *nrt* with placement vectors and the fingerprint of *pods*."""
    keys = [(pod.metadata.namespace, pod.metadata.name) for pod in pods]
    told = (
        Attribute(name=nrt_names.PLACEMENT_METADATA, value=placement.metadata),
        Attribute(name=nrt_names.FINGERPRINT, value=fingerprint_of(keys)),
    )
    zones = tuple(
        msgspec.structs.replace(
            zone,
            attributes=(Attribute(name=nrt_names.PLACEMENT_VECTOR, value=placement.vectors[n]),),
        )
        if n in placement.vectors
        else zone
        for n, zone in enumerate(nrt.zones)
    )
    return msgspec.structs.replace(nrt, attributes=(*nrt.attributes, *told), zones=zones)


def test_containers_are_told_apart_where_the_node_tells() -> None:
    """By the placement vectors of the Go stack, if the fingerprint matches."""
    pods = [nodes.on("n1", nodes.named(f"p{n}", cpu="9", memory="1Gi")) for n in range(2)]
    node = nodes.admitted(nodes.kubelet(FOUR_AND_FOUR), *pods)
    affinities = {ContainerName("team", f"p{n}", "app"): n for n in range(2)}
    placement = encode_placement(affinities, numa_nodes=2)
    assert isinstance(placement, Placement)
    nrt = with_vectors(nrt_of("n1", node, exact=False), placement, *pods)
    facts = ClusterFacts(pods=tuple(pods), topologies={"n1": nrt})
    assert [usage.containers for usage in usages(facts).values()] == [{"app": 0}, {"app": 1}]
    assert usages(facts)["p1"].zones == (1,)
    late = nodes.on("n1", nodes.named("late", cpu="1", memory="1Gi"))
    other = ClusterFacts(pods=(*pods, late), topologies={"n1": nrt})
    assert usages(other)["p0"].containers == {}


def test_documents_have_everything() -> None:
    """In base units."""
    facts = placed("single-numa-node", nodes.named("a", cpu="2", memory="1Gi", gpu="1"))
    node, zones = node_usage(facts, "n1", fits=29)
    document = nodes_document([node], cluster_usage([node]), counts_fits=True)
    assert document["kind"] == "NodeUsageList"
    assert document["items"][0]["used"] == {"cpu": 2000, "memory": GIB, GPU: 1}
    assert document["items"][0]["largestWith"][GPU] == {"cpus": 16, "memory": 63 * GIB, GPU: 4}
    assert document["total"]["fits"] == 29
    assert zones_document(zones)["items"][1]["zone"] == 1
    pods = pods_document(pod_usages(facts, facts.pods))
    assert pods["items"][0]["alignment"] == "aligned"
    assert pods["items"][0]["cpus"] == "1,17"
