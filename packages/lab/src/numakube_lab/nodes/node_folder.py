"""A node's folder: the files that its kubelet has written, and the sockets that it answers on.

    <folder>/config.yaml
    <folder>/cpu_manager_state
    <folder>/memory_manager_state
    <folder>/allocated_pods_state
    <folder>/device-plugins/kubelet_internal_checkpoint
    <folder>/sys/...            with control groups in sys/fs/cgroup, see `node_cgroups`

A sysfs tree has thousands of files: nothing is written before `NodeFolder.make` is called;
until then the state is kept in memory.

Checkpoints are replaced as a whole (a new file, then a rename), so that a reader never sees half
of one.

Noticing that folders of nodes change, with one inotify instance for all of them. A host has few
inotify instances to give, and a lab has many nodes. Where none is left, folders are looked at
every second instead, by the host's clock: files change in real time.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from numakube.api.checkpoints import CPU_STATE, DEVICE_STATE, MEMORY_STATE
from numakube.api.kubelet_config import with_defaults
from numakube.api.pod_resources import is_sidecar
from numakube.errors import ConfigError
from numakube.kubelet import StateFiles
from numakube.node import (
    AllocatableResources,
    ContainerResources,
    Devices,
    Inotify,
    Memory,
    PodResources,
    PodResourcesServer,
    write_tree,
)
from numakube.node.device_plugin import KUBELET_SOCKET, RegistrationServer
from numakube.node.pci import write_cards
from numakube.values.cpuset import CpuSet
from numakube_lab.nodes.device_plugins import FOLDER as REGISTRY
from numakube_lab.nodes.device_plugins import DevicePlugins, PluginRegistry

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numakube.api.pod import Container, Pod
    from numakube.kube import Clock
    from numakube.kubelet import KubeletNode, MemoryBlock
    from numakube.node import PodResourcesSource
    from numakube_lab.nodes.dra_driver import ClaimedDevices
    from numakube_lab.nodes.dra_plugins import DraDrivers
    from numakube_lab.nodes.kubelet_admission import KubeletAdmission
    from numakube_lab.nodes.node_documents import NodePlan


CONFIG: Final = "config.yaml"
ALLOCATED_STATE: Final = "allocated_pods_state"
SYSFS: Final = "sys"


class NodeFolder:
    """The folder of one node; a kubelet keeps its state there."""

    def __init__(self, path: Path, plan: NodePlan) -> None:
        self.path = path
        self._plan = plan
        self._making: asyncio.Task[None] | None = None
        self._made = False
        self._admission: KubeletAdmission | None = None
        self._saved: tuple[int, int] | None = None
        self._files: StateFiles | None = None
        self._written: dict[str, bytes] = {}

    async def make(self) -> Path:
        """Have the folder written, if it is not yet; return where it is."""
        if not self._made and (self._making is None or self._making.done()):
            self._making = asyncio.create_task(self._make())
        if self._making is not None:
            # The caller may go; others wait for the same files.
            await asyncio.shield(self._making)
        return self.path

    async def remove(self) -> None:
        """Delete the folder, if there is one."""
        if self._making is not None:
            await asyncio.wait([self._making])
        await asyncio.to_thread(shutil.rmtree, self.path, ignore_errors=True)

    def save(self, admission: KubeletAdmission) -> None:
        """Write the checkpoint files that have changed."""
        self._admission = admission
        moment = id(admission), admission.version
        if self._made and moment != self._saved:
            self._write(admission.files())
            self._saved = moment

    def load(self) -> StateFiles | None:
        """Return the checkpoint files; ``None`` if the kubelet has not run here yet."""
        if not self._made:
            return self._files
        self._written.clear()
        files = StateFiles(
            cpu=_read(self.path / CPU_STATE),
            memory=_read(self.path / MEMORY_STATE),
            devices=_read(self.path / DEVICE_STATE),
            allocated=_read(self.path / ALLOCATED_STATE),
        )
        return None if files == StateFiles() else files

    def close(self, admission: KubeletAdmission) -> None:
        """Keep the files as of now; those on disk are written already."""
        self._admission = None
        if not self._made:
            self._files = admission.files()

    def reconfigure(self, plan: NodePlan) -> None:
        """Exchange the configuration, and remove the state that a kubelet would refuse with it."""
        self._plan = plan
        self._files = without_managers(self._files)
        self._saved = None
        if self._made:
            _replace(self.path / CONFIG, msgspec.yaml.encode(with_defaults(plan.config)))
            for name in (CPU_STATE, MEMORY_STATE):
                (self.path / name).unlink(missing_ok=True)

    async def _make(self) -> None:
        await asyncio.to_thread(self._prepare)
        self._made = True
        files = self._files if self._admission is None else self._admission.files()
        self._write(files or StateFiles())

    def _prepare(self) -> None:
        """Write what does not change: configuration and sysfs."""
        plan = self._plan
        self.path.mkdir(parents=True, exist_ok=True)
        _replace(self.path / CONFIG, msgspec.yaml.encode(with_defaults(plan.config)))
        write_tree(plan.machine, self.path / SYSFS)
        if plan.virtual_functions:
            nodes = [node.id for node in plan.machine.nodes]
            write_cards(self.path / SYSFS, nodes, virtual_functions=plan.virtual_functions)

    def _write(self, files: StateFiles) -> None:
        for name, content in (
            (CPU_STATE, files.cpu),
            (MEMORY_STATE, files.memory),
            (DEVICE_STATE, files.devices),
            (ALLOCATED_STATE, files.allocated),
        ):
            if content is not None and self._written.get(name) != content:
                _replace(self.path / name, content)
                self._written[name] = content


def without_managers(files: StateFiles | None) -> StateFiles | None:
    """Return checkpoint files without those of the CPU and the Memory Manager."""
    return None if files is None else replace(files, cpu=None, memory=None)


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


Changed: TypeAlias = Callable[[], None]

POLL_SECONDS: Final = 1.0


class FolderWatch:
    """Watches folders that exist."""

    def __init__(self, *, inotify: bool = True) -> None:
        self._wants_inotify = inotify
        self._inotify: Inotify | None = None
        self._polling: asyncio.Task[None] | None = None
        self._folders: dict[Path, Changed] = {}

    def add(self, folder: Path, changed: Changed) -> None:
        """Call *changed* whenever something in *folder* may have changed."""
        self._folders[folder] = changed
        if self._inotify is None and self._polling is None:
            self._begin()
        if self._inotify is not None and not self._inotify.watch(folder):
            self._fall_back()

    def remove(self, folder: Path) -> None:
        """Stop watching a folder."""
        self._folders.pop(folder, None)

    async def aclose(self) -> None:
        """Stop watching altogether."""
        self._folders.clear()
        self._end_inotify()
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
            self._polling = None

    def _begin(self) -> None:
        self._inotify = Inotify.open() if self._wants_inotify else None
        if self._inotify is None:
            self._fall_back()
        else:
            loop = asyncio.get_running_loop()
            loop.add_reader(self._inotify.fileno(), self._told)

    def _fall_back(self) -> None:
        self._end_inotify()
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll())

    def _end_inotify(self) -> None:
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None

    def _told(self) -> None:
        if self._inotify is None:
            return
        touched: set[Path] = set()
        for change in self._inotify.changes():
            touched |= self._folders.keys() if change is None else {change[0]}
        self._tell(touched)

    def _tell(self, touched: set[Path]) -> None:
        for folder in touched & self._folders.keys():
            self._folders[folder]()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            self._tell(set(self._folders))


# A node's unix sockets: PodResources and the registration of device plugins.
#
#     <folder>/pod-resources/kubelet.sock
#     <folder>/device-plugins/kubelet.sock
#     <folder>/plugins_registry/...        where plugins put sockets that the kubelet finds
#
# The first two come and go with the kubelet's process. When it starts, every socket in the plugins'
# folder is removed, which is how plugins notice that they have to register again. The registry is
# left as it is.
#
# What a node's pods hold, in the words of the PodResources API (v1).


POD_RESOURCES: Final = "pod-resources"
DEVICE_PLUGINS: Final = "device-plugins"
_LONGEST_PATH: Final = 107
"""Bytes of a socket's path that Linux can take."""


class NodeSockets:
    """The sockets of one node."""

    def __init__(
        self,
        folder: Path,
        drivers: DraDrivers,
        *,
        clock: Clock,
        watch: FolderWatch,
        changed: Callable[[], None],
    ) -> None:
        """Prepare sockets.

        Args:
            folder: where they are.
            drivers: takes up DRA drivers.
            clock: the kubelet's clock.
            watch: tells when plugins come to the registry.
            changed: called when the node's devices change.

        Raises:
            ConfigError: the folder's path is too long for sockets in it.
        """
        self.pod_resources = folder / POD_RESOURCES / KUBELET_SOCKET
        self.registration = folder / DEVICE_PLUGINS / KUBELET_SOCKET
        self.registry = folder / REGISTRY
        for path in (self.pod_resources, self.registration):
            if len(str(path).encode()) > _LONGEST_PATH:
                raise ConfigError(
                    f"{path}: too long for a unix socket (at most {_LONGEST_PATH} bytes); choose a "
                    "shorter folder for the lab's nodes"
                )
        self.drivers = drivers
        self._clock = clock
        self._changed = changed
        self._watch = watch
        self._plugins: DevicePlugins | None = None
        self._found: PluginRegistry | None = None
        self._servers: tuple[PodResourcesServer, RegistrationServer] | None = None

    @property
    def plugins(self) -> DevicePlugins | None:
        """The plugins of the present incarnation of the kubelet."""
        return self._plugins

    def attach(self, admission: KubeletAdmission) -> DevicePlugins:
        """Begin a new incarnation of the kubelet; return what asks its plugins."""
        folder = self.registration.parent
        self._plugins = DevicePlugins(admission, folder, clock=self._clock, changed=self._changed)
        return self._plugins

    async def open(self, source: PodResourcesSource) -> None:
        """Serve; *source* says what is held."""
        if self._plugins is None:
            raise RuntimeError("attach a kubelet before its sockets are opened")
        self._remove_stale_sockets()
        pod_resources = PodResourcesServer(source, self.pod_resources, clock=self._clock.monotonic)
        registration = RegistrationServer(self._plugins.register, self.registration)
        # Kept before they start: a lab that ends meanwhile stops what has started.
        self._servers = pod_resources, registration
        await pod_resources.start()
        await registration.start()
        self._found = PluginRegistry(
            self.registry, self._plugins, self.drivers, clock=self._clock, watch=self._watch
        )
        self._found.open()

    async def close(self) -> None:
        """Stop serving and hang up on the plugins."""
        found, self._found = self._found, None
        if found is not None:
            await found.aclose()
        servers, self._servers = self._servers, None
        for server in servers or ():
            await server.stop()
        plugins, self._plugins = self._plugins, None
        if plugins is not None:
            await plugins.aclose()
        await self.drivers.aclose()

    def _remove_stale_sockets(self) -> None:
        folder = self.registration.parent
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if path.is_socket():
                path.unlink()


def pod_resources(
    model: KubeletNode, pods: Iterable[Pod], claims: ClaimedDevices | None = None
) -> tuple[PodResources, ...]:
    """Return what each of the active *pods* holds."""
    return tuple(_pod(model, pod, claims) for pod in pods)


def allocatable_resources(model: KubeletNode) -> AllocatableResources:
    """Return what an empty node could give out: healthy devices, CPUs less the reserved, memory."""
    devices = model.devices
    return AllocatableResources(
        cpu_ids=tuple(CpuSet(model.cpus.allocatable)) if model.cpus else (),
        memory=tuple(
            Memory(kind, table.allocatable, (number,))
            for number, books in (model.memory.books if model.memory else {}).items()
            for kind, table in books.tables.items()
            if table.allocatable
        ),
        devices=tuple(
            entry
            for resource in devices.resources()
            for device in sorted(devices.healthy(resource))
            for entry in _device(model, resource, device)
        ),
    )


def _pod(model: KubeletNode, pod: Pod, claims: ClaimedDevices | None) -> PodResources:
    sidecars = [container for container in pod.spec.init_containers if is_sidecar(container)]
    uid = pod.metadata.uid
    return PodResources(
        name=pod.metadata.name,
        namespace=pod.metadata.namespace,
        containers=tuple(
            _container(model, pod, sidecar, claims) for sidecar in (*sidecars, *pod.spec.containers)
        ),
        cpu_ids=tuple(CpuSet(model.cpus.bubbles.get(uid, 0))) if model.cpus else (),
        memory=_memory(model.memory.bubbles.get(uid, ())) if model.memory else (),
    )


def _container(
    model: KubeletNode, pod: Pod, container: Container, claims: ClaimedDevices | None
) -> ContainerResources:
    held = model.placement(pod.metadata.uid, container.name)
    return ContainerResources(
        name=container.name,
        cpu_ids=tuple(held.cpus),
        memory=_memory(held.memory),
        devices=tuple(
            entry
            for resource, ids in held.devices.items()
            for device in ids
            for entry in _device(model, resource, device)
        ),
        dynamic_resources=claims.of_container(pod, container) if claims else (),
    )


def _memory(blocks: Iterable[MemoryBlock]) -> tuple[Memory, ...]:
    return tuple(Memory(block.type, block.size_bytes, block.numa_nodes) for block in blocks)


def _device(model: KubeletNode, resource: str, device: str) -> Iterable[Devices]:
    """Yield one entry for each NUMA node of a device, or one without any."""
    nodes = model.devices.numa_nodes_of(resource, device)
    if not nodes:
        yield Devices(resource, (device,))
    for number in nodes:
        yield Devices(resource, (device,), (number,))
