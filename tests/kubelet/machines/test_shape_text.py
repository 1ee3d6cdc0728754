"""One line describes a machine, exactly or not at all."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies.machines import odd_machines, shapes

from numakube.errors import InvalidValue
from numakube.kubelet.machine import Core, Device, HugePages, Machine, NumaNode
from numakube.kubelet.machines.cadvisor_machine import from_cadvisor
from numakube.kubelet.machines.shape import PRESETS
from numakube.kubelet.machines.shape_build import build
from numakube.kubelet.machines.shape_text import (
    from_shape,
    is_short_name,
    parse,
    print_shape,
    to_shape,
)

if TYPE_CHECKING:
    from numakube.kubelet.machines.shape import Shape

VECTORS = Path(__file__).parents[2] / "vectors" / "kubelet.jsonl.gz"
GIB = 1 << 30


def threads(machine: Machine) -> list[list[tuple[int, ...]]]:
    """Return the CPUs of every core of every node."""
    return [[core.threads for core in node.cores] for node in machine.nodes]


@given(shapes(attached=True).map(build))
def test_every_machine_that_a_line_can_describe_survives_the_round_trip(machine: Machine) -> None:
    """Writing and reading the line gives the same machine."""
    assert from_shape(to_shape(machine)) == machine


@given(odd_machines())
def test_an_odd_machine_is_exact_or_refused(machine: Machine) -> None:
    """What cannot be said in one line is not said approximately."""
    try:
        line = to_shape(machine)
    except InvalidValue:
        return

    assert from_shape(line) == machine


WORDS = [
    "2",
    "sockets",
    "numa",
    "each",
    "total",
    "8",
    "cores",
    "4p+4e",
    "8/4",
    "smt",
    "64Gi",
    "0",
    "1Gi/0",
    "hugepages-1Gi",
    "uncore",
    "node",
    "socket",
    "numbering",
    "adjacent",
    "distances",
    "none",
    "/",
    "10",
    "20",
    "cxl",
    "ids",
    "0,2",
    "0-3",
    "gpu",
    "nvidia.com/gpu",
    "switches",
    "cascaded",
    "slots",
    "links",
    "2@-",
    "1@0+1",
    ",",
    "+",
    "-",
    "core-ids",
    "machine",
    "dgx-h100",
    "99999999999999999999",
    "²",
    "٣",
]


@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join) | st.text(max_size=40))
def test_any_text_is_a_machine_or_a_clear_error(text: str) -> None:
    """No text breaks the parser, and what it accepts can be written again."""
    try:
        machine = from_shape(text)
    except InvalidValue:
        return

    assert from_shape(to_shape(machine)) == machine


@given(shapes(attached=True))
def test_printing_a_shape_and_parsing_it_builds_the_same_machine(shape: Shape) -> None:
    """Whatever is left out of the line is the default."""
    assert build(parse(print_shape(shape))) == build(shape)


def test_every_recorded_machine_has_a_line() -> None:
    """All machines of the golden vectors can be written in one line and read back."""
    with gzip.open(VECTORS, "rt") as lines:
        documents = {json.dumps(json.loads(line)["machine"]) for line in lines}

    assert len(documents) > 100
    for document in documents:
        machine = from_cadvisor(json.loads(document))
        assert from_shape(to_shape(machine)) == machine


def test_the_example_of_the_documentation() -> None:
    """Counts are per NUMA node; siblings come last; bare device names get a domain."""
    machine = from_shape("2 sockets, 2 numa each, 8 cores, smt 2, 64Gi, gpu 2, nic 4")

    assert (machine.cpu_count, machine.socket_count, len(machine.nodes)) == (64, 2, 4)
    assert {node.memory_bytes for node in machine.nodes} == {64 * GIB}
    assert machine.nodes[1].cores[0].threads == (8, 40)
    assert [core.socket for node in machine.nodes for core in node.cores[:1]] == [0, 0, 1, 1]
    assert machine.nodes[0].distances == (10, 12, 20, 20)
    assert len(machine.devices["vendor.example/gpu"]) == 8
    assert machine.devices["vendor.example/nic"][4] == Device(id="nic-4", numa_nodes=(1,))


@pytest.mark.parametrize(
    ("numbering", "expected"),
    [
        ("siblings-last", [[(0, 4), (1, 5)], [(2, 6), (3, 7)]]),
        ("adjacent", [[(0, 1), (2, 3)], [(4, 5), (6, 7)]]),
        ("interleaved", [[(0, 4), (2, 6)], [(1, 5), (3, 7)]]),
    ],
)
def test_cpu_numberings(numbering: str, expected: list[list[tuple[int, ...]]]) -> None:
    """Each numbering is one that real firmware uses."""
    machine = from_shape(f"2 sockets, 2 cores, smt 2, 1Gi, numbering {numbering}")

    assert threads(machine) == expected


def test_hybrid_cores() -> None:
    """P-cores have every thread, E-cores one."""
    machine = from_shape("2p+2e cores, smt 2, 8Gi, numbering adjacent")

    assert threads(machine) == [[(0, 1), (2, 3), (4,), (5,)]]


def test_lists_give_each_node_its_own_value() -> None:
    """A slash separates the values of the NUMA nodes."""
    machine = from_shape("2 sockets, 4/2 cores, 8Gi/0, hugepages-1Gi 2/-, gpu 0/3 1@- 1@0+1")

    assert [len(node.cores) for node in machine.nodes] == [4, 2]
    assert [node.memory_bytes for node in machine.nodes] == [8 * GIB, 0]
    assert [node.hugepages for node in machine.nodes] == [(HugePages(GIB, 2),), ()]
    assert [device.numa_nodes for device in machine.devices["vendor.example/gpu"]] == [
        (1,), (1,), (1,), (), (0, 1),
    ]  # fmt: skip


def test_memory_only_nodes_come_last_and_ids_may_have_holes() -> None:
    """Ids are given by position: the sockets' nodes first, then the memory-only ones."""
    machine = from_shape("2 sockets, 2 cores, 8Gi, ids 0,8, 2-3 + 2 cxl 128Gi")

    assert [node.id for node in machine.nodes] == [0, 2, 3, 8]
    assert [len(node.cores) for node in machine.nodes] == [2, 0, 0, 2]
    assert machine.nodes[3].distances == (20, 30, 30, 10)


def test_nodes_are_in_the_order_of_their_directory_names() -> None:
    """With more than ten nodes, cAdvisor reports node 10 before node 2."""
    machine = from_shape("12 numa, 1 core, 1Gi")

    assert [node.id for node in machine.nodes][:4] == [0, 1, 10, 11]


def test_uncore_caches() -> None:
    """A cache spans some cores, a node or a socket, and ids count through the machine."""

    def caches(extent: str) -> list[int | None]:
        machine = from_shape(f"2 sockets, 2 numa each, 3 cores, 1Gi, uncore {extent}")
        return [core.uncore_cache for node in machine.nodes for core in node.cores]

    assert caches("2") == [0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7]
    assert caches("node") == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert caches("socket") == [0] * 6 + [1] * 6


def test_a_machine_without_numa_has_all_sockets_in_one_node() -> None:
    """`1 numa total` is what a kernel with NUMA switched off reports."""
    (node,) = from_shape("2 sockets, 1 numa total, 4 cores, 1Gi").nodes

    assert [core.socket for core in node.cores] == [0, 0, 1, 1]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_machines_with_a_line(name: str) -> None:
    """Each preset can be read, and its machine written and read again."""
    machine = from_shape(name)

    assert from_shape(to_shape(machine)) == machine


def test_a_preset_can_be_changed() -> None:
    """Clauses after a preset replace the preset's."""
    changed = from_shape("dgx-h100, 512Gi, nvidia.com/gpu 2, gpu 1")

    assert {node.memory_bytes for node in changed.nodes} == {512 * GIB}
    assert {name: len(some) for name, some in changed.devices.items()} == {
        "nvidia.com/gpu": 4,
        "nvidia.com/hostdev": 8,
        "vendor.example/gpu": 2,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 sockets, 8 cores, smt 3, 64Gi", "column 21: 'smt 3': a core has 1, 2, 4 or 8 threads"),
        ("2 sokets, 8 cores, 1Gi", "column 1: '2 sokets': unknown clause; did you mean 2 sockets?"),
        ("2 sockets, 8cores", "'8cores': unknown clause; did you mean 8 cores?"),
        ("10 nodes, 8 cores", "'10 nodes': unknown clause; a shape is one machine; how many"),
        ("1 node of 8 cores", "'1 node of 8 cores': unknown clause; a shape is one machine"),
        ("8 cores, 1Gi, smtt 2", "column 15: 'smtt 2': did you mean smt?"),
        ("8 cores, 2 sockts", "column 10: '2 sockts': unknown clause; did you mean 2 sockets?"),
        ("8 cores, 1Gi, 2sockts", "column 15: '2sockts': unknown clause; did you mean 2 sockets?"),
        ("8 cores, 1Gi, 4 gpus", "column 15: '4 gpus': unknown clause; devices are written like"),
        ("8 cores, 1Gi, gpu", "column 15: 'gpu': how many for each NUMA node?"),
        ("8 cores, 1Gi, gpu two", "column 15: 'gpu two': 'two' is not a number"),
        ("8 cores, 1Gi, gpu 1@3", "column 15: 'gpu 1@3': there is no NUMA node 3"),
        ("8 cores, 1Gi, gpu 1/2/3", "column 15: 'gpu 1/2/3': 3 values for 1 NUMA nodes"),
        ("8 cores, 1Gi, 2Gi", "column 15: '2Gi': memory is already given at column 10"),
        ("8 cores, 1Gi, 0 switches", "column 15: '0 switches': must be at least 1"),
        ("8 cores, 1Gi, 2 switches odd", "write it like `2 switches`"),
        ("8 cores, 1Gi, gpu 2, links 2", "write it like `links 18 nvidia.com/gpu`"),
        ("8 cores, 1Gi, 1 slot, links 2 gpu", "'links 2 gpu': there are no devices vendor.exam"),
        ("8 cores, 1Gi, gpu 2, links 2 gpu", "say what the devices are attached to: `2 switches`"),
        ("8 cores, 1Gi, ids 1,2", "column 15: 'ids 1 2': 2 ids for 1 NUMA nodes"),
        ("2 numa, 8 cores, 1Gi, ids 1,1", "an id appears twice"),
        ("2 numa, 8 cores, 1Gi, ids 1,99", "99 is above 63"),
        ("2 numa, 8 cores, 1Gi, ids 1,64", "64 is above 63"),
        ("2 numa, 8 cores, 1Gi, ids a", "'a' is not a node id"),
        ("8 cores, 1Gi, distances 1 2 3 4 5", "write one to four numbers, or a matrix"),
        ("8 cores, 1Gi, distances 10 20 / 20 10", "the matrix must be 1 by 1"),
        ("8 cores, 1Gi, numbering odd", "choose siblings-last, adjacent, interleaved"),
        ("8 cores, 1Gi, core-ids odd", "choose socket or machine"),
        ("8 cores, 1Gi, uncore 0", "must be at least 1"),
        ("8 cores, 1Gi, hugepages-3B 1", "whole number of KiB"),
        ("8 cores, 1Gi, hugepages-1Gi", "write it like `hugepages-1Gi 4`"),
        ("8 cores, 1Gi, hugepages-1Gi 1, hugepages-1Gi 2", "already given at column 15"),
        ("8x cores, 1Gi", "'8x' is not a number of cores"),
        ("0 cores, 1Gi", "at least one core"),
        ("99999999 cores, 1Gi", "more than 65536 CPUs"),
        ("8 cores, 1Gi, gpu 99999", "more than 4096 devices"),
        ("65 numa, 8 cores, 1Gi", "65 NUMA nodes; 64 is the limit"),
        ("1 core, 1Gi, 100 cxl 1Gi", "64 is the limit"),
        ("2 numa, 1 core, 1Gi, 63 cxl 1Gi", "65 NUMA nodes; 64 is the limit"),
        ("3 sockets, 2 numa total, 6 cores, 1Gi", "do not divide over 3 sockets"),
        ("2 sockets, 1 numa total, 3 cores, 1Gi", "do not divide over the 2 sockets of a node"),
        (
            "2 sockets, 1 numa total, 2p+1e cores, smt 2, 1Gi",
            "do not divide over the 2 sockets of a node",
        ),
        ("2 numa some, 1 core, 1Gi", "write it like `2 numa each`"),
        ("8 cores", "memory is missing; add for example `64Gi`"),
        ("64Gi", "cores is missing; add for example `8 cores`"),
        ("", "cores is missing"),
        ("epic-9654-2s-nps4", "column 1: 'epic-9654-2s-nps4': unknown preset; did you mean epyc"),
        ("toaster", "unknown preset; there are a3-highgpu-8g"),
        ("8 cores, 1Gi, ?! 2", "not a clause and not the name of a resource"),
        ("8 cores, 9999999999999999999Gi", "is not a number"),
        ("8 cores, 1Gi memory please", "column 10: '1Gi memory please': write it like `64Gi`"),
        ("8 cores, memory much", "'much' is not a size such as 64Gi"),
    ],
)
def test_errors_point_at_the_clause(text: str, message: str) -> None:
    """Every error has the column, the clause and what to do."""
    with pytest.raises(InvalidValue) as caught:
        from_shape(text)

    assert message in str(caught.value)


def test_a_machine_that_is_not_regular_is_refused() -> None:
    """The message says what does not fit; nothing is approximated."""
    machine = from_shape("2 sockets, 2 cores, smt 2, 1Gi")
    first = machine.nodes[0]
    odd = replace(machine, nodes=(replace(first, cores=first.cores[::-1]), *machine.nodes[1:]))

    with pytest.raises(InvalidValue, match="not regular enough for one line: NUMA node 0: core"):
        to_shape(odd)


def test_a_machine_with_an_unhealthy_device_is_refused() -> None:
    """The notation has no word for it, so it must not be lost silently."""
    machine = from_shape("2 cores, 1Gi, gpu 2")
    sick = replace(
        machine,
        devices={"vendor.example/gpu": (Device("gpu-0", (0,)), Device("gpu-1", (0,), False))},
    )

    with pytest.raises(InvalidValue, match=r"vendor\.example/gpu: device gpu-1: healthy is False"):
        to_shape(sick)


def test_cores_of_an_odd_width_are_refused() -> None:
    """No processor has three threads a core, so the notation has no word for it."""
    core = Core(id=0, threads=(0, 1, 2), socket=0)
    node = NumaNode(id=0, memory_bytes=0, cores=(core,), distances=(10,))

    with pytest.raises(InvalidValue, match="smt: a core has 1, 2, 4 or 8 threads"):
        to_shape(Machine(nodes=(node,), cpu_count=3, socket_count=1))


def test_an_empty_machine_is_refused() -> None:
    """A machine without CPUs has no shape."""
    with pytest.raises(InvalidValue, match="do not lie evenly"):
        to_shape(Machine(nodes=(), cpu_count=0, socket_count=0))


def test_hugepage_sizes_in_contradicting_orders_are_refused() -> None:
    """No order of clauses can give both nodes what they list."""
    machine = from_shape("2 numa, 1 core, 1Gi, hugepages-2Mi 1, hugepages-1Gi 1")
    first = machine.nodes[0]
    odd = replace(
        machine, nodes=(replace(first, hugepages=first.hugepages[::-1]), machine.nodes[1])
    )

    with pytest.raises(InvalidValue, match="in different orders"):
        to_shape(odd)


def test_a_machine_has_at_most_64_numa_nodes() -> None:
    """All but one of them may be memory behind a switch; 63 is the highest id."""
    assert [node.id for node in from_shape("2 numa, 1 core, 1Gi, ids 0 63").nodes] == [0, 63]
    machine = from_shape("1 core, 1Gi, 63 cxl 1Gi")
    assert len(machine.nodes) == 64
    assert from_shape(to_shape(machine)) == machine


@pytest.mark.parametrize("numbering", ["interleaved", "adjacent", "siblings-last"])
def test_nodes_are_in_the_order_of_their_first_cpus(numbering: str) -> None:
    """Whichever of them has the last one."""
    line = f"2 numa, 4/2 cores, 1Gi/2Gi, numbering {numbering}"
    machine = from_shape(line)
    assert [node.memory_bytes for node in machine.nodes] == [GIB, 2 * GIB]
    assert "4/2 cores" in to_shape(machine)
    assert from_shape(to_shape(machine)) == machine


@pytest.mark.parametrize("sockets", [2, 4, 6])
def test_numa_nodes_that_span_sockets_are_counted_in_total(sockets: int) -> None:
    """Two sockets or three share a node."""
    line = f"{sockets} sockets, 2 numa total, 12 cores, 1Gi"
    machine = from_shape(line)
    assert len({core.socket for core in machine.nodes[0].cores}) == sockets // 2
    written = to_shape(machine)
    assert from_shape(written) == machine
    assert ("2 numa total" in written) == (sockets > 2)
    assert [node.distances for node in machine.nodes] == [(10, 20), (20, 10)]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("gpu", True), ("nic", True), ("9x", False), ("vendor.example/gpu", False),
        ("cores", False), ("core", False), ("smtt", False), ("hugepages-1Gi", False),
    ],
)  # fmt: skip
def test_a_bare_name_of_a_device_is_no_other_word(name: str, *, short: bool) -> None:
    """Nor one letter away from it, which would be read as a slip."""
    assert is_short_name(name) == short


def test_a_device_whose_bare_name_would_be_another_word_keeps_its_domain() -> None:
    """The line has to be read as it was meant."""
    machine = from_shape("2 cores, 1Gi, vendor.example/smtt 2, gpu 1")
    line = to_shape(machine)
    assert "vendor.example/smtt 2" in line
    assert "vendor.example/gpu" not in line
    assert from_shape(line) == machine
