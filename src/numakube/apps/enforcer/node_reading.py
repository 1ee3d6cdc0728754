"""What the enforcer needs to know of its node: CPUs, and who has what of them already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.checkpoints.cpu_manager_state import CpuManagerState, peek_cpu_manager_state
from numakube.api.koordinator import keys
from numakube.api.koordinator.node_annotations import SystemQosResource
from numakube.apps.enforcer.allowed_cpus import NodeState
from numakube.errors import InvalidValue
from numakube.koordinator.annotation_json import read_json
from numakube.koordinator.node.read_cpus import kept_by_owner, layout_of
from numakube.kubelet.machines.sysfs_read import CPUS
from numakube.node.sysfs_machine import read_machine
from numakube.values.cpuset import CpuSet
from numakube.values.numamask import mask_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numakube.kubelet.machine import Machine

STATIC: Final = "static"
_NONE: Final = CpuManagerState(policy="none", default_cpus=CpuSet())


class NodeReader:
    """Reads a node again and again; its machine only if CPUs come or go.

    Attributes:
        problems: what could not be read the last time, each naming its source.
    """

    def __init__(self, *, sysfs: Path, cpu_state: Path, memory: bool = True) -> None:
        """Prepare.

        Args:
            sysfs: the tree that describes the machine.
            cpu_state: the state file of the kubelet's CPU Manager.
            memory: whether memory follows what was allotted.
        """
        self._sysfs = sysfs
        self._cpu_state = cpu_state
        self._memory = memory
        self._machine: tuple[str, Machine] | None = None
        self.problems: list[str] = []

    def read(self, annotations: Mapping[str, str]) -> NodeState:
        """Return what the node is now; *annotations* are those of its object.

        Raises:
            MalformedObject: sysfs makes no sense.
            CorruptCheckpoint: the kubelet's state makes no sense.
        """
        self.problems = []
        machine = self._read_machine()
        kubelet = self._read_kubelet()
        layout = layout_of(machine)
        return NodeState(
            layout=layout,
            memory_nodes=mask_of(node.id for node in machine.nodes if node.memory_bytes),
            static=kubelet.policy == STATIC,
            pinned=kubelet.by_pod,
            kept=kept_by_owner(annotations, layout, self.problems),
            system_cpus=_system_cpus(annotations),
            binds_memory=self._memory,
        )

    def _read_machine(self) -> Machine:
        try:
            online = (self._sysfs / CPUS / "online").read_text(encoding="ascii")
        except OSError:
            online = ""
        if self._machine is None or self._machine[0] != online:
            self._machine = online, read_machine(self._sysfs)
        return self._machine[1]

    def _read_kubelet(self) -> CpuManagerState:
        try:
            data = self._cpu_state.read_bytes()
        except FileNotFoundError:
            return _NONE
        return peek_cpu_manager_state(data, path=str(self._cpu_state))


def _system_cpus(annotations: Mapping[str, str]) -> int:
    """Return the CPUs for pods of class ``SYSTEM``; others report what cannot be read."""
    system = read_json(SystemQosResource, annotations, keys.NODE_SYSTEM_QOS, [])
    try:
        return CpuSet.parse(system.cpuset).bits if system is not None else 0
    except InvalidValue:
        return 0
