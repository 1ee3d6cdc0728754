"""What an exporter reads of a lab's kubelet, without sockets and files in between.

The kubelet's own answers, its state and its pods, so that a thousand exporters cost what they
compute. One that runs in a container of the lab reads the same over sockets and from disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.kubelet_config import with_defaults
from numakube.apps.exporter.checkpoints import Checkpoints
from numakube.apps.exporter.hardware import hardware_of
from numakube.apps.exporter.inputs import KubeletFacts, NodeInputs
from numakube.apps.exporter.pod_book import uids_of
from numakube.errors import KubeletUnavailable
from numakube.kubelet.state_files import states_of

if TYPE_CHECKING:
    from numakube.apps.exporter.hardware import Hardware
    from numakube.kubelet.machine import Machine
    from numakube.lab.exporters.faults import Freezer
    from numakube.lab.nodes.kubelet import LabKubelet
    from numakube.lab.nodes.plan import NodePlan


class LabSource:
    """Reads one kubelet of the lab."""

    def __init__(self, kubelet: LabKubelet, hardware: Hardware, freezer: Freezer) -> None:
        self._kubelet = kubelet
        self._freezer = freezer
        self._hardware = hardware
        self._facts = _facts(kubelet.plan)

    async def read(self) -> NodeInputs:
        """Return what the node is and holds now; a frozen exporter does not get there.

        Raises:
            KubeletUnavailable: the kubelet is stopped.
        """
        await self._freezer.thawed()
        kubelet, admission = self._kubelet, self._kubelet.admission
        if admission is None or not kubelet.is_up:
            raise KubeletUnavailable(f"the kubelet of {kubelet.name} is not running")
        cpu, memory, devices = states_of(admission.model)
        return NodeInputs(
            hardware=self._hardware,
            allocatable=kubelet.allocatable_resources(),
            pods=tuple(kubelet.pod_resources()),
            kubelet=self._facts,
            checkpoints=Checkpoints(cpu=cpu, memory=memory, devices=devices),
            uids=uids_of(admission.pods),
        )

    async def aclose(self) -> None:
        """Do nothing."""


def _facts(plan: NodePlan) -> KubeletFacts:
    return KubeletFacts(config=with_defaults(plan.config), version=plan.kubelet_version)


class HardwareShelf:
    """The zones of machines, described once: most nodes of a lab share a few machines."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Machine, Hardware]] = {}

    def of(self, machine: Machine) -> Hardware:
        """Return the zones of *machine*."""
        # Keeping the machine keeps its id from being given to another one.
        kept = self._known.get(id(machine)) or (machine, hardware_of(machine))
        self._known[id(machine)] = kept
        return kept[1]
