"""Merging an applied configuration into the live object, and removing fields from an object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numakube_lab.patching.field_sets import SELF, FieldSet
from numakube_lab.patching.patch_errors import PatchFailure
from numakube_lab.patching.path_elements import PathElement, field_element, render_element
from numakube_lab.patching.typed_values import ABSENT, child_type, item_element, shape_of
from numakube_lab.schema.types import ListType, MapType, Relation, Scalar, Struct

if TYPE_CHECKING:
    from numakube_lab.schema.types import JsonValue, Type


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
