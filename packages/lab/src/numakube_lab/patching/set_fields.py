"""Which fields a document sets: what a manager that applies it owns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube_lab.patching.field_sets import SELF, FieldSet, leaf
from numakube_lab.patching.path_elements import field_element, field_name
from numakube_lab.patching.typed_values import UNTYPED, child_type, item_element, shape_of
from numakube_lab.schema.types import ListType, MapType, Relation, Scalar, Struct

if TYPE_CHECKING:
    from numakube_lab.schema.types import JsonValue, Type


def field_set(kind: Type, value: JsonValue) -> FieldSet:
    """Return the set of every leaf and every list element that *value* mentions."""
    shape = shape_of(kind, value)
    match shape:
        case Scalar() | Struct(atomic=True) | MapType(atomic=True):
            return leaf()
        case ListType(relation=Relation.ATOMIC):
            return leaf()
        case ListType():
            return _of_items(shape, value) if isinstance(value, list) else {}
        case Struct() | MapType():
            return _of_map(shape, value) if isinstance(value, dict) else {}


def _of_items(kind: ListType, items: list[JsonValue]) -> FieldSet:
    found: FieldSet = {}
    for item in items:
        element = item_element(kind, item)
        # What is there twice cannot be told apart below.
        found[element] = leaf() if element in found else {**field_set(kind.element, item), SELF: {}}
    return found


def _of_map(shape: Struct | MapType, value: dict[str, JsonValue]) -> FieldSet:
    found: FieldSet = {}
    for name, item in value.items():
        below = field_set(child_type(shape, name), item)
        if item is None or item == {} or name not in shape.fields:
            below[SELF] = {}
        if below:
            found[field_element(name)] = below
    return found


def with_named_fields(fields: FieldSet, kind: Type) -> FieldSet:
    """Add every field that the type names and that has something below in the set."""
    out: FieldSet = {}
    for element, below in fields.items():
        if element == SELF:
            out[SELF] = {}
            continue
        inner = with_named_fields(below, _type_below(kind, element))
        name = field_name(element)
        if name is not None and isinstance(kind, Struct) and name in kind.fields:
            inner[SELF] = {}
        out[element] = inner
    return out


def _type_below(kind: Type, element: str) -> Type:
    name = field_name(element)
    if name is None:
        return kind.element if isinstance(kind, ListType) else UNTYPED
    return child_type(kind, name) if isinstance(kind, Struct | MapType) else UNTYPED
