"""What a pod wants aligned, in numbers, and what has to be checked by a node's rules.

The kubelet aligns CPUs of guaranteed containers that ask for whole ones, memory of guaranteed pods,
and devices of any pod. Containers are treated in order of start; what an init container held can be
used again by those after it. A node whose CPU or Memory Manager is off leaves that part out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final

from numakube.kubelet.pod_demand import ContainerRole, DemandRules, PodDemand, demand_of
from numakube.values.resources import CPU, MILLI_PER_CPU, ResourceKind, kind_of
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from numakube.api.pod import Pod
    from numakube.kubelet.pod_demand import ContainerDemand
    from numakube.scheduling.numa.native.node_counts import NodeRules


Parts = tuple[tuple[str, int], ...]
"""Resources with the amounts wanted, by name."""


@dataclass(frozen=True)
class ZoneWant:
    """What must lie together; CPUs in milli, memory in bytes, devices as counts, none of them 0."""

    cpu: Parts = ()
    memory: Parts = ()
    devices: Parts = ()

    def __bool__(self) -> bool:
        return bool(self.cpu or self.memory or self.devices)

    @cached_property
    def parts(self) -> Parts:
        """Everything wanted."""
        return self.cpu + self.memory + self.devices

    def managed(self, *, cpu: bool, memory: bool) -> ZoneWant:
        """Return what is left of it on a node where those managers are on."""
        if (cpu or not self.cpu) and (memory or not self.memory):
            return self
        return ZoneWant(self.cpu if cpu else (), self.memory if memory else (), self.devices)

    def of(self, known: Container[str]) -> ZoneWant:
        """Return it without resources that are not *known*."""
        if all(name in known for name, _ in self.parts):
            return self
        return ZoneWant(*(_known(part, known) for part in (self.cpu, self.memory, self.devices)))


def _known(parts: Parts, known: Container[str]) -> Parts:
    return tuple(part for part in parts if part[0] in known)


@dataclass(frozen=True, slots=True)
class ContainerStep:
    """One container that wants something."""

    container: str
    role: ContainerRole
    want: ZoneWant


@dataclass(frozen=True, slots=True)
class PodWants:
    """What a pod wants; equal for all pods of a Deployment.

    Attributes:
        steps: the containers that want something, in order of start.
        whole: what the kubelet aligns at once in pod scope; with pod-level resources that it
            manages, those.
        peak: what the pod holds at the same time at least, however it is placed.
        certain_steps: how many steps, from the first, take a number of CPUs that is known. Which
            CPUs of an init container are used again depends on more than counts.
        is_bubble: whether the kubelet manages the pod's resources as one in pod scope.
        has_several: whether the pod has more than one container, those that want nothing included.
    """

    steps: tuple[ContainerStep, ...]
    whole: ZoneWant
    peak: ZoneWant
    certain_steps: int
    is_bubble: bool = False
    has_several: bool = False

    def __bool__(self) -> bool:
        return bool(self.steps)


def wants_of(pod: Pod, rules: DemandRules | None = None) -> PodWants:
    """Return what *pod* wants of a kubelet with *rules*."""
    demand = demand_of(pod, rules or DemandRules())
    steps = tuple(
        ContainerStep(container.name, container.role, want)
        for container in demand.containers
        if (want := _want_of(demand, container))
    )
    peak = _peak(steps)
    return PodWants(
        steps=steps,
        whole=peak if _is_sum(demand) else _whole(demand),
        peak=peak,
        certain_steps=_certain_steps(steps),
        is_bubble=demand.pod_level is not None,
        has_several=len(demand.containers) > 1,
    )


def _whole(demand: PodDemand) -> ZoneWant:
    return _want(
        cpus=demand.exclusive_cpus if demand.managed else 0,
        memory=demand.memory if demand.managed and demand.guaranteed else None,
        limits=demand.limits,
    )


def _is_sum(demand: PodDemand) -> bool:
    """Tell whether the pod wants what its containers do: they run together, with known memory."""
    return demand.pod_level is None and all(
        container.role is ContainerRole.APP and container.memory is not None
        for container in demand.containers
    )


def _want_of(demand: PodDemand, container: ContainerDemand) -> ZoneWant:
    return _want(
        cpus=container.exclusive_cpus if demand.managed else 0,
        memory=container.memory if demand.managed and demand.guaranteed else None,
        limits=container.limits,
    )


def _want(*, cpus: int, memory: Mapping[str, int] | None, limits: Mapping[str, int]) -> ZoneWant:
    return ZoneWant(
        cpu=((CPU, cpus * MILLI_PER_CPU),) if cpus else (),
        memory=_parts((memory or {}).items()),
        devices=_parts((name, count) for name, count in limits.items() if kind_of(name) is _DEVICE),
    )


def _parts(items: Iterable[tuple[str, int]]) -> Parts:
    return tuple(sorted((name, amount) for name, amount in items if amount > 0))


_DEVICE: Final = ResourceKind.EXTENDED


def _peak(steps: tuple[ContainerStep, ...]) -> ZoneWant:
    """Return the largest sums of containers that run at the same time."""
    if len(steps) == 1:
        return steps[0].want
    return ZoneWant(
        cpu=_peaks(steps, lambda want: want.cpu),
        memory=_peaks(steps, lambda want: want.memory),
        devices=_peaks(steps, lambda want: want.devices),
    )


def _peaks(steps: tuple[ContainerStep, ...], part: Callable[[ZoneWant], Parts]) -> Parts:
    lasting: dict[str, int] = {}
    starting: dict[str, int] = {}
    for step in steps:
        for name, amount in part(step.want):
            together = lasting.get(name, 0) + amount
            if step.role is ContainerRole.INIT:
                starting[name] = max(starting.get(name, 0), together)
            else:
                lasting[name] = together
    names = lasting.keys() | starting.keys()
    return _parts((name, max(lasting.get(name, 0), starting.get(name, 0))) for name in names)


def _certain_steps(steps: tuple[ContainerStep, ...]) -> int:
    """Return how many steps leave a known number of CPUs behind.

    Re-use is certain as long as each container asks for as many CPUs as the init containers before
    it hold: the kubelet then makes the same choice again.
    """
    spare = 0
    for index, step in enumerate(steps):
        cpus = dict(step.want.cpu).get(CPU, 0)
        if not cpus:
            continue
        if spare and cpus != spare:
            return index + 1
        spare = cpus if step.role is ContainerRole.INIT else 0
    return len(steps)


# ------------------------------------------------------------------------------------------------
# What has to be checked of a pod on nodes with given rules, worked out once for all of them.


@dataclass(frozen=True, slots=True)
class Stage:
    """One alignment: a container, or the pod if ``role`` is ``None``."""

    container: str
    role: ContainerRole | None
    want: ZoneWant


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

    rules: NodeRules
    stages: tuple[Stage, ...]
    together: Parts
    unreported: str
    uneven: Stage | None
    certain: int
    unimplied: Parts
    has_several: bool


@lru_cache(maxsize=1024)
def checks_of(wants: PodWants, rules: NodeRules) -> PodChecks:
    """Return what to check of pods with *wants* on nodes with *rules*."""
    return new_checks(wants, rules)


def new_checks(wants: PodWants, rules: NodeRules) -> PodChecks:
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
    certain = _certain_stages(wants, rules, stages)
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


def _stages(wants: PodWants, rules: NodeRules) -> Sequence[Stage]:
    if rules.scope is TopologyScope.POD:
        all_stages = [Stage("", None, wants.whole)]
    else:
        all_stages = [Stage(step.container, step.role, step.want) for step in wants.steps]
    return [
        Stage(stage.container, stage.role, want)
        for stage in all_stages
        if (want := _aligned(stage.want, rules))
    ]


def _uneven(wants: PodWants, rules: NodeRules) -> Stage | None:
    """Return the first container that the CPU Manager refuses for the number of its CPUs."""
    if not rules.manages_cpu or (wants.is_bubble and rules.scope is TopologyScope.POD):
        return None
    for step in wants.steps:
        for _, milli in step.want.cpu:
            if milli // MILLI_PER_CPU % rules.cpus_per_core:
                return Stage(step.container, step.role, step.want)
    return None


def _aligned(want: ZoneWant, rules: NodeRules) -> ZoneWant:
    """Return the part of *want* that managers of such nodes align."""
    return want.managed(cpu=rules.manages_cpu, memory=rules.manages_memory).of(rules.reported)


def _certain_stages(wants: PodWants, rules: NodeRules, stages: Sequence[Stage]) -> int:
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


def _unimplied(rules: NodeRules, stages: Sequence[Stage], together: Parts, certain: int) -> Parts:
    if rules.scope is TopologyScope.POD:
        whole = dict(part for stage in stages for part in stage.want.parts)
        return tuple((name, amount) for name, amount in together if whole.get(name, 0) < amount)
    return () if certain == len(stages) else together
