"""What the node offers now: its machine and the kubelet's configuration, read again and again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace as replace_fields

from numakube.api.kubelet_config import KubeletConfiguration, read_kubelet_config
from numakube.errors import ConfigError
from numakube.kubelet.cpu_manager import CpuManager
from numakube.kubelet.cpu_topology import CpuTopology
from numakube.kubelet.kubelet_versions import behaviour_of
from numakube.kubelet.manager_settings import KubeletSettings, settings_of
from numakube.node.bounded_files import read_regular_file
from numakube.node.sysfs_machine import read_machine
from numakube.values.cpuset import CpuSet
from numakube_dra_driver.devices import Grouping, cpu_groups, device_of
from numakube_dra_driver.memory_pools import memory_pools

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numakube.api.resource_slices import Device
    from numakube.kubelet.machine import Machine
    from numakube_dra_driver.devices import CpuGroup
    from numakube_dra_driver.memory_pools import MemoryPool

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
    """

    sysfs: Path
    kubelet_config: Path
    grouping: Grouping = Grouping.AUTO
    whole_cores: bool = True
    reserved: CpuSet | None = None
    policy_options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    can_share: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What is offered.

    Attributes:
        groups: CPUs, by the names of their devices.
        manager: the kubelet's CPU Manager, for its order of CPUs.
        memory: memory and hugepages, by the names of their devices.
        refused: why something is not offered that could be; empty if there is no reason.
    """

    groups: Mapping[str, CpuGroup]
    manager: CpuManager
    memory: Mapping[str, MemoryPool] = field(default_factory=lambda: MappingProxyType({}))
    refused: str = ""

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices as slices have them."""
        memory = (pool.device for pool in self.memory.values())
        return (*(device_of(group) for group in self.groups.values()), *memory)


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
    offer = Offer(groups={}, manager=manager)
    if config.cpu_manager_policy == _STATIC:
        offer = replace(offer, refused=_IS_STATIC)
    else:
        groups = _cpu_groups(topology, config, options)
        offer = replace(offer, groups={group.name: group for group in groups})
    if config.memory_manager_policy == _STATIC_MEMORY:
        why = f"{offer.refused}; {_IS_STATIC_MEMORY}" if offer.refused else _IS_STATIC_MEMORY
        return replace(offer, refused=why)
    if options.can_share:
        offer = replace(offer, memory=_memory(machine, config))
    return offer


def _cpu_groups(
    topology: CpuTopology, config: KubeletConfiguration, options: OfferOptions
) -> tuple[CpuGroup, ...]:
    reserved = options.reserved
    if reserved is None:
        reserved = CpuSet.parse(config.reserved_system_cpus)
    if unknown := reserved.mask & ~topology.all_cpus:
        raise ConfigError(f"reserved CPUs: this machine has no CPUs {CpuSet(unknown)}")
    step = topology.cpus_per_core if options.whole_cores else 1
    grouping = options.grouping
    if grouping is Grouping.AUTO and not options.can_share:
        grouping = Grouping.CORE
    return cpu_groups(topology, topology.all_cpus & ~reserved.mask, grouping, step=step)


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

    def __init__(self, options: OfferOptions) -> None:
        """Read for the first time.

        Raises:
            ConfigError: the node does not say what it has, or the options make no sense.
            MalformedObject: sysfs or the kubelet's configuration makes no sense.
        """
        self._options = options
        self.can_share = options.can_share
        self.current = self.read()

    def read(self) -> Offer:
        """Return what is offered now.

        Raises:
            ConfigError: as when it is made.
        """
        machine = read_machine(self._options.sysfs)
        options = replace(self._options, can_share=self.can_share)
        return make_offer(machine, self._config(), options)

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
