"""What a container needs to use a device, and the files that tell others about it.

Each provider adds device files and a few facts under its own name (`describe`); names and facts are
upstream's. Everything is looked up when it is asked for, so that the answer to a container is as of
now.

A device-info file says what CNI plugins want to know of a device that a pod has got, in the form of
the Network Plumbing Working Group's device information specification 1.1. It is replaced when its
device is given out again, and removed when the pool forgets the device. Upstream removes all of
them whenever it starts or ends, also of devices in use; we do not.

In files of the Container Device Interface runtimes look devices up. A pool has one file with all
its devices. It is written before the kubelet hears of the devices, and stays when the plugin ends:
containers that restart meanwhile still need it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from numakube.node.host_files import DeviceFile, cdi_edits, device_variables, info_file
from numakube.node.pci.device_pools import EVERY_DEVICE, DeviceType
from numakube.node.pci.network_devices import DEVICE_FOLDER, VHOST
from numakube.node.pci.pci_functions import VFIO, driver_devices, uio_device, vfio_group
from numakube.values.gotext import go_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numakube.node.host_files import HostMount
    from numakube.node.pci.device_pools import DeviceSelectorSpec, PoolSpec
    from numakube.node.pci.host_scan import PoolMember
    from numakube.node.pci.network_devices import VdpaDevice
    from numakube.node.pci.pci_discovery import Facts, FoundFunction


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
    mounts: list[HostMount] = field(default_factory=list)
    envs: dict[str, str] = field(default_factory=dict)
    info: dict[str, Mapping[str, str]] = field(default_factory=dict)
    rdma: tuple[str, ...] = ()
    vdpa: VdpaDevice | None = None
    warnings: list[str] = field(default_factory=list)

    def add(self, provider: str, info: Mapping[str, str], paths: Iterable[str] = ()) -> None:
        """Add what one provider says; containers see files where the host has them."""
        self.info[provider] = info
        self.nodes += [DeviceFile(path, path) for path in paths]


def describe(pool: PoolSpec, member: PoolMember, facts: Facts) -> Description:
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
    description: Description,
    pool: PoolSpec,
    candidate: FoundFunction,
    selector: DeviceSelectorSpec,
    facts: Facts,
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


def _user_space(description: Description, candidate: FoundFunction) -> None:
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


def _of_driver(description: Description, candidate: FoundFunction) -> None:
    if candidate.function.driver in (_VFIO_DRIVER, *_UIO_DRIVERS):
        return
    paths = driver_devices(candidate.folder)
    if paths:
        description.add("dev", {"nodes": ",".join(paths)}, paths)


def _vdpa(description: Description, candidate: FoundFunction, facts: Facts) -> None:
    device = facts.vdpa(candidate)
    if device is None:
        description.warnings.append(f"{candidate.id} has no vDPA device")
        return
    description.vdpa = device
    is_reachable = device.kind == VHOST and device.path
    paths = [device.path] if is_reachable else []
    description.add("vdpa", {"mount": device.path} if is_reachable else {}, paths)


def _rdma(description: Description, candidate: FoundFunction, facts: Facts) -> None:
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


def _vhost_net(description: Description, candidate: FoundFunction, facts: Facts) -> None:
    host = facts.host
    if not host.has(VHOST_NET):
        description.warnings.append(
            f"{candidate.id} needs vhost-net, but {VHOST_NET} does not exist: is the module loaded?"
        )
        return
    info = {"net-mount": VHOST_NET, "tun-mount": TUN}
    description.add("vhost", info, (VHOST_NET, TUN) if host.has(TUN) else ())


def _extra(additional: Mapping[str, Mapping[str, str]], member: PoolMember) -> Mapping[str, str]:
    key = member.candidate.function.address if member.candidate is not None else member.id
    return {**additional.get(EVERY_DEVICE, {}), **additional.get(key, {})}


def environment(pool: PoolSpec, devices: Mapping[str, Description]) -> dict[str, str]:
    """Return the variables: ids, information about them, and what static devices bring along."""
    envs: dict[str, str] = {}
    for description in devices.values():
        envs |= description.envs
    infos = {id_: description.info for id_, description in devices.items()}
    return envs | device_variables(pool.resource, infos)


INFO_VERSION: Final = "1.1.0"
_MODE: Final = 0o444


def info_text(address: str, description: Description) -> str:
    """Return what a file says."""
    if description.vdpa is not None:
        device = description.vdpa
        entry: dict[str, Any] = {"parent-device": device.name, "driver": device.kind}
        if device.kind == VHOST and device.path:
            entry["path"] = device.path
        return _info_document("vdpa", {**entry, "pci-address": address})
    entry = {"pci-address": address}
    if description.rdma:
        entry["rdma-device"] = ",".join(description.rdma)
    return _info_document("pci", entry)


def save_info(
    folder: Path, pool: PoolSpec, id_: str, address: str, description: Description
) -> None:
    """Write the file of a device.

    Raises:
        OSError: it cannot be written.
    """
    replace_file(info_file(folder, pool.resource, id_), info_text(address, description), mode=_MODE)


def forget_info(folder: Path, pool: PoolSpec, id_: str) -> None:
    """Remove the file of a device, if there is one.

    Raises:
        OSError: it cannot be removed.
    """
    info_file(folder, pool.resource, id_).unlink(missing_ok=True)


def _info_document(kind: str, entry: dict[str, Any]) -> str:
    return go_json({"type": kind, "version": INFO_VERSION, kind: entry}, struct=True)


CDI_FOLDER: Final = "/var/run/cdi"
CDI_VERSION: Final = "0.5.0"
_FILES: Final = "sriov-dp"
_CLASSES: Final = MappingProxyType(
    {
        DeviceType.NETWORK: "net-pci",
        DeviceType.ACCELERATOR: "net-accel",
        DeviceType.AUXILIARY: "net-sf",
        DeviceType.PCI: "pci",
        DeviceType.STATIC: "static",
    }
)


def kind_of(pool: PoolSpec) -> str:
    """Return vendor and class, which all pools of one prefix and type share."""
    return f"{pool.prefix}/{_CLASSES[pool.type]}"


def qualified_name(pool: PoolSpec, id_: str) -> str:
    """Return the full name of a device."""
    return f"{kind_of(pool)}={id_}"


def specification_name(pool: PoolSpec) -> str:
    """Return the name of a pool's file."""
    return f"{_FILES}-{pool.prefix}-{_CLASSES[pool.type]}-{pool.name}.yaml"


def specification(pool: PoolSpec, devices: Mapping[str, Description]) -> str:
    """Return the text of a pool's file."""
    from numakube.api.yaml_text import dump_yaml  # only plugins that use CDI need it

    return dump_yaml(
        {
            "cdiVersion": CDI_VERSION,
            "kind": kind_of(pool),
            "devices": [
                {"name": id_, "containerEdits": cdi_edits(description.nodes, description.mounts)}
                for id_, description in devices.items()
            ],
        }
    )


def write_specification(folder: Path, pool: PoolSpec, devices: Mapping[str, Description]) -> None:
    """Bring a pool's file up to date; one without devices is removed.

    Raises:
        OSError: it cannot be written.
    """
    path = folder / specification_name(pool)
    if not devices:
        path.unlink(missing_ok=True)
        return
    text = specification(pool, devices)
    if not _says(path, text):
        replace_file(path, text, mode=0o644)


def remove_other_specifications(folder: Path, pools: Iterable[PoolSpec]) -> None:
    """Remove the files of pools that are not configured any more.

    Raises:
        OSError: they cannot be removed.
    """
    keep = {specification_name(pool) for pool in pools}
    for path in folder.glob(f"{_FILES}-*.yaml"):
        if path.name not in keep:
            path.unlink(missing_ok=True)


def replace_file(path: Path, text: str, *, mode: int) -> None:
    """Write a file as a whole: half of it is never visible.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.write_text(text, encoding="utf-8")
    temporary.chmod(mode)
    temporary.replace(path)


def _says(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False
