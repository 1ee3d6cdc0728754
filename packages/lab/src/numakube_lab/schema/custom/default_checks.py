"""Whether the defaults in a schema are valid by that schema."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from numakube.api.field_errors import FieldError, invalid
from numakube_lab.schema.custom.cel_rules import RuleBook
from numakube_lab.schema.custom.list_types import check_embedded
from numakube_lab.schema.custom.pruning import prune_value
from numakube_lab.schema.custom.value_validation import validate_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube_lab.schema.custom.structural import Structural


def check_defaults(schema: Structural, path: str) -> Iterator[FieldError]:
    """Yield what is wrong with the defaults in *schema* and below."""
    default = schema.default
    if default is not None:
        yield from _check_default(schema, path)
    if schema.items is not None:
        yield from check_defaults(schema.items, f"{path}.items")
    for name, child in schema.properties.items():
        yield from check_defaults(child, f"{path}.properties[{name}]")


def _check_default(schema: Structural, path: str) -> list[FieldError]:
    place, default = f"{path}.default", schema.default
    _, dropped = prune_value(default, schema)
    errors = [invalid(place, default, "must not have unknown fields")] if dropped else []
    problems = check_embedded(default, schema, place) or [
        _moved(error, place) for error in validate_value(schema.source, default)
    ]
    if not problems and schema.has_rules and isinstance(default, dict):
        problems = [_moved(error, place) for error in RuleBook(schema).apply(default, None)]
    return errors + problems


def _moved(error: FieldError, place: str) -> FieldError:
    """The default is checked by itself: put its place before the paths of what was found."""
    below = error.field.removeprefix("<nil>")
    separator = "." if below and not below.startswith("[") else ""
    return replace(error, field=f"{place}{separator}{below}")
