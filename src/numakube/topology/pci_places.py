"""On which NUMA node each PCI function of a machine is, as a short text.

    0000:00=0 0000:80=1

The buses of a socket are numbered in a row, so the text says only where the NUMA node changes: an
entry holds from its address to the next entry, within its PCI domain. ``-1`` stands for functions
whose NUMA node the kernel does not know. A function that appears later, such as a virtual one, is
taken to be where its neighbours are.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from numakube.errors import InvalidValue
from numakube.values.safe_text import MAX_DEVICES, limited, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Address = tuple[int, int, int]
    """Domain, bus, and device with function."""

UNKNOWN: Final = -1
_ADDRESS: Final = re.compile(
    r"([0-9a-f]{4,8}):([0-9a-f]{2})(?::([0-9a-f]{2})\.([0-7]))?", re.ASCII | re.IGNORECASE
)
_ENTRY: Final = re.compile(r"(\S+)=(-1|[0-9]{1,6})", re.ASCII)
_FUNCTIONS: Final = 8
"""Functions that a PCI device can have."""


@dataclass(frozen=True, slots=True)
class PciPlaces:
    """The NUMA nodes of a machine's PCI functions: each holds from its start on."""

    starts: tuple[Address, ...]
    numa_nodes: tuple[int, ...]

    def numa_node(self, address: str) -> int | None:
        """Return the NUMA node of the function at *address*; None if it is not known."""
        wanted = _parsed(address)
        position = -1 if wanted is None else bisect_right(self.starts, wanted) - 1
        if wanted is None or position < 0 or self.starts[position][0] != wanted[0]:
            return None
        number = self.numa_nodes[position]
        return None if number == UNKNOWN else number


def write_places(functions: Mapping[str, int | None]) -> str:
    """Return where *functions* are, NUMA nodes by address; empty if no place is known."""
    known = {address: number for text, number in functions.items() if (address := _parsed(text))}
    if all(number is None for number in known.values()):
        return ""
    return " ".join(_entries(known))


def _entries(known: Mapping[Address, int | None]) -> Iterator[str]:
    before: tuple[Address, int | None] | None = None
    for address in sorted(known):
        number = known[address]
        if before is None or before[0][0] != address[0] or before[1] != number:
            is_first = before is None or before[0][:2] != address[:2]
            yield f"{_text(address, whole_bus=is_first)}={UNKNOWN if number is None else number}"
        before = address, number


def _text(address: Address, *, whole_bus: bool) -> str:
    domain, bus, rest = address
    device, function = divmod(rest, _FUNCTIONS)
    return f"{domain:04x}:{bus:02x}" + ("" if whole_bus else f":{device:02x}.{function}")


@lru_cache(maxsize=1024)
def read_places(text: str) -> PciPlaces:
    """Return the places in *text*; the nodes of a pool share one object.

    Raises:
        InvalidValue: it is not such a text.
    """
    places: dict[Address, int] = {}
    entries = text.split()
    limited("entries", len(entries), MAX_DEVICES)
    for entry in entries:
        match = _ENTRY.fullmatch(entry)
        address = None if match is None else _parsed(match[1])
        if match is None or address is None:
            raise InvalidValue(f"{quoted(entry)} is not an address and a NUMA node")
        places[address] = int(match[2])
    starts = tuple(sorted(places))
    return PciPlaces(starts, tuple(places[start] for start in starts))


def _parsed(text: str) -> Address | None:
    """Return an address; the kernel writes the domain with four digits, NVIDIA's with eight."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return None
    domain, bus, device, function = match.groups(default="0")
    return int(domain, 16), int(bus, 16), int(device, 16) * _FUNCTIONS + int(function)
