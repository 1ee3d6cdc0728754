"""A kubelet's resource managers on one machine: the model that everything else asks.

    node = KubeletNode(machine, settings)
    outcome = node.admit(pod)      # Admitted with placements, or Rejected in the kubelet's words
    node.remove(pod.metadata.uid)

A removed or rejected pod is only marked: what it holds is released at the start of the next
admission (or by `collect_garbage`), which is when the kubelet does it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.kubelet.admission_outcome import (
    NO_ANSWER,
    Admitted,
    ContainerPlacement,
    NoAnswer,
    Rejected,
)
from numakube.kubelet.cpu_manager import CpuManager, start_cpu_manager
from numakube.kubelet.cpu_topology import CpuTopology
from numakube.kubelet.device_manager import DeviceManager, PreferredAllocation
from numakube.kubelet.kubelet_versions import DEFAULT, behaviour_of
from numakube.kubelet.memory_manager import MemoryManager, start_memory_manager
from numakube.kubelet.pod_demand import PodDemand, demand_of, demand_rules
from numakube.kubelet.topology_manager import TopologyManager
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numakube.api.pod import Pod
    from numakube.kubelet.admission_trace import AdmissionTrace
    from numakube.kubelet.machine import Device, Machine
    from numakube.kubelet.manager_settings import KubeletSettings
    from numakube.kubelet.topology_hints import HintProvider


class KubeletNode:
    """One kubelet; raises `KubeletStartError` if it would not start with *settings*."""

    def __init__(
        self,
        machine: Machine,
        settings: KubeletSettings,
        *,
        devices: Mapping[str, Iterable[Device]] | None = None,
        kubernetes: str = DEFAULT,
    ) -> None:
        self.machine = machine
        self.settings = settings
        self.behaviour = behaviour_of(kubernetes)
        # The order of construction decides which problem is reported first.
        self.topology = TopologyManager(machine, settings, self.behaviour)
        self.devices = DeviceManager(self.topology.numa, self.behaviour)
        self.devices.tree = machine.tree
        self.cpus: CpuManager | None = start_cpu_manager(
            CpuTopology.of(machine), settings, self.behaviour
        )
        self.memory: MemoryManager | None = start_memory_manager(machine, settings, self.behaviour)
        self._active: dict[str, PodDemand] = {}
        self._awaits_pods = False
        self.demand_rules = demand_rules(settings, self.behaviour)
        for resource, members in (machine.devices if devices is None else devices).items():
            self.devices.register(resource, members)

    def clone(self) -> KubeletNode:
        """Return an independent copy, to try something out."""
        copy = object.__new__(KubeletNode)
        copy.__dict__.update(self.__dict__)
        copy.topology = self.topology.clone()
        copy.devices = self.devices.clone()
        copy.cpus = self.cpus and self.cpus.clone()
        copy.memory = self.memory and self.memory.clone()
        copy._active = dict(self._active)
        return copy

    @property
    def pods(self) -> Iterable[str]:
        """The uids of the active pods in order of admission."""
        return self._active.keys()

    @property
    def shared_cpus(self) -> CpuSet:
        """The pool in which containers without exclusive CPUs run; empty for CPU policy none."""
        return CpuSet(self.cpus.shared if self.cpus else 0)

    @property
    def awaits_pods(self) -> bool:
        """Whether pods of before a restart are still coming."""
        return self._awaits_pods

    def register_devices(
        self,
        resource: str,
        devices: Iterable[Device],
        *,
        preferred: PreferredAllocation | None = None,
    ) -> None:
        """Replace the devices of *resource*, as a plugin's ListAndWatch message does."""
        self.devices.register(resource, devices, preferred=preferred)

    def demand_of(self, pod: Pod) -> PodDemand:
        """Return what *pod* demands of this kubelet."""
        return demand_of(pod, self.demand_rules)

    def admit(
        self, pod: Pod | PodDemand, *, trace: AdmissionTrace | None = None
    ) -> Admitted | Rejected:
        """Admit *pod*, or refuse it; with *trace*, record how the decision came about."""
        demand = pod if isinstance(pod, PodDemand) else self.demand_of(pod)
        self._active[demand.uid] = demand
        self.collect_garbage()
        self._forget_other_containers(demand)
        rejected = self._admit(demand, trace)
        if rejected is not None:
            del self._active[demand.uid]
            return rejected
        containers = {
            container.name: self.placement(demand.uid, container.name)
            for container in demand.containers
        }
        return Admitted(containers, self.shared_cpus)

    def _admit(self, demand: PodDemand, trace: AdmissionTrace | None) -> Rejected | None:
        try:
            return self.topology.admit(demand, self._providers(), trace)
        except NoAnswer as error:
            return Rejected(NO_ANSWER, str(error))

    def placement(self, uid: str, container: str) -> ContainerPlacement:
        """Return what a container of an active pod holds."""
        return ContainerPlacement(
            cpus=self.cpus.held_by(uid, container) if self.cpus else CpuSet(),
            memory=self.memory.held_by(uid, container) if self.memory else (),
            devices=self.devices.held_by(uid, container),
            hint=self.topology.hint_of(uid, container),
        )

    def start_container(self, uid: str, name: str) -> bool:
        """Say that a container starts; tell whether others have given something back for it.

        Only the Memory Manager minds: finished init containers keep CPUs and devices.
        """
        pod = self._active.get(uid)
        if pod is None or self.memory is None:
            return False
        started = next((container for container in pod.containers if container.name == name), None)
        return started is not None and self.memory.start_container(pod, started)

    def remove(self, uid: str) -> None:
        """Mark a pod as gone; unknown uids are fine."""
        self._active.pop(uid, None)

    def adopt(self, uid: str) -> None:
        """Count a pod as active that was admitted elsewhere: what it holds is set by hand."""
        self._active[uid] = PodDemand(uid, guaranteed=False, managed=False, containers=())

    def await_pods(self, running: Collection[tuple[str, str]] | None = None) -> None:
        """Release nothing until `all_pods_known`: the pods of before a restart are still coming.

        Args:
            running: the containers that the runtime still runs, by uid and name; all by default.
        """
        self._awaits_pods = self.devices.starting = True
        self.devices.running = running

    def all_pods_known(self) -> None:
        """Say that every pod which exists has been admitted since the restart."""
        self._awaits_pods = self.devices.starting = False

    def collect_garbage(self) -> None:
        """Release what pods hold that are not active any more."""
        if self._awaits_pods:
            return
        for manager in self._providers():
            for uid in manager.pods():
                if uid not in self._active:
                    manager.forget(uid)
        for uid in self.topology.hints.keys() - self._active.keys():
            self.topology.forget(uid)

    def _forget_other_containers(self, pod: PodDemand) -> None:
        """Release what a pod that is admitted again holds for containers that it has no longer."""
        if self._awaits_pods:
            return
        names = {container.name for container in pod.containers}
        for manager in (self.cpus, self.memory):
            if manager is not None:
                manager.forget_others(pod.uid, names)

    def _providers(self) -> list[HintProvider]:
        """Return the resource managers in the order in which they are asked and allocate."""
        providers: list[HintProvider] = [self.devices]
        if self.cpus is not None:
            providers.append(self.cpus)
        if self.memory is not None:
            providers.append(self.memory)
        return providers

    @property
    def manages_pod_level_resources(self) -> bool:
        """Whether a pod with pod-level resources is managed as one bubble."""
        return self.demand_rules.manages_pod_level_resources
