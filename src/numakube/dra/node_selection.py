"""Which nodes can reach a slice or a device: by name, all, or by a node selector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.affinity_and_taints import NAME_FIELD
from numakube.api.selectors import IN, NOT_IN, accepts, requirement
from numakube.dra.device_ids import AllocationError
from numakube.errors import InvalidValue
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.affinity_and_taints import (
        NodeSelector,
        NodeSelectorRequirement,
        NodeSelectorTerm,
    )
    from numakube.api.nodes import Node
    from numakube.api.resource_slices import Device, ResourceSliceSpec


def reaches(place: Device | ResourceSliceSpec, node: Node) -> bool:
    """Tell whether what *place* says of itself includes *node*."""
    if place.node_name:
        return place.node_name == node.metadata.name
    if place.all_nodes:
        return True
    return place.node_selector is not None and selects(place.node_selector, node)


def selects(selector: NodeSelector, node: Node) -> bool:
    """Tell whether any term of *selector* matches *node*.

    Raises:
        AllocationError: the selector cannot be read.
    """
    problems = [text for text in _problems(selector) if text]
    if problems:
        shown = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise AllocationError(f"failed to parse node selector {_dump(selector)}: {shown}")
    return any(_term_matches(term, node) for term in selector.node_selector_terms)


def _term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    labels = node.metadata.labels
    return all(
        accepts(one.operator, one.values, labels.get(one.key)) for one in term.match_expressions
    ) and all(accepts(one.operator, one.values, _field(one, node)) for one in term.match_fields)


def _field(one: NodeSelectorRequirement, node: Node) -> str:
    return node.metadata.name if one.key == NAME_FIELD else ""


def _problems(selector: NodeSelector) -> Iterator[str]:
    for index, term in enumerate(selector.node_selector_terms):
        for place, one in enumerate(term.match_expressions):
            yield _label_problem(one, f"[{index}].matchExpressions[{place}]")
        for place, one in enumerate(term.match_fields):
            yield _field_problem(one, f"[{index}].matchFields[{place}]")


def _label_problem(one: NodeSelectorRequirement, path: str) -> str:
    known = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
    if one.operator not in known:
        return _unsupported(one.operator, path, known)
    try:
        requirement(one.key, one.operator, one.values)
    except InvalidValue as error:
        values = f"[]string{{{', '.join(map(go_quote, one.values))}}}"
        return f"{path}.values: Invalid value: {values}: {error.reason}"
    return ""


def _field_problem(one: NodeSelectorRequirement, path: str) -> str:
    if one.operator not in (IN, NOT_IN):
        return _unsupported(one.operator, path, (IN, NOT_IN))
    if len(one.values) != 1:
        values = f"[]string{{{', '.join(map(go_quote, one.values))}}}"
        return f"{path}.values: Invalid value: {values}: must have one element"
    return ""


def _unsupported(operator: str, path: str, known: tuple[str, ...]) -> str:
    listed = ", ".join(map(go_quote, sorted(known)))
    shown = go_quote(operator)
    return f"{path}.operator: Unsupported value: {shown}: supported values: {listed}"


def _dump(selector: NodeSelector) -> str:
    """Return *selector* as Go prints the object."""
    terms = "".join(
        f"NodeSelectorTerm{{MatchExpressions:{_dump_all(term.match_expressions)},"
        f"MatchFields:{_dump_all(term.match_fields)},}},"
        for term in selector.node_selector_terms
    )
    return f"&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{terms}}},}}"


def _dump_all(requirements: tuple[NodeSelectorRequirement, ...]) -> str:
    parts = "".join(
        f"NodeSelectorRequirement{{Key:{one.key},Operator:{one.operator},"
        f"Values:[{' '.join(one.values)}],}},"
        for one in requirements
    )
    return f"[]NodeSelectorRequirement{{{parts}}}"
