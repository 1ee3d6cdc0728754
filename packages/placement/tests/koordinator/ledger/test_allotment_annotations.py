"""Allotments live in annotations: they read back as written, and others' placements count."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from packages.placement.tests.strategies.allotments import allotments

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Pod
from numakube.topology.allotments import Allotment, CpuExclusive, HeldDevice, Share
from numakube.values.cpuset import CpuMask
from numakube_placement.koordinator.allotments import allotment_of, annotations_for
from numakube_placement.koordinator.annotation_values import Arbiter, BindPolicy
from numakube_placement.koordinator.node_facts import DevicePlace, NodeFacts
from numakube_placement.koordinator.placement_rule import PlacementRule
from numakube_placement.koordinator.pod_wish import PodWish

STATUS = "scheduling.koordinator.sh/resource-status"
SPEC = "scheduling.koordinator.sh/resource-spec"
ALLOCATED = "scheduling.koordinator.sh/device-allocated"
OBSERVED = "kai.scheduler/numa-placement-observed"
PREDICTED = "kai.scheduler/numa-placement-predicted"

FULL = PlacementRule(arbiter=Arbiter.SCHEDULER, bind=BindPolicy.FULL_PCPUS)
FACTS = NodeFacts(
    node="n1",
    devices=(
        DevicePlace(type="gpu", minor=4, id="GPU-4"),
        DevicePlace(type="rdma", minor=1, id="0000:5f:00.0"),
    ),
)


def pod(annotations: dict[str, Any]) -> Pod:
    """Return a pod with *annotations*, given as text or as what the JSON says."""
    texts = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in annotations.items()
    }
    return Pod(metadata=ObjectMeta(name="web", annotations=texts))


def written(
    allotment: Allotment, rule: PlacementRule = FULL, annotations: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return what is written for *allotment*, as what the JSON says."""
    texts = annotations_for(pod(annotations or {}), PodWish(), rule, allotment, FACTS)
    return {key: json.loads(text) for key, text in texts.items()}


def read(annotations: dict[str, Any]) -> Allotment:
    """Return what a pod with good *annotations* holds."""
    problems: list[str] = []
    allotment = allotment_of(pod(annotations), problems)
    assert problems == []
    assert allotment is not None
    return allotment


@given(allotments(), st.sampled_from(BindPolicy), st.booleans())
def test_what_is_written_reads_back_the_same(
    allotment: Allotment, bind: BindPolicy, required: bool
) -> None:
    """A scheduler that starts finds who holds what."""
    rule = PlacementRule(arbiter=Arbiter.SCHEDULER, bind=bind, bind_required=required)
    spec = {"preferredCPUExclusivePolicy": allotment.cpu_exclusive.value or "None"}
    before = pod({SPEC: spec})
    texts = annotations_for(before, PodWish(), rule, allotment, FACTS)
    merged = before.metadata.annotations | texts
    after = msgspec.structs.replace(
        before, metadata=msgspec.structs.replace(before.metadata, annotations=merged)
    )
    problems: list[str] = []
    assert (allotment_of(after, problems) or Allotment()) == allotment
    assert problems == []


def test_the_annotations_are_koordinators() -> None:
    """The example of a pod with CPUs, memory, a GPU and a virtual function on NUMA node 1."""
    allotment = Allotment(
        total=Share(
            cpus=CpuMask(0b1111 << 26),
            zones={1: {"cpu": 4000, "memory": 8 << 30}},
            mask=0b10,
            devices=(
                HeldDevice(type="gpu", minor=4, resources={"koordinator.sh/gpu-core": 100}),
                HeldDevice(
                    type="rdma",
                    minor=1,
                    resources={"koordinator.sh/rdma": 1},
                    vfs=("0000:5f:02.4",),
                ),
            ),
        )
    )
    assert written(allotment) == {
        STATUS: {
            "cpuset": "26-29",
            "numaNodeResources": [{"node": 1, "resources": {"cpu": "4", "memory": "8Gi"}}],
        },
        SPEC: {"preferredCPUBindPolicy": "FullPCPUs"},
        ALLOCATED: {
            "gpu": [{"minor": 4, "id": "GPU-4", "resources": {"koordinator.sh/gpu-core": "100"}}],
            "rdma": [
                {
                    "minor": 1,
                    "id": "0000:5f:00.0",
                    "resources": {"koordinator.sh/rdma": "1"},
                    "extension": {"vfs": [{"minor": -1, "busID": "0000:5f:02.4"}]},
                }
            ],
        },
    }


def test_what_each_container_holds_stands_beside_the_sums() -> None:
    """Koordinator's agents pass over the field that they do not know."""
    main = Share(cpus=CpuMask(0b11), zones={0: {"cpu": 2000}}, mask=1)
    side = Share(cpus=CpuMask(0b1100), zones={2: {"cpu": 2000}}, mask=0b100)
    both = Share(cpus=CpuMask(0b1111), zones={**main.zones, **side.zones}, mask=0b101)
    status = written(Allotment(total=both, containers={"main": main, "side": side}))[STATUS]
    assert status["cpuset"] == "0-3"
    assert status["containers"] == [
        {
            "name": "main",
            "cpuset": "0-1",
            "numaNodeResources": [{"node": 0, "resources": {"cpu": "2"}}],
        },
        {
            "name": "side",
            "cpuset": "2-3",
            "numaNodeResources": [{"node": 2, "resources": {"cpu": "2"}}],
        },
    ]


def test_nothing_is_written_for_a_pod_that_holds_nothing() -> None:
    """Such as one that no policy and no class makes special."""
    assert written(Allotment()) == {}


def test_a_pod_in_a_shared_pool_is_told_no_way_of_binding() -> None:
    """The policy is written back for bound pods only."""
    share = Share(zones={0: {"cpu": 500}}, mask=1)
    assert written(Allotment(total=share)).keys() == {STATUS}


@pytest.mark.parametrize(
    ("given_spec", "required", "told"),
    [
        (None, False, {"preferredCPUBindPolicy": "FullPCPUs"}),
        (None, True, {"requiredCPUBindPolicy": "FullPCPUs"}),
        ({"requiredCPUBindPolicy": "Default"}, True, {"requiredCPUBindPolicy": "FullPCPUs"}),
        ({"preferredCPUBindPolicy": "Default"}, False, {"preferredCPUBindPolicy": "FullPCPUs"}),
        (
            {"preferredCPUBindPolicy": "Default"},
            True,
            {"requiredCPUBindPolicy": "FullPCPUs", "preferredCPUBindPolicy": "FullPCPUs"},
        ),
        (
            {"preferredCPUBindPolicy": "SpreadByPCPUs"},
            True,
            {"requiredCPUBindPolicy": "FullPCPUs", "preferredCPUBindPolicy": "SpreadByPCPUs"},
        ),
        ({"preferredCPUBindPolicy": "SpreadByPCPUs"}, False, None),
        ({"requiredCPUBindPolicy": "FullPCPUs"}, True, None),
        (
            '{"preferredCPUExclusivePolicy": "PCPULevel", "ofOthers": {"a": [1]}}',
            False,
            {
                "preferredCPUExclusivePolicy": "PCPULevel",
                "ofOthers": {"a": [1]},
                "preferredCPUBindPolicy": "FullPCPUs",
            },
        ),
    ],
)
def test_the_way_of_binding_is_written_back_where_the_pod_left_it_open(
    given_spec: Any, required: bool, told: dict[str, Any] | None
) -> None:
    """Fields of others stay."""
    rule = PlacementRule(
        arbiter=Arbiter.SCHEDULER, bind=BindPolicy.FULL_PCPUS, bind_required=required
    )
    before = {} if given_spec is None else {SPEC: given_spec}
    assert written(Allotment(total=Share(cpus=CpuMask(3))), rule, before).get(SPEC) == told


def test_a_pod_of_koordinators_scheduler_is_read() -> None:
    """Exclusivity stands in the other annotation."""
    allotment = read(
        {
            STATUS: {"cpuset": "0-1", "numaNodeResources": [{"node": 0, "resources": {"cpu": 2}}]},
            SPEC: {"preferredCPUExclusivePolicy": "NUMANodeLevel"},
        }
    )
    assert allotment.total == Share(cpus=CpuMask(0b11), zones={0: {"cpu": 2000}}, mask=1)
    assert allotment.cpu_exclusive is CpuExclusive.NUMA_NODE_LEVEL


@pytest.mark.parametrize(
    "placement",
    [
        [
            {"zone": "node-0", "amount": {"cpu": "8"}},
            {"zone": "node-3", "amount": {"memory": "1Gi"}},
        ],
        {"cpu": {"0": 8}, "memory": {"3": "1Gi"}},
    ],
)
def test_a_placement_of_kai_is_read_in_both_forms(placement: Any) -> None:
    """It takes of NUMA nodes and binds nothing."""
    share = read({OBSERVED: placement}).total
    assert share == Share(zones={0: {"cpu": 8000}, 3: {"memory": 1 << 30}}, mask=0b1001)


def test_what_kai_observed_counts_before_what_it_predicted() -> None:
    """And both after a scheduler's own word."""
    zone = [{"zone": "node-0", "amount": {"cpu": "1"}}]
    other = [{"zone": "node-1", "amount": {"cpu": "1"}}]
    assert read({OBSERVED: zone, PREDICTED: other}).total.mask == 0b1
    assert read({OBSERVED: [], PREDICTED: other}).total.mask == 0b10
    assert read({STATUS: {"cpuset": "4"}, OBSERVED: zone}).total == Share(cpus=CpuMask(0b10000))


@pytest.mark.parametrize(
    ("annotations", "place"),
    [
        ({STATUS: "{"}, f"[{STATUS}]: not JSON"),
        ({STATUS: "[" * 100_000}, f"[{STATUS}]: lists and maps are nested deeper than"),
        ({OBSERVED: "[" * 100_000}, f"[{OBSERVED}]: lists and maps are nested deeper than"),
        ({STATUS: {"cpuset": "x"}}, f"[{STATUS}].cpuset: "),
        ({STATUS: {"cpuset": 3}}, f"[{STATUS}].cpuset: "),
        (
            {STATUS: {"numaNodeResources": [{"node": 64}]}},
            f"[{STATUS}].numaNodeResources[0].node: no NUMA node 64",
        ),
        (
            {STATUS: {"numaNodeResources": [{"node": 0, "resources": {"cpu": "?"}}]}},
            f"[{STATUS}].numaNodeResources[0].resources: ",
        ),
        (
            {STATUS: {"containers": [{"name": "a", "devices": {"gpu": [{"minor": "0"}]}}]}},
            f"[{STATUS}].containers[0].devices[gpu][0].minor: ",
        ),
        (
            {ALLOCATED: {"gpu": [{"minor": 0, "resources": {"a/b": "?"}}]}},
            f"[{ALLOCATED}][gpu][0].resources: ",
        ),
        ({OBSERVED: "["}, f"[{OBSERVED}]: "),
        ({OBSERVED: [{"zone": "0"}]}, f"[{OBSERVED}]: invalid format for name"),
        ({OBSERVED: {"cpu": {"x": 1}}}, f"[{OBSERVED}]: "),
        ({OBSERVED: [{"zone": "node-99"}]}, f"[{OBSERVED}]: "),
    ],
)
def test_what_cannot_be_read_is_told_and_counts_as_nothing(
    annotations: dict[str, Any], place: str
) -> None:
    """The pod is no reason to stop."""
    problems: list[str] = []
    allotment = allotment_of(pod(annotations), problems)
    assert len(problems) == 1
    assert problems[0].startswith(f"metadata.annotations{place}")
    held = allotment.total if allotment else Share()
    assert not held.cpus
    assert not held.zones


def test_a_pod_without_such_annotations_holds_nothing() -> None:
    """By a scheduler's decision, that is."""
    assert allotment_of(pod({}), []) is None


_TEXTS = st.text(max_size=10) | st.sampled_from(["{}", "[]", "null", "1:", '{"cpuset":null}'])


@given(st.dictionaries(st.sampled_from([STATUS, ALLOCATED, OBSERVED, PREDICTED]), _TEXTS))
def test_no_annotation_whatsoever_raises(annotations: dict[str, str]) -> None:
    """Annotations are what people write."""
    allotment_of(pod(annotations), [])
