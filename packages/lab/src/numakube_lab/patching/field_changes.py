"""What changed between two versions of an object, as sets of fields."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec.json import decode, encode

from numakube_lab.patching.field_sets import SELF, FieldSet, leaf, recursive_difference, union
from numakube_lab.patching.patch_errors import PatchFailure
from numakube_lab.patching.path_elements import PathElement, field_element
from numakube_lab.patching.typed_values import (
    ABSENT,
    Shape,
    child_type,
    item_element,
    same_value,
    shape_of,
)
from numakube_lab.schema.types import ListType, MapType, Relation, Struct, Untyped

if TYPE_CHECKING:
    from numakube_lab.schema.types import JsonValue, Type


_CONTAINERS: Final = (dict, list)


@dataclass(slots=True)
class Comparison:
    """The fields that are new, different or gone."""

    added: FieldSet = field(default_factory=dict)
    modified: FieldSet = field(default_factory=dict)
    removed: FieldSet = field(default_factory=dict)

    @property
    def all(self) -> FieldSet:
        """All of them."""
        return union(union(self.added, self.modified), self.removed)

    def without(self, ignored: FieldSet) -> Comparison:
        """Leave out *ignored* and everything below."""
        return Comparison(
            recursive_difference(self.added, ignored),
            recursive_difference(self.modified, ignored),
            recursive_difference(self.removed, ignored),
        )

    def put(self, element: PathElement, below: Comparison) -> None:
        """Take over what was found below *element*."""
        for mine, theirs in (
            (self.added, below.added),
            (self.modified, below.modified),
            (self.removed, below.removed),
        ):
            if theirs:
                mine[element] = theirs


def compare(kind: Type, before: JsonValue, after: JsonValue) -> Comparison:
    """Compare two values of type *kind*; either may be ABSENT."""
    if after is ABSENT:
        return Comparison(removed=_presence(kind, before))
    if before is ABSENT:
        return Comparison(added=_presence(kind, after))
    if before is after or (not isinstance(kind, Untyped) and before == after):
        return Comparison()
    shape, old_shape = shape_of(kind, after), shape_of(kind, before)
    found = Comparison()
    if type(shape) is not type(old_shape):
        _compare_shaped(old_shape, before, after, found)
    _compare_shaped(shape, before, after, found)
    return found


def compare_created(
    root: Struct, empty: dict[str, JsonValue], new: dict[str, JsonValue]
) -> Comparison:
    """Compare a *new* object of a built-in kind with an *empty* one; equal specs only once."""
    found = Comparison()
    for name in {**empty, **new}:
        before, after = empty.get(name, ABSENT), new.get(name, ABSENT)
        kind = child_type(root, name)
        if name == "spec" and before is not ABSENT and after is not ABSENT:
            below = _compare_texts(kind, encode(before), encode(after))
            found.put(field_element(name), below)
        else:
            _compare_members(kind, name, before, after, found)
    return found


@lru_cache(maxsize=1024)
def _compare_texts(kind: Type, before: bytes, after: bytes) -> Comparison:
    return compare(kind, decode(before), decode(after))


def _compare_shaped(shape: Shape, old: JsonValue, new: JsonValue, found: Comparison) -> None:
    if isinstance(shape, Struct | MapType) and _is_divided(shape, old, new):
        _compare_maps(shape, _as_dict(old), _as_dict(new), found)
    elif isinstance(shape, ListType) and _is_divided(shape, old, new):
        _compare_lists(shape, _as_list(old), _as_list(new), found)
    elif not same_value(old, new):
        found.modified[SELF] = {}


def _is_divided(shape: Shape, value: JsonValue, other: JsonValue = None) -> bool:
    """Tell whether what is below has owners of its own: not in atoms, nor if nothing is there."""
    if isinstance(shape, Struct | MapType):
        return not shape.atomic and (_holds(dict, value) or _holds(dict, other))
    if isinstance(shape, ListType):
        return shape.relation is not Relation.ATOMIC and (
            _holds(list, value) or _holds(list, other)
        )
    return False


def _holds(container: type, value: JsonValue) -> bool:
    return isinstance(value, container) and bool(value)


def _presence(kind: Type, value: JsonValue) -> FieldSet:
    """Return *value* as a set: itself and every place below."""
    present = leaf()
    if not isinstance(value, _CONTAINERS):
        return present
    shape = shape_of(kind, value)
    if not _is_divided(shape, value):
        return present
    if isinstance(shape, ListType):
        for element, items in _by_element(shape, _as_list(value)).items():
            present[element] = _presence(shape.element, items[0]) if len(items) == 1 else leaf()
    elif isinstance(shape, Struct | MapType):
        for name, item in _as_dict(value).items():
            inside = isinstance(item, _CONTAINERS)
            below = _presence(child_type(shape, name), item) if inside else leaf()
            present[field_element(name)] = below
    return present


def _compare_maps(
    shape: Struct | MapType,
    old: dict[str, JsonValue],
    new: dict[str, JsonValue],
    found: Comparison,
) -> None:
    for name in {**old, **new}:
        before, after = old.get(name, ABSENT), new.get(name, ABSENT)
        if before is not after:
            _compare_members(child_type(shape, name), name, before, after, found)


def _compare_members(
    kind: Type, name: str, before: JsonValue, after: JsonValue, found: Comparison
) -> None:
    """Compare what stands under *name*."""
    element = field_element(name)
    if before is ABSENT:
        found.added[element] = _presence(kind, after)
    elif isinstance(before, str) and isinstance(after, str):
        if before != after:
            found.modified[element] = leaf()
    else:
        found.put(element, compare(kind, before, after))


def _compare_lists(
    kind: ListType, old: list[JsonValue], new: list[JsonValue], found: Comparison
) -> None:
    before, after = _by_element(kind, old), _by_element(kind, new)
    for element in {**before, **after}:
        below = _compare_items(kind.element, before.get(element, []), after.get(element, []))
        found.put(element, below)


def _compare_items(kind: Type, old: list[JsonValue], new: list[JsonValue]) -> Comparison:
    """Compare what stands under one key; usually that is one item at most on each side."""
    if len(old) <= 1 and len(new) <= 1:
        return compare(kind, old[0] if old else ABSENT, new[0] if new else ABSENT)
    if len(old) > 1 and len(new) > 1:
        return Comparison() if same_value(old, new) else Comparison(modified=leaf())
    if len(old) > 1:
        found = compare(kind, ABSENT, new[0]) if new else Comparison()
        found.removed[SELF] = {}
        return found
    found = compare(kind, old[0], ABSENT) if old else Comparison()
    found.added[SELF] = {}
    return found


def _by_element(kind: ListType, items: list[JsonValue]) -> dict[PathElement, list[JsonValue]]:
    found: dict[PathElement, list[JsonValue]] = {}
    for index, item in enumerate(items):
        try:
            found.setdefault(item_element(kind, item), []).append(item)
        except PatchFailure as failure:
            raise PatchFailure(f"element {index}: {failure}") from None
    return found


def _as_dict(value: JsonValue) -> dict[str, JsonValue]:
    return value if isinstance(value, dict) else {}


def _as_list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []
