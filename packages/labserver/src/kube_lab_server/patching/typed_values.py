"""What server-side apply sees in a value: a scalar, a list or a map, owned as a whole or in parts.

The walks of `field_changes` and of applying all ask here what a value
of some type is. Where a type leaves that open, the value itself decides: its maps are owned key by
key, its lists as a whole.

Whether a configuration fits its type: what server-side apply refuses before it looks further.

Merging an applied configuration into the live object, and removing fields from an object.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from kube_lab_server.patching.field_sets import (
    SELF,
    FieldSet,
    PathElement,
    field_element,
    key_element,
    render_element,
    value_element,
)
from kube_lab_server.patching.json_patch import PatchFailure
from kube_lab_server.schema.types import (
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
from numakube.values.gotext import go_quote, go_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_lab_server.schema.types import JsonValue


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


def require_valid(kind: Type, value: JsonValue) -> None:
    """Raise `PatchFailure` with every reason why *value* is no *kind*."""
    problems = list(_problems(kind, value, ""))
    if len(problems) == 1:
        raise PatchFailure(problems[0])
    if problems:
        raise PatchFailure("\n".join(["errors:", *(f"  {text}" for text in problems)]))


def _problems(kind: Type, value: JsonValue, path: str) -> Iterator[str]:
    if value is None:
        return
    shape = shape_of(kind, value)
    match shape:
        case Scalar():
            yield from _scalar_problems(shape, value, path)
        case ListType():
            if isinstance(value, list):
                yield from _list_problems(shape, value, path)
            else:
                yield _at(path, f"expected list, got {_shown(value)}")
        case Struct() | MapType():
            if isinstance(value, dict):
                yield from _map_problems(shape, value, path)
            else:
                yield _at(path, f"expected map, got {_shown(value)}")


def _map_problems(shape: Struct | MapType, value: dict[str, JsonValue], path: str) -> Iterator[str]:
    for name, item in value.items():
        step = path + render_element(field_element(name))
        if name not in shape.fields and shape.unknown is None:
            yield _at(step, "field not declared in schema")
            return
        yield from _problems(child_type(shape, name), item, step)


def _list_problems(shape: ListType, items: list[JsonValue], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        step = f"i:{index}"
        if shape.relation is not Relation.ATOMIC:
            try:
                step = item_element(shape, item)
            except PatchFailure as failure:
                yield _at(path, f"element {index}: {failure}")
                return
            if step in seen:
                yield _at(path, f"duplicate entries for key {render_element(step)}")
            seen.add(step)
        yield from _problems(shape.element, item, path + render_element(step))


def _scalar_problems(shape: Scalar, value: JsonValue, path: str) -> Iterator[str]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match wanted_json(shape):
        case "numeric" if not is_number:
            yield _at(path, f"expected numeric (int or float), got {_go_type(value)}")
        case "string" if not isinstance(value, str):
            yield _at(path, f"expected string, got {_dumped(value)}")
        case "boolean" if not isinstance(value, bool):
            yield _at(path, f"expected boolean, got {_shown(value)}")
        case _ if isinstance(value, dict | list):
            yield _at(path, f"expected any scalar, got {_shown(value)}")
        case _:
            pass


def _at(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text


def _shown(value: JsonValue) -> str:
    return f"&{{{go_text(value)}}}"


def _dumped(value: JsonValue) -> str:
    text = go_quote(value) if isinstance(value, str) else go_text(value)
    return f"&value.valueUnstructured{{Value:{text}}}"


def _go_type(value: JsonValue) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case list():
            return "[]interface {}"
        case _:
            return "map[string]interface {}"


def merge(kind: Type, live: JsonValue, applied: JsonValue) -> Any:  # noqa: ANN401 - JSON
    """Return *live* with *applied* merged in; either may be ABSENT, but not both."""
    shape = shape_of(kind, live if applied is ABSENT else applied)
    content = _has_content(live) or _has_content(applied)
    if isinstance(shape, Struct | MapType) and not shape.atomic and content:
        return _merge_maps(shape, live, applied)
    if isinstance(shape, ListType) and shape.relation is not Relation.ATOMIC and content:
        return _merge_lists(shape, live, applied)
    return live if applied is ABSENT else applied


def _has_content(value: JsonValue) -> bool:
    return isinstance(value, dict | list) and bool(value)


def _merge_maps(shape: Struct | MapType, live: JsonValue, applied: JsonValue) -> dict[str, Any]:
    old = live if isinstance(live, dict) else {}
    new = applied if isinstance(applied, dict) else {}
    return {
        name: merge(child_type(shape, name), old.get(name, ABSENT), new.get(name, ABSENT))
        for name in {**old, **new}
    }


def _merge_lists(shape: ListType, live: JsonValue, applied: JsonValue) -> list[Any]:
    old = _index(shape, live if isinstance(live, list) else [], repeats=True)
    new = _index(shape, applied if isinstance(applied, list) else [], repeats=False)
    before: dict[PathElement, list[JsonValue]] = {}
    for element, item in old:
        before.setdefault(element, []).append(item)
    after = dict(new)
    merged = []
    for element in merged_order([e for e, _ in old], list(after)):
        if element not in after:
            merged.append(before[element].pop(0))
            continue
        # A live element that is there more than once is replaced by the applied one.
        known = before.get(element, [])
        current = known[0] if len(known) == 1 else ABSENT
        merged.append(merge(shape.element, current, after[element]))
    return merged


def _index(
    shape: ListType, items: list[JsonValue], *, repeats: bool
) -> list[tuple[PathElement, JsonValue]]:
    found: list[tuple[PathElement, JsonValue]] = []
    seen: set[PathElement] = set()
    for index, item in enumerate(items):
        try:
            element = item_element(shape, item)
        except PatchFailure as failure:
            raise PatchFailure(f"element {index}: {failure}") from None
        if element in seen and not repeats:
            raise PatchFailure(f"duplicate entries for key {render_element(element)}")
        seen.add(element)
        found.append((element, item))
    return found


def merged_order(live: list[PathElement], applied: list[PathElement]) -> list[PathElement]:
    """Return the order of a merged list: the applied one, with live elements as near as can be.

    An element that both have and that comes too early in the live list is passed over there; it
    stands where the applied list puts it.
    """
    order: list[PathElement] = []
    shared = [element for element in applied if element in set(live)]
    placed: set[PathElement] = set()
    left, right = 0, 0
    while left < len(live) or right < len(applied):
        if left < len(live) and right < len(applied):
            if live[left] == applied[right]:
                order.append(live[left])
                placed.add(live[left])
                shared = shared[1:]
                left, right = left + 1, right + 1
                continue
            if live[left] in applied and shared and shared[0] != live[left]:
                left += 1
                continue
        if left < len(live):
            if live[left] not in applied:
                order.append(live[left])
                left += 1
                continue
            if live[left] in placed:
                left += 1
        if right < len(applied):
            order.append(applied[right])
            placed.add(applied[right])
            if shared and shared[0] == applied[right]:
                shared = shared[1:]
            right += 1
    return order


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
