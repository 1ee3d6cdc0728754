"""Nodes, pods and plugins for the tests of the scheduling packages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import pytest

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeStatus
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.scheduling.snapshot.pods import PodInfo

MakeNode = Callable[..., Node]


class MakePod(Protocol):
    """Makes a pod that asks for *cpu*."""

    def __call__(self, name: str, cpu: str = "1", **spec: Any) -> PodInfo:
        """Make it; *spec* are further fields of its spec."""
        ...


@pytest.fixture
def make_node() -> MakeNode:
    """Make a node with that many CPUs."""

    def make(name: str, cpus: int = 8, **labels: str) -> Node:
        return Node(
            metadata=ObjectMeta(name=name, labels=labels),
            status=NodeStatus(
                allocatable={"cpu": str(cpus), "memory": "16Gi", "pods": "110"},
            ),
        )

    return make


def pod_of(name: str, cpu: str = "1", **spec: Any) -> PodInfo:
    """Return a pod that asks for *cpu*; *spec* are further fields of its spec."""
    resources = ResourceRequirements(requests={"cpu": cpu})
    return PodInfo(
        Pod(
            metadata=ObjectMeta(name=name, namespace="default", uid=name),
            spec=PodSpec(containers=(Container(name="c", resources=resources),), **spec),
        )
    )


@pytest.fixture
def make_pod() -> MakePod:
    """Make a pod that asks for *cpu*."""
    return pod_of
