"""Islands of linked devices as the annotation of a node tells them, where nobody else knows.

    numakube.dev/islands: '{"huawei.com/Ascend910": ["0-7", "8-15"]}'

Devices are counted from 0 in the order of their ids as text, which is how reports have them.
"""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from numakube.errors import InvalidValue
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Mapping

ISLANDS: Final = "numakube.dev/islands"
_MOST_CHARACTERS: Final = 16384
_MOST_ISLANDS: Final = 256
_HIGHEST: Final = 4095

ToldIslands: TypeAlias = "Mapping[str, tuple[frozenset[int], ...]]"
"""The islands of each resource, as sets of positions."""

NONE_TOLD: Final[ToldIslands] = MappingProxyType({})


def told_islands(annotations: Mapping[str, str]) -> ToldIslands:
    """Return the islands that the annotations of a node tell; none if they cannot be read."""
    try:
        return read_islands(annotations.get(ISLANDS, ""))
    except InvalidValue:
        return NONE_TOLD


@lru_cache(maxsize=4096)
def read_islands(text: str) -> ToldIslands:
    """Return the islands in *text*.

    Raises:
        InvalidValue: it is not a JSON object of lists of numbers, or too large.
    """
    if not text:
        return NONE_TOLD
    if len(text) > _MOST_CHARACTERS:
        raise InvalidValue(f"{len(text)} characters; there may be {_MOST_CHARACTERS}")
    try:
        tree = msgspec.json.decode(text, type=dict[str, list[str]])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidValue(f"not an object of lists of numbers by resource: {error}") from None
    if sum(map(len, tree.values())) > _MOST_ISLANDS:
        raise InvalidValue(f"more than {_MOST_ISLANDS} islands")
    return {name: tuple(map(_positions, islands)) for name, islands in tree.items()}


def _positions(text: str) -> frozenset[int]:
    positions = frozenset(CpuSet.parse(text))
    if max(positions, default=0) > _HIGHEST:
        raise InvalidValue(f"{text!r}: {_HIGHEST} is the highest number of a device")
    return positions
