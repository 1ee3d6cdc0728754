"""Sets of fields: who owns what.

A set is a tree of dicts from path elements to smaller sets, with the key ``.`` where the place
itself belongs to the set. It differs from the ``fieldsV1`` of the API only in that a place without
anything below is written ``{".": {}}`` here and ``{}`` there. Sets are values: no function changes
one, except `insert`, which builds one up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from numakube_lab.patching.path_elements import PathElement, order

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FieldSet: TypeAlias = "dict[str, Any]"

SELF: Final = "."
Path: TypeAlias = tuple[PathElement, ...]


def leaf() -> FieldSet:
    """A place that belongs to the set, with nothing below."""
    return {SELF: {}}


def insert(fields: FieldSet, path: Sequence[PathElement]) -> None:
    """Add the place at *path*; the empty path is the whole object, which is never a member."""
    if path:
        for element in path:
            fields = fields.setdefault(element, {})
        fields[SELF] = {}


def of_paths(*paths: Sequence[PathElement]) -> FieldSet:
    """Return the set of the places at *paths*."""
    fields: FieldSet = {}
    for path in paths:
        insert(fields, path)
    return fields


def from_wire(encoded: Mapping[str, Any]) -> FieldSet:
    """Read ``fieldsV1``."""
    return {
        element: {} if element == SELF else _node_from_wire(below)
        for element, below in encoded.items()
    }


def _node_from_wire(encoded: Mapping[str, Any]) -> FieldSet:
    return from_wire(encoded) if encoded else leaf()


def to_wire(fields: FieldSet) -> dict[str, Any]:
    """Write ``fieldsV1``."""
    return {
        element: {} if element == SELF or (len(below) == 1 and SELF in below) else to_wire(below)
        for element, below in fields.items()
    }


def touches(encoded: Mapping[str, Any], fields: FieldSet) -> bool:
    """Tell whether ``fieldsV1`` has a place that is in *fields* too."""
    if not encoded:
        return SELF in fields
    return any(
        element in encoded and (element == SELF or touches(encoded[element], below))
        for element, below in fields.items()
    )


def contains(fields: FieldSet, path: Sequence[PathElement]) -> bool:
    """Tell whether the place at *path* belongs to the set."""
    for element in path:
        if element not in fields:
            return False
        fields = fields[element]
    return SELF in fields


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return what is in either."""
    if not one or not other:
        return one or other
    merged = dict(one)
    for element, below in other.items():
        merged[element] = union(one[element], below) if element in one else below
    return merged


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return what is in both."""
    return _without_empty(
        {
            element: {} if element == SELF else intersection(below, other[element])
            for element, below in one.items()
            if element in other
        }
    )


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return what is in *one* but not in *other*, place by place."""
    if not other:
        return one
    left: FieldSet = {}
    for element, below in one.items():
        if element == SELF:
            if SELF not in other:
                left[SELF] = below
            continue
        rest = difference(below, other[element]) if element in other else below
        if rest:
            left[element] = rest
    return left


def recursive_difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return what is in *one* but not in *other* nor anywhere below a place of *other*."""
    if not one or not other:
        return one
    return _without_empty(
        {
            element: recursive_difference(below, other[element]) if element in other else below
            for element, below in one.items()
            if SELF not in other.get(element, ())
        }
    )


def _without_empty(fields: FieldSet) -> FieldSet:
    return {element: below for element, below in fields.items() if below or element == SELF}


def paths(fields: FieldSet, prefix: Path = ()) -> Iterator[Path]:
    """Yield every place: those of one level before what is below them, each in order."""
    elements = sorted((e for e in fields if e != SELF), key=order)
    for element in elements:
        if SELF in fields[element]:
            yield (*prefix, element)
    for element in elements:
        yield from paths(fields[element], (*prefix, element))
