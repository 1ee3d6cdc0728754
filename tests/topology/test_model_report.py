"""A model made of a report answers as the reported one, and says what a report of it says."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from tests.kubelet.build import admit, container, guaranteed, pod, start, static_settings
from tests.kubelet.conftest import GIB, dual_socket_ht, quad_numa
from tests.kubelet.scenarios import nodes, pods, workloads
from tests.kubelet.test_wide_hints import wide_machine
from tests.strategies.machines import machines
from tests.topology.reports import run, through_text

from numakube.api.pod import Pod
from numakube.errors import KubeletStartError
from numakube.kubelet.admission_outcome import MemoryBlock
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device, Machine
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.kubelet.preferred_allocation import Preference, chooser_of
from numakube.topology.exact_report import DeviceTable, Holding, MemoryCell, defect_of, uid_hash
from numakube.topology.model_report import (
    ZoneAmounts,
    moved,
    node_of,
    nrt_of,
    place,
    remove_pod,
    report_of,
    zones_of,
)
from numakube.topology.numa_zones import Unusable, ZoneView
from numakube.topology.report_notation import write_holding
from numakube.topology.topology_view import NodeTopology, view_of
from numakube.values.cpuset import CpuSet


def test_the_view_of_a_models_report_is_the_models_state() -> None:
    """Zones, distances, policies and exact data come back unchanged."""
    settings = KubeletSettings(
        topology_policy="restricted",
        topology_scope="pod",
        cpu_policy="static",
        reserved_cpus=CpuSet.parse("0"),
    )
    node = KubeletNode(from_shape("2 sockets, 4 cores, smt 2, 16Gi, gpu 2"), settings)
    view = view_of(nrt_of("n1", node))
    assert isinstance(view, NodeTopology)
    assert (view.policy, view.scope, view.cpu_manager_policy) == ("restricted", "pod", "static")
    assert [zone.available for zone in view.zones] == [zone.available for zone in zones_of(node)]
    assert view.zones[0].costs == {0: 10, 1: 20}
    assert view.report == report_of(node)


def test_a_report_can_do_without_exact_data_and_with_more_attributes() -> None:
    """As those of other producers."""
    node = KubeletNode(from_shape("2 sockets, 4 cores, 16Gi"), KubeletSettings())
    nrt = nrt_of("n1", node, exact=False, attributes={"nodeTopologyPodsFingerprint": "pfp0v001"})
    assert not nrt.metadata.annotations
    assert nrt.attributes[-1].value == "pfp0v001"


# A model made of a report answers as the reported one would.


GPU = "vendor.example/gpu"


@given(workloads(), st.data())
def test_every_further_pod_gets_the_same_answer(
    case: tuple[KubeletNode, list[Pod | str]], data: st.DataObject
) -> None:
    """Whatever ran and ended before, and whatever comes and ends after the report."""
    node, before = case
    run(node, before)
    rebuilt = through_text(node)
    after: list[Pod | str] = []
    for index in range(4):
        after.append(data.draw(pods(f"later-{index}")))
        if data.draw(st.booleans()):
            after.append(data.draw(st.sampled_from([*node.pods, f"later-{index}"])))
    assert run(rebuilt, after) == run(node, after)


OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "full-pcpus-only": st.just("true"),
        "align-by-socket": st.just("true"),
        "prefer-align-cpus-by-uncorecache": st.just("true"),
        "strict-cpu-reservation": st.just("true"),
    },
)


@settings(max_examples=50)
@given(machines(max_nodes=5), OPTIONS, st.integers(1, 3), st.data())
def test_odd_machines_give_the_same_answers_too(
    machine: Machine, options: dict[str, str], reserved: int, data: st.DataObject
) -> None:
    """CPUs numbered at random, lopsided sockets, nodes without CPUs or memory, caches anywhere."""
    configured = KubeletSettings(
        topology_policy=data.draw(st.sampled_from(("best-effort", "restricted"))),
        topology_options=data.draw(
            st.sampled_from(({}, {"prefer-closest-numa-nodes": "true"}))
            if all(node.distances for node in machine.nodes)
            else st.just({})
        ),
        cpu_policy="static",
        cpu_options=options,
        reserved_cpu_milli=reserved * 900,
        memory_policy="Static",
        reserved_memory={machine.nodes[0].id: {"memory": 1 << 20}},
        feature_gates={"CPUManagerPolicyAlphaOptions": True},
    )
    try:
        node = KubeletNode(machine, configured)
    except KubeletStartError:
        reject()
    run(node, [data.draw(pods(f"before-{index}")) for index in range(3)])
    rebuilt = through_text(node)
    after: list[Pod | str] = ["before-1", data.draw(pods("later")), data.draw(pods("last"))]
    assert run(rebuilt, after) == run(node, after)


@settings(max_examples=50)
@given(workloads())
def test_a_report_of_a_rebuilt_model_says_the_same(
    case: tuple[KubeletNode, list[Pod | str]],
) -> None:
    """Except for the pods' keys, which are hashed once more."""
    node, steps = case
    run(node, steps)
    report = report_of(node)
    again = report_of(through_text(node))
    assert again.pods == {uid_hash(uid): held for uid, held in report.pods.items()}
    assert replace(again, pods={}) == replace(report, pods={})


@settings(max_examples=50)
@given(nodes(), st.lists(st.integers(0, 2), min_size=1, max_size=5), st.data())
def test_unhealthy_devices_stay_unhealthy(
    node: KubeletNode, broken: list[int], data: st.DataObject
) -> None:
    """Also those that a pod holds."""
    run(node, [data.draw(pods("first"))])
    for name in list(node.devices.resources()):
        known = node.devices.devices_of(name)
        node.register_devices(
            name,
            [replace(one, healthy=index not in broken) for index, one in enumerate(known)],
        )
    after: list[Pod | str] = [data.draw(pods("second")), "first", data.draw(pods("third"))]
    rebuilt = through_text(node)
    assert run(rebuilt, after) == run(node, after)


@pytest.mark.parametrize("scope", ["pod", "container"])
def test_a_pod_with_pod_level_resources_gives_back_its_bubble(scope: str) -> None:
    """Its containers' parts are not given back on top of it."""
    configured = static_settings(
        "restricted",
        topology_scope=scope,
        memory_policy="Static",
        reserved_memory={0: {"memory": GIB}},
        feature_gates={"PodLevelResourceManagers": True},
    )
    node = start(dual_socket_ht(), configured, kubernetes="1.36")
    level = {"cpu": "4", "memory": "2Gi"}
    steps: list[Pod | str] = [
        pod(guaranteed("a", "2", "1Gi"), container("b"), uid="one", level=level),
        pod(guaranteed("a", "2", "1Gi"), uid="two"),
    ]
    run(node, steps)
    rebuilt = through_text(node)
    after: list[Pod | str] = ["one", pod(guaranteed("a", "8", "3Gi"), uid="three")]
    assert run(rebuilt, after) == run(node, after)
    assert report_of(rebuilt).memory == report_of(node).memory


def test_a_report_tells_what_each_pod_holds() -> None:
    """CPUs of the whole pod, memory blocks, and devices by position."""
    configured = static_settings(
        "best-effort", memory_policy="Static", reserved_memory={0: {"memory": GIB}}
    )
    devices = {GPU: (Device("z", (0,)), Device("a", (1,)), Device("b", ()))}
    node = start(dual_socket_ht(), configured, devices=devices)
    admit(node, pod(guaranteed("c", "2", "1Gi", gpu="1"), uid="one"))
    admit(node, pod(container("c"), uid="idle"))
    report = report_of(node)
    assert report.devices == {GPU: DeviceTable(((1,), (), (0,)))}
    assert report.pods == {
        uid_hash("one"): Holding(
            cpus=node.placement("one", "c").cpus,
            memory=(MemoryBlock((0,), "memory", GIB),),
            devices={GPU: (2,)},
        ),
        uid_hash("idle"): Holding(),
    }
    assert report.memory == {0: MemoryCell((0,), 1, {"memory": GIB})}
    assert report.holding("idle") == Holding()
    assert report.accounts_for("one")
    assert not report.accounts_for("two")
    assert report.holding("two") is None
    assert report.pods[uid_hash("idle")].empty


def test_what_a_removed_pod_held_is_free_in_the_report() -> None:
    """The kubelet releases it before it looks at the next pod."""
    node = start(dual_socket_ht(), static_settings())
    before = report_of(node)
    admit(node, pod(guaranteed("c", "4"), uid="one"))
    node.remove("one")
    assert report_of(node) == before


def test_a_reported_pod_is_removed_by_its_uid() -> None:
    """As is one that was admitted to the rebuilt model."""
    node = start(quad_numa(), static_settings())
    admit(node, pod(guaranteed("c", "2"), uid="reported"))
    rebuilt = through_text(node)
    admit(rebuilt, pod(guaranteed("c", "2"), uid="new"))
    remove_pod(rebuilt, "reported")
    remove_pod(rebuilt, "new")
    rebuilt.collect_garbage()
    assert list(rebuilt.pods) == []
    assert rebuilt.cpus is not None
    assert rebuilt.cpus.shared == rebuilt.cpus.managed


@pytest.mark.parametrize("first", [0, 1])
def test_a_pod_has_memory_of_several_nodes_only_if_none_is_used_otherwise(first: int) -> None:
    """The kubelet groups NUMA nodes for as long as a pod uses them together."""
    configured = static_settings(memory_policy="Static", reserved_memory={0: {"memory": GIB}})
    node = node_of(report_of(start(dual_socket_ht(), configured)))
    assert isinstance(node, KubeletNode)
    holdings = [
        Holding(memory=(MemoryBlock(places, "memory", size * GIB),))
        for size, places in ((1, (0,)), (70, (0, 1)))
    ]
    assert place(node, "first", holdings[first])
    assert not place(node, "other", holdings[1 - first])


def test_rebuilt_models_are_independent() -> None:
    """A trial on one does not show on the next."""
    report = report_of(start(quad_numa(), static_settings()))
    one, other = node_of(report), node_of(report)
    assert isinstance(one, KubeletNode)
    assert isinstance(other, KubeletNode)
    admit(one, pod(guaranteed("c", "2")))
    assert report_of(other) == report


def test_settings_with_which_no_kubelet_starts_are_unusable() -> None:
    """The reason is the kubelet's own."""
    report = report_of(start(quad_numa(), KubeletSettings()))
    wrong = replace(report, settings=KubeletSettings(cpu_policy="odd"))
    assert node_of(wrong) == Unusable('the kubelet model does not start: unknown policy: "odd"')
    assert isinstance(node_of(replace(report, kubernetes="twelve")), Unusable)


def test_cpus_that_nobody_is_known_to_hold_stay_taken() -> None:
    """An exporter that sees no init containers still knows the shared pool."""
    node = start(quad_numa(), static_settings())
    assert node.cpus is not None
    report = report_of(node)
    assert report.shared_cpus is not None
    short = replace(report, shared_cpus=report.shared_cpus - CpuSet.of([1]))
    rebuilt = node_of(short)
    assert isinstance(rebuilt, KubeletNode)
    assert 1 not in rebuilt.shared_cpus


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from([(), (0,), (1,), (0, 1)]), st.sampled_from("ABC")),
        min_size=1,
        max_size=10,
    ),
    st.sampled_from([preference for preference in Preference if preference is not Preference.NONE]),
    st.lists(st.integers(1, 4), max_size=5),
    st.sampled_from(["none", "best-effort", "restricted"]),
)
def test_a_choice_that_our_plugin_makes_is_made_again(
    places: list[tuple[tuple[int, ...], str]], how: Preference, sizes: list[int], policy: str
) -> None:
    """The report tells by which rule, and which devices belong together."""
    numa_nodes = {f"dev-{number}": nodes for number, (nodes, _) in enumerate(places)}
    groups = [
        [f"dev-{number}" for number, (_, name) in enumerate(places) if name == parent]
        for parent in "CBA"
    ]
    node = start(dual_socket_ht(), static_settings(policy), devices={})
    devices = [Device(id_, nodes) for id_, nodes in numa_nodes.items()]
    node.register_devices(GPU, devices, preferred=chooser_of(how, groups, numa_nodes))
    run(node, [pod(guaranteed("c", gpu=str(size)), uid=f"a{size}") for size in sizes[:2]])

    later: list[Pod | str] = [
        pod(guaranteed("c", gpu=str(size)), uid=f"b{number}")
        for number, size in enumerate(sizes[2:])
    ]
    assert run(through_text(node), later) == run(node, later)


@pytest.mark.parametrize("count", [24, 34, 64])
def test_reports_of_many_numa_nodes_are_as_exact_as_others(count: int) -> None:
    """Two nodes with CPUs, the others with memory only: a GPU server of 2026."""
    settings_ = KubeletSettings(
        topology_policy="restricted",
        topology_options={"max-allowable-numa-nodes": "64"},
        cpu_policy="static",
        reserved_cpus=CpuSet.of([0]),
    )
    gpus = {GPU: tuple(Device(f"gpu{index}", (index % 2,)) for index in range(4))}
    node = start(wide_machine(count), settings_, devices=gpus, kubernetes="1.37")
    admit(node, pod(guaranteed("app", "4", gpu="1"), uid="first"))
    later: list[Pod | str] = [pod(guaranteed("app", "4", gpu="2"), uid="second"), "first"]
    later.append(pod(guaranteed("app", "6", gpu="1"), uid="third"))
    assert run(through_text(node), later) == run(node, later)


@pytest.mark.parametrize("policy", ["none", "static"])
def test_a_pod_is_placed_only_on_what_is_free(policy: str) -> None:
    """A kubelet without CPUs to give has devices all the same."""
    devices = {GPU: (Device("a", (0,)), Device("b", (1,)))}
    node = start(dual_socket_ht(), static_settings(cpu_policy=policy), devices=devices)
    two_cpus = Holding(cpus=CpuSet.parse("2-3"))
    assert place(node, "first", Holding(devices={GPU: (1,)}))
    assert not place(node, "second", Holding(devices={GPU: (0, 1)}))
    assert not place(node, "second", Holding(devices={GPU: (2,)}))
    assert not place(node, "second", Holding(devices={"vendor.example/nic": (0,)}))
    assert not place(node, "second", Holding(memory=(MemoryBlock((0,), "memory", GIB),)))
    assert place(node, "second", two_cpus) == (policy == "static")
    assert not place(node, "third", Holding(cpus=CpuSet.parse("3-4")))


def test_two_numa_nodes_of_one_id_are_a_defect() -> None:
    """As is nothing in the report of a model."""
    report = report_of(start(dual_socket_ht(), static_settings()))
    cpus = CpuSet.parse("0-11").bits
    assert defect_of(report, cpus=cpus) is None
    first, second = report.machine.nodes
    twice = replace(report.machine, nodes=(first, replace(second, id=first.id)))
    assert defect_of(replace(report, machine=twice), cpus=cpus) == "two NUMA nodes have the same id"


def test_what_a_pod_holds_is_written_in_few_letters() -> None:
    """Page sizes without what they all begin with."""
    blocks = (MemoryBlock((0,), "memory", GIB), MemoryBlock((0, 1), "hugepages-2Mi", 2 * GIB))
    held = Holding(cpus=CpuSet.parse("2-3"), memory=blocks, devices={GPU: (1,)})
    assert write_holding(held, {GPU: 4}) == "c2-3 m@0=1Gi 2Mi@0+1=2Gi d4=1"


def test_a_pod_without_cpus_is_not_among_those_that_hold_some() -> None:
    """The state files of the kubelet do not name it."""
    node = start(dual_socket_ht(), static_settings(), devices={GPU: (Device("a", (0,)),)})
    assert node.cpus is not None
    before = node.cpus.shared
    assert place(node, "first", Holding(devices={GPU: (0,)}))
    assert (node.cpus.assignments, node.cpus.shared) == ({}, before)


def test_a_pod_that_holds_devices_alone_does_so_after_a_report_too() -> None:
    """Nothing else is written of it in the kubelet's own files."""
    settings_ = static_settings(memory_policy="Static", reserved_memory={0: {"memory": GIB}})
    node = start(dual_socket_ht(), settings_, devices={GPU: (Device("a", (0,)),)})
    admit(node, pod(container("c", gpu="1"), uid="one"))
    rebuilt = through_text(node)
    assert rebuilt.cpus is not None
    assert rebuilt.memory is not None
    assert (rebuilt.cpus.assignments, rebuilt.memory.assignments) == ({}, {})
    assert list(rebuilt.devices.pods()) == [uid_hash("one")]


def test_a_pod_has_memory_of_a_group_that_others_use_in_the_same_way() -> None:
    """As long as there is enough of it."""
    reserved = {0: {"memory": GIB}}
    settings_ = static_settings(memory_policy="Static", reserved_memory=reserved)
    node = start(dual_socket_ht(), settings_)
    assert place(node, "first", Holding(memory=(MemoryBlock((0, 1), "memory", 100 * GIB),)))
    assert not place(node, "second", Holding(memory=(MemoryBlock((0, 1), "memory", 28 * GIB),)))
    assert place(node, "second", Holding(memory=(MemoryBlock((0, 1), "memory", 27 * GIB),)))


# What zones should say, by the model's own account.


def test_zones_tell_what_is_there_what_may_be_used_and_what_is_left() -> None:
    """One reserved CPU, reserved memory, a broken device and one on two NUMA nodes."""
    settings = static_settings(
        "best-effort", memory_policy="Static", reserved_memory={0: {"memory": GIB}}
    )
    devices = {GPU: (Device("a", (0,)), Device("b", (0, 1)), Device("c", (1,), healthy=False))}
    node = start(dual_socket_ht(), settings, devices=devices)
    admit(node, pod(guaranteed("c", "2", "2Gi", gpu="1"), uid="one"))
    assert zones_of(node) == (
        ZoneAmounts(
            0,
            {"cpu": 6000, "memory": 64 * GIB, GPU: 2},
            {"cpu": 5000, "memory": 63 * GIB, GPU: 2},
            {"cpu": 3000, "memory": 61 * GIB, GPU: 1},
        ),
        ZoneAmounts(
            1,
            {"cpu": 6000, "memory": 64 * GIB, GPU: 1},
            {"cpu": 6000, "memory": 64 * GIB, GPU: 1},
            {"cpu": 6000, "memory": 64 * GIB, GPU: 1},
        ),
    )


def test_without_managers_a_zone_only_has_its_cpus_as_capacity() -> None:
    """Policy none has nothing to give out."""
    (first, _) = zones_of(start(dual_socket_ht(), KubeletSettings()))
    assert first == ZoneAmounts(0, {"cpu": 6000}, {"cpu": 0}, {"cpu": 0})


def test_cpus_of_a_finished_init_container_stay_with_the_pod() -> None:
    """PodResources do not list them, but nobody else can have them."""
    node = start(dual_socket_ht(), static_settings())
    big, small = guaranteed("i", "4"), guaranteed("c", "2")
    admit(node, pod(small, init=(big,), uid="one"))
    assert sum(zone.available["cpu"] for zone in zones_of(node)) == 7000


def test_what_a_removed_pod_held_is_available() -> None:
    """It is free for the next pod."""
    node = start(dual_socket_ht(), static_settings())
    before = zones_of(node)
    admit(node, pod(guaranteed("c", "4"), uid="one"))
    admit(node, pod(container("c"), uid="two"))
    assert zones_of(node) != before
    node.remove("one")
    assert zones_of(node) == before


@given(workloads())
def test_a_rebuilt_model_has_the_same_zones(case: tuple[KubeletNode, list[Pod | str]]) -> None:
    """And nothing is ever below zero or above what may be used."""
    node, steps = case
    run(node, steps)
    zones = zones_of(node)
    assert zones_of(through_text(node)) == zones
    for zone in zones:
        for name, amount in zone.available.items():
            assert 0 <= amount <= zone.allocatable[name] <= zone.capacity[name]


def test_a_zone_of_memory_alone_has_no_cpus() -> None:
    """Its capacity of them is nothing, and said."""
    settings = static_settings(reserved_cpus=CpuSet.of([1]))
    node = start(from_shape("1 socket, 4 cores, 8Gi + 1 cxl 16Gi"), settings)
    assert [zone.capacity for zone in zones_of(node)] == [{"cpu": 4000}, {"cpu": 0}]


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        ({}, {}, 5),
        ({"cpu": 6}, {"cpu": 6, "gone": 1}, 5),
        ({"cpu": 6}, {"cpu": 4}, 3),
        ({"cpu": 6}, {"cpu": 7}, 6),
        ({"cpu": 6}, {}, 0),
        ({"cpu": 6}, {"cpu": 1}, 0),
        ({}, {"cpu": 9}, 8),
    ],
)
def test_of_a_model_a_zone_takes_what_changes_and_stays_within_what_it_has(
    before: dict[str, int], after: dict[str, int], left: int
) -> None:
    zone = ZoneView(
        id=0, name="node-0", capacity={"cpu": 9}, allocatable={"cpu": 8}, available={"cpu": 5}
    )
    assert moved(zone, before, after) == {"cpu": left}
