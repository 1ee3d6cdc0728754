"""A machine as the kubelet sees it: NUMA nodes with cores, memory, hugepages, distances, devices.

Beside it stand the connections of its devices, and where two descriptions of a machine differ.

The shape follows cAdvisor's MachineInfo, which is what the kubelet's managers read. Node ids may
have holes; a node may have no CPUs (CXL memory) or no memory; cores may differ in thread count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numakube.values.cpuset import CpuSet


# How the devices of a machine are connected: PCI bridges, NVLink and xGMI, and how close two are.
#
# The kubelet knows the NUMA node of a device and nothing nearer. What lies below decides how fast
# two devices talk to each other: a network card behind the PCIe switch of a GPU is reached without
# the CPU. The words are those of ``nvidia-smi topo -m``.
#
# A path is that of sysfs, ``pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0``: the
# host bridge (the root, in the spelling of DRA's attribute ``pcieRoot``), the root port, the
# upstream and the downstream port of each switch, and the function. A virtual function is where its
# physical function is, and counts as that one.


_ROOT: Final = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


class Closeness(IntEnum):
    """What lies between two devices; the smaller, the closer."""

    SELF = 0
    """Nothing: they are the same function."""
    LINK = 1
    """NVLink or xGMI."""
    PIX = 2
    """At most one PCIe switch."""
    PXB = 3
    """Several PCIe switches, but no host bridge."""
    PHB = 4
    """A PCIe host bridge, which is usually the CPU."""
    NODE = 5
    """Several host bridges of one NUMA node."""
    SYS = 6
    """The interconnect of NUMA nodes."""


class Connection(NamedTuple):
    """How two devices are connected at their best, and by how many links if by links."""

    closeness: Closeness
    links: int = 0

    @property
    def text(self) -> str:
        """The word of ``nvidia-smi topo -m``: ``X``, ``NV18``, ``PIX``."""
        if self.closeness is Closeness.SELF:
            return "X"
        return f"NV{self.links}" if self.closeness is Closeness.LINK else self.closeness.name


@dataclass(frozen=True, slots=True)
class PciPath:
    """Where a physical PCI function is.

    Attributes:
        address: such as ``0000:18:00.0``.
        root: its host bridge, such as ``pci0000:15``.
        bridges: addresses of the bridges above it, the root port first.
        numa_node: ``None`` if the kernel knows none.
        local: all NUMA nodes that it is equally near to, if somebody else tells more.
    """

    address: str
    root: str
    bridges: tuple[str, ...] = ()
    numa_node: int | None = None
    local: frozenset[int] = frozenset()

    @property
    def switch(self) -> tuple[str, ...]:
        """What functions behind one PCIe switch have in common: the root port above it."""
        return (self.root, *self.bridges[:1]) if self.bridges else (self.address,)


def address_of(text: str) -> str:
    """Return an address as the kernel writes it, whatever its domain looks like; else nothing."""
    domain, _, rest = text.strip().lower().partition(":")
    try:
        address = f"{int(domain, 16):04x}:{rest}"
    except ValueError:
        return ""
    return address if _ADDRESS.fullmatch(address) else ""


def path_of(parts: Iterable[str], numa_node: int | None) -> PciPath | None:
    """Return the path whose names in sysfs are *parts*; ``None`` if it is not a function's."""
    names = [part.lower() for part in parts]
    roots = [name for name in names if _ROOT.fullmatch(name)]
    functions = [name for name in names if _ADDRESS.fullmatch(name)]
    if not roots or not functions:
        return None
    return PciPath(functions[-1], roots[0], tuple(functions[:-1]), numa_node)


@dataclass(frozen=True, slots=True)
class DeviceTree:
    """The PCI functions of a machine that devices are made of, and what connects them.

    Attributes:
        paths: by address.
        links: how many NVLink or xGMI links connect two functions, the lower address first. Other
            pairs have none, as far as the machine reports.
        dies: the CPUs of each die, on machines whose packages have several; else empty.
    """

    paths: Mapping[str, PciPath] = field(default_factory=lambda: MappingProxyType({}))
    links: Mapping[tuple[str, str], int] = field(default_factory=lambda: MappingProxyType({}))
    dies: tuple[CpuSet, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.paths or self.dies)

    def between(self, one: str, other: str) -> Connection | None:
        """Return how two functions are connected; ``None`` if that is not known."""
        if one not in self.paths or other not in self.paths:
            return None
        links = self.links.get((min(one, other), max(one, other)), 0)
        if links and one != other:
            return Connection(Closeness.LINK, links)
        closeness = _closeness(self.paths[one], self.paths[other])
        return None if closeness is None else Connection(closeness)


NO_TREE: Final = DeviceTree()


def tree_of(
    paths: Iterable[PciPath],
    links: Mapping[tuple[str, str], int] | None = None,
    dies: tuple[CpuSet, ...] = (),
) -> DeviceTree:
    """Return the tree with *paths*, in order of their addresses."""
    by_address = {path.address: path for path in sorted(paths, key=lambda path: path.address)}
    return DeviceTree(by_address, dict(sorted((links or {}).items())), dies)


def _closeness(one: PciPath, other: PciPath) -> Closeness | None:
    if one.address == other.address:
        return Closeness.SELF
    if one.root != other.root:
        if one.numa_node is None or other.numa_node is None:
            return None
        if one.numa_node == other.numa_node or _nodes(one) & _nodes(other):
            return Closeness.NODE
        return Closeness.SYS
    shared = _shared(one.bridges, other.bridges)
    if not shared:
        return Closeness.PHB
    # Below one port, or below two downstream ports of one switch.
    below = max(len(one.bridges), len(other.bridges)) - shared
    return Closeness.PIX if below <= 1 else Closeness.PXB


def _nodes(path: PciPath) -> frozenset[int]:
    return path.local or (frozenset() if path.numa_node is None else frozenset({path.numa_node}))


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """Return how many bridges two paths have in common from the root on."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


@dataclass(frozen=True, slots=True)
class HugePages:
    """A pool of hugepages of one size on one NUMA node."""

    page_bytes: int
    count: int

    @property
    def total_bytes(self) -> int:
        """Bytes in the pool."""
        return self.page_bytes * self.count


@dataclass(frozen=True, slots=True)
class Core:
    """A physical core. ``id`` is the kernel's core id, which is unique only within a socket."""

    id: int
    threads: tuple[int, ...]
    socket: int
    uncore_cache: int | None = None


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node.

    ``distances`` has an entry for every node of the machine in ascending order of their ids, as
    the kernel prints them; it is empty when the kernel gave none.
    """

    id: int
    memory_bytes: int
    cores: tuple[Core, ...] = ()
    hugepages: tuple[HugePages, ...] = ()
    distances: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Device:
    """A device-plugin device; no ``numa_nodes`` means that its plugin reported no topology.

    ``pci`` is the address of the physical PCI function that it is, or is a part of; empty if that
    is not known. The kubelet does not look at it.
    """

    id: str
    numa_nodes: tuple[int, ...] = ()
    healthy: bool = True
    pci: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """A whole machine, with the devices that its device plugins announce by resource name.

    ``tree`` says how the devices are connected, as far as that is known; the kubelet does not ask.
    """

    nodes: tuple[NumaNode, ...]
    cpu_count: int
    socket_count: int
    devices: Mapping[str, tuple[Device, ...]] = field(default_factory=lambda: MappingProxyType({}))
    tree: DeviceTree = NO_TREE


# Where two descriptions of a machine differ.
#
# The writers of formats that cannot express every machine use it: they write, read back what they
# wrote, and refuse with the first difference. So they are exact or they say why not.


_PARTS = (NumaNode, Core, HugePages, Device)


def differences(machine: Machine, other: Machine) -> list[str]:
    """Return in words where *other* differs from *machine*; nothing if they are equal."""
    return [] if machine == other else list(_differences(machine, other, ""))


def in_kernel_order(machine: Machine) -> Machine:
    """Return *machine* with cores, threads and hugepage pools in the order of the kernel's files.

    The kubelet puts them into sets and maps, so it cannot tell the difference.
    """
    return replace(machine, nodes=tuple(_in_kernel_order(node) for node in machine.nodes))


def _in_kernel_order(node: NumaNode) -> NumaNode:
    cores = (replace(core, threads=tuple(sorted(core.threads))) for core in node.cores)
    return replace(
        node,
        cores=tuple(sorted(cores, key=lambda core: core.threads)),
        hugepages=tuple(sorted(node.hugepages, key=lambda pool: str(pool.page_bytes >> 10))),
    )


def _differences(one: object, other: object, where: str) -> Iterator[str]:
    if isinstance(one, Machine) and isinstance(other, Machine):
        yield from _sequences(one.nodes, other.nodes, where, "NUMA nodes")
        yield from _values(one, other, where, ("cpu_count", "socket_count"))
        for resource in sorted({*one.devices, *other.devices}):
            devices = one.devices.get(resource, ()), other.devices.get(resource, ())
            yield from _sequences(*devices, f"{where}{resource}: ", "devices")
        if set(one.devices) != set(other.devices):
            yield f"{where}device resources"
        if one.tree != other.tree:
            yield f"{where}how devices are connected"
    elif isinstance(one, _PARTS) and isinstance(other, _PARTS):
        names = [field.name for field in fields(one)]
        yield from _values(one, other, where, names)


def _values(one: object, other: object, where: str, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        mine, theirs = getattr(one, name), getattr(other, name)
        if mine == theirs:
            continue
        if name in ("cores", "hugepages"):
            yield from _sequences(mine, theirs, where, name)
        else:
            yield f"{where}{name} is {mine}, not {theirs}"


def _sequences(
    one: Sequence[object], other: Sequence[object], where: str, noun: str
) -> Iterator[str]:
    if len(one) != len(other):
        yield f"{where}{len(one)} {noun}, not {len(other)}"
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            yield from _differences(mine, theirs, f"{where}{_title(mine)}: ")


def _title(part: object) -> str:
    match part:
        case NumaNode(id=id_):
            return f"NUMA node {id_}"
        case Core(threads=threads):
            return f"core with CPUs {','.join(map(str, threads))}"
        case HugePages(page_bytes=size):
            return f"hugepages of {size} bytes"
        case Device(id=id_):
            return f"device {id_}"
        case _:
            return str(part)
