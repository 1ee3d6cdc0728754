"""Numbers for names: the same name always gets the same one, and the order of names is kept."""

from __future__ import annotations

from collections import defaultdict
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_WELL_KNOWN: Final = ("kubernetes.io", "k8s.io", "x-k8s.io", "numakube.dev", "koordinator.sh")
_PLAIN_VALUES: Final = frozenset(
    {
        "", "true", "false", "amd64", "arm64", "linux", "windows", "Koordinator",
        *("LSE", "LSR", "LS", "BE", "SYSTEM", "koord-prod", "koord-mid", "koord-batch"),
        *("BestEffort", "Restricted", "SingleNUMANode", "None", "pod", "container"),
        *("FullPCPUsOnly", "SpreadByPCPUs", "MostAllocated", "LeastAllocated"),
        *("DistributeEvenly", "koord-free", "Honor", "Prefer"),
    }
)  # fmt: skip


class Sort(StrEnum):
    """What a name is of."""

    NAMESPACE = "ns"
    NODE = "node"
    POD = "pod"
    OBJECT = "object"
    LABEL = "label"
    VALUE = "value"
    IMAGE = "image"
    POOL = "pool"
    DEVICE = "device"


class NameCollector:
    """Learns names; `numbered` then gives each its number."""

    def __init__(self) -> None:
        self._seen: defaultdict[Sort, set[str]] = defaultdict(set)

    def __call__(self, sort: Sort, name: str) -> str:
        """Note a name, and return it as it is."""
        if name:
            self._seen[sort].add(name)
        return name

    def numbered(self) -> Callable[[Sort, str], str]:
        """Return what gives names their pseudonyms."""
        tables = {sort: _table(sort, names) for sort, names in self._seen.items()}
        nodes = tables.get(Sort.NODE, {})

        def rename(sort: Sort, name: str) -> str:
            # The label kubernetes.io/hostname, and selectors by it, are names of nodes.
            if sort is Sort.VALUE and name in nodes:
                return nodes[name]
            return tables.get(sort, {}).get(name, name)

        return rename


def _table(sort: Sort, names: set[str]) -> dict[str, str]:
    width = len(str(len(names)))
    table = {}
    for number, name in enumerate(sorted(names), 1):
        table[name] = name if _stays(sort, name) else _numbered(sort, number, width)
    return table


def _numbered(sort: Sort, number: int, width: int) -> str:
    text = f"{sort.value}-{number:0{width}}"
    return f"registry.example/{text}:1" if sort is Sort.IMAGE else text


def _stays(sort: Sort, name: str) -> bool:
    """Tell whether a name says nothing about its owner, and means something to Kubernetes."""
    match sort:
        case Sort.LABEL:
            domain = name.partition("/")[0] if "/" in name else ""
            return any(domain == one or domain.endswith(f".{one}") for one in _WELL_KNOWN)
        case Sort.VALUE:
            return name in _PLAIN_VALUES or name.isdecimal() or name.startswith("numakube")
        case Sort.NAMESPACE:
            return name.startswith("kube-") or name in ("default", "numakube")
        case _:
            return False
