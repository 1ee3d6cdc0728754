"""What a pod demands of the resource managers, by how its kubelet reads pod-level resources."""

from __future__ import annotations

import pytest
from tests.kubelet.build import container, guaranteed, pod, static_settings

from numakube.api.codec import ResourceList
from numakube.api.pod import Container, ResourceRequirements
from numakube.kubelet.kubelet_versions import behaviour_of
from numakube.kubelet.pod_demand import DemandRules, demand_of, demand_rules

GIB = 1 << 30
BUBBLES = DemandRules(manages_pod_level_resources=True)
LEVEL: ResourceList = {"cpu": "4", "memory": "8Gi"}


@pytest.mark.parametrize(
    ("kubernetes", "read", "managers", "ignores", "manages"),
    [
        ("1.33", True, False, False, False),
        ("1.34", True, False, True, False),
        ("1.34", False, False, False, False),
        ("1.36", False, False, True, False),
        ("1.36", False, True, True, False),
        ("1.36", True, True, True, True),
    ],
)
def test_gates_and_versions_decide_who_looks_at_pod_level_resources(
    kubernetes: str, *, read: bool, managers: bool, ignores: bool, manages: bool
) -> None:
    """Since the managers have a gate, they leave such pods alone whatever the other gate says."""
    gates = {"PodLevelResources": read, "PodLevelResourceManagers": managers}
    rules = demand_rules(static_settings(feature_gates=gates), behaviour_of(kubernetes))
    assert rules.ignores_pod_level_resources == ignores
    assert rules.manages_pod_level_resources == manages


def test_only_a_pod_with_pod_level_resources_is_a_bubble() -> None:
    """Types of which it asks for nothing are none of its own."""
    assert demand_of(pod(guaranteed("app")), BUBBLES).pod_level is None
    level: ResourceList = {"cpu": "1", "memory": "1", "hugepages-1Gi": "0"}
    bubble = demand_of(pod(container("app"), level=level), BUBBLES).pod_level
    assert bubble is not None
    assert (bubble.exclusive_cpus, bubble.memory) == (1, {"memory": 1})


@pytest.mark.parametrize(
    ("requests", "limits", "own"),
    [
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, True),
        ({"cpu": "1", "memory": "1Gi"}, {"memory": "1Gi"}, False),
        ({"memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, False),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "1Gi"}, False),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "2Gi"}, False),
        ({"cpu": "0", "memory": "1Gi"}, {"cpu": "0", "memory": "1Gi"}, False),
    ],
)
def test_in_a_bubble_only_containers_guaranteed_by_themselves_have_something_of_their_own(
    requests: ResourceList, limits: ResourceList, *, own: bool
) -> None:
    """CPUs and memory are both asked for, and requests are limits."""
    app = Container(name="app", resources=ResourceRequirements(requests=requests, limits=limits))
    (found,) = demand_of(pod(app, level=LEVEL), BUBBLES).containers
    assert (found.exclusive_cpus, found.memory) == ((1, {"memory": GIB}) if own else (0, {}))


def test_where_no_bubbles_are_managed_requests_count_as_they_are() -> None:
    """A guaranteed pod's whole CPUs are exclusive; every pod's memory is known."""
    needs = ResourceRequirements(
        requests={"cpu": "1", "memory": "1Gi"}, limits={"cpu": "2", "memory": "1Gi"}
    )
    app = Container(name="app", resources=needs)
    rules = DemandRules(ignores_pod_level_resources=False)
    for level, exclusive in ((LEVEL, 1), (None, 0)):
        (found,) = demand_of(pod(app, level=level), rules).containers
        assert (found.exclusive_cpus, found.memory) == (exclusive, {"memory": GIB})


def test_one_container_of_no_whole_bytes_leaves_the_memory_of_its_pod_unknown() -> None:
    """A quantity is never rounded."""
    whole, part = guaranteed("whole"), guaranteed("part", memory="1000000500m")
    demand = demand_of(pod(whole, part), DemandRules())
    assert demand.containers[1].memory is None
    assert demand.memory is None
