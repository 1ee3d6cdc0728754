"""Pods that our scheduler places, written down briefly or drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from numakube.allotment.rules import Rule
from numakube.allotment.wishes import ContainerWish, CpuWish, DeviceWish, PodWish
from numakube.allotment.words import (
    Arbiter,
    BindPolicy,
    CpuExclusive,
    Exclusive,
    Policy,
    Scope,
    Strategy,
)
from numakube.kubelet.demand import Role
from numakube.values.resources import add_amounts, amounts_of, largest_amounts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.values.resources import Amounts

FULL, SPREAD = BindPolicy.FULL_PCPUS, BindPolicy.SPREAD_BY_PCPUS


def rule(
    policy: Policy = Policy.SINGLE_NUMA_NODE,
    *,
    scope: Scope = Scope.POD,
    exclusive: Exclusive = Exclusive.NO,
    bind: BindPolicy = BindPolicy.NONE,
    required: bool = False,
    strategy: Strategy = Strategy.LEAST_ALLOCATED,
) -> Rule:
    """Return a rule under which our scheduler decides."""
    return Rule(
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
    role: Role = Role.APP,
    *,
    bind: BindPolicy = BindPolicy.NONE,
    required: BindPolicy = BindPolicy.NONE,
    policy: Policy | None = None,
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
    for one in containers:
        if one.role is Role.SIDECAR:
            sidecars = add_amounts(sidecars, one.requests)
            peak = largest_amounts(peak, sidecars)
        elif one.role is Role.INIT:
            peak = largest_amounts(peak, add_amounts(sidecars, one.requests))
    apps = [one.requests for one in containers if one.role is Role.APP]
    return largest_amounts(peak, add_amounts(sidecars, *apps))


@st.composite
def pods(draw: st.DrawFn, *, bind: BindPolicy, roles: tuple[Role, ...] = tuple(Role)) -> PodWish:
    """Draw a pod of one to three small containers; bound ones ask for whole CPUs."""
    count = draw(st.integers(1, 3))
    kinds = sorted(
        draw(st.lists(st.sampled_from(roles), min_size=count, max_size=count)),
        key=lambda role: role is Role.APP,
    )
    containers = []
    for number, role in enumerate(kinds):
        cpu = draw(st.integers(0, 4)) * 1000 if bind else draw(st.integers(0, 3000))
        memory = draw(st.sampled_from([0, 1, 3]))
        containers.append(
            container(f"c{number}", role, bind=bind, cpu=f"{cpu}m", memory=f"{memory}Gi")
        )
    return pod(*containers, exclusive=draw(st.sampled_from(CpuExclusive)))
