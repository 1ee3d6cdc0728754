"""Reports and trees of devices survive the way through an annotation; bad ones are told."""

from __future__ import annotations

import json
import random
import zlib
from base64 import b64encode
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubelet.build import admit, container, guaranteed, pod, start, static_settings
from tests.kubelet.conftest import GIB, dual_socket_ht
from tests.kubelet.scenarios import workloads
from tests.strategies.machines import machines
from tests.topology.busy import PODS, fill, large_node, random_pod
from tests.topology.reports import run

from numakube.api.pod import Pod
from numakube.errors import InvalidValue
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device, DeviceTree, Machine, PciPath, tree_of
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.kubelet.preferred_allocation import Preference
from numakube.topology.exact_report import (
    BadReport,
    DeviceChoice,
    ExactReport,
    MemoryCell,
    uid_hash,
)
from numakube.topology.model_report import node_of, report_of
from numakube.topology.report_codec import decode_report, encode_report
from numakube.topology.report_notation import TreeTable, as_the_kubelet_sees_it, read_tree
from numakube.values.cpuset import CpuSet

GPU = "vendor.example/gpu"
EIGHT_KIB = 8192


def small_report() -> ExactReport:
    """Return the report of a node with a pod that holds something of everything."""
    configured = static_settings(
        "restricted", memory_policy="Static", reserved_memory={0: {"memory": GIB}}
    )
    devices = {GPU: (Device("a", (0,)), Device("b", (1,)), Device("c", (0, 1), healthy=False))}
    node = start(dual_socket_ht(), configured, devices=devices)
    admit(node, pod(guaranteed("c", "2", "1Gi", gpu="1"), uid="busy"))
    admit(node, pod(container("c"), uid="idle"))
    return report_of(node)


def test_a_report_can_be_read_by_a_person() -> None:
    """The whole text of a small one."""
    text = encode_report(small_report())
    assert json.loads(text) == {
        "v": 1,
        "kubernetes": "1.35",
        "machine": "2 sockets, 3 cores, smt 2, numbering interleaved, 0B",
        "memory": ["64Gi", "64Gi"],
        "settings": {
            "topologyPolicy": "restricted",
            "cpuPolicy": "static",
            "reservedCpus": "0",
            "memoryPolicy": "Static",
            "reservedMemory": {"0": {"memory": GIB}},
            "featureGates": {"CPUManagerPolicyAlphaOptions": True},
        },
        "lost": "",
        "books": {"0": "0 x1 m=1Gi"},
        "devices": {GPU: "1@0 1@1 1@0+1 !2"},
        "pods": {uid_hash("busy"): "c2,8 m@0=1Gi d0=0", uid_hash("idle"): ""},
    }


@settings(max_examples=50)
@given(workloads())
def test_a_report_reads_back_as_it_was(case: tuple[KubeletNode, list[Pod | str]]) -> None:
    """Whatever runs on the node."""
    node, steps = case
    run(node, steps)
    report = report_of(node)
    assert decode_report(encode_report(report)) == report


@settings(max_examples=50)
@given(machines())
def test_any_machine_reads_back_as_it_was(machine: Machine) -> None:
    """Those that no line describes list their cores."""
    bare = replace(machine, devices={})
    for other in (bare, as_the_kubelet_sees_it(machine)):
        report = ExactReport(machine=other, settings=KubeletSettings(), kubernetes="1.35")
        assert decode_report(encode_report(report)) == report


@settings(max_examples=50)
@given(machines())
def test_a_machine_is_the_same_to_the_kubelet_without_its_core_ids(machine: Machine) -> None:
    """Doing it twice changes nothing more, and no CPU moves."""
    once = as_the_kubelet_sees_it(machine)
    assert as_the_kubelet_sees_it(once) == once
    for before, after in zip(machine.nodes, once.nodes, strict=True):
        threads = {(core.socket, frozenset(core.threads)) for core in before.cores}
        assert {(core.socket, frozenset(core.threads)) for core in after.cores} == threads


def test_gaps_in_core_and_cache_ids_do_not_keep_a_machine_from_having_a_line() -> None:
    """Real processors have such gaps where cores are switched off."""
    regular = dual_socket_ht()
    gaps = replace(
        regular,
        nodes=tuple(
            replace(
                node,
                cores=tuple(
                    replace(core, id=core.id * 4, uncore_cache=16 * node.id + 3)
                    for core in node.cores
                ),
            )
            for node in regular.nodes
        ),
    )
    report = ExactReport(
        machine=as_the_kubelet_sees_it(gaps), settings=KubeletSettings(), kubernetes="1.35"
    )
    line = json.loads(encode_report(report))["machine"]
    assert line == "2 sockets, 3 cores, smt 2, numbering interleaved, uncore 3, 0B"


@given(
    configured=st.builds(
        KubeletSettings,
        topology_policy=st.text(max_size=5),
        topology_options=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
        reserved_cpus=st.none() | st.builds(CpuSet.of, st.sets(st.integers(0, 300))),
        reserved_cpu_milli=st.none() | st.integers(0, 10**6),
        reserved_memory=st.dictionaries(
            st.integers(0, 63), st.dictionaries(st.text(max_size=3), st.integers(0, 2**63 - 1))
        ),
        memory_reservation=st.none() | st.just({"memory": 3}),
        feature_gates=st.dictionaries(st.text(max_size=5), st.booleans(), max_size=2),
    )
)
def test_any_settings_read_back_as_they_were(configured: KubeletSettings) -> None:
    """Also those that no kubelet would start with."""
    report = replace(small_report(), settings=configured)
    assert decode_report(encode_report(report)) == report


def test_a_pool_that_does_not_follow_from_the_pods_is_written_out() -> None:
    """Such as one that a pod's CPUs are still in."""
    report = replace(small_report(), shared_cpus=CpuSet.parse("0-11"))
    text = encode_report(report)
    assert json.loads(text)["shared"] == "0-11"
    assert decode_report(text) == report


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("containers", [1, 2, 3])
def test_a_report_of_a_large_node_takes_at_most_8_kib(scattered: bool, containers: int) -> None:
    """256 CPUs, 8 NUMA nodes, 20 device resources; up to 110 pods after much coming and going."""
    rng = random.Random(f"{scattered} {containers}")
    node = large_node(rng, scattered=scattered)
    running = fill(node, rng, containers=containers, churn=150)
    assert len(running) == PODS or containers > 1
    report = report_of(node)
    text = encode_report(report)
    assert len(text) <= EIGHT_KIB
    decoded = decode_report(text)
    assert decoded == report
    rebuilt = node_of(decoded)
    assert isinstance(rebuilt, KubeletNode)
    after: list[Pod | str] = [*running[:3], random_pod(rng, 1), random_pod(rng, 2), running[4]]
    assert run(rebuilt, after) == run(node, after)


def test_a_long_report_is_compressed_and_reads_back() -> None:
    """Plain text is used as long as it fits."""
    report = small_report()
    holding = report.pods[uid_hash("busy")]
    many = replace(report, pods={uid_hash(f"{n}"): holding for n in range(2000)})
    text = encode_report(many)
    assert text.startswith("z:")
    assert decode_report(text) == many
    assert encode_report(report).startswith("{")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"v": 2, "anything": true}', "version 2 is not known; this reader knows 1"),
        ("", "malformed: Input data was truncated"),
        ("{}", "malformed: Object missing required field `v`"),
        ("z:%", "malformed: compressed text: "),
        ("z:AAAA", "malformed: compressed text: "),
        ("z:eNo=", "malformed: compressed text: cut short or too long"),
        ("\ud800", "malformed: 'utf-8' codec can't encode"),
    ],
)
def test_what_is_no_report_of_a_known_version_is_refused(text: str, reason: str) -> None:
    """With words that tell which of the two."""
    found = decode_report(text)
    assert isinstance(found, BadReport)
    assert found.reason.startswith(reason)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"machine": "2 sockets"}, "malformed: machine"),
        ({"machine": 3}, "malformed: Expected `str | object`, got `int` - at `$.machine`"),
        ({"memory": ["8Gi"]}, "malformed: memory of 1 NUMA nodes for 2"),
        ({"memory": ["8Gi", "much"]}, "malformed: size 'much': not a number"),
        ({"lost": "1-"}, "malformed: cpuset '1-'"),
        ({"books": {"0": "0"}}, "malformed: memory books '0': no number of blocks"),
        ({"books": {"0": "1 x1"}}, "contradicts itself: memory of NUMA node 0: not in its own"),
        ({"books": {"7": "7 x1"}}, "contradicts itself: memory of NUMA node 7: there is no"),
        ({"books": {"0": "0 x1 2Mi=1"}}, "contradicts itself: memory of NUMA node 0: has no"),
        ({"books": {"0": "0+99 x1"}}, "malformed: NUMA nodes '0+99': 63 is the highest id"),
        (
            {"devices": {GPU: ""}},
            f"contradicts itself: pod {uid_hash('busy')}: {GPU}: device 0 of 0",
        ),
        ({"devices": {GPU: "1@0 !1"}}, f"contradicts itself: {GPU}: unhealthy: device 1 of 1"),
        ({"devices": {GPU: "99999999@0"}}, "malformed: more than 16384 devices"),
        ({"devices": {}}, "malformed: device resource 0 of 0"),
        ({"pods": {"x": "c99"}}, "contradicts itself: pod x: CPUs 99 do not exist"),
        ({"pods": {"x": "m@5=1Gi"}}, "contradicts itself: pod x: there is no NUMA node 5"),
        ({"pods": {"x": "odd"}}, "malformed: holding 'odd': 'odd' is not CPUs"),
        ({"settings": {"reservedCpus": "x"}}, "malformed: cpuset 'x'"),
        ({"settings": 1}, "malformed: Expected `object`"),
        ({"kubernetes": "1.27"}, "kubernetes version '1.27': the oldest modelled version is 1.28"),
        ({"kubernetes": "9" * 5000}, "kubernetes version '99999"),
        (
            {"devices": {f"v/{n}": "16384@0" for n in range(40)}},
            "malformed: more than 16384 devices",
        ),
        ({"devices": {f"v/{n}": "" for n in range(600)}}, "malformed: more than 512 kinds"),
        ({"pods": {f"{n}": "" for n in range(5000)}}, "malformed: more than 4096 pods"),
        ({"lost": "0" * (1 << 20)}, "longer than 1048576 characters"),
    ],
)
def test_a_report_that_makes_no_sense_is_refused(change: dict[str, Any], reason: str) -> None:
    """The reason names the place."""
    tree = json.loads(encode_report(small_report())) | change
    found = decode_report(json.dumps(tree))
    assert isinstance(found, BadReport)
    assert found.reason.startswith(reason), found.reason


def test_a_deflated_text_that_never_ends_is_not_followed() -> None:
    """It may not fill the reader's memory."""
    bomb = zlib.compress(b" " * (64 << 20))
    found = decode_report("z:" + b64encode(bomb).decode())
    assert isinstance(found, BadReport)
    assert found.reason.startswith("malformed: compressed text: cut short or too long, ")


@pytest.mark.parametrize("size", [70_000, 1 << 20, 4 << 20])
def test_a_text_may_grow_a_hundredfold_when_it_is_unpacked_or_to_64_kib(size: int) -> None:
    """The limit is told."""
    packed = zlib.compress(b" " * size)
    found = decode_report("z:" + b64encode(packed).decode())
    most = max(8 * EIGHT_KIB, 100 * len(packed))
    assert most < size
    assert found == BadReport(
        f"malformed: compressed text: cut short or too long, {most} bytes at most"
    )


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=12)
    | st.sampled_from(["0 x1 m=-1", "c0-3", "d0=0", "m@0=9Pi", "Static", "static", "1.31", "!0"])
)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)
)


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_no_text_makes_decoding_fail(text: str) -> None:
    """Nor one that pretends to be compressed."""
    for one in (text, "z:" + text, "{" + text):
        assert isinstance(decode_report(one), BadReport)


@given(st.data())
def test_no_damage_to_a_report_makes_decoding_or_rebuilding_fail(data: st.DataObject) -> None:
    """What can still be read gives a model, or the reason why not."""
    tree: Any = json.loads(encode_report(small_report()))
    for _ in range(data.draw(st.integers(1, 3))):
        _damage(tree, data)
    report = decode_report(json.dumps(tree))
    if isinstance(report, ExactReport):
        node = node_of(report)
        if isinstance(node, KubeletNode):
            node.admit(pod(guaranteed("c", "1", "1Gi", gpu="1"), uid="new"))
            node.remove(uid_hash("busy"))
            node.admit(pod(guaranteed("c", "2", "1Gi"), uid="newer"))


def _damage(tree: dict[str, Any], data: st.DataObject) -> None:
    """Replace a value somewhere in *tree*."""
    key = data.draw(st.sampled_from(sorted(tree)))
    if isinstance(tree[key], dict) and tree[key] and data.draw(st.booleans()):
        _damage(tree[key], data)
    else:
        tree[key] = data.draw(TREES)


def test_a_uid_hash_is_short_and_stable() -> None:
    """72 bits; two versions of numakube must agree on it."""
    assert uid_hash("d5c4a2a8-1f0c-4b7c-9d0e-0a1b2c3d4e5f") == "B_KNCzqWuiQE"
    assert len(uid_hash("")) == 12
    assert uid_hash("a") != uid_hash("b")


def test_memory_cells_of_nodes_in_groups_read_back() -> None:
    """Blocks may span NUMA nodes."""
    report = replace(
        small_report(),
        memory={
            0: MemoryCell((0, 1), 2, {"memory": 5}),
            1: MemoryCell((0, 1), 2, {"memory": GIB + 1}),
        },
    )
    assert decode_report(encode_report(report)) == report


def with_choice(text: str | None) -> ExactReport | BadReport:
    """Return what is read of a small report that tells how devices are chosen."""
    tree = json.loads(encode_report(small_report()))
    return decode_report(json.dumps(tree if text is None else tree | {"choices": {GPU: text}}))


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        (None, None),
        ("spread", DeviceChoice(Preference.SPREAD, ((0,), (1,), (2,)))),
        ("packed 2,0-1", DeviceChoice(Preference.PACKED, ((2, 0, 1),))),
        ("packed+near 0-2", DeviceChoice(Preference.PACKED, ((0, 1, 2),), near=True)),
        ("most-free 1 0", DeviceChoice(Preference.MOST_FREE, ((1,), (0,)))),
        ("by-colour 0 1", None),
    ],
)
def test_how_devices_are_chosen_survives_and_is_left_out_if_not_known(
    text: str | None, choice: DeviceChoice | None
) -> None:
    """Reports of older exporters do not tell, and those of newer ones may tell other rules."""
    report = with_choice(text)
    assert isinstance(report, ExactReport)
    assert report.devices[GPU].choice == choice
    known = text is not None and choice is not None
    assert json.loads(encode_report(report)).get("choices") == ({GPU: text} if known else None)


def test_a_choice_among_devices_that_do_not_exist_is_a_contradiction() -> None:
    """As everything else about such devices."""
    report = with_choice("packed 0-3")
    assert isinstance(report, BadReport)
    assert report.reason == f"contradicts itself: {GPU}: choice: device 3 of 3"


def test_a_reader_of_before_does_without_the_choices() -> None:
    """They are in a key of their own, and keys that are not known are passed over."""
    tree = json.loads(encode_report(small_report())) | {"whatever": {"comes": "later"}}
    assert decode_report(json.dumps(tree)) == small_report()


# The tree of devices goes through a report, which others read as before.


GPU_ID, NIC = "vendor.example/gpu", "vendor.example/nic"
FIRST = PciPath("0000:18:00.0", "pci0000:15", ("0000:15:01.0", "0000:16:00.0", "0000:17:00.0"), 0)
CARD = PciPath("0000:19:00.0", "pci0000:15", ("0000:15:01.0", "0000:16:00.0", "0000:17:01.0"), 0)
SECOND = PciPath("0008:01:00.0", "pci0008:00", ("0008:00:00.0",), None)


def connected() -> ExactReport:
    """Return the report of a node with two GPUs and the virtual functions of a network card."""
    links = {("0000:18:00.0", "0008:01:00.0"): 4}
    tree = tree_of((SECOND, CARD, FIRST), links, (CpuSet.parse("0-2"), CpuSet.parse("3-5")))
    devices = {
        GPU_ID: (
            Device("a", (0,), pci=FIRST.address),
            Device("b", (1,), pci=SECOND.address),
        ),
        NIC: (*(Device(f"{n}", (0,), pci=CARD.address) for n in range(8)), Device("x", (1,))),
    }
    node = start(
        replace(dual_socket_ht(), tree=tree), static_settings("restricted"), devices=devices
    )
    return report_of(node)


def test_the_tree_of_a_report_can_be_read_by_a_person() -> None:
    """Paths as in sysfs, and which device is which function."""
    wire = json.loads(encode_report(connected()))
    assert wire["tree"] == {
        "pci": [
            "0000:15/15:01.0/16:00.0/17:00.0/18:00.0@0",
            "0000:15/15:01.0/16:00.0/17:01.0/19:00.0@0",
            "0008:00/00:00.0/01:00.0",
        ],
        "links": "0+2=4",
        "dies": ["0-2", "3-5"],
    }
    assert wire["functions"] == {GPU_ID: "0 2", NIC: "8*1 -"}


def test_the_tree_survives_the_way_through_a_report_and_a_model() -> None:
    """So that a scheduler and the tools know what the exporter knew."""
    report = connected()
    read = decode_report(encode_report(report))
    assert read == report
    assert isinstance(read, ExactReport)
    model = node_of(read)
    assert isinstance(model, KubeletNode)
    assert report_of(model).tree == report.tree
    assert report_of(model).devices == report.devices


def test_a_report_without_a_tree_says_nothing_of_it() -> None:
    """Its text is what it was before there were trees."""
    report = connected()
    plain = {name: replace(table, functions=()) for name, table in report.devices.items()}
    wire = json.loads(encode_report(replace(report, tree=DeviceTree(), devices=plain)))
    assert wire.keys().isdisjoint(("tree", "functions"))


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("tree", {"pci": ["15:01.0"]}),
        ("tree", {"pci": ["0000:15/15:01.0@64"]}),
        ("tree", {"pci": ["0000:15/15:01.0@0"], "links": "0+1=2"}),
        ("tree", {"pci": ["0000:15/15:01.0@0"], "links": "all"}),
        ("functions", {GPU_ID: "0 3"}),
        ("functions", {GPU_ID: "0"}),
        ("functions", {GPU_ID: "20000*0"}),
        ("functions", {GPU_ID: "here there"}),
    ],
)
def test_a_tree_that_makes_no_sense_is_told(part: str, value: Any) -> None:
    """As the rest of a report is: by a reason, not by an exception."""
    wire = json.loads(encode_report(connected()))
    wire[part] = value
    answer = decode_report(json.dumps(wire))
    assert isinstance(answer, BadReport)
    assert "malformed" in answer.reason


@st.composite
def trees(draw: st.DrawFn) -> DeviceTree:
    """Draw any tree."""
    address = st.builds(
        "{:04x}:{:02x}:{:02x}.{}".format,
        st.integers(0, 0xFFFFF),
        st.integers(0, 255),
        st.integers(0, 31),
        st.integers(0, 7),
    )
    root = st.builds("pci{:04x}:{:02x}".format, st.integers(0, 0xFFFFF), st.integers(0, 255))
    numa = st.none() | st.integers(0, 63)
    bridges = st.lists(address, max_size=4).map(tuple)
    found = tree_of(draw(st.lists(st.builds(PciPath, address, root, bridges, numa), max_size=4)))
    names = list(found.paths)
    pairs = [(name, other) for name in names for other in names if name < other]
    links = draw(st.dictionaries(st.sampled_from(pairs), st.integers(1, 20))) if pairs else {}
    return tree_of(found.paths.values(), links)


@settings(max_examples=50)
@given(trees())
def test_any_tree_reads_back_as_it_was(tree: DeviceTree) -> None:
    """Whatever is connected to what."""
    report = replace(connected(), tree=tree, devices={})
    assert decode_report(encode_report(report)) == report


@pytest.mark.parametrize(("node", "known"), [(63, True), (64, False)])
def test_numa_nodes_of_paths_have_ids_that_there_are(node: int, *, known: bool) -> None:
    """A tree is read alone, without the machine that it belongs to."""
    wire = json.loads(encode_report(connected()))
    first, *others = wire["tree"]["pci"]
    wire["tree"]["pci"] = [first.replace("@0", f"@{node}"), *others]
    answer = decode_report(json.dumps(wire))
    assert isinstance(answer, ExactReport) == known
    if isinstance(answer, BadReport):
        assert "63 is the highest id of a NUMA node" in answer.reason


@pytest.mark.parametrize("second", ["0000:15/15:01.0@0", "0000:15/15:02.0@0"])
def test_functions_are_told_once_and_in_order(second: str) -> None:
    """Links and devices name them by their position."""
    table = TreeTable(pci=("0000:15/15:02.0@0", second))
    with pytest.raises(InvalidValue, match="not in ascending order"):
        read_tree(table)
