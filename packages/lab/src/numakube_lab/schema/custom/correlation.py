"""Which old value a new one replaces, where that can be told.

Fields are matched by their names, elements of a list by its keys; elements of other lists cannot
be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube_lab.schema.types import JsonValue


class Unknown:
    """Type of `UNKNOWN`."""


UNKNOWN: Final = Unknown()
"""In the place of an old value: there is none, or it cannot be told which it was."""


def old_member(old: JsonValue, name: str) -> JsonValue:
    """Return what stood under *name*."""
    return old.get(name, UNKNOWN) if isinstance(old, dict) else UNKNOWN


def old_item(old: JsonValue, item: JsonValue, keys: Sequence[str]) -> JsonValue:
    """Return the element of *old* with the same *keys* as *item*."""
    if not keys or not isinstance(old, list) or not isinstance(item, dict):
        return UNKNOWN
    wanted = [item.get(key) for key in keys]
    found = (one for one in old if isinstance(one, dict) and [one.get(k) for k in keys] == wanted)
    return next(found, UNKNOWN)


def is_unchanged(old: JsonValue, new: JsonValue) -> bool:
    """Tell whether the old value is known and the new one equals it."""
    return not isinstance(old, Unknown) and bool(old == new)
