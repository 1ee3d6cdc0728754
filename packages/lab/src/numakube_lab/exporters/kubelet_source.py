"""What an exporter reads of a lab's kubelet, without sockets and files in between.

The kubelet's own answers, its state and its pods, read in the way of every exporter, so that a
thousand exporters cost what they compute. One that runs in a container of the lab reads the same
over sockets and from disk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.kubelet_config import with_defaults
from numakube.apps.exporter.api_pods import KnownPods, uids_of
from numakube.apps.exporter.kubelet_checkpoints import Checkpoints
from numakube.apps.exporter.kubelet_config_sources import KnownConfig
from numakube.apps.exporter.node_scan import NodeReader
from numakube.apps.exporter.numa_hardware import hardware_of
from numakube.errors import KubeletUnavailable
from numakube.kubelet.state_files import states_of
from numakube.node.pci.device_links import UNKNOWN, Connected, connected_devices

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numakube.api.pod import Pod
    from numakube.apps.exporter.numa_hardware import Hardware
    from numakube.apps.exporter.scan_inputs import NodeInputs, PodName
    from numakube.kube.store import Store
    from numakube.kubelet.machine import Machine
    from numakube.node.podresources_client import AllocatableResources, PodResources
    from numakube_lab.exporters.exporter_faults import Freezer
    from numakube_lab.nodes.kubelet_admission import Admission
    from numakube_lab.nodes.lab_kubelet import LabKubelet


class LabSource:
    """Reads one kubelet of the lab."""

    def __init__(
        self, kubelet: LabKubelet, hardware: Hardware, pods: Store[Pod], freezer: Freezer
    ) -> None:
        machine = hardware.machine
        connected = UNKNOWN if machine is None else connected_devices(machine)

        async def known_hardware() -> Hardware:
            return hardware

        async def known_connections(ids: frozenset[str]) -> Connected:
            return connected

        self._freezer = freezer
        self._reader = NodeReader(
            hardware=known_hardware,
            kubelet=_Answers(kubelet),
            config=KnownConfig(with_defaults(kubelet.plan.config)),
            checkpoints=_States(kubelet),
            pods=_NodePods(kubelet, pods),
            version=lambda: kubelet.plan.kubelet_version,
            connections=known_connections,
        )

    async def read(self) -> NodeInputs:
        """Return what the node is and holds now; a frozen exporter does not get there.

        Raises:
            KubeletUnavailable: the kubelet is stopped, or has just started.
        """
        await self._freezer.thawed()
        return await self._reader.read()


class _Answers:
    """A kubelet's PodResources."""

    def __init__(self, kubelet: LabKubelet) -> None:
        self._kubelet = kubelet

    def incarnation(self) -> object:
        """Return the book-keeping, which every start resets."""
        return self._kubelet.admission

    async def list_pods(self) -> tuple[PodResources, ...]:
        """Return what every listed pod holds."""
        _running(self._kubelet)
        return tuple(self._kubelet.pod_resources())

    async def allocatable(self) -> AllocatableResources:
        """Return what the node could give out if it were empty."""
        _running(self._kubelet)
        return self._kubelet.allocatable_resources()


class _States:
    """A kubelet's state files, which need not be written to be read."""

    def __init__(self, kubelet: LabKubelet) -> None:
        self._kubelet = kubelet
        self._seen: tuple[Admission, int] | None = None
        self._known = Checkpoints()

    def read(self) -> Checkpoints:
        """Return the state: the same object for as long as it has not changed."""
        admission = self._kubelet.admission
        if admission is None:
            return self._known
        if self._seen is None or self._seen != (admission, admission.version):
            cpu, memory, devices = states_of(admission.model)
            self._known = Checkpoints(
                cpu=cpu, memory=memory, devices=devices, allocated=admission.allocated
            )
            self._seen = admission, admission.version
        return self._known


class _NodePods(KnownPods):
    """The pods of a node as the lab's kubelets know them."""

    def __init__(self, kubelet: LabKubelet, pods: Store[Pod]) -> None:
        self._kubelet = kubelet
        self._pods = pods

    def objects(self) -> Iterable[Pod]:
        """Return the pods that are bound to the node."""
        return self._pods.select("node", self._kubelet.name)

    async def uids(
        self, listed: Collection[PodName], held: Collection[str]
    ) -> Mapping[PodName, str]:
        """Return the uids of the pods that the kubelet lists."""
        del listed, held
        return uids_of(_running(self._kubelet).listed)


def _running(kubelet: LabKubelet) -> Admission:
    if kubelet.admission is None:
        raise KubeletUnavailable(f"the kubelet of {kubelet.name} is not running")
    return kubelet.admission


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
