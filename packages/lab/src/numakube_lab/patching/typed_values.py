"""What server-side apply sees in a value: a scalar, a list or a map, owned as a whole or in parts.

The walks of `set_fields`, `field_changes` and `apply_merging` all ask here what a value
of some type is. Where a type leaves that open, the value itself decides: its maps are owned key by
key, its lists as a whole.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from numakube_lab.patching.patch_errors import PatchFailure
from numakube_lab.patching.path_elements import PathElement, key_element, value_element
from numakube_lab.schema.types import (
    Emit,
    Field,
    ListType,
    MapType,
    Relation,
    Scalar,
    ScalarKind,
    Struct,
    Type,
    Union,
    Untyped,
)

if TYPE_CHECKING:
    from numakube_lab.schema.types import JsonValue


class Absent(Enum):
    """Type of `ABSENT`: nothing is there, which is not the same as null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT

UNTYPED: Final = Untyped()
_UNTYPED_MAP: Final = MapType(UNTYPED, "map[string]interface {}")
_UNTYPED_LIST: Final = ListType(UNTYPED, "[]interface {}")
_UNTYPED_SCALAR: Final = Scalar(ScalarKind.INT_OR_STRING, "interface {}")

Shape = Scalar | ListType | MapType | Struct


def shape_of(kind: Type, value: JsonValue) -> Shape:
    """Return *kind*, or what *value* makes of it where it leaves that open."""
    if not isinstance(kind, Untyped | Union):
        return kind
    if isinstance(value, list):
        return _UNTYPED_LIST
    if value is None or isinstance(value, dict) or value is ABSENT:
        return _UNTYPED_MAP
    return _UNTYPED_SCALAR


def child_type(shape: Struct | MapType, name: str) -> Type:
    """Return the type of what stands under *name*."""
    found = shape.fields.get(name)
    return found.type if found is not None else shape.unknown or UNTYPED


def same_value(one: JsonValue, other: JsonValue) -> bool:
    """Tell whether two values are equal: 1 is 1.0, but true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_value(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def item_element(kind: ListType, item: JsonValue) -> PathElement:
    """Return the step to *item* of an associative list; raise `PatchFailure` if it has none."""
    if kind.relation is Relation.MAP:
        return key_element(_keys(kind, item))
    if isinstance(item, dict):
        raise PatchFailure("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise PatchFailure("not supported: associative list with lists as elements")
    if item is None:
        raise PatchFailure("associative list without keys has an element that's an explicit null")
    return value_element(item)


def _keys(kind: ListType, item: JsonValue) -> dict[str, Any]:
    if item is None:
        raise PatchFailure("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise PatchFailure("associative list with keys may not have non-map elements")
    keys = {name: item[name] for name in kind.keys if name in item}
    if len(keys) < len(kind.keys):
        keys |= {k: v for k, v in _key_defaults(kind).items() if k not in keys}
    if not keys:
        listed = " ".join(f'"{name}"' for name in kind.keys)
        raise PatchFailure(
            f"associative list with keys has an element that omits all key fields [{listed}] "
            "(and doesn't have default values for any key fields)"
        )
    return keys


def _key_defaults(kind: ListType) -> dict[str, Any]:
    """Return what the schema says of keys that an element omits."""
    if not isinstance(kind.element, Struct):
        return {}
    found = {name: kind.element.fields.get(name) for name in kind.keys}
    return {
        name: default
        for name, field in found.items()
        if field is not None and (default := _default(field)) is not None
    }


def _default(field: Field) -> JsonValue:
    if field.default is not None:
        return field.default
    if field.emit is Emit.ALWAYS and not field.pointer and isinstance(field.type, Scalar):
        # Built-in types: the zero of Go is the default of a field that is always written.
        return {"numeric": 0, "boolean": False}.get(wanted_json(field.type), "")
    return None


# These take numbers as well as strings, so that apply does not check them.
_OPEN_SCALARS: Final = frozenset({ScalarKind.QUANTITY, ScalarKind.INT_OR_STRING, ScalarKind.BYTES})
_NUMERIC: Final = frozenset(
    {ScalarKind.INT32, ScalarKind.INT64, ScalarKind.FLOAT, ScalarKind.NUMBER}
)


def wanted_json(scalar: Scalar) -> str:
    """Return the kind of JSON that apply asks of *scalar*; empty if it takes any."""
    if scalar.kind in _OPEN_SCALARS:
        return ""
    if scalar.kind in _NUMERIC:
        return "numeric"
    return "boolean" if scalar.kind is ScalarKind.BOOLEAN else "string"
