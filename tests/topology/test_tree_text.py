"""The tree of devices goes through a report, which others read as before."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kubelet.build import start, static_settings
from tests.kubelet.conftest import dual_socket_ht

from numakube.kubelet.device_connections import DeviceTree, PciPath, tree_of
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device
from numakube.topology.exact_report import BadReport, ExactReport
from numakube.topology.model_from_report import node_of, report_of
from numakube.topology.report_codec import decode_report, encode_report
from numakube.values.cpuset import CpuSet

GPU, NIC = "vendor.example/gpu", "vendor.example/nic"
FIRST = PciPath("0000:18:00.0", "pci0000:15", ("0000:15:01.0", "0000:16:00.0", "0000:17:00.0"), 0)
CARD = PciPath("0000:19:00.0", "pci0000:15", ("0000:15:01.0", "0000:16:00.0", "0000:17:01.0"), 0)
SECOND = PciPath("0008:01:00.0", "pci0008:00", ("0008:00:00.0",), None)


def connected() -> ExactReport:
    """Return the report of a node with two GPUs and the virtual functions of a network card."""
    links = {("0000:18:00.0", "0008:01:00.0"): 4}
    tree = tree_of((SECOND, CARD, FIRST), links, (CpuSet.parse("0-2"), CpuSet.parse("3-5")))
    devices = {
        GPU: (Device("a", (0,), pci=FIRST.address), Device("b", (1,), pci=SECOND.address)),
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
    assert wire["functions"] == {GPU: "0 2", NIC: "8*1 -"}


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
        ("tree", {"pci": ["0000:15/15:02.0@0", "0000:15/15:01.0@0"]}),
        ("tree", {"pci": ["0000:15/15:01.0@0"], "links": "0+1=2"}),
        ("tree", {"pci": ["0000:15/15:01.0@0"], "links": "all"}),
        ("functions", {GPU: "0 3"}),
        ("functions", {GPU: "0"}),
        ("functions", {GPU: "20000*0"}),
        ("functions", {GPU: "here there"}),
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
    pairs = [(one, other) for one in names for other in names if one < other]
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
