"""Whether CPUs are bound for a pod on a node, how, and why that cannot be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.allotment.refusals import Refusal, Why
from numakube.allotment.words import BindPolicy
from numakube.kubelet.demand import Role
from numakube.values.resources import CPU, MILLI_PER_CPU, quantity_of
from numakube.values.topology_policy import TopologyScope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.allotment.facts import NodeFacts
    from numakube.allotment.wishes import CpuWish, PodWish


@dataclass(frozen=True, slots=True)
class Binding:
    """How CPUs are picked; `BindPolicy.NONE` if none are bound."""

    policy: BindPolicy = BindPolicy.NONE
    required: bool = False


@dataclass(frozen=True, slots=True)
class _Holder:
    """A pod or a container that gets CPUs of its own."""

    name: str
    cpu_milli: int
    wish: CpuWish


def binding_for(wish: PodWish, facts: NodeFacts, scope: TopologyScope) -> Binding | Refusal:
    """Return how CPUs are bound for a pod with *wish* on the node of *facts*, or why not."""
    holders = list(_holders(wish, facts, scope))
    if not holders:
        return Binding()
    for holder in holders:
        if holder.cpu_milli % MILLI_PER_CPU:
            return _not_whole(holder)
    if facts.cpus is None or not facts.cpus.places:
        return Refusal(why=Why.NO_CPU_LAYOUT, detail="where its CPUs are is not known")
    for holder in holders:
        if refusal := _refusal(holder, facts.bind_policy, facts.cpus.cpus_per_core):
            return refusal
    of_pod = wish.cpus if _policy_of(wish.cpus, facts) else holders[0].wish
    return Binding(_policy_of(of_pod, facts), bool(of_pod.required or facts.bind_policy))


def _holders(wish: PodWish, facts: NodeFacts, scope: TopologyScope) -> Iterator[_Holder]:
    """Yield whoever gets CPUs of its own."""
    if scope is TopologyScope.POD:
        if wish.cpus.bound or facts.binds_all:
            yield from _if_any(_Holder("", wish.requests.get(CPU, 0), wish.cpus))
        return
    for one in wish.containers:
        asked = one.requests.get(CPU, 0)
        # Plain init containers that ask for parts of CPUs run in a shared pool.
        part = one.role is Role.INIT and asked % MILLI_PER_CPU
        if not one.ignored and not part and (one.cpus.bound or facts.binds_all):
            yield from _if_any(_Holder(one.name, asked, one.cpus))


def _if_any(holder: _Holder) -> Iterator[_Holder]:
    if holder.cpu_milli > 0:
        yield holder


def _policy_of(wish: CpuWish, facts: NodeFacts) -> BindPolicy:
    return wish.required or facts.bind_policy or wish.preferred


def _not_whole(holder: _Holder) -> Refusal:
    detail = f"it asks for {quantity_of(CPU, holder.cpu_milli)}"
    return Refusal(why=Why.NOT_WHOLE_CPUS, container=holder.name, resource=CPU, detail=detail)


def _refusal(holder: _Holder, imposed: BindPolicy, threads: int) -> Refusal | None:
    """Return why *holder* cannot be bound where *imposed* applies and cores have *threads*."""
    required, count = holder.wish.required, holder.cpu_milli // MILLI_PER_CPU
    if required and imposed and required is not imposed:
        detail = f"{required} is required, the node imposes {imposed}"
        return Refusal(why=Why.BIND_CONFLICT, container=holder.name, detail=detail)
    if (required or imposed) is BindPolicy.FULL_PCPUS and threads and count % threads:
        detail = f"{count} CPUs, {threads} a core"
        return Refusal(why=Why.NOT_WHOLE_CORES, container=holder.name, detail=detail)
    return None
