"""Which labels a selector selects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.selectors import accepts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.meta import LabelSelector


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Tell whether *selector* selects an object with *labels*; an empty one selects all."""
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    return all(
        accepts(one.operator, one.values, labels.get(one.key)) for one in selector.match_expressions
    )


def is_empty(selector: LabelSelector) -> bool:
    """Tell whether *selector* asks for nothing. Workloads take that as selecting nothing."""
    return not selector.match_labels and not selector.match_expressions
