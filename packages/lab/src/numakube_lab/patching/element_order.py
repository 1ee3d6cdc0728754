"""In which order a merged list stands: the patch's, with what only the server has woven in.

Elements are told apart by the value of a merge key, or by themselves where they are scalars.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numakube_lab.patching.patch_errors import PatchFailure
from numakube_lab.schema.gotext import go_text

if TYPE_CHECKING:
    from numakube_lab.schema.types import JsonValue


def identity(element: JsonValue, key: str) -> JsonValue:
    """Return what tells *element* from others; raise if it lacks the merge key."""
    if not key:
        return element
    if not isinstance(element, dict) or key not in element:
        raise PatchFailure(f"map: {go_text(element)} does not contain declared merge key: {key}")
    return element[key]


def same(one: object, other: object) -> bool:
    """Compare as Go compares interface values: true is not 1."""
    return type(one) is type(other) and one == other


def position(elements: list[Any], wanted: object, key: str) -> int:
    """Return where in *elements* the one identified by *wanted* is, or -1."""
    for index, element in enumerate(elements):
        has_key = not key or (isinstance(element, dict) and key in element)
        if has_key and same(element[key] if key else element, wanted):
            return index
    return -1


def arrange(merged: list[Any], order: list[Any], server: list[Any], key: str) -> list[Any]:
    """Sort *merged*: elements of *order* as they stand there, the others as in *server*."""
    wanted = [e for e in merged if position(order, identity(e, key), key) >= 0]
    others = [e for e in merged if position(order, identity(e, key), key) < 0]
    wanted.sort(key=lambda e: position(order, identity(e, key), key))
    others.sort(key=lambda e: position(server, identity(e, key), key))
    return _weave(others, wanted, server, key)


def _weave(others: list[Any], wanted: list[Any], server: list[Any], key: str) -> list[Any]:
    """Put each of *others* before the first of *wanted* that comes later on the server."""
    woven: list[Any] = []
    rest = list(others)
    for element in wanted:
        here = position(server, identity(element, key), key)
        while rest and 0 <= position(server, identity(rest[0], key), key) < here:
            woven.append(rest.pop(0))
        woven.append(element)
    return woven + rest
