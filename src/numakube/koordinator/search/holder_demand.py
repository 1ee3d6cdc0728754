"""What one holder, a pod or a container, must be given on a node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from numakube.koordinator.annotation_values import BindPolicy, CpuExclusive, Exclusive, Strategy
from numakube.values.resources import CPU, MILLI_PER_CPU

if TYPE_CHECKING:
    from numakube.koordinator.node.node_capacity import NodeCapacity
    from numakube.koordinator.placement_rule import Rule
    from numakube.koordinator.wish.pod_wish import ContainerWish, DeviceWish, PodWish
    from numakube.values.resources import Amounts
    from numakube.values.topology_policy import TopologyPolicy


@dataclass(frozen=True, kw_only=True)
class HolderDemand:
    """What one holder must be given.

    Attributes:
        container: empty for a pod as a whole.
        amounts: of resources that NUMA nodes have figures for.
        asks: whether it asks for anything at all.
        bind: how its CPUs are picked; `BindPolicy.NONE` if it runs in a shared pool.
        required: the policy that the pick must meet, if any.
        devices: what the pod wants of devices, if the holder wants any of them.
    """

    container: str = ""
    amounts: Amounts
    asks: bool = True
    policy: TopologyPolicy
    exclusive: Exclusive
    strategy: Strategy
    bind: BindPolicy = BindPolicy.NONE
    required: BindPolicy = BindPolicy.NONE
    cpu_exclusive: CpuExclusive = CpuExclusive.NONE
    devices: DeviceWish | None = None

    @cached_property
    def cpus(self) -> int:
        """How many CPUs it gets for itself."""
        return self.amounts.get(CPU, 0) // MILLI_PER_CPU if self.bind is not BindPolicy.NONE else 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to give: no policy or nothing to place, and no CPUs to bind."""
        return not (self.cpus or self.devices or (self.policy.aligns and self.amounts))


def demand_of_pod(wish: PodWish, rule: Rule, capacity: NodeCapacity) -> HolderDemand:
    """Return what a pod needs as a whole."""
    bind = rule.bind if wish.requests.get(CPU, 0) else BindPolicy.NONE
    return HolderDemand(
        amounts=_placed(wish.requests, wish, capacity, bind),
        asks=any(wish.requests.values()),
        policy=rule.policy,
        exclusive=rule.exclusive,
        strategy=rule.strategy,
        bind=bind,
        required=bind if rule.bind_required else BindPolicy.NONE,
        cpu_exclusive=wish.cpus.exclusive,
        devices=wish.devices,
    )


def demand_of_container(
    container: ContainerWish, wish: PodWish, rule: Rule, capacity: NodeCapacity
) -> HolderDemand:
    """Return what one container of a pod needs; its own rule comes before the pod's."""
    bind, required = _binding(container, rule, capacity)
    wanted = wish.devices
    return HolderDemand(
        container=container.name,
        amounts=_placed(container.requests, wish, capacity, bind),
        asks=any(container.requests.values()),
        policy=rule.policy if container.policy is None else container.policy,
        exclusive=_exclusive(container, wish, rule),
        strategy=rule.strategy,
        bind=bind,
        required=required,
        cpu_exclusive=container.cpus.exclusive,
        devices=wanted if wanted and wanted.by_container.get(container.name) else None,
    )


def _placed(requests: Amounts, wish: PodWish, capacity: NodeCapacity, bind: BindPolicy) -> Amounts:
    placed = {
        name: amount
        for name, amount in requests.items()
        if amount > 0 and name in capacity.resources and name not in wish.ignored_resources
    }
    if bind is not BindPolicy.NONE:
        placed[CPU] = requests[CPU]
    return placed


def _binding(
    container: ContainerWish, rule: Rule, capacity: NodeCapacity
) -> tuple[BindPolicy, BindPolicy]:
    """Return how the CPUs of *container* are picked, and which policy the pick must meet."""
    none = BindPolicy.NONE
    wish, facts = container.cpus, capacity.facts
    asked = container.requests.get(CPU, 0)
    may_bind = rule.bind is not none and (wish.bound or facts.binds_all)
    if not may_bind or not asked or asked % MILLI_PER_CPU:
        return none, none
    required = wish.required or facts.bind_policy
    return required or wish.preferred or rule.bind, required


def _exclusive(container: ContainerWish, wish: PodWish, rule: Rule) -> Exclusive:
    if container.exclusive is not None:
        return container.exclusive
    if container.aligns_itself and wish.exclusive is None:
        return Exclusive.REQUIRED
    return rule.exclusive
