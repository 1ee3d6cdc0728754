"""What a host has to offer: PCI functions and subfunctions, with all that selectors ask about them.

    inventory = discover(Host(), previous=None)

Everything is read from the sysfs, ``/dev`` and ``/proc`` that `Host` names. What is costly and only
some selectors ask for (RDMA, vDPA, firmware) is read when it is asked for, once a scan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.node.pci.device_pools import DeviceType
from numakube.node.pci.network_devices import (
    AUXILIARY_DEVICES,
    auxiliary_devices,
    character_devices,
    connection_manager,
    default_partition_key,
    default_route_interfaces,
    is_down,
    link_type_of,
    rdma_devices,
    uplink_of,
    vdpa_devices,
)
from numakube.node.pci.pci_functions import ACCELERATOR, BRIDGE, NETWORK, PciBus

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.node.pci.network_devices import AuxiliaryDevice, VdpaDevice
    from numakube.node.pci.pci_functions import PciFunction, UnreadableFunction

INFINIBAND: Final = "infiniband"

Firmware: TypeAlias = Callable[[str], str]
"""Returns the name of the DDP package that a PCI function runs; empty if it runs none."""

RdmaEnabled: TypeAlias = Callable[[str], bool]
"""Tells whether RDMA is enabled for a device, even if its RDMA devices are elsewhere now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Where a host describes itself, and what cannot be read from files.

    Attributes:
        sysfs: ``/sys``.
        dev: ``/dev``; only looked at, never opened.
        proc: ``/proc``.
        firmware: tells the DDP package of a PCI function.
        rdma_enabled: tells whether a device can do RDMA.
    """

    sysfs: Path = Path("/sys")
    dev: Path = Path("/dev")
    proc: Path = Path("/proc")
    firmware: Firmware = lambda _: ""
    rdma_enabled: RdmaEnabled = lambda _: False

    def has(self, device_file: str) -> bool:
        """Tell whether a file such as ``/dev/vhost-net`` exists."""
        return (self.dev / device_file.removeprefix("/dev/")).exists()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFunction:
    """A PCI function or subfunction that a pool may have.

    Attributes:
        id: its name for the kubelet: the address, or the name of the auxiliary device.
        function: the PCI function, or the one that the auxiliary device belongs to.
        folder: where it is described.
        pf_address: the physical function; empty if not known, as in a virtual machine.
        pf_name: its network interface.
        index: the number of the virtual function or subfunction.
        link_type: such as ``ether``; empty if not known.
        aux_type: ``sf`` for a subfunction.
        interfaces: the network interfaces that are on the host.
    """

    id: str
    function: PciFunction
    folder: Path
    pf_address: str = ""
    pf_name: str = ""
    index: int | None = None
    link_type: str = ""
    aux_type: str = ""
    interfaces: tuple[str, ...] = ()


class Facts:
    """What selectors and answers ask about candidates; read when asked, and remembered."""

    def __init__(self, host: Host, remembered: Mapping[str, tuple[str, ...]] | None = None) -> None:
        """Prepare.

        Args:
            host: where to read.
            remembered: RDMA devices as of the last scan, by candidate. Where RDMA devices follow
                their network interface into a pod, the host does not see them meanwhile.
        """
        self.host = host
        self._remembered = remembered or {}
        self.rdma_seen: dict[str, tuple[str, ...]] = {}

    def rdma(self, candidate: FoundFunction) -> tuple[str, ...]:
        """Return the RDMA devices of a candidate."""
        found = self.rdma_seen.get(candidate.id)
        if found is None:
            found = rdma_devices(candidate.folder)
            if not found and not candidate.interfaces:
                found = self._remembered.get(candidate.id, ())
            self.rdma_seen[candidate.id] = found
        return found

    def is_rdma(self, candidate: FoundFunction) -> bool:
        """Tell whether a candidate can do RDMA."""
        return bool(self.rdma(candidate)) or self.host.rdma_enabled(candidate.id)

    def rdma_files(self, device: str) -> tuple[str, ...]:
        """Return the names of the character devices of an RDMA device."""
        return self._character_devices.get(device, ())

    @cached_property
    def rdma_manager(self) -> tuple[str, ...]:
        """The character device that all RDMA devices share."""
        return connection_manager(self.host.dev)

    def vdpa(self, candidate: FoundFunction) -> VdpaDevice | None:
        """Return the vDPA device on a candidate."""
        return self._vdpa.get(candidate.function.address)

    def partition_key(self, candidate: FoundFunction) -> str:
        """Return the default partition key of an InfiniBand candidate."""
        is_infiniband = candidate.link_type == INFINIBAND
        return default_partition_key(candidate.folder) if is_infiniband else ""

    def ddp_profile(self, candidate: FoundFunction) -> str:
        """Return the DDP package of a candidate, or else of its physical function."""
        address = candidate.function.address
        return self.host.firmware(address) or (
            self.host.firmware(candidate.pf_address) if candidate.pf_address else ""
        )

    @cached_property
    def _character_devices(self) -> Mapping[str, tuple[str, ...]]:
        return character_devices(self.host.sysfs)

    @cached_property
    def _vdpa(self) -> Mapping[str, VdpaDevice]:
        return vdpa_devices(self.host.sysfs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """What one scan has found.

    Attributes:
        candidates: by the type of pools that may have them.
        unusable: what no pool of that type may have, with the reason.
        unreadable: functions that could not be read.
        trouble: why the bus could not be read at all.
        facts: what else is known.
        down: physical functions, by address, whose interface has no link.
    """

    candidates: Mapping[DeviceType, tuple[FoundFunction, ...]] = field(default_factory=dict)
    unusable: Mapping[DeviceType, Mapping[str, str]] = field(default_factory=dict)
    unreadable: tuple[UnreadableFunction, ...] = ()
    trouble: str = ""
    facts: Facts
    down: frozenset[str] = frozenset()


def discover(
    host: Host, types: frozenset[DeviceType], *, previous: Inventory | None = None
) -> Inventory:
    """Return what *host* has for pools of the given *types*."""
    remembered = previous.facts.rdma_seen if previous is not None else None
    return _Discovery(host, types, Facts(host, remembered)).run()


class _Discovery:
    """One scan."""

    def __init__(self, host: Host, types: frozenset[DeviceType], facts: Facts) -> None:
        self._host = host
        self._types = types
        self._facts = facts
        self._bus = PciBus(host.sysfs)
        self._uplinks: dict[str, str] = {}
        self._pf_link_types: dict[str, str] = {}

    def run(self) -> Inventory:
        reading = self._bus.read(is_wanted=self._is_wanted)
        candidates: dict[DeviceType, list[FoundFunction]] = {type_: [] for type_ in self._types}
        unusable: dict[DeviceType, dict[str, str]] = {type_: {} for type_ in self._types}
        for function in reading.functions:
            for type_ in self._types_of(function):
                why = self._why_not(function, type_)
                if why:
                    unusable[type_][function.address] = why
                else:
                    candidates[type_].append(self._candidate(function))
        if DeviceType.AUXILIARY in self._types:
            functions = {function.address: function for function in reading.functions}
            for candidate in self._auxiliary(functions):
                if candidate.function.driver:
                    candidates[DeviceType.AUXILIARY].append(candidate)
                else:
                    why = f"its parent {candidate.function.address} has no driver"
                    unusable[DeviceType.AUXILIARY][candidate.id] = why
        return Inventory(
            candidates={type_: tuple(found) for type_, found in candidates.items()},
            unusable=unusable,
            unreadable=reading.unreadable,
            trouble=reading.trouble,
            facts=self._facts,
            down=self._down(),
        )

    def _is_wanted(self, class_code: str) -> bool:
        base = class_code[:2]
        return (
            (base == NETWORK and bool(self._types & {DeviceType.NETWORK, DeviceType.AUXILIARY}))
            or (base == ACCELERATOR and DeviceType.ACCELERATOR in self._types)
            or (base != BRIDGE and DeviceType.PCI in self._types)
        )

    def _types_of(self, function: PciFunction) -> Iterator[DeviceType]:
        base = function.base_class
        if base == NETWORK and DeviceType.NETWORK in self._types:
            yield DeviceType.NETWORK
        if base == ACCELERATOR and DeviceType.ACCELERATOR in self._types:
            yield DeviceType.ACCELERATOR
        if DeviceType.PCI in self._types:
            yield DeviceType.PCI

    @cached_property
    def _default_routes(self) -> frozenset[str]:
        return default_route_interfaces(self._host.proc)

    def _why_not(self, function: PciFunction, type_: DeviceType) -> str:
        """Return why no pool may have a function; empty if one may."""
        if not function.driver:
            return "has no driver"
        is_network = type_ is not DeviceType.ACCELERATOR and function.base_class == NETWORK
        routes = self._default_routes.intersection(function.interfaces) if is_network else ()
        if routes:
            return f"carries the host's default route ({', '.join(sorted(routes))})"
        if function.is_physical and function.vf_count:
            # Who has it has its virtual functions too, of whatever class it is.
            return f"is a physical function with {function.vf_count} virtual functions"
        return ""

    def _candidate(self, function: PciFunction) -> FoundFunction:
        folder, pf = self._bus.folder(function.address), function.pf
        link_type = link_type_of(folder, function.interfaces) if function.interfaces else ""
        return FoundFunction(
            id=function.address,
            function=function,
            folder=folder,
            pf_address=pf,
            pf_name=self._uplink(pf) if pf else "",
            index=function.vf_index,
            link_type=link_type or (self._pf_link_type(pf) if pf else ""),
            interfaces=function.interfaces,
        )

    def _auxiliary(self, functions: Mapping[str, PciFunction]) -> Iterator[FoundFunction]:
        for device in auxiliary_devices(self._host.sysfs):
            parent = functions.get(device.parent)
            if parent is not None:
                yield self._subfunction(device, parent)

    def _subfunction(self, device: AuxiliaryDevice, parent: PciFunction) -> FoundFunction:
        folder = self._host.sysfs / AUXILIARY_DEVICES / device.name
        link_type = link_type_of(folder, device.interfaces)
        return FoundFunction(
            id=device.name,
            function=parent,
            folder=folder,
            pf_address=parent.address,
            pf_name=self._uplink(parent.address),
            index=device.number,
            link_type=link_type or self._pf_link_type(parent.address),
            aux_type=device.type,
            interfaces=device.interfaces,
        )

    def _uplink(self, pf: str) -> str:
        if pf not in self._uplinks:
            self._uplinks[pf] = uplink_of(self._bus.folder(pf))
        return self._uplinks[pf]

    def _pf_link_type(self, pf: str) -> str:
        if pf not in self._pf_link_types:
            uplink = self._uplink(pf)
            found = link_type_of(self._bus.folder(pf), (uplink,)) if uplink else ""
            self._pf_link_types[pf] = found
        return self._pf_link_types[pf]

    def _down(self) -> frozenset[str]:
        """Return the physical functions without a link, of all that candidates belong to."""
        return frozenset(
            pf
            for pf, uplink in self._uplinks.items()
            if uplink and is_down(self._bus.folder(pf), uplink)
        )
