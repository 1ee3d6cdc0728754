"""Which rule a pod is placed under on a node, or why the two do not go together.

A `PlacementRefusal` says why a node cannot take a pod; the short text for events comes from it.

The policy is the pod's, else the node label's, else the kubelet's; the scope is the pod's, else the
node label's, else the kubelet's, else ``pod``. Where both are set they must agree: a node whose
label or kubelet says otherwise cannot take the pod. A Topology Manager that is at work decides
itself, whatever labels say, so a pod there gets what the kubelet does or is refused.

CPUs are bound because of the pod's class (`pod_wish`) or because the node's label binds every pod.
How they are picked is the pod's required policy, else the node's, else what the pod prefers; the
first two must be met.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from numakube.kubelet.pod_demand import ContainerRole
from numakube.values.display import amount_text
from numakube.values.resources import CPU, MILLI_PER_CPU
from numakube.values.topology_policy import TopologyPolicy, TopologyScope
from numakube_placement.koordinator.annotation_values import (
    Arbiter,
    BindPolicy,
    Exclusive,
    Strategy,
)
from numakube_placement.koordinator.read_pod import NOT_WHOLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube_placement.koordinator.node_facts import NodeFacts
    from numakube_placement.koordinator.pod_wish import CpuWish, PodWish


class Why(Enum):
    """What kind of refusal it is; the value is the stable text, Koordinator's where it has one."""

    BAD_WISH = "the pod's NUMA annotations cannot be read"
    POLICY_CONFLICT = "node(s) NUMA Topology policy not match"
    SCOPE_CONFLICT = "node(s) NUMA Topology scope not match"
    KUBELET_POLICY = "node(s) kubelet aligns by another policy than the pod wants"
    KUBELET_SCOPE = "node(s) kubelet aligns by another scope than the pod wants"
    NO_ZONES = "node(s) missing NUMA resources"
    NO_CPU_LAYOUT = "node(s) invalid CPU Topology"
    NOT_WHOLE_CPUS = "the requested CPUs must be integer"
    NOT_WHOLE_CORES = "node(s) requested cpus not multiple cpus per core"
    BIND_CONFLICT = "node(s) cpu bind policy conflicts with pod's required cpu bind policy"
    BAD_RATIO = "node(s) invalid CPU amplification ratio"
    AMPLIFIED_CPU = "Insufficient amplified cpu"
    TOO_FEW_CPUS = "not enough cpus available to satisfy request"
    ZONES_TOO_SMALL = "node(s) Insufficient NUMA Node resources"
    UNSATISFIED = "Unsatisfied NUMA resource"
    UNALIGNED = "Unaligned NUMA Hint"
    DEVICES = "Insufficient NUMA Scoped Devices"
    JOINT_DEVICES = "node(s) Device Joint-Allocate rules violation"
    CLOSENESS = "devices not close enough"
    PARTITIONS = "Insufficient Partitioned GPU Devices"
    NO_PARTITIONS = "node(s) missing GPU Partition Table"
    PARTITION_SIZE = "node(s) Unsupported number of GPU requests"

    @property
    def lasting(self) -> bool:
        """Whether no eviction helps."""
        return self in _LASTING


_LASTING = frozenset(
    {
        Why.BAD_WISH, Why.POLICY_CONFLICT, Why.SCOPE_CONFLICT, Why.KUBELET_POLICY,
        Why.KUBELET_SCOPE, Why.NO_ZONES, Why.NO_CPU_LAYOUT, Why.NOT_WHOLE_CPUS,
        Why.NOT_WHOLE_CORES, Why.BIND_CONFLICT, Why.BAD_RATIO, Why.NO_PARTITIONS,
        Why.PARTITION_SIZE,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRefusal:
    """Why not.

    Attributes:
        container: whose wish failed; empty if it is the pod's as a whole.
        resource: what was short or unaligned; empty if it is not about one.
        detail: more for people, which may differ from node to node: ``cpu prefer [01] among [11]``,
            what the kubelet does and what the pod wants, how much is missing where.
    """

    why: Why
    container: str = ""
    resource: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRule:
    """What holds for a pod on a node.

    Attributes:
        arbiter: with `Arbiter.NOBODY` there is nothing to align and no CPU to bind; with
            `Arbiter.KUBELET` the kubelet model decides, and nothing is allotted.
        policy_from: who says so, for people: ``pod``, ``node label``, ``kubelet`` or empty.
        scope_from: likewise, or ``default``.
        exclusive: ``Required`` if the pod sets a policy and says nothing else.
        bind: how CPUs are picked; `BindPolicy.NONE` if none are bound.
        bind_required: whether the pick must meet that policy.
        strategy: which NUMA nodes come first.
    """

    arbiter: Arbiter
    policy: TopologyPolicy = TopologyPolicy.NONE
    policy_from: str = ""
    scope: TopologyScope = TopologyScope.POD
    scope_from: str = "default"
    exclusive: Exclusive = Exclusive.NO
    bind: BindPolicy = BindPolicy.NONE
    bind_required: bool = False
    strategy: Strategy = Strategy.LEAST_ALLOCATED


_POD = "pod"
_LABEL = "node label"
_KUBELET = "kubelet"
_DEFAULT = "default"


def rule_for(
    wish: PodWish,
    facts: NodeFacts,
    *,
    default_strategy: Strategy = Strategy.LEAST_ALLOCATED,
    default_scope: TopologyScope = TopologyScope.POD,
) -> PlacementRule | PlacementRefusal:
    """Return the rule for a pod with *wish* on the node of *facts*, or why it cannot go there."""
    if wish.problems:
        return _bad_wish(wish)
    if facts.kubelet_policy.aligns:
        return _kubelet_refusal(wish, facts) or _kubelet_rule(wish, facts)
    pod, label = wish.policy, facts.label_policy
    if pod.aligns and label.aligns and pod is not label:
        detail = f"the pod wants {pod.api_name}, the node's label says {label.api_name}"
        return PlacementRefusal(why=Why.POLICY_CONFLICT, detail=detail)
    return _scheduler_rule(wish, facts, default_strategy, default_scope)


def _bad_wish(wish: PodWish) -> PlacementRefusal:
    detail = "; ".join(wish.problems)
    whole = all(NOT_WHOLE in problem for problem in wish.problems)
    return PlacementRefusal(why=Why.NOT_WHOLE_CPUS if whole else Why.BAD_WISH, detail=detail)


def _kubelet_refusal(wish: PodWish, facts: NodeFacts) -> PlacementRefusal | None:
    """Return what the pod asks for that the kubelet will not do, if there is anything."""
    kubelet = facts.kubelet_policy
    if wish.policy.aligns and wish.policy is not kubelet:
        detail = f"the pod wants {wish.policy.api_name}, the kubelet aligns by {kubelet.api_name}"
        return PlacementRefusal(why=Why.KUBELET_POLICY, detail=detail)
    if wish.scope and wish.scope is not facts.kubelet_scope:
        detail = f"the pod wants scope {wish.scope}, the kubelet's is {facts.kubelet_scope}"
        return PlacementRefusal(why=Why.KUBELET_SCOPE, detail=detail)
    for container in wish.containers:
        if container.policy and container.policy.aligns and container.policy is not kubelet:
            detail = (
                f"it wants {container.policy.api_name}, the kubelet aligns by {kubelet.api_name}"
            )
            return PlacementRefusal(why=Why.KUBELET_POLICY, container=container.name, detail=detail)
    if wish.exclusive is Exclusive.REQUIRED:
        detail = "the pod requires a NUMA node of its own, and the kubelet does not keep pods apart"
        return PlacementRefusal(why=Why.KUBELET_POLICY, detail=detail)
    required = wish.cpus.required
    if wish.cpus.bound and required and required is not facts.bind_policy:
        detail = f"the pod requires {required}, which this kubelet does not see to"
        return PlacementRefusal(why=Why.BIND_CONFLICT, detail=detail)
    return _unconnected(wish)


def _unconnected(wish: PodWish) -> PlacementRefusal | None:
    """Refuse a pod that requires close devices where the scheduler chooses none."""
    if wish.devices is None or wish.devices.closeness is None:
        return None
    detail = f"{wish.devices.closeness}: the scheduler chooses no devices on this node"
    return PlacementRefusal(why=Why.CLOSENESS, detail=detail)


def _kubelet_rule(wish: PodWish, facts: NodeFacts) -> PlacementRule:
    return PlacementRule(
        arbiter=Arbiter.KUBELET,
        policy=facts.kubelet_policy,
        policy_from=_POD if wish.policy.aligns else _KUBELET,
        scope=facts.kubelet_scope,
        scope_from=_POD if wish.scope else _KUBELET,
    )


def _scheduler_rule(
    wish: PodWish, facts: NodeFacts, default_strategy: Strategy, default_scope: TopologyScope
) -> PlacementRule | PlacementRefusal:
    """Return the rule where the scheduler decides, if there is anything to decide."""
    scope, scope_from = _scope(wish, facts, default_scope)
    policy = wish.policy if wish.policy.aligns else facts.label_policy
    aligned = policy.aligns or any(
        container.aligns_itself and not container.ignored for container in wish.containers
    )
    binding = _binding_for(wish, facts, scope)
    if not aligned and not _wants_devices(wish, facts) and binding == _Binding():
        return _unconnected(wish) or PlacementRule(arbiter=Arbiter.NOBODY)
    if refusal := _scope_refusal(wish, facts, scope):
        return refusal
    if isinstance(binding, PlacementRefusal):
        return binding
    return PlacementRule(
        arbiter=Arbiter.SCHEDULER,
        policy=policy,
        policy_from=(_POD if wish.policy.aligns else _LABEL) if policy.aligns else "",
        scope=scope,
        scope_from=scope_from,
        exclusive=_exclusive(wish),
        bind=binding.policy,
        bind_required=binding.required,
        strategy=wish.strategy or facts.strategy or default_strategy,
    )


def _scope(wish: PodWish, facts: NodeFacts, default: TopologyScope) -> tuple[TopologyScope, str]:
    if wish.scope:
        return wish.scope, _POD
    return (facts.label_scope, _LABEL) if facts.label_scope else (default, _DEFAULT)


def _scope_refusal(
    wish: PodWish, facts: NodeFacts, scope: TopologyScope
) -> PlacementRefusal | None:
    if facts.label_scope and facts.label_scope is not scope:
        detail = f"the pod wants scope {scope}, the node's label says {facts.label_scope}"
        return PlacementRefusal(why=Why.SCOPE_CONFLICT, detail=detail)
    if scope is TopologyScope.POD and wish.container_keys:
        keys = ", ".join(wish.container_keys)
        detail = f"scope pod applies on the node, and these need scope container: {keys}"
        return PlacementRefusal(why=Why.SCOPE_CONFLICT, detail=detail)
    return None


def _exclusive(wish: PodWish) -> Exclusive:
    """Return the pod's word; a pod that sets a policy and says nothing else requires it."""
    if wish.exclusive is not None:
        return wish.exclusive
    return Exclusive.REQUIRED if wish.policy.aligns else Exclusive.NO


def _wants_devices(wish: PodWish, facts: NodeFacts) -> bool:
    """Tell whether the pod wants devices that the node's Device lists."""
    if wish.devices is None:
        return False
    return any(device.type in wish.devices.requests for device in facts.devices)


@dataclass(frozen=True, slots=True)
class _Binding:
    """How CPUs are picked; `BindPolicy.NONE` if none are bound."""

    policy: BindPolicy = BindPolicy.NONE
    required: bool = False


@dataclass(frozen=True, slots=True)
class _Holder:
    """A pod or a container that gets CPUs of its own."""

    name: str
    cpu_milli: int
    wish: CpuWish


def _binding_for(
    wish: PodWish, facts: NodeFacts, scope: TopologyScope
) -> _Binding | PlacementRefusal:
    """Return how CPUs are bound for a pod with *wish* on the node of *facts*, or why not."""
    holders = list(_holders(wish, facts, scope))
    if not holders:
        return _Binding()
    for holder in holders:
        if holder.cpu_milli % MILLI_PER_CPU:
            return _not_whole(holder)
    if facts.cpus is None or not facts.cpus.places:
        return PlacementRefusal(why=Why.NO_CPU_LAYOUT, detail="where its CPUs are is not known")
    for holder in holders:
        if refusal := _refusal(holder, facts.bind_policy, facts.cpus.cpus_per_core):
            return refusal
    of_pod = wish.cpus if _policy_of(wish.cpus, facts) else holders[0].wish
    return _Binding(_policy_of(of_pod, facts), bool(of_pod.required or facts.bind_policy))


def _holders(wish: PodWish, facts: NodeFacts, scope: TopologyScope) -> Iterator[_Holder]:
    """Yield the pod or the containers that get CPUs of their own."""
    if scope is TopologyScope.POD:
        if wish.cpus.bound or facts.binds_all:
            yield from _if_any(_Holder("", wish.requests.get(CPU, 0), wish.cpus))
        return
    for container in wish.containers:
        asked = container.requests.get(CPU, 0)
        # Plain init containers that ask for parts of CPUs run in a shared pool.
        part = container.role is ContainerRole.INIT and asked % MILLI_PER_CPU
        if not container.ignored and not part and (container.cpus.bound or facts.binds_all):
            yield from _if_any(_Holder(container.name, asked, container.cpus))


def _if_any(holder: _Holder) -> Iterator[_Holder]:
    if holder.cpu_milli > 0:
        yield holder


def _policy_of(wish: CpuWish, facts: NodeFacts) -> BindPolicy:
    return wish.required or facts.bind_policy or wish.preferred


def _not_whole(holder: _Holder) -> PlacementRefusal:
    detail = f"it asks for {amount_text(CPU, holder.cpu_milli)}"
    return PlacementRefusal(
        why=Why.NOT_WHOLE_CPUS, container=holder.name, resource=CPU, detail=detail
    )


def _refusal(holder: _Holder, imposed: BindPolicy, threads: int) -> PlacementRefusal | None:
    """Return why *holder* cannot be bound where *imposed* applies and cores have *threads*."""
    required, count = holder.wish.required, holder.cpu_milli // MILLI_PER_CPU
    if required and imposed and required is not imposed:
        detail = f"{required} is required, the node imposes {imposed}"
        return PlacementRefusal(why=Why.BIND_CONFLICT, container=holder.name, detail=detail)
    if (required or imposed) is BindPolicy.FULL_PCPUS and threads and count % threads:
        detail = f"{count} CPUs, {threads} a core"
        return PlacementRefusal(why=Why.NOT_WHOLE_CORES, container=holder.name, detail=detail)
    return None
