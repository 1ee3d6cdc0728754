"""What a pod takes for itself, as far as the report of a node tells what can be taken.

Whole CPUs and memory are exclusive for Guaranteed pods, devices for all pods. A resource that the
report does not list, or whose manager is known to be off, is not taken from any zone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.api.pods import GUARANTEED, is_sidecar
from numakube.kubelet.demand import DemandRules, Role, demand_of
from numakube.values.resources import CPU, amounts_of, is_memory, is_native

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.core import Pod
    from numakube.kubelet.demand import PodDemand
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.topology.view import NodeTopology
    from numakube.values.resources import Amounts

_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Claim:
    """What a pod takes.

    Attributes:
        whole: the pod at its peak.
        running: each app container and sidecar, which run at the same time.
        starting: each plain init container, which run alone.
    """

    whole: Amounts
    running: tuple[Amounts, ...]
    starting: tuple[Amounts, ...]

    def __bool__(self) -> bool:
        """Tell whether it takes anything."""
        return any(self.whole.values())


def claim_on(pod: PodInfo, topology: NodeTopology) -> Claim:
    """Return what *pod* takes on a node with *topology*."""
    demand = pod.memo("claimed-demand", _demand)
    listed = {name for zone in topology.zones for name in zone.available}
    cpu = CPU in listed and topology.cpu_manager_policy != "none"
    memory = topology.memory_manager_policy != "None"
    managed = demand.guaranteed and demand.managed

    def amounts(cpus: int, memory_bytes: Mapping[str, int], limits: Mapping[str, int]) -> Amounts:
        taken = {name: count for name, count in limits.items() if not is_native(name)}
        if managed and memory:
            taken.update((kind, size) for kind, size in memory_bytes.items() if is_memory(kind))
        if managed and cpu:
            taken[CPU] = cpus * _MILLI
        return {name: amount for name, amount in taken.items() if amount and name in listed}

    parts: dict[bool, list[Amounts]] = {True: [], False: []}
    for one in demand.containers:
        part = amounts(one.exclusive_cpus, one.memory or {}, one.limits)
        parts[one.role is Role.INIT].append(part)
    whole = amounts(demand.exclusive_cpus, demand.memory or {}, demand.limits)
    return Claim(whole, tuple(parts[False]), tuple(parts[True]))


def _demand(pod: Pod) -> PodDemand:
    return demand_of(pod, DemandRules())


def exclusive_requests(pod: PodInfo, topology: NodeTopology) -> dict[str, Amounts]:
    """Return what each sidecar and app container asks for exclusively, by upstream's rule.

    Unlike `claim_on` it goes by the pod alone and does not ask which managers are on. Plain init
    containers are left out, as the kubelet leaves them out of what it tells.
    """
    guaranteed = pod.qos_class == GUARANTEED
    listed = {name for zone in topology.zones for name in zone.available}
    exclusive: dict[str, Amounts] = {}
    spec = pod.pod.spec
    for container in (*filter(is_sidecar, spec.init_containers), *spec.containers):
        requests = amounts_of(container.resources.requests if container.resources else None)
        taken = {
            name: amount
            for name, amount in requests.items()
            if _is_exclusive(name, amount, guaranteed=guaranteed, listed=name in listed)
        }
        if taken:
            exclusive[container.name] = taken
    return exclusive


def _is_exclusive(name: str, amount: int, *, guaranteed: bool, listed: bool) -> bool:
    if not is_native(name):
        return listed
    if not guaranteed or amount <= 0:
        return False
    return is_memory(name) or (name == CPU and amount % _MILLI == 0)
