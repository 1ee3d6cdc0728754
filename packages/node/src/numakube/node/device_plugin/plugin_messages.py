"""What a device plugin and a kubelet tell each other, as frozen types and as protobuf."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from numakube.kubelet.machine import Device
from numakube.node.host_files import DeviceFile, HostMount
from numakube.node.protos import DEVICE_PLUGIN

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION: Final = "v1beta1"
HEALTHY: Final = "Healthy"
UNHEALTHY: Final = "Unhealthy"


@dataclass(frozen=True, slots=True)
class PluginOptions:
    """Which of the optional calls a plugin wants."""

    pre_start_required: bool = False
    preferred_allocation: bool = False


@dataclass(frozen=True, slots=True)
class PluginRegistration:
    """A plugin's announcement; ``endpoint`` is the name of its socket in the kubelet's folder."""

    resource: str
    endpoint: str
    version: str = VERSION
    options: PluginOptions = field(default_factory=PluginOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What a container needs in order to use its devices."""

    envs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    mounts: tuple[HostMount, ...] = ()
    devices: tuple[DeviceFile, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cdi_devices: tuple[str, ...] = ()


def read_device(message: Any) -> Device:  # noqa: ANN401
    """Return the device of a message."""
    return Device(
        message.ID,
        tuple(node.ID for node in message.topology.nodes),
        healthy=message.health == HEALTHY,
    )


def write_device(device: Device) -> Any:  # noqa: ANN401
    """Return *device* as a message."""
    nodes = [DEVICE_PLUGIN.NUMANode(ID=number) for number in device.numa_nodes]
    return DEVICE_PLUGIN.Device(
        ID=device.id,
        health=HEALTHY if device.healthy else UNHEALTHY,
        topology=DEVICE_PLUGIN.TopologyInfo(nodes=nodes) if nodes else None,
    )


def write_options(options: PluginOptions) -> Any:  # noqa: ANN401
    """Return *options* as a message."""
    return DEVICE_PLUGIN.DevicePluginOptions(
        pre_start_required=options.pre_start_required,
        get_preferred_allocation_available=options.preferred_allocation,
    )


def write_allocation(allocation: Allocation) -> Any:  # noqa: ANN401
    """Return *allocation* as a message."""
    return DEVICE_PLUGIN.ContainerAllocateResponse(
        envs=dict(allocation.envs),
        mounts=[
            DEVICE_PLUGIN.Mount(
                container_path=mount.container_path,
                host_path=mount.host_path,
                read_only=mount.read_only,
            )
            for mount in allocation.mounts
        ],
        devices=[
            DEVICE_PLUGIN.DeviceSpec(
                container_path=device.container_path,
                host_path=device.host_path,
                permissions=device.permissions,
            )
            for device in allocation.devices
        ],
        annotations=dict(allocation.annotations),
        cdi_devices=[DEVICE_PLUGIN.CDIDevice(name=name) for name in allocation.cdi_devices],
    )


def read_allocation(message: Any) -> Allocation:  # noqa: ANN401
    """Return the allocation of a message."""
    return Allocation(
        envs=dict(message.envs),
        mounts=tuple(
            HostMount(mount.container_path, mount.host_path, mount.read_only)
            for mount in message.mounts
        ),
        devices=tuple(
            DeviceFile(device.container_path, device.host_path, device.permissions)
            for device in message.devices
        ),
        annotations=dict(message.annotations),
        cdi_devices=tuple(device.name for device in message.cdi_devices),
    )
