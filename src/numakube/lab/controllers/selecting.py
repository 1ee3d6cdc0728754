"""Which labels a selector selects."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.meta import LabelSelector, LabelSelectorRequirement


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Tell whether *selector* selects an object with *labels*; an empty one selects all."""
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    return all(_holds(one, labels) for one in selector.match_expressions)


def is_empty(selector: LabelSelector) -> bool:
    """Tell whether *selector* asks for nothing. Workloads take that as selecting nothing."""
    return not selector.match_labels and not selector.match_expressions


def _holds(requirement: LabelSelectorRequirement, labels: Mapping[str, str]) -> bool:
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
        case _:
            return False
