"""What the node offers now: its machine and the kubelet's configuration, read again and again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace as replace_fields

from numakube.api.kubelet_config import KubeletConfiguration, read_kubelet_config
from numakube.api.resource_slices import (
    NodeAllocatableResource,
    NodeAllocatableResourceMapping,
)
from numakube.errors import ConfigError
from numakube.kubelet import KubeletSettings, settings_of
from numakube.kubelet.cpu_manager import CpuManager
from numakube.kubelet.cpu_topology import CpuTopology
from numakube.kubelet.kubelet_versions import behaviour_of
from numakube.node import read_machine, read_regular_file
from numakube.values.cpuset import CpuMask, CpuSet
from numakube.values.resources import CPU
from numakube_dra_driver.compatible_devices import compatible_device, compatible_groups
from numakube_dra_driver.devices import (
    DRA_CPU,
    DRIVER,
    Grouping,
    cpu_groups,
    device_of,
    node_allocatable,
    pcie_roots,
)
from numakube_dra_driver.memory_pools import memory_pools

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numakube.api.resource_slices import Device
    from numakube.kubelet.machine import Machine
    from numakube_dra_driver.devices import CpuGroup, OfferedFunctions
    from numakube_dra_driver.memory_pools import MemoryPool

ReadFunctions: TypeAlias = "Callable[[], OfferedFunctions]"

_STATIC: Final = "static"
_STATIC_MEMORY: Final = "Static"
_IS_STATIC: Final = (
    "the kubelet's CPU Manager has policy static and gives CPUs out itself: no CPUs are offered "
    "to claims; set cpuManagerPolicy to none"
)
_IS_STATIC_MEMORY: Final = (
    "the kubelet's Memory Manager has policy Static and gives memory out itself: no memory is "
    "offered to claims; set memoryManagerPolicy to None"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferOptions:
    """How a node's CPUs and memory are offered.

    Attributes:
        sysfs: where the machine is described.
        kubelet_config: the kubelet's configuration file.
        grouping: which CPUs are one device.
        whole_cores: whether CPUs go by whole cores.
        reserved: CPUs that are not offered; ``None`` for those that the kubelet reserves.
        policy_options: options of the static CPU Manager whose choice is followed.
        can_share: whether the API server knows devices that several claims have parts of.
        compatible: offer CPUs as dra-driver-cpu does.
        node_allocatable: say in slices that what claims have is the node's (KEP-5517).
        pcie_roots: say in slices which PCIe roots are near CPUs.
    """

    sysfs: Path
    kubelet_config: Path
    grouping: Grouping = Grouping.AUTO
    whole_cores: bool = True
    reserved: CpuSet | None = None
    policy_options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    can_share: bool = True
    compatible: bool = False
    node_allocatable: bool = False
    pcie_roots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What is offered.

    Attributes:
        groups: CPUs, by the names of their devices.
        manager: the kubelet's CPU Manager, for its order of CPUs.
        memory: memory and hugepages, by the names of their devices.
        refused: why something is not offered that could be; empty if there is no reason.
        cpu_devices: CPUs as slices have them.
        memory_devices: likewise.
        cpu_driver: in whose name they are offered.
        functions: PCI functions, if there are pools of them.
    """

    groups: Mapping[str, CpuGroup]
    manager: CpuManager
    memory: Mapping[str, MemoryPool] = field(default_factory=lambda: MappingProxyType({}))
    refused: str = ""

    cpu_devices: tuple[Device, ...] = ()
    memory_devices: tuple[Device, ...] = ()
    cpu_driver: str = DRIVER
    functions: OfferedFunctions | None = None

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices as slices have them."""
        return (*self.cpu_devices, *self.memory_devices)

    def of(self, driver: str) -> Offer:
        """Return what is offered in the name of *driver*."""
        if driver != self.cpu_driver:
            return replace(self, groups={}, cpu_devices=())
        if driver == DRIVER:
            return self
        return replace(self, memory={}, memory_devices=(), functions=None)


def make_offer(machine: Machine, config: KubeletConfiguration, options: OfferOptions) -> Offer:
    """Return what is offered of *machine*, whose kubelet has *config*.

    Raises:
        ConfigError: the options make no sense, or not on this machine.
    """
    topology = CpuTopology.of(machine)
    manager = CpuManager(
        topology,
        KubeletSettings(
            cpu_policy=_STATIC, cpu_options=options.policy_options, feature_gates=_ALL_OPTIONS
        ),
        behaviour_of(),
    )
    driver = DRA_CPU if options.compatible else DRIVER
    offer = Offer(groups={}, manager=manager, cpu_driver=driver)
    if config.cpu_manager_policy == _STATIC:
        offer = replace(offer, refused=_IS_STATIC)
    else:
        groups = _cpu_groups(topology, config, options)
        devices = tuple(_device(group, machine, options) for group in groups)
        named = {group.name: group for group in groups}
        offer = replace(offer, groups=named, cpu_devices=devices)
    if config.memory_manager_policy == _STATIC_MEMORY:
        why = f"{offer.refused}; {_IS_STATIC_MEMORY}" if offer.refused else _IS_STATIC_MEMORY
        return replace(offer, refused=why)
    if options.can_share:
        memory = _memory(machine, config)
        devices = tuple(_memory_device(pool, options) for pool in memory.values())
        return replace(offer, memory=memory, memory_devices=devices)
    return offer


def _cpu_groups(
    topology: CpuTopology, config: KubeletConfiguration, options: OfferOptions
) -> tuple[CpuGroup, ...]:
    reserved = options.reserved
    if reserved is None:
        reserved = CpuSet.parse(config.reserved_system_cpus)
    if unknown := reserved.mask & ~topology.all_cpus:
        raise ConfigError(f"reserved CPUs: this machine has no CPUs {CpuSet(unknown)}")
    offered = CpuMask(topology.all_cpus & ~reserved.mask)
    if options.compatible:
        return compatible_groups(topology, offered, options.grouping)
    step = topology.cpus_per_core if options.whole_cores else 1
    grouping = options.grouping
    if grouping is Grouping.AUTO and not options.can_share:
        grouping = Grouping.CORE
    return cpu_groups(topology, offered, grouping, step=step)


def _device(group: CpuGroup, machine: Machine, options: OfferOptions) -> Device:
    device = compatible_device(group, machine) if options.compatible else device_of(group)
    if options.pcie_roots:
        roots = pcie_roots(group.numa_nodes, _pcie_roots(options.sysfs))
        device = replace_fields(device, attributes={**device.attributes, **roots})
    if not options.node_allocatable:
        return device
    if group.is_shared:
        taken = node_allocatable(CPU, group.capacity)
    else:
        mapping = NodeAllocatableResourceMapping(device_multiplier=str(group.cpus.bit_count()))
        taken = {CPU: NodeAllocatableResource(mapping=mapping)}
    return replace_fields(device, node_allocatable_resources=taken)


def _pcie_roots(sysfs: Path) -> dict[str, int]:
    """Return the PCIe roots of the machine with their NUMA nodes, as far as these are known."""
    roots: dict[str, int] = {}
    for path in sysfs.glob("devices/pci*/????:??:??.?/numa_node"):
        try:
            node = int(read_regular_file(path))
        except (OSError, ValueError):
            continue
        if node >= 0:
            roots[path.parent.parent.name] = node
    return roots


def _memory_device(pool: MemoryPool, options: OfferOptions) -> Device:
    if not options.node_allocatable:
        return pool.device
    taken = node_allocatable(pool.resource, pool.capacity)
    return replace_fields(pool.device, node_allocatable_resources=taken)


def _memory(machine: Machine, config: KubeletConfiguration) -> dict[str, MemoryPool]:
    # Which CPUs are reserved does not matter for memory, and may be of another machine.
    settings = settings_of(replace_fields(config, reserved_system_cpus=""), machine)
    return {pool.name: pool for pool in memory_pools(machine, settings)}


_ALL_OPTIONS: Final = MappingProxyType(
    {"CPUManagerPolicyAlphaOptions": True, "CPUManagerPolicyBetaOptions": True}
)


class OfferReader:
    """Reads what the node offers; blocks for some milliseconds.

    Attributes:
        current: what was read last.
        can_share: whether the API server knows devices that several claims have parts of.
    """

    def __init__(self, options: OfferOptions, functions: ReadFunctions | None = None) -> None:
        """Read for the first time.

        Args:
            options: how CPUs and memory are offered.
            functions: looks what there is of PCI functions, if there are pools of them.

        Raises:
            ConfigError: the node does not say what it has, or the options make no sense.
            MalformedObject: sysfs or the kubelet's configuration makes no sense.
        """
        self._options = options
        self._functions = functions
        self.can_share = options.can_share
        self.current = self.read()

    def read(self) -> Offer:
        """Return what is offered now.

        Raises:
            ConfigError: as when it is made.
        """
        machine = read_machine(self._options.sysfs)
        options = replace(self._options, can_share=self.can_share)
        offer = make_offer(machine, self._config(), options)
        return replace(offer, functions=self._functions() if self._functions else None)

    def _config(self) -> KubeletConfiguration:
        path = self._options.kubelet_config
        try:
            return read_kubelet_config(read_regular_file(path), str(path))
        except FileNotFoundError:
            if self._options.reserved is None:
                raise ConfigError(
                    f"{path} is not there, so it is not known which CPUs the kubelet reserves: "
                    "give --kubelet-config-file, or --reserved-cpus"
                ) from None
            return KubeletConfiguration()
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}") from None
