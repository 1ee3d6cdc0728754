"""Node selectors and taints: which nodes a pod or a volume can use, for one node and for all.

Terms are alternatives; the requirements of a term must all hold. An empty term matches nothing, and
so does one that cannot be read. Follows k8s.io/component-helpers/scheduling/corev1/nodeaffinity,
1.37.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.api.affinity_and_taints import NAME_FIELD, Taint, tolerates
from numakube.api.selectors import IN, NOT_IN, Requirement, exactly, requirement
from numakube.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.affinity_and_taints import (
        NodeSelector,
        NodeSelectorRequirement,
        NodeSelectorTerm,
        PreferredSchedulingTerm,
        Toleration,
    )
    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube.api.resource_slices import DeviceTaint
    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.node_columns import NodeColumn
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Requirements on labels and on the name that must all hold."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Tell whether a node with these *labels* and *name* fulfils the term.

        Without a name, as volumes are judged, requirements on fields are not looked at.
        """
        if not all(label.accepts(labels.get(label.key)) for label in self.labels):
            return False
        return not name or all(field.accepts(_field(field.key, name)) for field in self.fields)

    def where(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """Return which of *rows* fulfil the term."""
        chosen = np.ones(len(rows), dtype=np.bool_)
        for label in self.labels:
            chosen &= where_label(label, snapshot, rows)
        for field in self.fields:
            chosen &= _where_field(field, snapshot, rows)
        return chosen


@dataclass(frozen=True, slots=True)
class NodeRule:
    """What a pod asks of nodes: labels that must be there, and one of some terms.

    Attributes:
        terms: ``None`` if there is no such rule; if it is there but empty, no node matches.
        problems: why terms could not be read.
    """

    selector: tuple[Requirement, ...] = ()
    terms: tuple[NodeTerm, ...] | None = None
    problems: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Tell whether every node is good."""
        return not self.selector and self.terms is None

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Tell whether a node with these *labels* and *name* is good."""
        if not all(one.accepts(labels.get(one.key)) for one in self.selector):
            return False
        return self.terms is None or any(term.matches(labels, name) for term in self.terms)

    def accepts(self, node: NodeInfo) -> bool:
        """Tell whether *node* is good."""
        return self.matches(node.labels, node.name)

    def where(self, snapshot: Snapshot, rows: Rows) -> Mask:
        """Return which of *rows* are good."""
        chosen = NodeTerm(self.selector).where(snapshot, rows)
        if self.terms is None:
            return chosen
        either = np.zeros(len(rows), dtype=np.bool_)
        for term in self.terms:
            either |= term.where(snapshot, rows)
        both: Mask = chosen & either
        return both


@dataclass(frozen=True, slots=True)
class NodePreferences:
    """Terms with a weight for the nodes that match them."""

    terms: tuple[tuple[NodeTerm, int], ...] = ()

    def score(self, node: NodeInfo) -> int:
        """Return the sum of the weights of the terms that *node* matches."""
        return sum(weight for term, weight in self.terms if term.matches(node.labels, node.name))

    def score_all(self, snapshot: Snapshot, rows: Rows) -> IntArray:
        """Return the same for all of *rows*."""
        total = np.zeros(len(rows), dtype=np.int64)
        for term, weight in self.terms:
            total += weight * term.where(snapshot, rows)
        return total


def required_nodes(pod: PodInfo) -> NodeRule:
    """Return what *pod* asks of nodes: its node selector and its required node affinity."""
    spec = pod.pod.spec
    if not spec.node_selector and (spec.affinity is None or spec.affinity.node_affinity is None):
        return ANY_NODE
    return pod.memo("required-nodes", _required)


def _required(pod: Pod) -> NodeRule:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    rule = node_rule(affinity.required if affinity else None)
    wanted = exactly(pod.spec.node_selector).requirements or ()
    return NodeRule(wanted, rule.terms, rule.problems)


def node_rule(selector: NodeSelector | None) -> NodeRule:
    """Return what *selector* amounts to; terms that cannot be read match nothing."""
    if selector is None:
        return ANY_NODE
    terms, problems = list[NodeTerm](), list[str]()
    for term in selector.node_selector_terms:
        if not term.match_expressions and not term.match_fields:
            continue
        try:
            terms.append(node_term(term))
        except InvalidValue as error:
            problems.append(str(error))
    return NodeRule(terms=tuple(terms), problems=tuple(problems))


def node_preferences(preferred: Iterable[PreferredSchedulingTerm]) -> NodePreferences:
    """Return what preferred terms amount to; those that weigh or ask nothing are left out.

    Raises:
        InvalidValue: a term cannot be read.
    """
    return NodePreferences(
        tuple(
            (node_term(term.preference), term.weight)
            for term in preferred
            if term.weight and (term.preference.match_expressions or term.preference.match_fields)
        )
    )


def node_term(term: NodeSelectorTerm) -> NodeTerm:
    """Return one term.

    Raises:
        InvalidValue: it cannot be read.
    """
    labels = (
        requirement(expression.key, expression.operator, expression.values)
        for expression in term.match_expressions
    )
    return NodeTerm(
        tuple(labels), tuple(_field_requirement(match_field) for match_field in term.match_fields)
    )


def _field_requirement(one: NodeSelectorRequirement) -> Requirement:
    if one.operator not in (IN, NOT_IN):
        raise InvalidValue(f"field {one.key}: operator {one.operator!r} is not supported")
    if len(one.values) != 1:
        raise InvalidValue(f"field {one.key}: must have one element")
    return Requirement(one.key, one.operator, frozenset(one.values))


def _field(key: str, name: str) -> str:
    return name if key == NAME_FIELD else ""


def where_label(one: Requirement, snapshot: Snapshot, rows: Rows) -> Mask:
    """Return which of *rows* have a value of the label that the requirement accepts."""
    column = snapshot.label(one.key)
    match one.operator:
        case "In":
            return column.where_in(one.values, rows)
        case "NotIn":
            return ~column.where_in(one.values, rows)
        case "Exists":
            return column.present(rows)
        case "DoesNotExist":
            return ~column.present(rows)
        case _:
            return column.where(one.accepts, rows)


def _where_field(one: Requirement, snapshot: Snapshot, rows: Rows) -> Mask:
    if one.key != NAME_FIELD:
        return np.full(len(rows), one.accepts(""), dtype=np.bool_)
    named = [snapshot.row_of[name] for name in one.values if name in snapshot.row_of]
    inside: Mask = np.isin(rows, named)
    return inside if one.operator == IN else ~inside


ANY_NODE: Final = NodeRule()


# ------------------------------------------------------------------------------------------------
# Which taints of a node a pod tolerates, and which of them keep it away.

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
FORBIDDING: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Tell whether any of *tolerations* covers *taint*."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def keeps_away(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    """Tell whether one of *taints* forbids a pod with *tolerations*."""
    return any(
        taint.effect in FORBIDDING and not is_tolerated(taint, tolerations) for taint in taints
    )


def untolerated(pod: Pod, node: Node) -> tuple[Taint, ...]:
    """Return the taints of *node* that keep *pod* away."""
    return tuple(
        taint
        for taint in node.spec.taints
        if taint.effect in FORBIDDING and not is_tolerated(taint, pod.spec.tolerations)
    )


def taint_text(taint: Taint | DeviceTaint) -> str:
    """Write a taint as kubectl does."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def taint_sets(snapshot: Snapshot) -> NodeColumn[tuple[Taint, ...]]:
    """Return the taints of every node; nodes with the same ones share a value."""
    return snapshot.column("taints", _taints)


def _taints(node: NodeInfo) -> tuple[Taint, ...] | None:
    # When a taint was added differs from node to node and does not matter here.
    taints = node.node.spec.taints
    return tuple(Taint(key=t.key, value=t.value, effect=t.effect) for t in taints) or None
