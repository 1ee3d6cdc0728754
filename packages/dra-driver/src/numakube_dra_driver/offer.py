"""What the node offers now: its machine and the kubelet's configuration, read again and again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.api.kubelet_config import KubeletConfiguration, read_kubelet_config
from numakube.errors import ConfigError
from numakube.kubelet.cpu_manager import CpuManager
from numakube.kubelet.cpu_topology import CpuTopology
from numakube.kubelet.kubelet_versions import behaviour_of
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.node.bounded_files import read_regular_file
from numakube.node.sysfs_machine import read_machine
from numakube.values.cpuset import CpuSet
from numakube_dra_driver.devices import Grouping, cpu_groups, device_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numakube.api.resource_slices import Device
    from numakube.kubelet.machine import Machine
    from numakube_dra_driver.devices import CpuGroup

_STATIC: Final = "static"
_IS_STATIC: Final = (
    "the kubelet's CPU Manager has policy static and gives CPUs out itself: no CPUs are offered "
    "to claims; set cpuManagerPolicy to none"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferOptions:
    """How a node's CPUs are offered.

    Attributes:
        sysfs: where the machine is described.
        kubelet_config: the kubelet's configuration file.
        grouping: which CPUs are one device.
        whole_cores: whether CPUs go by whole cores.
        reserved: CPUs that are not offered; ``None`` for those that the kubelet reserves.
        policy_options: options of the static CPU Manager whose choice is followed.
    """

    sysfs: Path
    kubelet_config: Path
    grouping: Grouping = Grouping.AUTO
    whole_cores: bool = True
    reserved: CpuSet | None = None
    policy_options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What is offered.

    Attributes:
        groups: by the names of their devices.
        manager: the kubelet's CPU Manager, for its order of CPUs.
        refused: why nothing is offered that could be; empty if there is no reason.
    """

    groups: Mapping[str, CpuGroup]
    manager: CpuManager
    refused: str = ""

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices as slices have them."""
        return tuple(device_of(group) for group in self.groups.values())


def make_offer(machine: Machine, config: KubeletConfiguration, options: OfferOptions) -> Offer:
    """Return what is offered of *machine*, whose kubelet has *config*.

    Raises:
        ConfigError: the options make no sense, or not on this machine.
    """
    topology = CpuTopology.of(machine)
    reserved = options.reserved
    if reserved is None:
        reserved = CpuSet.parse(config.reserved_system_cpus)
    if unknown := reserved.mask & ~topology.all_cpus:
        raise ConfigError(f"reserved CPUs: this machine has no CPUs {CpuSet(unknown)}")
    settings = KubeletSettings(
        cpu_policy=_STATIC, cpu_options=options.policy_options, feature_gates=_ALL_OPTIONS
    )
    manager = CpuManager(topology, settings, behaviour_of())
    step = topology.cpus_per_core if options.whole_cores else 1
    groups = cpu_groups(topology, topology.all_cpus & ~reserved.mask, options.grouping, step=step)
    offer = Offer(groups={group.name: group for group in groups}, manager=manager)
    if config.cpu_manager_policy == _STATIC:
        return replace(offer, groups={}, refused=_IS_STATIC)
    return offer


_ALL_OPTIONS: Final = MappingProxyType(
    {"CPUManagerPolicyAlphaOptions": True, "CPUManagerPolicyBetaOptions": True}
)


class OfferReader:
    """Reads what the node offers; blocks for some milliseconds.

    Attributes:
        current: what was read last.
        trouble: why the last reading brought nothing new; empty if it did.
    """

    def __init__(self, options: OfferOptions) -> None:
        """Read for the first time.

        Raises:
            ConfigError: the node does not say what it has, or the options make no sense.
            MalformedObject: sysfs or the kubelet's configuration makes no sense.
        """
        self._options = options
        self.trouble = ""
        self.current = self.read()

    def with_grouping(self, grouping: Grouping) -> None:
        """Offer CPUs otherwise from now on."""
        self._options = replace(self._options, grouping=grouping)
        self.current = self.read()

    @property
    def grouping(self) -> Grouping:
        """Which CPUs are one device now."""
        return self._options.grouping

    def read(self) -> Offer:
        """Return what is offered now.

        Raises:
            ConfigError: as when it is made.
        """
        machine = read_machine(self._options.sysfs)
        return make_offer(machine, self._config(), self._options)

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
