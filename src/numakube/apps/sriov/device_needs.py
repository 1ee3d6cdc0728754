"""What a container needs to use a device, and the information that it gets about it.

Each provider adds device files and a few facts under its own name; names and facts are upstream's.
Everything is looked up when it is asked for, so that the answer to a container is as of now.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from numakube.apps.sriov.config_types import EVERY_DEVICE, DeviceType
from numakube.node.host_files import DeviceFile
from numakube.node.pci.device_files import VFIO, driver_devices, uio_device, vfio_group
from numakube.node.pci.rdma import DEVICE_FOLDER
from numakube.node.pci.vdpa import VHOST

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.apps.sriov.config_types import Pool
    from numakube.apps.sriov.device_selectors import Selector
    from numakube.apps.sriov.pci_discovery import Candidate, Facts
    from numakube.apps.sriov.pool_assignment import Member
    from numakube.node.host_files import Mount
    from numakube.node.pci.vdpa import VdpaDevice

VHOST_NET: Final = "/dev/vhost-net"
TUN: Final = "/dev/net/tun"
_VFIO_DRIVER: Final = "vfio-pci"
_UIO_DRIVERS: Final = ("uio", "igb_uio")
_RDMA_KINDS: Final = ("uverbs", "umad", "issm", "rdma_cm")


@dataclass(slots=True)
class Description:
    """A device, as a container gets it.

    Attributes:
        nodes: device files.
        mounts: paths of the host.
        envs: variables of its own.
        info: information about it, by provider.
        rdma: its RDMA devices, if it was asked for as such.
        vdpa: its vDPA device, if it was asked for as such.
        warnings: what is missing.
    """

    nodes: list[DeviceFile] = field(default_factory=list)
    mounts: list[Mount] = field(default_factory=list)
    envs: dict[str, str] = field(default_factory=dict)
    info: dict[str, Mapping[str, str]] = field(default_factory=dict)
    rdma: tuple[str, ...] = ()
    vdpa: VdpaDevice | None = None
    warnings: list[str] = field(default_factory=list)

    def add(self, provider: str, info: Mapping[str, str], paths: Iterable[str] = ()) -> None:
        """Add what one provider says; containers see files where the host has them."""
        self.info[provider] = info
        self.nodes += [DeviceFile(path, path) for path in paths]


def describe(pool: Pool, member: Member, facts: Facts) -> Description:
    """Return what a container needs to use *member*."""
    description = Description()
    description.add("generic", {"deviceID": member.id})
    if member.static is not None:
        description.nodes += member.static.nodes
        description.mounts += member.static.mounts
        description.envs |= member.static.envs
        description.info["static"] = {"numaNodes": ",".join(map(str, member.static.numa_nodes))}
    if member.candidate is not None and member.selector is not None:
        _describe(description, pool, member.candidate, member.selector, facts)
    if pool.additional_info is not None:
        description.add("extra", _extra(pool.additional_info, member))
    return description


def _describe(
    description: Description, pool: Pool, candidate: Candidate, selector: Selector, facts: Facts
) -> None:
    if pool.type is not DeviceType.AUXILIARY:
        _user_space(description, candidate)
    if pool.type is DeviceType.PCI:
        _of_driver(description, candidate)
    if selector.vdpa_type:
        _vdpa(description, candidate, facts)
    elif selector.is_rdma:
        _rdma(description, candidate, facts)
    if selector.need_vhost_net:
        _vhost_net(description, candidate, facts)


def _user_space(description: Description, candidate: Candidate) -> None:
    """Add the files by which programs drive a function themselves."""
    driver = candidate.function.driver
    if driver == _VFIO_DRIVER:
        group = vfio_group(candidate.folder)
        description.add("vfio", {"mount": VFIO}, [VFIO])
        if group is None:
            description.warnings.append(f"{candidate.id} has no IOMMU group")
            return
        description.info["vfio"] = {"dev-mount": group.container_path, "mount": VFIO}
        description.nodes.append(DeviceFile(group.container_path, group.host_path))
    elif driver in _UIO_DRIVERS:
        path = uio_device(candidate.folder)
        description.add("uio", {"mount": path} if path else {}, [path] if path else ())


def _of_driver(description: Description, candidate: Candidate) -> None:
    if candidate.function.driver in (_VFIO_DRIVER, *_UIO_DRIVERS):
        return
    paths = driver_devices(candidate.folder)
    if paths:
        description.add("dev", {"nodes": ",".join(paths)}, paths)


def _vdpa(description: Description, candidate: Candidate, facts: Facts) -> None:
    device = facts.vdpa(candidate)
    if device is None:
        description.warnings.append(f"{candidate.id} has no vDPA device")
        return
    description.vdpa = device
    is_reachable = device.kind == VHOST and device.path
    paths = [device.path] if is_reachable else []
    description.add("vdpa", {"mount": device.path} if is_reachable else {}, paths)


def _rdma(description: Description, candidate: Candidate, facts: Facts) -> None:
    devices = facts.rdma(candidate)
    description.rdma = devices
    names = [name for device in devices for name in facts.rdma_files(device)]
    if devices:
        names += facts.rdma_manager
    paths = [f"{DEVICE_FOLDER}/{name}" for name in dict.fromkeys(names)]
    info = {kind: path for path in paths for kind in _RDMA_KINDS if kind in path}
    if devices:
        info["rdma_dev"] = devices[0]
    else:
        description.warnings.append(f"{candidate.id} has no RDMA device on the host now")
    description.add("rdma", info, paths)


def _vhost_net(description: Description, candidate: Candidate, facts: Facts) -> None:
    host = facts.host
    if not host.has(VHOST_NET):
        description.warnings.append(
            f"{candidate.id} needs vhost-net, but {VHOST_NET} does not exist: is the module loaded?"
        )
        return
    info = {"net-mount": VHOST_NET, "tun-mount": TUN}
    description.add("vhost", info, (VHOST_NET, TUN) if host.has(TUN) else ())


def _extra(additional: Mapping[str, Mapping[str, str]], member: Member) -> Mapping[str, str]:
    key = member.candidate.function.address if member.candidate is not None else member.id
    return {**additional.get(EVERY_DEVICE, {}), **additional.get(key, {})}
