"""What scope container is worth: pods of several containers that no single NUMA node has room for.

Under scope pod with SingleNUMANode all containers of a pod must share one NUMA node; under scope
container each has its own. The same stream of pods, which asks for 85 % of the CPUs in all, is
placed under both, each pod where it is rated best; what no node can take is left waiting.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from numakube.api.codec import encode
from numakube.api.koordinator import keys
from numakube.api.koordinator.pod_annotations import NumaTopologySpec
from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.values.resources import CPU, MEMORY
from numakube.values.topology_policy import TopologyScope
from numakube_placement.koordinator.node_facts import CpuLayout, CpuPlace, NodeFacts
from numakube_placement.koordinator.node_ledger import NodeLedger
from numakube_placement.koordinator.placement_on_node import admit, rate
from numakube_placement.koordinator.placement_rule import PlacementRefusal, rule_for
from numakube_placement.koordinator.read_pod import wish_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NODES: Final = 20
_LOAD: Final = 0.85
_ZONES: Final = 2
_CPUS: Final = 32
"""Logical CPUs of a NUMA node."""
_ALL_CPUS: Final = _NODES * _ZONES * _CPUS
_GIB: Final = 1 << 30
_SEEDS: Final = (1, 2, 3)
_SIZES: Final = (4, 8, 12, 16, 20)
"""CPUs of a container; each comes with 4 GiB a CPU."""


def run() -> Iterator[dict[str, object]]:
    """Yield pods placed and CPUs used, for both scopes and several streams of pods."""
    for seed in _SEEDS:
        sizes = stream(seed)
        for scope in TopologyScope:
            placed = place_all(sizes, scope)
            name = f"SingleNUMANode, scope {scope}, stream {seed} of {len(sizes)} pods"
            yield {"metric": f"left waiting: {name}", "value": placed.count(False), "unit": "pods"}
            used = sum(sum(size) for size, done in zip(sizes, placed, strict=True) if done)
            share = round(used / _ALL_CPUS, 3)
            yield {"metric": f"CPUs in use: {name}", "value": share, "unit": "share"}


def stream(seed: int) -> list[tuple[int, ...]]:
    """Return pods of one to three containers, by the CPUs of each."""
    dice = Random(seed)
    sizes: list[tuple[int, ...]] = []
    while sum(map(sum, sizes)) < _LOAD * _ALL_CPUS:
        sizes.append(tuple(dice.choices(_SIZES, k=dice.randint(1, 3))))
    return sizes


def place_all(sizes: Sequence[tuple[int, ...]], scope: TopologyScope) -> list[bool]:
    """Place the pods one after the other; return which of them had room."""
    ledgers = [NodeLedger.of(node_of(f"node-{index}"), {}) for index in range(_NODES)]
    return [place(ledgers, pod_of(f"pod-{index}", one, scope)) for index, one in enumerate(sizes)]


def place(ledgers: list[NodeLedger], pod: Pod) -> bool:
    """Put *pod* where it is rated best; tell whether any node can take it."""
    wish = wish_of(pod)
    best: tuple[int, int, NodeLedger] | None = None
    for index, ledger in enumerate(ledgers):
        rule = rule_for(wish, ledger.facts)
        assert not isinstance(rule, PlacementRefusal), rule
        allotment = admit(ledger, wish, rule)
        if isinstance(allotment, PlacementRefusal):
            continue
        rating = rate(ledger, allotment, rule)
        if best is None or rating > best[0]:
            best = rating, index, ledger.with_pod(pod.metadata.uid, allotment)
    if best is not None:
        ledgers[best[1]] = best[2]
    return best is not None


def node_of(name: str) -> NodeFacts:
    """Return a node of two NUMA nodes with hyper-threads and no Topology Manager."""
    places = (
        CpuPlace(id=cpu, core=cpu // 2, socket=cpu // _CPUS, numa=cpu // _CPUS)
        for cpu in range(_ZONES * _CPUS)
    )
    room = {CPU: _CPUS * 1000, MEMORY: 4 * _CPUS * _GIB}
    return NodeFacts(
        node=name, zones=dict.fromkeys(range(_ZONES), room), cpus=CpuLayout(tuple(places))
    )


def pod_of(name: str, sizes: Sequence[int], scope: TopologyScope) -> Pod:
    """Return a pod whose containers have CPUs of their own."""
    spec = NumaTopologySpec(numa_topology_policy="SingleNUMANode", numa_topology_scope=scope)
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=name,
            labels={keys.QOS_CLASS: "LSR", keys.PRIORITY_CLASS: "koord-prod"},
            annotations={keys.NUMA_TOPOLOGY_SPEC: encode(spec).decode()},
        ),
        spec=PodSpec(
            containers=tuple(
                Container(name=f"c{index}", resources=_resources(cpus))
                for index, cpus in enumerate(sizes)
            )
        ),
    )


def _resources(cpus: int) -> ResourceRequirements:
    amounts = {CPU: str(cpus), MEMORY: f"{4 * cpus}Gi"}
    return ResourceRequirements(requests=amounts, limits=amounts)
