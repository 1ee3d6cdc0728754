"""What a container sees as its file system: a folder, with volumes at their mount paths below it.

    <pods>/<uid>/volumes/<volume>/...
    <pods>/<uid>/containers/<container>/<mount path> -> a volume, or a path of the node

A mount is a symbolic link. Paths of the node lead into the lab node's own folder, where
``/var/lib/kubelet`` and ``/sys`` are what its kubelet keeps; other paths are folders of their own.
What a mount covers of a path of the node stays to be seen.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from numakube.kube.connection.cluster_config import SERVICE_ACCOUNT
from numakube.values.cpuset import CpuSet
from numakube_lab.processes.container_tasks import CannotStart
from numakube_lab.processes.container_variables import expand
from numakube_lab.processes.full_pod_spec import Mount
from numakube_lab.processes.volume_folders import ACCOUNT_VOLUME, files_of, write_files

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from numakube.api.pod import HostPathVolumeSource
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube_lab.processes.config_sources import Sources
    from numakube_lab.processes.full_pod_spec import (
        MountedVolume,
        RunnableContainer,
        RunnablePod,
    )

_HOST: Final = "host"
_KUBELET: Final = "var/lib/kubelet"
_SYSFS: Final = "sys"
ACCOUNT_PATH: Final = SERVICE_ACCOUNT.as_posix()


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """The file systems of the lab's nodes, below the folder in which each has one.

    Attributes:
        make: has a path of a node written; called before it can be seen.
    """

    root: Path
    make: Callable[[str, str], Awaitable[None]]

    def path(self, node: str, path: str) -> Path:
        """Return where a node's *path* is."""
        folder = self.root / node
        host = folder / _HOST
        if not host.is_dir():
            (host / _KUBELET).parent.mkdir(parents=True)
            (host / _KUBELET).symlink_to(folder.resolve())
            (folder / _SYSFS).mkdir(exist_ok=True)
            (host / _SYSFS).symlink_to((folder / _SYSFS).resolve())
        return (host / path.lstrip("/")).resolve()


class PodFiles:
    """The volumes of one pod, and the file systems of its containers."""

    def __init__(self, folder: Path, nodes: NodeFiles) -> None:
        self._folder = folder
        self._nodes = nodes
        self._homes: dict[str, Path] = {}

    async def refresh(self, pod: RunnablePod, sources: Sources) -> None:
        """Make the volumes that are missing, and bring files up to date.

        Raises:
            CannotStart: something that they refer to is missing.
        """
        volumes = list(pod.spec.volumes)
        if await sources.mounts_token(pod):
            volumes.append(ACCOUNT_VOLUME)
        for volume in volumes:
            if volume.host_path is not None:
                await self._nodes.make(pod.spec.node_name, volume.host_path.path)
            files = await files_of(pod, volume, sources)
            if files is None:
                self._homes[volume.name] = self._folder_of(pod, volume)
            else:
                home = self._homes[volume.name] = self._volume(volume.name)
                write_files(home, files)

    def build(self, pod: RunnablePod, container: RunnableContainer, env: Mapping[str, str]) -> Path:
        """Return the root of a fresh file system for a container."""
        root = self._folder / "containers" / container.name
        if root.exists():
            shutil.rmtree(root)
        (root / "tmp").mkdir(parents=True)
        for mount in sorted(self._mounts(container), key=lambda one: one.mount_path.count("/")):
            sub_path = mount.sub_path or expand(mount.sub_path_expr, env)
            self._mount(root / mount.mount_path.strip("/"), mount.name, sub_path)
        return root

    def remove(self) -> None:
        """Delete everything but what belongs to the node."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _mounts(self, container: RunnableContainer) -> Iterable[Mount]:
        yield from container.volume_mounts
        taken = {mount.mount_path.strip("/") for mount in container.volume_mounts}
        if ACCOUNT_VOLUME.name in self._homes and ACCOUNT_PATH not in taken:
            yield Mount(name=ACCOUNT_VOLUME.name, mount_path=ACCOUNT_PATH)

    def _mount(self, point: Path, volume: str, sub_path: str) -> None:
        home = self._homes[volume]
        source = home / sub_path if sub_path else home
        if not source.exists():
            source.mkdir(parents=True)
        if not point.parent.resolve().is_relative_to(self._folder.resolve()):
            return  # On top of a folder of the node a link would be left on the node itself.
        point.parent.mkdir(parents=True, exist_ok=True)
        if not point.exists():
            point.symlink_to(source.absolute())

    def _folder_of(self, pod: RunnablePod, volume: MountedVolume) -> Path:
        """Return the folder of a volume that does not consist of given files."""
        if volume.host_path is not None:
            return self._host_path(pod.spec.node_name, volume.name, volume.host_path)
        if volume.empty_dir is None:
            raise CannotStart.unmounted(volume.name, "the lab cannot mount volumes of this kind")
        home = self._volume(volume.name)
        home.mkdir(parents=True, exist_ok=True)
        return home

    def _host_path(self, node: str, volume: str, source: HostPathVolumeSource) -> Path:
        path, type_ = self._nodes.path(node, source.path), source.type or ""
        if type_ in ("", "DirectoryOrCreate") and not path.exists():
            path.mkdir(parents=True)
        elif type_ == "FileOrCreate" and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        check = _HOST_PATH_CHECKS.get(type_)
        if check is not None and not check[1](path):
            message = f"hostPath type check failed: {source.path} is not a {check[0]}"
            raise CannotStart.unmounted(volume, message)
        return path

    def _volume(self, name: str) -> Path:
        return self._folder / "volumes" / name


def show_machine(root: Path, sysfs: Path) -> None:
    """Let a container see its node's ``/sys``, unless something is mounted there."""
    point = root / _SYSFS
    if not point.exists():
        point.symlink_to(sysfs)


def show_status(root: Path, model: KubeletNode, uid: str, container: str) -> None:
    """Write what the kernel would say of the container's CPUs and memory nodes."""
    held = model.placement(uid, container)
    everywhere = [node.id for node in model.machine.nodes if node.memory_bytes]
    bound = {node for block in held.memory for node in block.numa_nodes}
    status = root / "proc" / "self" / "status"
    status.parent.mkdir(parents=True, exist_ok=True)
    status.write_text(
        f"Cpus_allowed_list:\t{held.cpus or model.shared_cpus}\n"
        f"Mems_allowed_list:\t{CpuSet.of(bound or everywhere)}\n",
        encoding="ascii",
    )


_HOST_PATH_CHECKS: Final[Mapping[str, tuple[str, Callable[[Path], bool]]]] = {
    "Directory": ("directory", Path.is_dir),
    "DirectoryOrCreate": ("directory", Path.is_dir),
    "File": ("file", Path.is_file),
    "FileOrCreate": ("file", Path.is_file),
    "Socket": ("socket file", Path.is_socket),
    "CharDevice": ("character device", Path.is_char_device),
    "BlockDevice": ("block device", Path.is_block_device),
}
