"""The tree of a machine's devices in a report, and which of its functions each device is.

    path       0000:15/15:01.0/16:00.0/17:00.0/18:00.0@0   host bridge, bridges, function, NUMA node
    links      0+1=18                                      18 links between functions 0 and 1
    functions  0 1 16*2 -                                  of each device in order; - is not known

A path is that of sysfs; a domain that is the same as in the part before is left out. Functions are
named by the position of their path. Reading raises `InvalidValue` for anything else.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.errors import InvalidValue
from numakube.kubelet.device_connections import NO_TREE, DeviceTree, PciPath, tree_of
from numakube.values.cpuset import CpuSet
from numakube.values.numamask import MAX_NODE_ID
from numakube.values.size_limits import MAX_DEVICES, limited

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_DOMAIN: Final = r"(?:[0-9a-f]{4,8}:)"
_ADDRESS: Final = rf"{_DOMAIN}?[0-9a-f]{{2}}:[0-9a-f]{{2}}\.[0-7]"
_PATH: Final = re.compile(rf"{_DOMAIN}[0-9a-f]{{2}}(?:/{_ADDRESS}){{1,32}}(?:@[0-9]{{1,2}})?")
_LINK: Final = re.compile(r"([0-9]{1,5})\+([0-9]{1,5})=([0-9]{1,4})")
_RUN: Final = re.compile(r"(?:([0-9]{1,5})\*)?([0-9]{1,5}|-)")
_ROOT: Final = "pci"
_UNKNOWN: Final = "-"


class TreeTable(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The JSON form of a tree."""

    pci: tuple[str, ...] = ()
    links: str = ""
    dies: tuple[str, ...] = ()


@lru_cache(maxsize=64)
def _positions(addresses: tuple[str, ...]) -> Mapping[str, int]:
    return {address: position for position, address in enumerate(addresses)}


def write_tree(tree: DeviceTree) -> TreeTable | None:
    """Return *tree*; ``None`` if there is nothing to tell."""
    if not tree:
        return None
    positions = _positions(tuple(tree.paths))
    links = (
        f"{positions[one]}+{positions[other]}={count}" for (one, other), count in tree.links.items()
    )
    return TreeTable(
        pci=tuple(map(_write_path, tree.paths.values())),
        links=" ".join(links),
        dies=tuple(map(str, tree.dies)),
    )


# Machines of one model have the same tree, and a node has it in all its reports.
@lru_cache(maxsize=1024)
def read_tree(table: TreeTable | None) -> DeviceTree:
    """Return the tree that *table* tells."""
    if table is None:
        return NO_TREE
    limited("PCI functions", len(table.pci), MAX_DEVICES)
    paths = tuple(map(_read_path, table.pci))
    addresses = tuple(path.address for path in paths)
    if list(addresses) != sorted(set(addresses)):
        raise InvalidValue("PCI functions: not in ascending order of their addresses")
    return tree_of(
        paths, dict(_links(table.links, addresses)), tuple(map(CpuSet.parse, table.dies))
    )


def _write_path(path: PciPath) -> str:
    parts = [path.root.removeprefix(_ROOT)]
    before = _domain(parts[0])
    for address in (*path.bridges, path.address):
        domain = _domain(address)
        parts.append(address.removeprefix(f"{domain}:") if domain == before else address)
        before = domain
    place = "" if path.numa_node is None else f"@{path.numa_node}"
    return "/".join(parts) + place


def _domain(text: str) -> str:
    return text.partition(":")[0]


def _read_path(text: str) -> PciPath:
    if not _PATH.fullmatch(text):
        raise InvalidValue(f"PCI path {text!r}: not a host bridge, bridges and a function")
    way, _, place = text.partition("@")
    if place and int(place) > MAX_NODE_ID:
        raise InvalidValue(f"PCI path {text!r}: {MAX_NODE_ID} is the highest id of a NUMA node")
    root, *parts = way.split("/")
    *bridges, address = _with_domains(parts, _domain(root))
    return PciPath(address, _ROOT + root, tuple(bridges), int(place) if place else None)


def _with_domains(parts: Iterable[str], domain: str) -> Iterator[str]:
    for part in parts:
        full = part if part.count(":") > 1 else f"{domain}:{part}"
        domain = _domain(full)
        yield full


def _links(text: str, addresses: Sequence[str]) -> Iterator[tuple[tuple[str, str], int]]:
    for part in text.split(" ") if text else ():
        match = _LINK.fullmatch(part)
        if match is None:
            raise InvalidValue(f"links {part!r}: not two functions and a number")
        one, other, count = map(int, match.groups())
        if not one < other < len(addresses):
            raise InvalidValue(f"links {part!r}: not two of {len(addresses)} functions in order")
        yield (addresses[one], addresses[other]), count


def write_functions(functions: Sequence[str], tree: DeviceTree) -> str:
    """Return which function of *tree* each device is."""
    positions = _positions(tuple(tree.paths))
    words = (str(positions.get(function, _UNKNOWN)) for function in functions)
    runs = ((word, len(list(run))) for word, run in groupby(words))
    return " ".join(word if count == 1 else f"{count}*{word}" for word, count in runs)


def read_functions(text: str, tree: DeviceTree, count: int) -> tuple[str, ...]:
    """Return the address of the function of each of *count* devices, empty if it is not known."""
    addresses = tuple(tree.paths)
    found: list[str] = []
    for part in text.split(" "):
        match = _RUN.fullmatch(part)
        if match is None:
            raise InvalidValue(f"functions {text!r}: {part!r} is not a position")
        times = limited("devices", int(match[1] or 1), MAX_DEVICES)
        found += [_function(match[2], addresses)] * times
    if len(found) != count:
        raise InvalidValue(f"functions {text!r}: of {len(found)} devices instead of {count}")
    return tuple(found)


def _function(word: str, addresses: Sequence[str]) -> str:
    if word == _UNKNOWN:
        return ""
    if int(word) >= len(addresses):
        raise InvalidValue(f"function {word} of {len(addresses)}")
    return addresses[int(word)]
