"""Which pods have something for themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.apps.exporter.build import container, pod

from numakube.apps.exporter.report_parts import Exclusive, exclusive_use
from numakube.node.podresources_client import ContainerResources, Devices, Memory


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        (container(cpus=(3,)), "cpu"),
        (container(memory=[Memory("memory", 0, (0,))]), "memory"),
        (container(devices=[Devices("a.b/c", ("d",), (-1, 1))]), "device"),
        (container(cpus=(3,), memory=[Memory("memory", 1, (0,))]), "cpu"),
    ],
)
def test_a_container_with_something_on_a_numa_node_makes_a_pod_exclusive(
    held: ContainerResources, reason: str
) -> None:
    """CPUs come first, then memory of whatever size, then devices."""
    found = exclusive_use(pod(container("other"), held))
    assert found is not None
    assert (found.container, found.reason) == ("c", reason)


@pytest.mark.parametrize(
    "held",
    [
        container(),
        container(memory=[Memory("memory", 1)]),
        container(memory=[Memory("memory", 1, (-1,))]),
        container(devices=[Devices("a.b/c", ("d",))]),
        container(devices=[Devices("a.b/c", ("d",), (-1,))]),
        container(devices=[Devices("a.b/c", (), (0,))]),
    ],
)
def test_what_is_nowhere_makes_no_pod_exclusive(held: ContainerResources) -> None:
    """No NUMA node, NUMA node -1, or no device at all."""
    assert exclusive_use(pod(held)) is None


def test_a_pod_with_resources_as_a_whole_is_exclusive() -> None:
    """Pod-level CPUs and memory may be listed with no container that has any."""
    shared = pod(container())
    assert exclusive_use(replace(shared, cpu_ids=(4,))) == Exclusive("", "cpu")
    memory = (Memory("memory", 1, (0,)),)
    assert exclusive_use(replace(shared, memory=memory)) == Exclusive("", "memory")
