"""Pods that our scheduler places, written down briefly or drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from numakube.kubelet.pod_demand import ContainerRole
from numakube.topology.allotments import CpuExclusive
from numakube.values.resources import add_amounts, amounts_of, largest_amounts
from numakube.values.topology_policy import TopologyPolicy, TopologyScope
from numakube_placement.koordinator.annotation_values import (
    Arbiter,
    BindPolicy,
    Exclusive,
    Strategy,
)
from numakube_placement.koordinator.placement_rule import PlacementRule
from numakube_placement.koordinator.pod_wish import ContainerWish, CpuWish, DeviceWish, PodWish

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.values.resources import Amounts

FULL, SPREAD = BindPolicy.FULL_PCPUS, BindPolicy.SPREAD_BY_PCPUS


def rule(
    policy: TopologyPolicy = TopologyPolicy.SINGLE_NUMA_NODE,
    *,
    scope: TopologyScope = TopologyScope.POD,
    exclusive: Exclusive = Exclusive.NO,
    bind: BindPolicy = BindPolicy.NONE,
    required: bool = False,
    strategy: Strategy = Strategy.LEAST_ALLOCATED,
) -> PlacementRule:
    """Return a rule under which our scheduler decides."""
    return PlacementRule(
        arbiter=Arbiter.SCHEDULER,
        policy=policy,
        scope=scope,
        exclusive=exclusive,
        bind=bind,
        bind_required=required,
        strategy=strategy,
    )


def container(
    name: str,
    role: ContainerRole = ContainerRole.APP,
    *,
    bind: BindPolicy = BindPolicy.NONE,
    required: BindPolicy = BindPolicy.NONE,
    policy: TopologyPolicy | None = None,
    exclusive: Exclusive | None = None,
    ignored: bool = False,
    cpu_exclusive: CpuExclusive = CpuExclusive.NONE,
    **quantities: str,
) -> ContainerWish:
    """Return a container with requests such as ``cpu="2", memory="1Gi"``."""
    return ContainerWish(
        name=name,
        role=role,
        requests=amounts_of(quantities),
        cpus=CpuWish(
            bound=bool(bind or required),
            required=required,
            preferred=bind or required,
            exclusive=cpu_exclusive,
        ),
        policy=policy,
        exclusive=exclusive,
        ignored=ignored,
    )


def pod(
    *containers: ContainerWish,
    exclusive: CpuExclusive = CpuExclusive.NONE,
    devices: DeviceWish | None = None,
    **quantities: str,
) -> PodWish:
    """Return a pod with the sum of its containers' requests, or with *quantities*."""
    requests: Amounts = amounts_of(quantities) if quantities else requests_of(*containers)
    return PodWish(
        requests=requests,
        containers=containers,
        cpus=CpuWish(exclusive=exclusive),
        devices=devices,
    )


def requests_of(*containers: ContainerWish) -> Mapping[str, int]:
    """Return what containers request together at their peak, as Kubernetes counts."""
    sidecars: Mapping[str, int] = {}
    peak: Mapping[str, int] = {}
    for wish in containers:
        if wish.role is ContainerRole.SIDECAR:
            sidecars = add_amounts(sidecars, wish.requests)
            peak = largest_amounts(peak, sidecars)
        elif wish.role is ContainerRole.INIT:
            peak = largest_amounts(peak, add_amounts(sidecars, wish.requests))
    apps = [wish.requests for wish in containers if wish.role is ContainerRole.APP]
    return largest_amounts(peak, add_amounts(sidecars, *apps))


def pods(
    *,
    bind: BindPolicy,
    required: bool = False,
    roles: tuple[ContainerRole, ...] = tuple(ContainerRole),
) -> st.SearchStrategy[PodWish]:
    """Draw a pod of one to three small containers; bound ones ask for whole CPUs."""
    cpu = st.sampled_from([0, 1000, 2000, 3000, 4000] if bind else [0, 300, 1000, 2700])
    one = st.tuples(st.sampled_from(roles), cpu, st.sampled_from([0, 1, 3]))

    def build(parts: list[tuple[ContainerRole, int, int]], exclusive: CpuExclusive) -> PodWish:
        parts.sort(key=lambda part: part[0] is ContainerRole.APP)
        must = bind if required else BindPolicy.NONE
        containers = [
            container(f"c{at}", role, bind=bind, required=must, cpu=f"{milli}m", memory=f"{gib}Gi")
            for at, (role, milli, gib) in enumerate(parts)
        ]
        return pod(*containers, exclusive=exclusive)

    return st.builds(build, st.lists(one, min_size=1, max_size=3), st.sampled_from(CpuExclusive))
