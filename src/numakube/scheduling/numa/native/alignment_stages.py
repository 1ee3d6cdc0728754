"""What has to be checked of a pod on nodes with given rules, worked out once for all of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from numakube.values.resources import MILLI_PER_CPU
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.kubelet.pod_demand import Role
    from numakube.scheduling.numa.native.node_counts import Rules
    from numakube.scheduling.numa.native.pod_wants import Parts, PodWants, Want


@dataclass(frozen=True, slots=True)
class Stage:
    """One alignment: a container, or the pod if ``role`` is ``None``."""

    container: str
    role: Role | None
    want: Want


@dataclass(frozen=True, slots=True)
class PodChecks:
    """What a pod needs of a node with certain rules.

    Attributes:
        stages: what the node aligns, in order; empty if nothing.
        together: what all zones together must have.
        unreported: a resource that the node aligns and tells nothing about; empty if there is none.
        uneven: a container whose CPUs do not make whole cores, if they must.
        certain: for how many stages, from the first, it is certain what is left for them.
        unimplied: the part of ``together`` that does not follow from every stage having its place.
        has_several: whether the pod has more than one container.
    """

    rules: Rules
    stages: tuple[Stage, ...]
    together: Parts
    unreported: str
    uneven: Stage | None
    certain: int
    unimplied: Parts
    has_several: bool


@lru_cache(maxsize=1024)
def checks_of(wants: PodWants, rules: Rules) -> PodChecks:
    """Return what to check of pods with *wants* on nodes with *rules*."""
    return new_checks(wants, rules)


def new_checks(wants: PodWants, rules: Rules) -> PodChecks:
    """Return the same without a look at what is known, for callers that keep the result."""
    stages = tuple(_stages(wants, rules))
    peak = wants.peak.managed(cpu=rules.manages_cpu, memory=rules.manages_memory)
    unreported = next((n for n, _ in peak.cpu + peak.memory if n not in rules.reported), "")
    if rules.exact or not rules.refuses_unaligned:
        unreported = ""
    known = peak.of(rules.reported)
    together = known.cpu + known.memory
    if rules.refuses_unaligned:
        # Devices without a NUMA node are in no zone: only the node's own count has them all.
        together += tuple(part for part in known.devices if part[0] not in rules.stray_devices)
    certain = _certain(wants, rules, stages)
    return PodChecks(
        rules=rules,
        stages=stages,
        together=together,
        unreported=unreported,
        uneven=_uneven(wants, rules),
        certain=certain,
        unimplied=_unimplied(rules, stages, together, certain),
        has_several=wants.has_several,
    )


def _stages(wants: PodWants, rules: Rules) -> Sequence[Stage]:
    if rules.scope is TopologyScope.POD:
        all_stages = [Stage("", None, wants.whole)]
    else:
        all_stages = [Stage(step.container, step.role, step.want) for step in wants.steps]
    return [
        Stage(stage.container, stage.role, want)
        for stage in all_stages
        if (want := _aligned(stage.want, rules))
    ]


def _uneven(wants: PodWants, rules: Rules) -> Stage | None:
    """Return the first container that the CPU Manager refuses for the number of its CPUs."""
    if not rules.manages_cpu or (wants.is_bubble and rules.scope is TopologyScope.POD):
        return None
    for step in wants.steps:
        for _, milli in step.want.cpu:
            if milli // MILLI_PER_CPU % rules.cpus_per_core:
                return Stage(step.container, step.role, step.want)
    return None


def _aligned(want: Want, rules: Rules) -> Want:
    """Return the part of *want* that managers of such nodes align."""
    return want.managed(cpu=rules.manages_cpu, memory=rules.manages_memory).of(rules.reported)


def _certain(wants: PodWants, rules: Rules, stages: Sequence[Stage]) -> int:
    wanted = {name for stage in stages for name, _ in stage.want.devices}
    if rules.by_socket or wanted & (rules.shared_devices | rules.stray_devices):
        return 1
    steps = wants.steps[: wants.certain_steps] if rules.manages_cpu else wants.steps
    known = {step.container for step in steps}
    certain = sum(stage.role is None or stage.container in known for stage in stages)
    if rules.manages_memory and rules.policy is not TopologyPolicy.SINGLE_NUMA_NODE:
        # Zones may be tied up in groups for memory. Then a container goes elsewhere than expected,
        # which leaves the next one at least as much room, but not the one after that.
        certain = min(certain, 2)
    return certain


def _unimplied(rules: Rules, stages: Sequence[Stage], together: Parts, certain: int) -> Parts:
    if rules.scope is TopologyScope.POD:
        whole = dict(part for stage in stages for part in stage.want.parts)
        return tuple((name, amount) for name, amount in together if whole.get(name, 0) < amount)
    return () if certain == len(stages) else together
