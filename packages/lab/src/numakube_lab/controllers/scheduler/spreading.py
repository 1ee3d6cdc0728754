"""Hard topology spread constraints: where one more pod would make the spread too uneven.

As in kube-scheduler 1.35, pods that are being deleted do not count, a node that lacks a topology
key of a constraint takes no part, and nodes that the pod's node affinity rules out take none either
unless the constraint says so.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from numakube.api.selectors import exactly, selector_of
from numakube_lab.controllers.common.placement import is_wanted_node, untolerated

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.api.core import Pod
    from numakube.api.nodes import Node
    from numakube.api.placement import TopologySpreadConstraint
    from numakube.api.selectors import Selector

HARD: Final = "DoNotSchedule"
SKEWED: Final = "node(s) didn't match pod topology spread constraints"
NO_DOMAIN: Final = f"{SKEWED} (missing required label)"


def hard_constraints(pod: Pod) -> tuple[TopologySpreadConstraint, ...]:
    """Return the constraints that keep *pod* from nodes."""
    constraints = pod.spec.topology_spread_constraints
    return tuple(one for one in constraints if one.when_unsatisfiable == HARD)


def barred_nodes(
    pod: Pod, nodes: Sequence[Node], placed: Iterable[tuple[Pod, str]]
) -> dict[str, str]:
    """Return the nodes that the constraints of *pod* keep it from, and why.

    Args:
        pod: the pod to place.
        nodes: all nodes.
        placed: other pods, and the nodes that they are on.
    """
    constraints = hard_constraints(pod)
    keys = [one.topology_key for one in constraints]
    complete = [node for node in nodes if all(key in node.metadata.labels for key in keys)]
    others = [
        (other, node)
        for other, node in placed
        if other.metadata.namespace == pod.metadata.namespace
        and other.metadata.deletion_timestamp is None
    ]
    barred: dict[str, str] = {}
    for constraint in constraints:
        barred |= _too_full(pod, constraint, complete, others)
    known = {node.metadata.name for node in complete}
    barred |= {one.metadata.name: NO_DOMAIN for one in nodes if one.metadata.name not in known}
    return barred


def _too_full(
    pod: Pod,
    constraint: TopologySpreadConstraint,
    nodes: Sequence[Node],
    others: Iterable[tuple[Pod, str]],
) -> dict[str, str]:
    """Return the nodes in domains that have too many pods already."""
    key, selector = constraint.topology_key, _selector(constraint, pod.metadata.labels)
    domains = {
        node.metadata.name: node.metadata.labels[key]
        for node in nodes
        if _takes_part(pod, constraint, node)
    }
    counts = Counter(dict.fromkeys(domains.values(), 0))
    counts.update(
        domains[node]
        for other, node in others
        if node in domains and _is_meant(selector, other.metadata.labels)
    )
    enough = len(counts) >= (constraint.min_domains or 1)
    fewest = min(counts.values()) if counts and enough else 0
    limit = constraint.max_skew + fewest - selector.matches(pod.metadata.labels)
    return {
        node.metadata.name: SKEWED for node in nodes if counts[node.metadata.labels[key]] > limit
    }


def _takes_part(pod: Pod, constraint: TopologySpreadConstraint, node: Node) -> bool:
    if (constraint.node_affinity_policy or "Honor") == "Honor" and not is_wanted_node(
        pod.spec, node
    ):
        return False
    honors_taints = (constraint.node_taints_policy or "Ignore") == "Honor"
    return not (honors_taints and untolerated(node.spec.taints, pod.spec.tolerations))


def _selector(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Selector:
    selector = selector_of(constraint.label_selector)
    same = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    return selector.also(exactly(same)) if same else selector


def _is_meant(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Tell whether a pod counts; an empty selector is about none."""
    return not selector.is_empty and selector.matches(labels)
