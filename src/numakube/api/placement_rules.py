"""Whether a pod may run on a node by what stands in both objects: labels, names and taints.

Everybody who asks about one node uses these; `numakube.scheduling.matching` has the forms that
judge thousands of nodes at once. Follows Kubernetes 1.35 with its defaults: the toleration
operators ``Lt`` and ``Gt`` (alpha) tolerate nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.selectors import accepts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.placement import NodeSelector, NodeSelectorTerm, Taint, Toleration
    from numakube.api.pod import PodSpec

NAME_FIELD: Final = "metadata.name"
"""The only field of a node that a selector can ask for."""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Tell whether a pod with *toleration* puts up with *taint*."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case _:
            return False


def allows_node(spec: PodSpec, labels: Mapping[str, str], name: str) -> bool:
    """Tell whether the pod's node selector and required node affinity allow the node *name*."""
    if not spec.node_selector.items() <= labels.items():
        return False
    required = required_affinity(spec)
    if required is None:
        return True
    return any(_matches(term, labels, name) for term in required.node_selector_terms)


def required_affinity(spec: PodSpec) -> NodeSelector | None:
    """Return the pod's required node affinity."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    return affinity.required if affinity else None


def _matches(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {NAME_FIELD: name}
    return all(
        accepts(one.operator, one.values, labels.get(one.key)) for one in term.match_expressions
    ) and all(accepts(one.operator, one.values, fields.get(one.key)) for one in term.match_fields)
