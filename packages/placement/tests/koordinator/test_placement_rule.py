"""The rule for a pod on a node: precedence, and every conflict of pod, node label and kubelet."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from numakube.kubelet.pod_demand import ContainerRole
from numakube.values.topology_policy import TopologyPolicy, TopologyScope
from numakube_placement.koordinator.annotation_values import (
    Arbiter,
    BindPolicy,
    Exclusive,
    Strategy,
)
from numakube_placement.koordinator.node_facts import CpuLayout, CpuPlace, DevicePlace, NodeFacts
from numakube_placement.koordinator.placement_rule import (
    PlacementRefusal,
    PlacementRule,
    Why,
    rule_for,
)
from numakube_placement.koordinator.pod_wish import ContainerWish, CpuWish, DeviceWish, PodWish

NONE, BEST, RESTRICTED, SINGLE = TopologyPolicy
FULL, SPREAD = BindPolicy.FULL_PCPUS, BindPolicy.SPREAD_BY_PCPUS
LAYOUT = CpuLayout(tuple(CpuPlace(cpu, cpu // 2, 0, 0) for cpu in range(8)))
NODE = NodeFacts(node="n1", zones={0: {"cpu": 8000}}, cpus=LAYOUT)

# What a pod (rows) gets where a label or a kubelet (columns) sets a policy.
POLICIES = """
                -       BestEffort  Restricted  SingleNUMANode
-               -       node        node        node
BestEffort      pod     pod         refused     refused
Restricted      pod     refused     pod         refused
SingleNUMANode  pod     refused     refused     pod
"""
# Likewise for scopes; the default is pod.
SCOPES = """
                -       pod         container
-               default node        node
pod             pod     pod         refused
container       pod     refused     pod
"""


def cells(table: str) -> dict[tuple[str, str], str]:
    """Return a table by row and column; a dash stands for nothing."""
    header, *rows = [line.split() for line in table.strip("\n").splitlines()]
    clean = {"-": ""}
    return {
        (clean.get(row[0], row[0]), clean.get(column, column)): cell
        for row in rows
        for column, cell in zip(header, row[1:], strict=True)
    }


def word(policy: TopologyPolicy) -> str:
    """Return the name of *policy* in the tables; empty for none."""
    return policy.api_name if policy.aligns else ""


def expected(pod: tuple[str, str], label: tuple[str, str], kubelet: tuple[str, str]) -> Any:
    """Return the cell for policies and scopes: a refusal, or who is arbiter and by what."""
    (policy, scope), (policy_of_node, scope_of_node) = pod, kubelet if kubelet[0] else label
    by_policy = cells(POLICIES)[policy, policy_of_node]
    by_scope = cells(SCOPES)[scope, scope_of_node]
    if by_policy == "refused":
        return Why.KUBELET_POLICY if kubelet[0] else Why.POLICY_CONFLICT
    if by_policy == "-":
        return Arbiter.NOBODY
    if by_scope == "refused":
        return Why.KUBELET_SCOPE if kubelet[0] else Why.SCOPE_CONFLICT
    node = "kubelet" if kubelet[0] else "node label"
    return (
        Arbiter.KUBELET if kubelet[0] else Arbiter.SCHEDULER,
        policy or policy_of_node,
        "pod" if by_policy == "pod" else node,
        {"pod": scope, "node": scope_of_node, "default": "pod"}[by_scope],
        {"pod": "pod", "node": node, "default": "default"}[by_scope],
    )


def told(answer: PlacementRule | PlacementRefusal) -> Any:
    """Return *answer* in the form of `expected`."""
    if isinstance(answer, PlacementRefusal):
        assert answer.detail
        return answer.why
    if answer.arbiter is Arbiter.NOBODY:
        return answer.arbiter
    policy = word(answer.policy)
    return (answer.arbiter, policy, answer.policy_from, answer.scope, answer.scope_from)


@pytest.mark.parametrize("kubelet", TopologyPolicy)
@pytest.mark.parametrize("pod", TopologyPolicy)
def test_every_cell_of_pod_label_and_kubelet(pod: TopologyPolicy, kubelet: TopologyPolicy) -> None:
    """A live kubelet decides whatever labels say; its scope means nothing without a policy."""
    scopes: tuple[TopologyScope | None, ...] = (None, *TopologyScope)
    for scope, label, scope_of_label, scope_of_kubelet in product(
        scopes, TopologyPolicy, scopes, TopologyScope
    ):
        wish = PodWish(policy=pod, scope=scope, requests={"cpu": 1000})
        facts = replace(
            NODE,
            label_policy=label,
            label_scope=scope_of_label,
            kubelet_policy=kubelet,
            kubelet_scope=scope_of_kubelet,
        )
        assert told(rule_for(wish, facts)) == expected(
            (word(pod), scope or ""),
            (word(label), scope_of_label or ""),
            (word(kubelet), scope_of_kubelet),
        ), (scope, label, scope_of_label, scope_of_kubelet)


def refused(wish: PodWish, facts: NodeFacts = NODE) -> PlacementRefusal:
    """Return why *wish* is refused."""
    answer = rule_for(wish, facts)
    assert isinstance(answer, PlacementRefusal)
    return answer


def ruled(wish: PodWish, facts: NodeFacts = NODE, **options: Any) -> PlacementRule:
    """Return the rule for *wish*."""
    answer = rule_for(wish, facts, **options)
    assert isinstance(answer, PlacementRule)
    return answer


def container(name: str, cpu: int, **more: Any) -> ContainerWish:
    """Return the wish of a container for *cpu* thousandths."""
    parts: dict[str, Any] = {"role": ContainerRole.APP, "cpus": CpuWish(bound=True), **more}
    return ContainerWish(name=name, requests={"cpu": cpu}, **parts)


def lsr(cpu: int, **cpus: Any) -> PodWish:
    """Return the wish of a pod whose CPUs are bound because of its class."""
    return PodWish(requests={"cpu": cpu}, cpus=CpuWish(bound=True, **cpus))


KUBELET = replace(NODE, kubelet_policy=SINGLE, kubelet_scope=TopologyScope.CONTAINER)
BINDING = replace(NODE, bind_policy=SPREAD, binds_all=True)


def test_a_wish_with_mistakes_is_refused_everywhere() -> None:
    """With all of them in the detail."""
    answer = refused(PodWish(problems=("a: wrong", "b: wrong")))
    assert (answer.why, answer.detail) == (Why.BAD_WISH, "a: wrong; b: wrong")
    parts = PodWish(problems=("LSR: the requested CPUs must be integer, not 500m",))
    assert refused(parts, KUBELET).why is Why.NOT_WHOLE_CPUS


def test_a_pod_that_leaves_all_to_the_node_goes_by_the_kubelet() -> None:
    """Nothing is bound or allotted there."""
    rule = ruled(lsr(2000), KUBELET)
    assert (rule.arbiter, rule.bind) == (Arbiter.KUBELET, BindPolicy.NONE)


def test_a_container_with_another_policy_than_the_kubelets_is_refused_there() -> None:
    """None is no demand, and the same is no conflict."""
    wish = PodWish(containers=(container("a", 1000, policy=RESTRICTED),))
    answer = refused(wish, KUBELET)
    assert (answer.why, answer.container) == (Why.KUBELET_POLICY, "a")
    for policy in (SINGLE, NONE):
        same = PodWish(containers=(container("a", 1000, policy=policy),))
        assert ruled(same, KUBELET).arbiter is Arbiter.KUBELET


def test_a_pod_that_requires_a_numa_node_of_its_own_is_refused_by_a_kubelet() -> None:
    """What is only the default of a policy is not required there."""
    wish = PodWish(policy=SINGLE, exclusive=Exclusive.REQUIRED)
    assert refused(wish, KUBELET).why is Why.KUBELET_POLICY
    assert ruled(PodWish(policy=SINGLE), KUBELET).exclusive is Exclusive.NO
    preferring = PodWish(policy=SINGLE, exclusive=Exclusive.PREFERRED)
    assert ruled(preferring, KUBELET).arbiter is Arbiter.KUBELET


def test_a_required_way_of_binding_is_refused_by_a_kubelet_that_has_another() -> None:
    """The option full-pcpus-only sees to whole cores."""
    assert refused(lsr(2000, required=FULL), KUBELET).why is Why.BIND_CONFLICT
    whole_cores = replace(KUBELET, bind_policy=FULL)
    assert ruled(lsr(2000, required=FULL), whole_cores).arbiter is Arbiter.KUBELET
    assert refused(lsr(2000, required=SPREAD), whole_cores).why is Why.BIND_CONFLICT
    unbound = PodWish(requests={"cpu": 1}, cpus=CpuWish(required=FULL))
    assert ruled(unbound, KUBELET).arbiter is Arbiter.KUBELET


@pytest.mark.parametrize(
    ("wish", "label", "exclusive"),
    [
        (PodWish(policy=SINGLE), NONE, Exclusive.REQUIRED),
        (PodWish(policy=BEST), NONE, Exclusive.REQUIRED),
        (PodWish(), SINGLE, Exclusive.NO),
        (PodWish(exclusive=Exclusive.PREFERRED), SINGLE, Exclusive.PREFERRED),
        (PodWish(policy=SINGLE, exclusive=Exclusive.NO), NONE, Exclusive.NO),
    ],
)
def test_a_pod_that_sets_a_policy_requires_exclusivity_unless_it_says_otherwise(
    wish: PodWish, label: TopologyPolicy, exclusive: Exclusive
) -> None:
    """A label's policy brings none."""
    assert ruled(wish, replace(NODE, label_policy=label)).exclusive is exclusive


@pytest.mark.parametrize(
    ("pod", "node", "strategy"),
    [
        (None, None, Strategy.DISTRIBUTE_EVENLY),
        (None, Strategy.MOST_ALLOCATED, Strategy.MOST_ALLOCATED),
        (Strategy.LEAST_ALLOCATED, Strategy.MOST_ALLOCATED, Strategy.LEAST_ALLOCATED),
    ],
)
def test_the_strategy_is_the_pods_the_labels_or_the_default(
    pod: Strategy | None, node: Strategy | None, strategy: Strategy
) -> None:
    """In this order; they cannot conflict."""
    wish = PodWish(policy=SINGLE, strategy=pod)
    rule = ruled(wish, replace(NODE, strategy=node), default_strategy=Strategy.DISTRIBUTE_EVENLY)
    assert rule.strategy is strategy


@pytest.mark.parametrize(
    ("pod", "label", "scope", "source"),
    [
        (None, None, TopologyScope.CONTAINER, "default"),
        (None, TopologyScope.POD, TopologyScope.POD, "node label"),
        (TopologyScope.POD, None, TopologyScope.POD, "pod"),
    ],
)
def test_the_default_scope_is_for_pods_and_nodes_that_say_none(
    pod: TopologyScope | None, label: TopologyScope | None, scope: TopologyScope, source: str
) -> None:
    """A profile may say that all its pods are aligned container by container."""
    wish = PodWish(policy=SINGLE, scope=pod)
    facts = replace(NODE, label_scope=label)
    rule = ruled(wish, facts, default_scope=TopologyScope.CONTAINER)
    assert (rule.scope, rule.scope_from) == (scope, source)


@pytest.mark.parametrize(
    ("wish", "facts", "bind", "required"),
    [
        (lsr(2000), NODE, FULL, False),
        (lsr(2000, preferred=SPREAD), NODE, SPREAD, False),
        (lsr(2000, required=SPREAD), NODE, SPREAD, True),
        (lsr(2000), BINDING, SPREAD, True),
        (lsr(2000), replace(NODE, bind_policy=FULL), FULL, True),
        (PodWish(requests={"cpu": 1000}), BINDING, SPREAD, True),
        (PodWish(requests={"memory": 1}, policy=SINGLE), BINDING, BindPolicy.NONE, False),
        (
            PodWish(requests={"cpu": 500}, policy=SINGLE),
            replace(NODE, bind_policy=FULL),
            BindPolicy.NONE,
            False,
        ),
    ],
)
def test_how_cpus_are_bound_is_the_pods_the_nodes_or_what_the_pod_prefers(
    wish: PodWish, facts: NodeFacts, bind: BindPolicy, required: bool
) -> None:
    """A kubelet of whole cores binds nobody by itself."""
    rule = ruled(wish, facts)
    assert rule.arbiter is Arbiter.SCHEDULER
    assert (rule.bind, rule.bind_required) == (bind, required)


def test_a_plain_pod_is_nobodys_business() -> None:
    """Not even if it sets a scope that the node's label does not have."""
    facts = replace(NODE, label_scope=TopologyScope.CONTAINER)
    assert (
        ruled(PodWish(requests={"cpu": 500}, scope=TopologyScope.POD), facts).arbiter
        is Arbiter.NOBODY
    )


def test_a_node_that_binds_everybody_refuses_parts_of_cpus() -> None:
    """Whatever class the pod is of."""
    answer = refused(PodWish(requests={"cpu": 1500}), BINDING)
    assert (answer.why, answer.resource, answer.detail) == (
        Why.NOT_WHOLE_CPUS,
        "cpu",
        "it asks for 1500m",
    )


def test_cpus_cannot_be_bound_where_their_layout_is_not_known() -> None:
    """Aligning without binding is possible there."""
    unknown = replace(NODE, cpus=None)
    assert refused(lsr(2000), unknown).why is Why.NO_CPU_LAYOUT
    assert refused(lsr(2000), replace(NODE, cpus=CpuLayout(()))).why is Why.NO_CPU_LAYOUT
    assert ruled(PodWish(policy=SINGLE, requests={"cpu": 2000}), unknown).policy is SINGLE


def test_a_required_policy_that_the_node_does_not_impose_is_a_conflict() -> None:
    """What the pod only prefers gives way."""
    assert refused(lsr(2000, required=FULL), BINDING).why is Why.BIND_CONFLICT
    assert ruled(lsr(2000, preferred=FULL), BINDING).bind is SPREAD


def test_whole_cores_that_are_required_must_come_out_even() -> None:
    """What is only preferred need not."""
    assert refused(lsr(3000, required=FULL)).why is Why.NOT_WHOLE_CORES
    assert refused(lsr(3000), replace(NODE, bind_policy=FULL)).why is Why.NOT_WHOLE_CORES
    assert ruled(lsr(3000)).bind is FULL
    assert ruled(lsr(4000, required=FULL)).bind_required


def scoped(*containers: ContainerWish, **more: Any) -> PodWish:
    """Return the wish of a pod of containers that are placed one by one."""
    total = sum(wish.requests["cpu"] for wish in containers)
    parts: dict[str, Any] = {"cpus": CpuWish(bound=True), **more}
    return PodWish(
        scope=TopologyScope.CONTAINER, requests={"cpu": total}, containers=containers, **parts
    )


def test_with_scope_container_each_container_is_checked_by_itself() -> None:
    """The refusal names it."""
    halves = scoped(container("a", 2000), container("b", 500))
    assert (refused(halves).why, refused(halves).container) == (Why.NOT_WHOLE_CPUS, "b")
    odd = scoped(
        container("a", 2000), container("b", 1000, cpus=CpuWish(bound=True, required=FULL))
    )
    assert (refused(odd).why, refused(odd).container) == (Why.NOT_WHOLE_CORES, "b")
    assert ruled(scoped(container("a", 1000), container("b", 3000))).bind is FULL


def test_ignored_containers_and_parts_for_init_containers_are_not_bound() -> None:
    """They do not stand in the way."""
    wish = scoped(
        container("setup", 100, role=ContainerRole.INIT),
        container("main", 2000),
        container("mesh", 300, ignored=True),
    )
    assert ruled(wish).bind is FULL
    assert ruled(wish, BINDING).bind is SPREAD


def test_only_a_container_may_be_bound() -> None:
    """By its own annotation, where the default binds nobody."""
    own = CpuWish(bound=True, preferred=SPREAD)
    wish = scoped(container("main", 2000, cpus=own), cpus=CpuWish(preferred=BindPolicy.NONE))
    assert ruled(wish).bind is SPREAD


def test_rules_of_single_containers_need_scope_container() -> None:
    """Where the node leaves the scope open it is pod."""
    wish = PodWish(
        containers=(container("a", 1000, policy=SINGLE),),
        container_keys=("numa-topology-spec.scheduling.koordinator.sh/container.a",),
    )
    answer = refused(wish)
    assert answer.why is Why.SCOPE_CONFLICT
    assert wish.container_keys[0] in answer.detail
    rule = ruled(wish, replace(NODE, label_scope=TopologyScope.CONTAINER))
    assert (rule.arbiter, rule.policy, rule.policy_from) == (Arbiter.SCHEDULER, NONE, "")


def test_devices_are_the_schedulers_where_a_device_lists_them() -> None:
    """Elsewhere a device plugin gives them out."""
    wish = PodWish(devices=DeviceWish(requests={"gpu": {"koordinator.sh/gpu-core": 100}}))
    assert ruled(wish).arbiter is Arbiter.NOBODY
    rdma = replace(NODE, devices=(DevicePlace(type="rdma", minor=0),))
    assert ruled(wish, rdma).arbiter is Arbiter.NOBODY
    gpu = replace(NODE, devices=(DevicePlace(type="gpu", minor=0),))
    assert ruled(wish, gpu).arbiter is Arbiter.SCHEDULER
