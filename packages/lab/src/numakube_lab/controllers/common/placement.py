"""Whether a pod may run on a node: node selectors, affinity, taints and tolerations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.placement_rules import (
    NAME_FIELD,
    allows_node,
    required_affinity,
    tolerates,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.api.nodes import Node
    from numakube.api.placement import (
        NodeSelectorRequirement,
        Taint,
        Toleration,
    )
    from numakube.api.pod import PodSpec

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"


def untolerated(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    effects: Sequence[str] = (NO_SCHEDULE, NO_EXECUTE),
) -> Taint | None:
    """Return the first taint of one of *effects* that no toleration matches."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(one, taint) for one in tolerations):
            return taint
    return None


def is_wanted_node(spec: PodSpec, node: Node) -> bool:
    """Tell whether the pod's node selector and required node affinity select *node*."""
    return allows_node(spec, node.metadata.labels, node.metadata.name)


def named_nodes(spec: PodSpec) -> frozenset[str] | None:
    """Return the only nodes that the pod's affinity can select, if it names them; None if not.

    A pod of a daemon set names its node so.
    """
    required = required_affinity(spec)
    if required is None or not required.node_selector_terms:
        return None
    names: set[str] = set()
    for term in required.node_selector_terms:
        fields = [one for one in term.match_fields if _is_name_list(one)]
        if not fields:
            return None
        names |= set.intersection(*(set(one.values) for one in fields))
    return frozenset(names)


def _is_name_list(requirement: NodeSelectorRequirement) -> bool:
    return requirement.key == NAME_FIELD and requirement.operator == "In"
