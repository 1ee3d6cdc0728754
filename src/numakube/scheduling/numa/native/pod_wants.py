"""What a pod wants aligned, in numbers.

The kubelet aligns CPUs of guaranteed containers that ask for whole ones, memory of guaranteed pods,
and devices of any pod. Containers are treated in order of start; what an init container held can be
used again by those after it. A node whose CPU or Memory Manager is off leaves that part out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from numakube.kubelet.pod_demand import DemandRules, PodDemand, Role, demand_of
from numakube.values.resources import CPU, MILLI_PER_CPU, ResourceKind, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping

    from numakube.api.pod import Pod
    from numakube.kubelet.pod_demand import ContainerDemand

Parts = tuple[tuple[str, int], ...]
"""Resources with the amounts wanted, by name."""


@dataclass(frozen=True)
class Want:
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

    def managed(self, *, cpu: bool, memory: bool) -> Want:
        """Return what is left of it on a node where those managers are on."""
        if (cpu or not self.cpu) and (memory or not self.memory):
            return self
        return Want(self.cpu if cpu else (), self.memory if memory else (), self.devices)

    def of(self, known: Container[str]) -> Want:
        """Return it without resources that are not *known*."""
        if all(name in known for name, _ in self.parts):
            return self
        return Want(*(_known(part, known) for part in (self.cpu, self.memory, self.devices)))


def _known(parts: Parts, known: Container[str]) -> Parts:
    return tuple(part for part in parts if part[0] in known)


@dataclass(frozen=True, slots=True)
class Step:
    """One container that wants something."""

    container: str
    role: Role
    want: Want


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

    steps: tuple[Step, ...]
    whole: Want
    peak: Want
    certain_steps: int
    is_bubble: bool = False
    has_several: bool = False

    def __bool__(self) -> bool:
        return bool(self.steps)


def wants_of(pod: Pod, rules: DemandRules | None = None) -> PodWants:
    """Return what *pod* wants of a kubelet with *rules*."""
    demand = demand_of(pod, rules or DemandRules())
    steps = tuple(
        Step(container.name, container.role, want)
        for container in demand.containers
        if (want := _want_of(demand, container))
    )
    peak = _peak(steps)
    return PodWants(
        steps=steps,
        whole=peak if _is_sum(demand) else _whole(demand),
        peak=peak,
        certain_steps=_certain(steps),
        is_bubble=demand.pod_level is not None,
        has_several=len(demand.containers) > 1,
    )


def _whole(demand: PodDemand) -> Want:
    return _want(
        cpus=demand.exclusive_cpus if demand.managed else 0,
        memory=demand.memory if demand.managed and demand.guaranteed else None,
        limits=demand.limits,
    )


def _is_sum(demand: PodDemand) -> bool:
    """Tell whether the pod wants what its containers do: they run together, with known memory."""
    return demand.pod_level is None and all(
        one.role is Role.APP and one.memory is not None for one in demand.containers
    )


def _want_of(demand: PodDemand, container: ContainerDemand) -> Want:
    return _want(
        cpus=container.exclusive_cpus if demand.managed else 0,
        memory=container.memory if demand.managed and demand.guaranteed else None,
        limits=container.limits,
    )


def _want(*, cpus: int, memory: Mapping[str, int] | None, limits: Mapping[str, int]) -> Want:
    return Want(
        cpu=((CPU, cpus * MILLI_PER_CPU),) if cpus else (),
        memory=_parts((memory or {}).items()),
        devices=_parts((name, count) for name, count in limits.items() if kind_of(name) is _DEVICE),
    )


def _parts(items: Iterable[tuple[str, int]]) -> Parts:
    return tuple(sorted((name, amount) for name, amount in items if amount > 0))


_DEVICE: Final = ResourceKind.EXTENDED


def _peak(steps: tuple[Step, ...]) -> Want:
    """Return the largest sums of containers that run at the same time."""
    if len(steps) == 1:
        return steps[0].want
    return Want(
        cpu=_peaks(steps, lambda want: want.cpu),
        memory=_peaks(steps, lambda want: want.memory),
        devices=_peaks(steps, lambda want: want.devices),
    )


def _peaks(steps: tuple[Step, ...], part: Callable[[Want], Parts]) -> Parts:
    lasting: dict[str, int] = {}
    starting: dict[str, int] = {}
    for step in steps:
        for name, amount in part(step.want):
            together = lasting.get(name, 0) + amount
            if step.role is Role.INIT:
                starting[name] = max(starting.get(name, 0), together)
            else:
                lasting[name] = together
    names = lasting.keys() | starting.keys()
    return _parts((name, max(lasting.get(name, 0), starting.get(name, 0))) for name in names)


def _certain(steps: tuple[Step, ...]) -> int:
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
        spare = cpus if step.role is Role.INIT else 0
    return len(steps)
