"""Whether a pod may run on a node: node selectors, affinity, taints and tolerations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.placement import Taint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.api.core import PodSpec
    from numakube.api.nodes import Node
    from numakube.api.placement import (
        NodeSelector,
        NodeSelectorRequirement,
        NodeSelectorTerm,
        Toleration,
    )

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
UNSCHEDULABLE: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
NAME_FIELD: Final = "metadata.name"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Tell whether *toleration* puts up with *taint*."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def untolerated(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    effects: Sequence[str] = (NO_SCHEDULE, NO_EXECUTE),
) -> Taint | None:
    """Return the first taint of one of *effects* that no toleration puts up with."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(one, taint) for one in tolerations):
            return taint
    return None


def is_wanted_node(spec: PodSpec, node: Node) -> bool:
    """Tell whether the pod's node selector and required node affinity select *node*."""
    labels = node.metadata.labels
    if not spec.node_selector.items() <= labels.items():
        return False
    required = required_affinity(spec)
    if required is None:
        return True
    return any(
        _term_matches(term, labels, node.metadata.name) for term in required.node_selector_terms
    )


def required_affinity(spec: PodSpec) -> NodeSelector | None:
    """Return the pod's required node affinity."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return affinity.required if affinity else None


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


def _term_matches(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {NAME_FIELD: name}
    return all(_holds(one, labels) for one in term.match_expressions) and all(
        _holds(one, fields) for one in term.match_fields
    )


def _holds(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
        case _:
            return False


def _compares(requirement: NodeSelectorRequirement, value: str | None) -> bool:
    if value is None or len(requirement.values) != 1:
        return False
    try:
        found, bound = int(value), int(requirement.values[0])
    except ValueError:
        return False
    return found > bound if requirement.operator == "Gt" else found < bound
