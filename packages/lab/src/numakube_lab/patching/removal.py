"""Removing a set of fields from an object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numakube_lab.patching.field_sets import SELF, FieldSet
from numakube_lab.patching.path_elements import field_element
from numakube_lab.patching.typed_values import child_type, item_element, shape_of
from numakube_lab.schema.types import ListType, MapType, Relation, Scalar, Struct

if TYPE_CHECKING:
    from numakube_lab.schema.types import JsonValue, Type


def remove(kind: Type, value: JsonValue, doomed: FieldSet) -> Any:  # noqa: ANN401 - JSON
    """Return *value* without the places in *doomed*; None if nothing of it is left."""
    shape = shape_of(kind, value)
    if isinstance(shape, Scalar):
        return value
    if isinstance(shape, ListType):
        divided = shape.relation is not Relation.ATOMIC and isinstance(value, list)
        return (_from_list(shape, value, doomed) or None) if divided else None
    divided = not shape.atomic and isinstance(value, dict)
    return (_from_map(shape, value, doomed) or None) if divided else None


def _from_map(
    shape: Struct | MapType, value: dict[str, JsonValue], doomed: FieldSet
) -> dict[str, JsonValue]:
    kept = {}
    for name, item in value.items():
        below = doomed.get(field_element(name), {})
        if SELF not in below:
            kept[name] = remove(child_type(shape, name), item, below) if below else item
    return kept


def _from_list(shape: ListType, items: list[JsonValue], doomed: FieldSet) -> list[JsonValue]:
    kept = []
    for item in items:
        below = doomed.get(item_element(shape, item), {})
        if SELF not in below:
            kept.append(remove(shape.element, item, below) if below else item)
    return kept
