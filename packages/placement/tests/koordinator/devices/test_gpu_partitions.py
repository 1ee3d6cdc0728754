"""E11: GPUs are given in the sets that can be linked, as Koordinator's Device lists them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from packages.placement.tests.koordinator.devices.test_device_choice import (
    big,
    gpus,
    ledger,
    minors,
    refused,
    whole,
    wish,
)
from packages.placement.tests.koordinator.wishing import container, pod

from numakube.api.codec import convert
from numakube.api.koordinator import keys
from numakube.api.koordinator.devices import GPU, RDMA, RDMA_SHARE, DeviceCr
from numakube.api.nodes import Node
from numakube.topology.allotments import Allotment, HeldDevice, Share
from numakube_placement.koordinator.device_choice import allot_devices
from numakube_placement.koordinator.node_facts import GpuPartition, NodeFacts
from numakube_placement.koordinator.node_ledger import NodeLedger
from numakube_placement.koordinator.placement_rule import PlacementRefusal, Why
from numakube_placement.koordinator.pod_wish import DeviceWish, PartitionWish
from numakube_placement.koordinator.read_node import facts_of
from numakube_placement.koordinator.read_pod import wish_of


def partition(*minors: int, score: int = 1, bandwidth: int = 400) -> GpuPartition:
    """Return a set of GPUs."""
    return GpuPartition(frozenset(minors), score, bandwidth)


TABLE = (
    *(partition(minor) for minor in range(8)),
    # Other pairs than those behind one PCIe switch.
    *(partition(minor, minor + 2) for minor in (0, 1, 4, 5)),
    partition(0, 1, 2, 3),
    partition(4, 5, 6, 7),
    partition(*range(8)),
)


def node(
    *held: HeldDevice, honor: bool = True, table: tuple[GpuPartition, ...] = TABLE
) -> NodeLedger:
    """Return eight GPUs with a table of partitions, some of which are held."""
    facts = NodeFacts(node="n", devices=tuple(big()), gpu_partitions=table, honors_partitions=honor)
    return NodeLedger.of(facts, {"other": Allotment(total=Share(devices=held))})


def allot(
    on: NodeLedger, count: int, mask: int | None = None, **more: Any
) -> tuple[HeldDevice, ...] | PlacementRefusal:
    """Allot whole GPUs."""
    return allot_devices(on, wish({GPU: gpus(count)}, **more), mask=mask)


@pytest.mark.parametrize(
    ("held", "count", "given"),
    [
        ((), 2, [0, 2]),
        ((0,), 2, [1, 3]),
        ((1,), 4, [4, 5, 6, 7]),
        ((), 8, list(range(8))),
        # Beside 4 it made a pair, which is spoiled already.
        ((4,), 1, [6]),
    ],
)
def test_gpus_are_given_as_a_set_that_leaves_the_larger_ones_whole(
    held: tuple[int, ...], count: int, given: list[int]
) -> None:
    """Even where other GPUs are closer to each other."""
    assert minors(allot(node(*whole(*held)), count)) == given


def test_where_the_table_is_honoured_nothing_else_is_given() -> None:
    """Each reason has a text of its own, Koordinator's."""
    refused(allot(node(), 3), Why.PARTITION_SIZE)
    refused(allot(node(table=()), 2), Why.NO_PARTITIONS)
    # 1 and 3, 5 and 7 are free, but no four of a set.
    refused(allot(node(*whole(0, 4)), 4), Why.PARTITIONS)


def test_a_table_that_is_only_preferred_comes_first() -> None:
    """Three GPUs are no set, and are given all the same."""
    assert minors(allot(node(honor=False), 2)) == [0, 2]
    assert len(minors(allot(node(honor=False), 3))) == 3
    refused(allot(node(honor=False), 3, partition=PartitionWish()), Why.PARTITION_SIZE)


def test_a_pod_asks_for_bandwidth_and_for_the_best_sets_only() -> None:
    """A higher score leaves the node in a better state."""
    table = (
        partition(0, 1, score=2, bandwidth=200),
        partition(2, 3, score=1, bandwidth=400),
    )
    fast = PartitionWish(bandwidth=300)
    assert minors(allot(node(table=table), 2)) == [0, 1]
    assert minors(allot(node(table=table), 2, partition=fast)) == [2, 3]
    best = PartitionWish(restricted=True)
    refused(allot(node(*whole(0), table=table), 2, partition=best), Why.PARTITIONS)
    assert minors(allot(node(*whole(0), table=table), 2)) == [2, 3]


def test_sets_lie_on_the_numa_nodes_in_question_with_cards_close_by() -> None:
    """A mask and devices that belong together count as ever."""
    assert minors(allot(node(), 2, mask=0b10)) == [4, 6]
    refused(allot(node(), 8, mask=0b01), Why.DEVICES)
    both = DeviceWish(requests={GPU: gpus(2), RDMA: {RDMA_SHARE: 200}}, joint=(GPU, RDMA))
    given = allot_devices(node(), both, mask=None)
    assert (minors(given), minors(given, RDMA)) == ([0, 2], [0, 1])


def test_parts_of_gpus_need_no_set() -> None:
    """They share a GPU with others anyway."""
    half = {name: amount // 2 for name, amount in gpus(1).items()}
    assert minors(allot_devices(node(table=()), wish({GPU: half}), mask=None)) == [0]
    assert ledger(big()).key != replace(node(), allotments={}).key


def read(table: object, **labels: str) -> NodeFacts:
    """Return what is known of a node whose Device has a table."""
    annotations = {keys.GPU_PARTITIONS: json.dumps(table)}
    metadata = {"name": "n", "annotations": annotations, "labels": labels}
    device = convert(DeviceCr, {"metadata": metadata, "spec": {"devices": []}})
    return facts_of(convert(Node, {"metadata": {"name": "n"}}), None, None, device)


def test_the_table_is_read_from_the_device() -> None:
    """Entries that make no sense are told and left out."""
    good = {"minors": [0, 1], "gpuLinkType": "NVLink", "ringBusBandwidth": "400Gi"}
    facts = read({"2": [{**good, "allocationScore": 3}]}, **{keys.GPU_PARTITION_POLICY: "Honor"})
    assert facts.gpu_partitions == (GpuPartition(frozenset({0, 1}), 3, 400 << 30),)
    assert facts.honors_partitions
    assert facts.problems == ()
    odd = read({"4": [good], "2": [good, {**good, "ringBusBandwidth": "fast"}]})
    assert len(odd.gpu_partitions) == 1
    assert not odd.honors_partitions
    place = f"Device n: metadata.annotations[{keys.GPU_PARTITIONS}]"
    assert [problem.startswith(place) for problem in odd.problems] == [True, True]


def test_the_pods_annotation_is_read() -> None:
    """A mistake is told with key and field."""
    one = container(**{"nvidia.com/gpu": "2"})
    spec = {"allocatePolicy": "Restricted", "ringBusBandwidth": "200Gi"}
    read = wish_of(pod(one, annotations={keys.GPU_PARTITION_SPEC: spec}))
    assert read.problems == ()
    assert read.devices is not None
    assert read.devices.partition == PartitionWish(restricted=True, bandwidth=200 << 30)
    wrong = {"allocatePolicy": "Strict", "ringBusBandwidth": "fast"}
    problems = wish_of(pod(one, annotations={keys.GPU_PARTITION_SPEC: wrong})).problems
    assert [".allocatePolicy: " in problems[0], ".ringBusBandwidth: " in problems[1]] == [True] * 2
