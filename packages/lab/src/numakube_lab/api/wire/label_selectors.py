"""Label selectors of requests and of objects, as the API server takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api import selector_text
from numakube.api.selector_text import LabelSelector, Requirement
from numakube.errors import InvalidValue
from numakube_lab.api.wire.refusals import bad_request

if TYPE_CHECKING:
    from numakube_lab.kinds import Json


def parse_label_selector(text: str) -> LabelSelector:
    """Parse the value of a ``labelSelector`` parameter."""
    try:
        return selector_text.parse_label_selector(text)
    except InvalidValue as error:
        raise bad_request(str(error)) from None


_OBJECT_OPERATORS: Final = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def selector_of(selector: Json | None) -> LabelSelector | None:
    """Return the requirements of a LabelSelector object; None selects nothing."""
    if selector is None:
        return None
    exact = [Requirement(k, "=", (v,)) for k, v in (selector.get("matchLabels") or {}).items()]
    others = [
        Requirement(
            expression["key"],
            _OBJECT_OPERATORS[expression["operator"]],
            tuple(sorted(set(expression.get("values") or ()))),
        )
        for expression in selector.get("matchExpressions") or ()
    ]
    return tuple(sorted([*exact, *others], key=lambda requirement: requirement.key))
