"""One more node: a copy of one that is there, with its daemons and nothing else on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.insight.explain.explanation import Change

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.insight.explain.node_verdicts import Judgement
    from numakube.insight.explain.what_if import Bench
    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.snapshot.nodes import NodeInfo

_MOST_KINDS: Final = 8
_HOSTNAME: Final = "kubernetes.io/hostname"


def added(bench: Bench, judgement: Judgement, facts: ClusterFacts) -> Iterator[Change]:
    """Yield the node of which one more would take the pod, unless room is being made already."""
    if judgement.nomination is not None:
        return
    names = [name for group in judgement.refusals for name in group.nodes]
    for name in _one_of_each_kind(bench, names):
        with bench.node_added(name, facts.topologies.get(name)) as new:
            fits = new and bench.taker(bench.pod, among=(new,)) is not None
        if fits:
            text = f"Add a node like {name}: an empty one would take it."
            yield Change(kind="add-node", text=text, node=name)
            return


def _one_of_each_kind(bench: Bench, names: list[str]) -> list[str]:
    """Return the first node of each kind, the closest to fitting first."""
    kinds: dict[object, str] = {}
    for name in names:
        node = bench.node(name)
        if node is not None:
            kinds.setdefault(_kind(node), name)
    return list(kinds.values())[:_MOST_KINDS]


def _kind(node: NodeInfo) -> object:
    labels = {key: value for key, value in node.labels.items() if key != _HOSTNAME}
    topology = node.numa.topology if node.numa is not None else None
    settings = (topology.policy, topology.scope) if topology is not None else ()
    return frozenset(labels.items()), frozenset(node.allocatable.items()), settings
