"""Whether values are of the types that an overload asks for; of lists the first element counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.cel.values import type_name

if TYPE_CHECKING:
    from numakube.cel.signatures import Overload
    from numakube.cel.value_types import CelType
    from numakube.cel.values import CelValue

_RUNTIME_NAMES: Final = {
    "timestamp": "google.protobuf.Timestamp",
    "duration": "google.protobuf.Duration",
    "null": "null_type",
}


def matches_overload(overload: Overload, args: tuple[CelValue, ...]) -> bool:
    """Tell whether *overload* takes *args*."""
    return len(overload.args) == len(args) and all(map(_is_of, args, overload.args))


def _is_of(value: CelValue, kind: CelType) -> bool:
    if kind.name == "dyn" or kind.name.startswith("$"):
        return True
    if type_name(value) != _RUNTIME_NAMES.get(kind.name, kind.name):
        return False
    if isinstance(value, list) and value:
        return _is_of(value[0], kind.params[0])
    if isinstance(value, dict) and value:
        return all(map(_is_of, next(iter(value.items())), kind.params))
    return True
