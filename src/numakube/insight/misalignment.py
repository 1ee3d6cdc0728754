"""One pod on its node: is what it has on as few NUMA nodes as possible, and if not, why?

The kubelet's part is compared with an idle node: a pod that is on no more NUMA nodes than it would
be there is aligned. Devices of claims have to be on the same NUMA nodes as the kubelet's part, as
far as there are enough of them. An exact report tells pods, not containers: where kubelets align
containers one by one, a pod may be on as many NUMA nodes as it has containers with resources of
their own.

A cluster runs many pods that are not meant to be aligned, such as Guaranteed ones of kube-system: a
pod counts only if it was given to a scheduler that knows NUMA (`is_given_to_align`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from numakube.insight.dra_devices import zones_needed, zones_of_devices
from numakube.insight.scheduler_holdings import allotted_holding
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.pod_demand import DemandRules, demand_of
from numakube.scheduling.numa.caches.counts_belief import use_in_model
from numakube.scheduling.plugins.dynamic_resources.claim_alignment import (
    ANNOTATION,
    PREFERRED,
    REQUIRED,
)
from numakube.topology.held_zones import zone_cpus, zones_of_holding
from numakube.topology.model_report import node_of
from numakube.topology.numa_zones import Unusable
from numakube.values.display import zones_text
from numakube.values.resources import CPU, is_extended
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numakube.api.pod import Pod
    from numakube.insight.dra_devices import DraDevice
    from numakube.kubelet.pod_demand import PodDemand
    from numakube.topology.exact_report import ExactReport, Holding
    from numakube.topology.topology_view import NodeTopology

_RULES: Final = DemandRules()


class Cause(StrEnum):
    """Why a pod is not aligned."""

    CLAIMS = "claims"
    """Devices of its claims are on other NUMA nodes than what the kubelet gave it."""
    BEST_EFFORT = "best-effort"
    """The kubelet takes pods that it cannot align."""
    NO_POLICY = "no-policy"
    """The kubelet aligns nothing."""
    OTHER_POLICY = "other-policy"
    """The kubelet of today would not have placed it so: it was restarted with other settings."""
    RESIZED = "resized"
    """It asks for another number of CPUs than it has."""
    DEVICE_HEALTH = "device-health"
    """A device that it has is not healthy, or has a taint."""
    SCHEDULER = "scheduler"
    """The scheduler that gives out NUMA nodes spread it."""
    SHARED_CPUS = "shared-cpus"
    """It asks for CPUs of its own and has none."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What there is to say of one pod.

    Attributes:
        zones: the NUMA nodes of everything that it has for itself.
        fewest: on how many it would be on an idle node; 0 if that is not known.
        cause: why it is not aligned; ``None`` if it is.
        why: the same in a sentence.
        unknown: why nothing is known; empty if it is.
    """

    zones: tuple[int, ...] = ()
    fewest: int = 0
    cause: Cause | None = None
    why: str = ""
    unknown: str = ""


def wants_alignment(pod: Pod, view: NodeTopology, schedulers: Collection[str]) -> bool:
    """Tell whether *pod* wants what it has on its node in one NUMA node.

    Args:
        pod: on the node.
        view: what the report of the node says.
        schedulers: names of schedulers that know NUMA.
    """
    if pod.metadata.annotations.get(ANNOTATION) in (REQUIRED, PREFERRED):
        return True
    if not view.policy.aligns and pod.spec.scheduler_name not in schedulers:
        return False
    wanted = demand_of(pod, _RULES)
    return bool(wanted.exclusive_cpus or any(map(is_extended, wanted.limits)))


def judged(pod: Pod, view: NodeTopology, devices: Sequence[DraDevice]) -> Judged:
    """Return how *pod* lies on its node.

    Args:
        pod: on the node.
        view: what the report of the node says.
        devices: all devices of DRA drivers on the node.
    """
    report = view.report
    if report is None:
        return Judged(unknown="the node has no exact report")
    holding = report.holding(pod.metadata.uid)
    if holding is None:
        return Judged(unknown="not in the node's report yet")
    allotted = allotted_holding(pod) if holding.empty else None
    return _Judgement(pod, view, report, allotted or holding, devices, allotted is not None).made()


def fewest_zones(report: ExactReport, pod: Pod) -> int:
    """Return on how many zones the pod would be if nothing else ran; 0 if that is unknown."""
    model = node_of(report)
    if isinstance(model, Unusable):
        return 0
    idle = model.clone()
    for uid in list(idle.pods):
        idle.remove(uid)
    if not isinstance(idle.admit(pod), Admitted):
        return 0
    use = use_in_model(idle, pod.metadata.uid)
    return len({zone for group in use for zone in group})


@dataclass(frozen=True, slots=True)
class _Judgement:
    """The work on one pod."""

    pod: Pod
    view: NodeTopology
    report: ExactReport
    holding: Holding
    devices: Sequence[DraDevice]
    allotted: bool

    def made(self) -> Judged:
        own = zones_of_holding(self.report, self.holding, zone_cpus(self.report.machine))
        claimed = self._claimed()
        near = zones_of_devices(claimed, own)
        zones = tuple(sorted({*own, *near}))
        # What an idle node would do is tried only if it can matter.
        fewest = fewest_zones(self.report, self.pod) if len(own) > 1 else len(own)
        needed = max(fewest, zones_needed(claimed, self.devices))
        cause, why = self._cause(own, near, max(needed, self._containers()), fewest) or (None, "")
        return Judged(zones=zones, fewest=needed, cause=cause, why=why)

    def _claimed(self) -> list[DraDevice]:
        if self.pod.metadata.annotations.get(ANNOTATION) == "None":
            return []
        return [device for device in self.devices if self.pod.metadata.key in device.pods]

    def _containers(self) -> int:
        """Return how many containers are aligned on their own."""
        if self.view.scope is TopologyScope.POD:
            return 1
        return sum(bool(container.exclusive_cpus) for container in self._demand.containers)

    def _cause(
        self, own: tuple[int, ...], near: set[int], allowed: int, fewest: int
    ) -> tuple[Cause, str] | None:
        broken = self._broken()
        if broken:
            return Cause.DEVICE_HEALTH, f"it holds {broken}"
        parts = [device for device in self._claimed() if device.part_of]
        by_claim = any(device.part_of == CPU for device in parts)
        if self._demand.exclusive_cpus and not self.holding.cpus and not by_claim:
            return Cause.SHARED_CPUS, self._shared()
        if len(claimed_zones := zones_of_devices(parts)) > max(allowed, 1):
            where = zones_text(sorted(claimed_zones))
            return Cause.CLAIMS, f"its claims have {where}: no constraint keeps them together"
        if len(own) > max(allowed, 1):
            return self._spread(own, fewest)
        if own and near - set(own) and len(near | set(own)) > max(allowed, 1):
            return Cause.CLAIMS, self._far(own, near)
        return None

    def _broken(self) -> str:
        """Return the devices of the pod that are not healthy."""
        plugin = [
            f"{resource} #{position}"
            for resource, positions in self.holding.devices.items()
            for position in positions
            if position in self.report.devices[resource].unhealthy
        ]
        claimed = [
            f"{device.id.device} ({device.trouble})" for device in self._claimed() if device.trouble
        ]
        unhealthy = [f"{', '.join(plugin)}, which is not healthy"] if plugin else []
        return ", ".join((*unhealthy, *claimed))

    def _shared(self) -> str:
        if self.view.cpu_manager_policy == "none":
            return "the CPU Manager's policy is none: no pod gets CPUs of its own"
        return "it was admitted before the kubelet gave out CPUs"

    def _spread(self, own: tuple[int, ...], fewest: int) -> tuple[Cause, str]:
        where = zones_text(own)
        would = f"{fewest} would do on an idle node" if fewest else "fewer may do"
        if self.allotted:
            return Cause.SCHEDULER, f"its scheduler gave it {where}"
        wanted = self._demand.exclusive_cpus
        if self.holding.cpus and len(self.holding.cpus) != wanted:
            count = len(self.holding.cpus)
            return Cause.RESIZED, f"it has {count} CPUs on {where} and asks for {wanted}"
        policy = self.view.policy
        if policy is TopologyPolicy.NONE:
            return Cause.NO_POLICY, f"on {where}: the Topology Manager's policy is none"
        if policy is TopologyPolicy.BEST_EFFORT:
            return Cause.BEST_EFFORT, f"on {where}, {would}: best-effort takes what it cannot align"
        return Cause.OTHER_POLICY, f"on {where}: {policy} would not have admitted it so"

    def _far(self, own: tuple[int, ...], near: set[int]) -> str:
        there = zones_text(sorted(near))
        return f"the kubelet's part is on {zones_text(own)}, devices of claims are on {there}"

    @property
    def _demand(self) -> PodDemand:
        return demand_of(self.pod, _RULES)


def demand(pod: Pod) -> PodDemand:
    """Return what *pod* asks of a kubelet."""
    return demand_of(pod, _RULES)


def devices_of(wanted: PodDemand) -> dict[str, int]:
    """Return the devices that a pod asks for."""
    return {name: count for name, count in wanted.limits.items() if count and is_extended(name)}


def is_given_to_align(pod: Pod, schedulers: frozenset[str]) -> bool:
    """Tell whether *pod* is for one of *schedulers* and asks for what can be aligned."""
    if pod.spec.scheduler_name not in schedulers:
        return False
    wanted = demand(pod)
    return bool(wanted.exclusive_cpus or devices_of(wanted))
