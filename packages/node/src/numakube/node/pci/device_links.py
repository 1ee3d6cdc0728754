"""Which PCI functions devices of device plugins are, and how these are connected.

The kubelet knows a device by an id that its plugin made up. Some ids tell the function:

    0000:3b:02.1            the address itself: SR-IOV, AMD and most plugins of PCI devices
    GPU-8a56..., ...::3     NVIDIA's uuid, perhaps one of several shares of it; the driver says in
                            /proc/driver/nvidia which function has it
    MIG-GPU-8a56.../1/0     a part of that function, as older drivers name parts
    card0-3                 Intel's GPU plugin: a card of the direct rendering manager, and a share
    amdgpu_xcp_3            AMD: a partition of a GPU, a platform device whose render node kfd knows
    mlx5_2, eth0,           the kernel's names of RDMA devices, network interfaces and
    mlx5_core.sf.4          subfunctions, which lie below their function

Other ids say nothing, and nothing is guessed: no file says which GPU a newer MIG uuid is
part of, and plugins of shared RDMA devices count from 0. The real path of a function in sysfs is
its chain of bridges. Links between AMD's GPUs (xGMI) are in the topology of their driver, kfd;
NVIDIA's driver reports NVLink only through its own library.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.errors import InvalidValue
from numakube.kubelet.machine import NO_TREE, DeviceTree, PciPath, path_of, tree_of
from numakube.node.pci.pci_functions import (
    ACCELERATOR,
    DEVICES,
    DISPLAY,
    NETWORK,
    is_address,
    names_in,
    nearest_address,
    number_of,
    target_of,
    text_of,
)
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from numakube.kubelet.machine import Machine

_NVIDIA: Final = re.compile(r"(?:MIG-)?(GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:$|[/:])")
_NVIDIA_UUID: Final = re.compile(r"^GPU UUID:\s*(\S+)", re.MULTILINE)
_CARD: Final = re.compile(r"(card[0-9]+)-[0-9]+")
_PARTITION: Final = re.compile(r"amdgpu_xcp_[0-9]+")
_NAME: Final = re.compile(r"[A-Za-z][\w.-]*")
_NAMED: Final = ("class/infiniband/{}/device", "class/net/{}/device", "bus/auxiliary/devices/{}")
_NOTABLE: Final = (NETWORK, DISPLAY, ACCELERATOR)
_CPU: Final = re.compile(r"cpu[0-9]+")
_XGMI: Final = "11"
"""HSA_IOLINK_TYPE_XGMI of the kernel's kfd."""
_RENDER: Final = "drm_render_minor"

GPUS: Final = "driver/nvidia/gpus"
KFD_NODES: Final = "class/kfd/kfd/topology/nodes"
CPUS: Final = "devices/system/cpu"


@dataclass(frozen=True, slots=True)
class Connected:
    """How devices are connected.

    Attributes:
        tree: the physical functions that they are, or are parts of, those that drivers of claims
            may give out, and the dies of the CPUs.
        functions: the address of that function by the device's id, as far as it is known.
    """

    tree: DeviceTree = NO_TREE
    functions: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


UNKNOWN: Final = Connected()


def connected_devices(machine: Machine) -> Connected:
    """Return what is known of the devices of a machine that is described completely."""
    devices = (device for members in machine.devices.values() for device in members)
    return Connected(machine.tree, {device.id: device.pci for device in devices if device.pci})


class DevicePaths:
    """Finds the functions of devices again and again; what it has found it does not look up again.

    Args:
        sysfs: such as ``/sys``.
        procfs: such as ``/proc``, for NVIDIA's driver.
    """

    def __init__(self, sysfs: Path, procfs: Path) -> None:
        self._sysfs = sysfs
        self._procfs = procfs
        self._found: dict[str, PciPath] = {}
        self._last: tuple[frozenset[str], Connected] | None = None

    def read(self, ids: Iterable[str]) -> Connected:
        """Return what is known of the devices with these *ids*."""
        missing = sorted(set(ids) - self._found.keys())
        for id_ in missing:
            path = self._path(self._function(id_))
            if path is not None:
                self._found[id_] = path
        known = frozenset(self._found.keys() & set(ids))
        if self._last is None or self._last[0] != known:
            self._last = known, self._connected(known)
        return self._last[1]

    def _connected(self, ids: Iterable[str]) -> Connected:
        found = {id_: self._found[id_] for id_ in sorted(ids)}
        paths = {*found.values(), *self._notable()}
        addresses = {path.address for path in paths}
        links = {
            pair: count
            for pair, count in xgmi_links(self._sysfs).items()
            if addresses.issuperset(pair)
        }
        tree = tree_of(paths, links, dies_of(self._sysfs))
        return Connected(tree, {id_: path.address for id_, path in found.items()})

    def _notable(self) -> Iterator[PciPath]:
        """Yield where network cards, GPUs and accelerators are, without virtual functions."""
        folder = self._sysfs / DEVICES
        for address in names_in(folder):
            code = (text_of(folder / address / "class") or "").removeprefix("0x")
            if code[:2] in _NOTABLE and not (folder / address / "physfn").is_symlink():
                path = self._path(address)
                if path is not None:
                    yield path

    def _function(self, id_: str) -> str:
        """Return the address of the function that *id_* names; empty if it names none."""
        if is_address(id_):
            return id_.lower()
        if match := _NVIDIA.match(id_):
            return self._nvidia().get(match[1], "")
        if match := _CARD.fullmatch(id_):
            return nearest_address(self._sysfs / "class/drm" / match[1] / "device")
        if _PARTITION.fullmatch(id_):
            return _partitioned(self._sysfs, id_)
        places = (self._sysfs / one.format(id_) for one in _NAMED if _NAME.fullmatch(id_))
        return next(filter(None, map(nearest_address, places)), "")

    def _nvidia(self) -> Mapping[str, str]:
        """Return the addresses of NVIDIA's GPUs by uuid."""
        folder = self._procfs / GPUS
        uuids = {}
        for name in names_in(folder):
            match = _NVIDIA_UUID.search(text_of(folder / name / "information") or "")
            if match is not None and is_address(name):
                uuids[match[1]] = name.lower()
        return uuids

    def _path(self, address: str) -> PciPath | None:
        """Return where a function, or the physical one that it belongs to, is."""
        if not address:
            return None
        folder = self._sysfs / DEVICES / address
        if physical := target_of(folder / "physfn"):
            folder = folder.with_name(physical)
        try:
            real = folder.resolve(strict=True)
        except OSError:
            return None
        node = number_of(real / "numa_node")
        return path_of(real.parts, None if node is None or node < 0 else node)


def xgmi_links(sysfs: Path) -> dict[tuple[str, str], int]:
    """Return the number of xGMI links between functions, the lower address first."""
    folder = sysfs / KFD_NODES
    addresses = {name: _kfd_address(folder / name) for name in names_in(folder)}
    counts: dict[tuple[str, str], int] = {}
    for name, address in addresses.items():
        for other in _xgmi_neighbours(folder / name):
            neighbour = addresses.get(other, "")
            # Both ends tell of a link. Parts of one GPU are linked, too, but are one function.
            if address and address < neighbour:
                counts[address, neighbour] = counts.get((address, neighbour), 0) + 1
    return counts


def _xgmi_neighbours(node: Path) -> Iterator[str]:
    for link in names_in(node / "io_links"):
        properties = _properties(node / "io_links" / link / "properties")
        if properties.get("type") == _XGMI:
            yield properties.get("node_to", "")


def _partitioned(sysfs: Path, partition: str) -> str:
    """Return the address of the GPU that *partition* is a part of; they share kfd's location."""
    minors = {
        name.removeprefix("renderD")
        for name in names_in(sysfs / "devices/platform" / partition / "drm")
    }
    nodes = (sysfs / KFD_NODES / name for name in names_in(sysfs / KFD_NODES))
    own = (node for node in nodes if _properties(node / "properties").get(_RENDER) in minors)
    return next(map(_kfd_address, own), "")


def _kfd_address(node: Path) -> str:
    """Return the address of a GPU; empty for CPUs, which are nodes as well."""
    properties = _properties(node / "properties")
    try:
        location, domain = int(properties["location_id"]), int(properties.get("domain", "0"))
    except (KeyError, ValueError):
        return ""
    if not location:
        return ""
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


def _properties(path: Path) -> dict[str, str]:
    words = (line.split() for line in (text_of(path) or "").splitlines())
    return {pair[0]: pair[1] for pair in words if len(pair) > 1}


def dies_of(sysfs: Path) -> tuple[CpuSet, ...]:
    """Return the CPUs of each die; nothing if every package is one die."""
    folder = sysfs / CPUS
    dies: set[CpuSet] = set()
    packages: set[CpuSet] = set()
    for name in names_in(folder):
        if not _CPU.fullmatch(name):
            continue
        dies.add(_cpus(folder / name / "topology/die_cpus_list"))
        packages.add(_cpus(folder / name / "topology/package_cpus_list"))
    if len(dies) <= len(packages) or any(one & other for one, other in combinations(dies, 2)):
        return ()
    return tuple(sorted(dies - {CpuSet()}, key=min))


def _cpus(path: Path) -> CpuSet:
    try:
        return CpuSet.parse(text_of(path) or "")
    except InvalidValue:
        return CpuSet()
