"""An enforcer of groups in memory, with pods that a test writes down."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from numakube.api.koordinator import keys
from numakube.api.meta import ObjectMeta
from numakube.api.pod import ContainerStatus, Pod, PodStatus
from numakube.kube.clock import SystemClock
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.cgroups.group_files import Version
from numakube.node.cgroups.group_names import container_group, pod_group
from numakube.node.cgroups.strict_fake_groups import StrictGroups
from numakube.node.sysfs_machine import write_tree
from numakube_placement.enforcer.allowed_cpus import MachineReader
from numakube_placement.enforcer.enforce_loop import Enforcer
from numakube_placement.enforcer.enforcer_state_file import OriginalsFile
from numakube_placement.enforcer.group_writing import GroupWriter
from numakube_placement.enforcer.metrics import EnforcerMetrics, Reporter

PARENT = "kubepods.slice"
SHAPE = "1 socket, 4 cores, 4Gi"


def allotted(status: Mapping[str, Any]) -> dict[str, str]:
    """Return the annotations of a pod that was given something."""
    return {keys.RESOURCE_STATUS: json.dumps(status)}


def pod_of(uid: str, status: Mapping[str, Any] | None = None, **containers: str) -> Pod:
    """Return a running pod; its containers have the ids that are given."""
    annotations = {} if status is None else allotted(status)
    return Pod(
        metadata=ObjectMeta(name=uid, namespace="ns", uid=uid, annotations=annotations),
        status=PodStatus(
            phase="Running",
            container_statuses=tuple(
                ContainerStatus(name=name, container_id=f"containerd://{identity}")
                for name, identity in containers.items()
            ),
        ),
    )


def group_of(uid: str, identity: str = "") -> str:
    """Return the group of a pod, or of one of its containers."""
    group = pod_group(PARENT, "Burstable", uid)
    return container_group(group, f"containerd://{identity}") if identity else group


@dataclass
class Node:
    """A node, of four CPUs unless told: pods by uid, groups, and what the enforcer exports."""

    folder: Path
    version: Version = Version.V2
    known: dict[str, Pod] = field(default_factory=dict)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    shape: str = SHAPE

    def __post_init__(self) -> None:
        machine = from_shape(self.shape)
        cpus, mems = (1 << machine.cpu_count) - 1, (1 << len(machine.nodes)) - 1
        self.groups = StrictGroups(self.version, cpus, mems)
        self.groups.add(PARENT)
        write_tree(machine, self.folder / "sys")
        self.metrics = EnforcerMetrics(self.registry)
        self.enforcer = self.enforcing()

    def pods(self) -> Sequence[Pod]:
        """Return what the API has."""
        return list(self.known.values())

    def node_annotations(self) -> Mapping[str, str]:
        """Return nothing."""
        return {}

    def enforcing(self, reader: MachineReader | None = None) -> Enforcer:
        """Return an enforcer; a second one comes after a crash of the first."""
        state = self.folder / "cpu_manager_state"
        return Enforcer(
            knowledge=self,
            reader=reader or MachineReader(sysfs=self.folder / "sys", cpu_state=state),
            executor=GroupWriter(self.groups, OriginalsFile(self.folder)),
            reporter=Reporter(None),
            metrics=self.metrics,
            clock=SystemClock(),
            period=10.0,
        )

    def shown(self, name: str) -> list[str]:
        """Return the lines of a metric."""
        lines = generate_latest(self.registry).decode().splitlines()
        return [line for line in lines if line.startswith((f"{name}{{", f"{name} "))]
