"""What the configuration says: pools of devices, each with selectors or a list of devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.kubelet.preferred_allocation import Preference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.apps.sriov.device_selectors import Selector
    from numakube.node.host_files import DeviceFile, Mount


EVERY_DEVICE: Final = "*"
"""The key of additional information that is for all devices."""


class DeviceType(StrEnum):
    """What a pool consists of; the first three are upstream's."""

    NETWORK = "netDevice"
    ACCELERATOR = "accelerator"
    AUXILIARY = "auxNetDevice"
    PCI = "pciDevice"
    STATIC = "staticDevice"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticDevice:
    """A device that the configuration itself describes.

    Attributes:
        id: its name for the kubelet.
        numa_nodes: where it is; empty if it is nowhere in particular.
        healthy: whether it can be given out.
        nodes: device files for the container; they have to exist.
        mounts: paths for the container.
        envs: variables for the container.
    """

    id: str
    numa_nodes: tuple[int, ...] = ()
    healthy: bool = True
    nodes: tuple[DeviceFile, ...] = ()
    mounts: tuple[Mount, ...] = ()
    envs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A resource of the node.

    Attributes:
        prefix: the first part of the resource's name.
        name: the second part.
        check_link: whether devices of a physical function without a link are unhealthy; ``None``
            leaves it to the program's setting.
        additional_info: more information for containers, by PCI address or `EVERY_DEVICE`;
            ``None`` if the configuration says nothing.
        devices: the devices of a static pool.
    """

    prefix: str
    name: str
    type: DeviceType = DeviceType.NETWORK
    exclude_topology: bool = False
    selectors: tuple[Selector, ...] = ()
    additional_info: Mapping[str, Mapping[str, str]] | None = None
    preference: Preference = Preference.MOST_FREE
    check_link: bool | None = None
    devices: tuple[StaticDevice, ...] = ()

    @property
    def resource(self) -> str:
        """The full name, as pods ask for it."""
        return f"{self.prefix}/{self.name}"


@dataclass(frozen=True, slots=True)
class Remark:
    """Something odd in the configuration that does not keep the rest from working.

    Attributes:
        where: the pool and key.
        what: what is odd.
        skipped: the pool is left out because of it.
    """

    where: str
    what: str
    skipped: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class Config:
    """All pools that can be offered, and what is odd."""

    pools: tuple[Pool, ...] = ()
    remarks: tuple[Remark, ...] = ()
