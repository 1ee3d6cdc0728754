"""Placing a pod on one node where our scheduler decides: NUMA nodes, exact CPUs, devices.

Machines of 2 NUMA nodes (128 CPUs) and of 8 (256 CPUs), partly taken by a dozen pods. A small pod
fits a NUMA node, a wide one needs several, so that hundreds of sets have to be looked at. Times are
CPU time of one thread for one node whose ledger is known; a scheduler remembers answers for nodes
alike (`NodeLedger.key`), so a cluster takes fewer of them than it has nodes.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Final

from numakube.kubelet.pod_demand import ContainerRole
from numakube.topology.allotments import Allotment
from numakube.values.topology_policy import TopologyPolicy, TopologyScope
from numakube_placement.koordinator.annotation_values import Arbiter, BindPolicy
from numakube_placement.koordinator.node_facts import CpuLayout, CpuPlace, DevicePlace, NodeFacts
from numakube_placement.koordinator.node_ledger import NodeLedger
from numakube_placement.koordinator.placement_on_node import admit, rate
from numakube_placement.koordinator.placement_rule import PlacementRefusal, PlacementRule
from numakube_placement.koordinator.pod_wish import ContainerWish, CpuWish, DeviceWish, PodWish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

GIB: Final = 1 << 30
ROUNDS: Final = 40
FULL: Final = BindPolicy.FULL_PCPUS
_GPU: Final = {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory-ratio": 100}
_SHAPES: Final = {2: (1, 32), 8: (4, 16)}
"""For a number of NUMA nodes: NUMA nodes a socket, and cores a NUMA node."""
_WIDE: Final = {2: 80, 8: 160}
"""CPUs of a pod that no NUMA node has room for."""
_BUDGETS: Final = {TopologyPolicy.SINGLE_NUMA_NODE: 1.0}
"""Milliseconds; other policies may look at more sets."""


def run() -> Iterator[dict[str, object]]:
    """Yield how long decisions take."""
    for numas in _SHAPES:
        ledger = node(numas)
        for policy in (
            TopologyPolicy.SINGLE_NUMA_NODE,
            TopologyPolicy.RESTRICTED,
            TopologyPolicy.BEST_EFFORT,
        ):
            for scope in TopologyScope:
                rule = rule_of(policy, scope)
                name = f"{numas} NUMA nodes, {policy}, scope {scope}"
                yield timed(f"{name}: admit", ledger, pod(4), rule)
                yield timed(f"{name}: admit with a GPU", ledger, pod(4, gpus=1), rule)
                yield timed(f"{name}: admit, wide", ledger, pod(_WIDE[numas]), rule)
    yield from book_results()


def book_results() -> Iterator[dict[str, object]]:
    """Yield how long it takes to keep a ledger and to rate a node."""
    ledger, rule = node(8), rule_of(TopologyPolicy.SINGLE_NUMA_NODE, TopologyScope.POD)
    got = admit(ledger, pod(4), rule)
    assert isinstance(got, Allotment)
    for metric, action in (
        ("ledger of a node with a dozen pods, and its key", lambda: fresh(ledger).key),
        ("ledger with a pod more, and its key", lambda: ledger.with_pod("new", got).key),
        ("rate", lambda: rate(ledger, got, rule)),
    ):
        yield {"metric": f"8 NUMA nodes: {metric}", "value": _ms(action), "unit": "ms", "budget": 1}


def timed(metric: str, ledger: NodeLedger, wish: PodWish, rule: PlacementRule) -> dict[str, object]:
    """Return how long the answer for one node takes, and what it is."""
    answer = admit(ledger, wish, rule)
    return {
        "metric": metric,
        "value": _ms(lambda: admit(ledger, wish, rule)),
        "unit": "ms",
        "budget": _BUDGETS.get(rule.policy, 5.0),
        "answer": answer.why.name if isinstance(answer, PlacementRefusal) else "placed",
    }


def node(numas: int) -> NodeLedger:
    """Return a node that is partly taken: bound pods, pods in pools, and a GPU in use."""
    ledger = NodeLedger.of(facts_of(numas), {})
    for number in range(12):
        rule = rule_of(TopologyPolicy.SINGLE_NUMA_NODE, TopologyScope.POD, bound=number % 2 == 0)
        got = admit(ledger, pod(2, containers=1, gpus=number == 0), rule)
        assert isinstance(got, Allotment)
        ledger = ledger.with_pod(f"pod-{number}", got)
    assert ledger.key
    return ledger


def fresh(ledger: NodeLedger) -> NodeLedger:
    """Return the same ledger with nothing known of it yet."""
    return NodeLedger.of(ledger.facts, ledger.allotments)


def facts_of(numas: int) -> NodeFacts:
    """Return a machine with two sockets, two threads a core, and a GPU a NUMA node."""
    a_socket, cores = _SHAPES[numas]
    places = tuple(
        CpuPlace(
            id=cpu, core=cpu // 2, socket=cpu // (2 * cores * a_socket), numa=cpu // 2 // cores
        )
        for cpu in range(numas * cores * 2)
    )
    zone = {"cpu": cores * 2000, "memory": 64 * GIB}
    gpus = tuple(
        DevicePlace(type="gpu", minor=numa, numa=numa, pcie=str(numa), resources=_GPU)
        for numa in range(numas)
    )
    return NodeFacts(
        node="node",
        zones=dict.fromkeys(range(numas), zone),
        cpus=CpuLayout(places),
        devices=gpus,
    )


def rule_of(policy: TopologyPolicy, scope: TopologyScope, *, bound: bool = True) -> PlacementRule:
    """Return a rule under which CPUs are bound in whole cores."""
    return PlacementRule(
        arbiter=Arbiter.SCHEDULER,
        policy=policy,
        scope=scope,
        bind=FULL if bound else BindPolicy.NONE,
        bind_required=bound,
    )


def pod(cpus: int, *, containers: int = 2, gpus: int = 0) -> PodWish:
    """Return a pod of equal containers with *cpus* together."""
    each = {"cpu": cpus * 1000 // containers, "memory": cpus * GIB // containers}
    cpu_wish = CpuWish(bound=True, required=FULL)
    amounts = {"gpu": {name: amount * gpus for name, amount in _GPU.items()}}
    return PodWish(
        requests={name: amount * containers for name, amount in each.items()},
        cpus=cpu_wish,
        containers=tuple(
            ContainerWish(name=f"c{number}", role=ContainerRole.APP, requests=each, cpus=cpu_wish)
            for number in range(containers)
        ),
        devices=DeviceWish(requests=amounts, by_container={"c0": amounts}) if gpus else None,
    )


def _ms(action: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        action()
        times.append(time.thread_time() - start)
    return round(statistics.median(times) * 1e3, 3)
