"""Islands of linked devices as the annotation of a node tells them, where nobody else knows.

    numakube.dev/islands: '{"huawei.com/Ascend910": ["0-7", "8-15"]}'

Devices are counted from 0 in the order of their ids as text, which is how reports have them.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
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
_MOST_POSITIONS: Final = 8192
"""Of all islands of a node: a few characters may stand for thousands."""
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


@lru_cache(maxsize=256)
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
    sets = {name: [CpuSet.parse(one) for one in islands] for name, islands in tree.items()}
    if sum(map(len, chain.from_iterable(sets.values()))) > _MOST_POSITIONS:
        raise InvalidValue(f"more than {_MOST_POSITIONS} numbers of devices")
    return {name: tuple(map(_positions, islands)) for name, islands in sets.items()}


def _positions(island: CpuSet) -> frozenset[int]:
    if island.bits >> _HIGHEST + 1:
        raise InvalidValue(f"'{island}': {_HIGHEST} is the highest number of a device")
    return frozenset(island)
