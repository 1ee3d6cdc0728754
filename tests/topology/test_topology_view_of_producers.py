"""D15, D16, A4: objects of every producer become one canonical topology; the hierarchy is kept."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kubelet.build import guaranteed, pod
from tests.topology.producers import NAMES, golden

from numakube.api.nrt import Attribute, NodeResourceTopology, Zone
from numakube.api.volcano_numatopology import CpuDetail, FreeCpus, Numatopology, NumatopologySpec
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.topology.model_report import nrt_of
from numakube.topology.numa_zones import Level, MachinePart, in_order, within
from numakube.topology.topology_view import NodeTopology, Producer, Unusable, view_of
from numakube.topology.volcano import as_nrt
from numakube.values.cpuset import CpuSet

GI = 2**30


def seen(nrt: NodeResourceTopology) -> NodeTopology:
    """Return the view of an object that can be used."""
    view = view_of(nrt)
    assert isinstance(view, NodeTopology), view
    return view


def ours() -> NodeResourceTopology:
    """What our exporter says of the machine of the golden objects."""
    settings = KubeletSettings(
        topology_policy="single-numa-node",
        cpu_policy="static",
        reserved_cpus=CpuSet.parse("0"),
    )
    node = KubeletNode(from_shape("2 sockets, 2 numa each, 4 cores, 8Gi"), settings)
    for name, cpus in (("filler", "3"), ("trainer", "2")):
        assert isinstance(node.admit(pod(guaranteed("main", cpus), uid=name)), Admitted)
    node.remove("filler")
    return nrt_of("worker-0", node)


def available(view: NodeTopology, resource: str) -> dict[int, int]:
    """Return what is left of *resource* by NUMA id."""
    return {zone.id: zone.available[resource] for zone in view.zones}


LIVE = ["nfd", "nri-topology-aware", "rte", "volcano"]


@pytest.mark.parametrize("name", LIVE)
def test_producers_of_one_machine_give_one_canonical_topology(name: str) -> None:
    """D15: NUMA nodes by id, and what is left of them, whatever the producer calls them."""
    view, exact = seen(golden(name)), seen(ours())
    assert available(view, "cpu") == available(exact, "cpu") == {0: 3000, 1: 2000, 2: 4000, 3: 4000}
    if name != "volcano":
        assert available(view, "memory") == {0: 8 * GI, 1: 4 * GI, 2: 8 * GI, 3: 8 * GI}
    assert view.live
    assert view.problems == ()


PRODUCERS = {
    "koordlet": Producer.KOORDLET,
    "nfd": Producer.NFD,
    "nri-one-numa-node-a-socket": Producer.NRI_PLUGINS,
    "nri-topology-aware": Producer.NRI_PLUGINS,
    "rte": Producer.RTE,
    "volcano": Producer.VOLCANO,
}


@pytest.mark.parametrize(("name", "producer"), PRODUCERS.items())
def test_each_producer_is_recognised(name: str, producer: Producer) -> None:
    """By the marks that it leaves, and nothing in its objects is odd."""
    view = seen(golden(name))
    assert view.producer is producer
    assert view.problems == ()


def test_all_golden_objects_are_in_some_test() -> None:
    """None is forgotten."""
    assert set(NAMES) == {*PRODUCERS, "nri-balloons"}


def test_koordlet_tells_the_size_of_zones_and_never_what_is_left() -> None:
    """Its sizes are those of the machine; the kubelet's reserved CPU is in an annotation."""
    view = seen(golden("koordlet"))
    assert not view.live
    assert available(view, "cpu") == dict.fromkeys(range(4), 4000)
    assert (view.policy, view.cpu_manager_policy) == ("single-numa-node", "static")


@pytest.mark.parametrize(
    ("name", "around"),
    [
        ("nri-topology-aware", {0: ("socket #0",), 3: ("socket #1",)}),
        ("nri-one-numa-node-a-socket", {0: ("socket #0",), 1: ("socket #1",)}),
        ("koordlet", {0: ("socket 0",), 2: ("socket 1",)}),
        ("volcano", {1: ("socket-0",), 2: ("socket-1",)}),
        ("rte", {0: ()}),
    ],
)
def test_a_numa_node_knows_what_it_is_part_of(
    name: str, around: dict[int, tuple[str, ...]]
) -> None:
    """D16: parents are kept; where none are told there are none."""
    view = seen(golden(name))
    assert {zone: within(view, zone) for zone in around} == around


def test_the_exact_report_tells_the_socket_too() -> None:
    """D16: whatever the producer, the same question has an answer."""
    view = seen(ours())
    assert [within(view, zone.id) for zone in view.zones] == [
        ("socket 0",), ("socket 0",), ("socket 1",), ("socket 1",),
    ]  # fmt: skip


def test_a_socket_of_one_numa_node_stands_for_it() -> None:
    """D15: nri-plugins leaves such NUMA nodes out; the memory tells which one the socket is."""
    view = seen(golden("nri-one-numa-node-a-socket"))
    assert [(zone.id, zone.name) for zone in view.zones] == [(0, "socket #0"), (1, "socket #1")]
    assert available(view, "cpu") == {0: 8000, 1: 8000}
    assert available(view, "memory") == {0: 16 * GI, 1: 32 * GI}
    caches = [part.parent for part in view.parts if part.level is Level.L3]
    assert caches == ["socket #0", "socket #0"]


@pytest.mark.parametrize("memory", ["", "x", "64"])
def test_a_socket_that_does_not_tell_its_numa_node_makes_the_object_unusable(memory: str) -> None:
    """The machine would be taken for a smaller one."""
    zone = Zone(
        name="socket #0", type="socket", attributes=(Attribute(name="memory set", value=memory),)
    )
    nrt = msgspec.structs.replace(golden("nri-topology-aware"), zones=(zone,))
    view = view_of(nrt)
    assert isinstance(view, Unusable)
    assert "socket #0" in view.reason


def test_nri_plugins_own_policy_is_not_taken_for_the_kubelets() -> None:
    """The kubelet's is not told, and then it has its default."""
    assert seen(golden("nri-topology-aware")).policy == "none"


def test_balloons_tell_no_numa_nodes_but_are_kept_to_be_shown() -> None:
    """D15: nothing is guessed from pools of CPUs, and the reason says what was found."""
    view = view_of(golden("nri-balloons"))
    assert isinstance(view, Unusable)
    assert view.reason == (
        "no zone has type 'Node'; found 'allocation for container', 'balloon':"
        " pools of CPUs tell no NUMA nodes"
    )
    assert [(depth, part.name, part.level) for depth, part in in_order(view.parts)] == [
        (0, "reserved[0]", Level.POOL),
        (0, "latency[0]", Level.POOL),
        (1, "default/trainer:main", Level.CONTAINER),
    ]


def test_the_hierarchy_has_every_zone_below_its_parent() -> None:
    """D16: from the machine down to NUMA nodes."""
    shown = [
        (depth, part.name) for depth, part in in_order(seen(golden("nri-topology-aware")).parts)
    ]
    assert shown == [
        (0, "root"),
        (1, "socket #0"), (2, "NUMA node #0"), (2, "NUMA node #1"),
        (1, "socket #1"), (2, "NUMA node #2"), (2, "NUMA node #3"),
    ]  # fmt: skip


NAME = st.sampled_from(["a", "b", "c", "d", ""])


@given(st.lists(st.tuples(NAME, NAME), max_size=7))
def test_any_parents_give_a_hierarchy_with_every_part_once(pairs: list[tuple[str, str]]) -> None:
    """D16: circles, parents that do not exist and names that appear twice included."""
    parts = [
        MachinePart(name=name, parent=parent, type=str(index), level=Level.OTHER)
        for index, (name, parent) in enumerate(pairs)
    ]
    assert sorted(part.type for _, part in in_order(parts)) == sorted(part.type for part in parts)


def test_zones_may_be_nested_as_deeply_as_an_object_allows() -> None:
    """D16: an object of another producer must neither bring a reader down nor keep it busy."""
    deep = tuple(
        Zone(name=str(depth), parent=str(depth - 1), type="die") for depth in range(10_000)
    )
    nrt = golden("nri-topology-aware")
    view = seen(msgspec.structs.replace(nrt, zones=(*nrt.zones, *deep)))
    assert len(view.zones) == 4
    assert max(depth for depth, _ in in_order(view.parts)) == 9_999


def numatopology(**spec: object) -> Numatopology:
    """The golden Numatopology with other fields."""
    cpus = {str(cpu): CpuDetail(numa=cpu // 2, socket=0, core=cpu) for cpu in range(4)}
    base = NumatopologySpec(
        policies={"TopologyManagerPolicy": "restricted"},
        numares={"cpu": FreeCpus(allocatable="0-3", capacity=4)},
        cpu_detail=cpus,
    )
    return Numatopology(spec=msgspec.structs.replace(base, **spec))


def test_a_numatopology_without_a_policy_says_that_it_is_unknown() -> None:
    """A4: what the kubelet refuses cannot be foreseen then."""
    topology = msgspec.structs.replace(golden("volcano"), attributes=())
    assert seen(topology).policy_unknown == ""
    named = msgspec.structs.replace(numatopology(policies={}), metadata=golden("volcano").metadata)
    view = seen(as_nrt(named))
    assert view.policy_unknown == "the Numatopology has no TopologyManagerPolicy"
    assert view.producer is Producer.VOLCANO


@pytest.mark.parametrize(
    ("spec", "cpus"),
    [
        ({}, {"node-0": "2", "node-1": "2"}),
        ({"res_reserved": {"cpu": "1500m"}}, {"node-0": "0", "node-1": "2"}),
        ({"res_reserved": {"cpu": "much"}}, {"node-0": "2", "node-1": "2"}),
        ({"numares": {"cpu": FreeCpus(allocatable="1,3")}}, {"node-0": "1", "node-1": "1"}),
        ({"numares": {"cpu": FreeCpus(allocatable="?")}}, {"node-0": "0", "node-1": "0"}),
        ({"numares": {}}, {"node-0": "0", "node-1": "0"}),
        ({"cpu_detail": {}}, {}),
        (
            {"cpu_detail": {"0": CpuDetail(), "x": CpuDetail(), "9999999999": CpuDetail(),
                            "1": CpuDetail(numa=-1), "2": CpuDetail(numa=64)}},
            {"node-0": "1"},
        ),
    ],
)  # fmt: skip
def test_what_a_numatopology_does_not_tell_is_not_available(
    spec: dict[str, object], cpus: dict[str, str]
) -> None:
    """A4: reserved CPUs are those that the kubelet would reserve."""
    zones = as_nrt(numatopology(**spec)).zones
    free = {zone.name: zone.resources[0].available for zone in zones if zone.type == "Node"}
    assert free == cpus


def test_a_cpu_whose_number_is_longer_than_any_is_passed_over() -> None:
    """Its text alone may be as long as an object, and longer than Python reads as a number."""
    cpus = {"0": CpuDetail(), "9" * 5000: CpuDetail(), "1" * 12: CpuDetail(numa=1)}
    zones = as_nrt(numatopology(cpu_detail=cpus)).zones
    assert [zone.name for zone in zones] == ["socket-0", "node-0"]


@pytest.mark.parametrize("cpus", [(), ("x",)])
def test_a_numatopology_without_a_cpu_that_can_be_read_has_no_zones(cpus: tuple[str, ...]) -> None:
    """Nothing can be reserved of it."""
    details = {cpu: CpuDetail() for cpu in cpus}
    assert as_nrt(numatopology(cpu_detail=details, res_reserved={"cpu": "1"})).zones == ()
