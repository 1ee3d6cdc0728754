"""Which pods want their resources aligned: those of a NUMA scheduler that could get some.

A cluster runs many pods that are not meant to be aligned, such as Guaranteed ones of kube-system. A
pod counts only if it was given to a scheduler that knows NUMA.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.insight.deployed_programs import ProgramRole, deployed
from numakube.insight.doctor.findings import FindingSubject
from numakube.insight.known_schedulers import profiles
from numakube.kubelet.pod_demand import DemandRules, demand_of
from numakube.values.resources import is_extended

if TYPE_CHECKING:
    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts
    from numakube.kubelet.pod_demand import PodDemand

_USUAL: Final = frozenset(
    {
        SCHEDULER_NAME,
        "numakube-kube-scheduler",
        "numa-scheduler",
        "topo-aware-scheduler",
        "topology-aware-scheduler",
    }
)
_RULES: Final = DemandRules()


def numa_schedulers(facts: ClusterFacts) -> frozenset[str]:
    """Return the names that pods give to have their NUMA zones looked after."""
    flags = (one.scheduler_name for one in deployed(facts, ProgramRole.SCHEDULER))
    return _USUAL | {name for name in flags if name} | frozenset(profiles(facts))


def demand(pod: Pod) -> PodDemand:
    """Return what *pod* asks of a kubelet."""
    return demand_of(pod, _RULES)


def devices_of(wanted: PodDemand) -> dict[str, int]:
    """Return the devices that a pod asks for."""
    return {name: count for name, count in wanted.limits.items() if count and is_extended(name)}


def wants_alignment(pod: Pod, schedulers: frozenset[str]) -> bool:
    """Tell whether *pod* is for one of *schedulers* and asks for what can be aligned."""
    if pod.spec.scheduler_name not in schedulers:
        return False
    wanted = demand(pod)
    return bool(wanted.exclusive_cpus or devices_of(wanted))


def maker_of(pod: Pod) -> FindingSubject:
    """Return the workload that makes pods like *pod*, or the pod itself."""
    owner = pod.metadata.controller
    kind, name = ("Pod", pod.metadata.name) if owner is None else (owner.kind, owner.name)
    return FindingSubject(kind, name, pod.metadata.namespace)
