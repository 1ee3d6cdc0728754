"""The kubelet's side of device plugins: who has registered, what they have, what they say.

A plugin that registers is called back, and its devices become resources of the node. When its
stream ends its devices are unhealthy at once, and after five minutes the resource is gone. When a
pod is admitted the plugins are asked which devices go together (if they offer that) and told which
were chosen. Kubernetes' ``pkg/kubelet/cm/devicemanager`` (1.35) does the same.

The kubelet's plugin watcher: it takes up plugins whose sockets it finds in ``plugins_registry``.
A socket that appears is asked who it is, checked, connected and told the outcome; what fails is
tried again later and later. A socket that vanishes takes its plugin with it. The folder is kept
when the kubelet restarts, and what is in it is taken up again, as in Kubernetes'
``pkg/kubelet/pluginmanager`` (1.35).
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog

from numakube.kube import growing
from numakube.kubelet import Rejected, unexpected
from numakube.node.device_plugin import (
    DEVICE_PLUGIN,
    VERSION,
    DevicePluginError,
    PluginClient,
    RegistryClient,
)
from numakube.node.dra_plugin import DRA_PLUGIN
from numakube.values.gotext import go_quote
from numakube.values.resources import is_extended

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from numakube.api.pod import Pod
    from numakube.kube import Clock
    from numakube.kubelet import Device
    from numakube.node.device_plugin import (
        Allocation,
        PluginInfo,
        PluginOptions,
        PluginRegistration,
    )
    from numakube_lab.nodes.dra_plugins import DraDrivers
    from numakube_lab.nodes.kubelet_admission import KubeletAdmission
    from numakube_lab.nodes.node_folder import FolderWatch


GRACE_SECONDS: Final = 300.0
"""How long the resource of a plugin that went away is remembered."""

_ONE_CONNECTION_SINCE: Final = (1, 37)

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Endpoint:
    """A plugin that is connected."""

    client: PluginClient
    options: PluginOptions


class DevicePlugins:
    """The device plugins of one incarnation of a kubelet; also gives pods their resources."""

    def __init__(
        self,
        admission: KubeletAdmission,
        directory: Path,
        *,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        """Begin without any plugin.

        Args:
            admission: where devices are registered.
            directory: where the plugins' sockets are.
            clock: measures how long a plugin has been away.
            changed: called when the node's devices have changed.
        """
        self._admission = admission
        self._directory = directory
        self._clock = clock
        self._changed = changed
        self._endpoints: dict[str, _Endpoint] = {}
        self._devices: dict[str, tuple[Device, ...]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._farewells: dict[str, asyncio.Task[None]] = {}
        # Held while a copy of the model decides in a thread: its devices must not change.
        self._deciding = asyncio.Lock()
        self._allocations: dict[tuple[str, str], tuple[Allocation, ...]] = {}

    async def aclose(self) -> None:
        """Hang up."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for endpoint in self._endpoints.values():
            await endpoint.client.aclose()
        self._endpoints.clear()

    def allocations(self, uid: str, container: str) -> tuple[Allocation, ...]:
        """Return what the plugins said a container needs to use its devices."""
        return self._allocations.get((uid, container), ())

    async def register(self, registration: PluginRegistration) -> None:
        """Take a plugin's announcement: check it, call back, and follow its devices from now on."""
        if registration.version != VERSION:
            raise DevicePluginError(
                f'requested API version "{registration.version}" is not supported by kubelet. '
                f'Supported version is ["{VERSION}"]'
            )
        if not is_extended(registration.resource):
            raise DevicePluginError(f'the ResourceName "{registration.resource}" is invalid')
        await self.connect(registration.resource, self._directory / registration.endpoint)

    async def connect(self, resource: str, socket: Path) -> None:
        """Call a plugin back, and follow its devices from now on.

        Raises:
            DevicePluginError: it does not answer.
        """
        self._refuse_second_connection(resource, socket)
        client = PluginClient(socket)
        try:
            await client.dial()
            # What the announcement says about options is ignored, as the kubelet does.
            options = await client.options()
        except DevicePluginError:
            await client.aclose()
            raise
        self._endpoints[resource] = _Endpoint(client, options)
        self._spawn(self._follow(resource, client))

    def disconnect(self, socket: Path) -> None:
        """Hang up on the plugin behind *socket*, if there is one."""
        for resource, endpoint in tuple(self._endpoints.items()):
            if endpoint.client.socket == socket:
                del self._endpoints[resource]
                self._spawn(self._hang_up(resource, endpoint.client))

    async def align(self, pod: Pod) -> Rejected | None:
        """Give *pod* its resources and tell the plugins, or say why not."""
        before = dict(self._held(pod.metadata.uid))
        try:
            outcome = await self._decide(pod)
        except DevicePluginError as error:
            return _refusal(f"device plugin GetPreferredAllocation rpc failed with err: {error}")
        if isinstance(outcome, Rejected):
            return outcome
        for (container, resource), ids in self._held(pod.metadata.uid):
            if (container, resource) in before:
                continue
            try:
                await self._allocate(pod.metadata.uid, container, resource, ids)
            except DevicePluginError as error:
                return _refusal(str(error))
        return None

    async def prepare(self, pod: Pod) -> str | None:
        """Have the plugins get the pod's devices ready; return what went wrong, if anything."""
        for (_, resource), ids in self._held(pod.metadata.uid):
            endpoint = self._endpoints.get(resource)
            if endpoint is None or not endpoint.options.pre_start_required:
                continue
            try:
                await endpoint.client.pre_start(ids)
            except DevicePluginError as error:
                return f"device plugin PreStartContainer rpc failed with err: {error}"
        return None

    def forget(self, uid: str) -> None:
        """Drop what the plugins said about a pod that is gone."""
        for key in [key for key in self._allocations if key[0] == uid]:
            del self._allocations[key]

    async def _decide(self, pod: Pod) -> object:
        """Ask the model; in a thread, on a copy, if it may have to ask a plugin in between."""
        if not any(endpoint.options.preferred_allocation for endpoint in self._endpoints.values()):
            return self._admission.align(pod)
        async with self._deciding:
            model = self._admission.model.clone()
            self._admission.deciding = model
            try:
                outcome = await asyncio.to_thread(model.admit, pod)
            finally:
                self._admission.deciding = None
            self._admission.adopt(model)
            return outcome

    async def _allocate(self, uid: str, container: str, resource: str, ids: Sequence[str]) -> None:
        if resource not in self._devices:
            return  # the machine's own: no plugin has ever registered it
        endpoint = self._endpoints.get(resource)
        if endpoint is None:
            raise DevicePluginError(f"unknown Device Plugin {resource}")
        answer = await endpoint.client.allocate(ids)
        key = uid, container
        self._allocations[key] = (*self._allocations.get(key, ()), answer)

    def _held(self, uid: str) -> Iterator[tuple[tuple[str, str], tuple[str, ...]]]:
        containers = self._admission.model.devices.assignments.get(uid, {})
        for container, held in list(containers.items()):
            for resource, ids in list(held.items()):
                yield (container, resource), ids

    async def _follow(self, resource: str, client: PluginClient) -> None:
        """Mirror a plugin's devices until its stream ends."""
        try:
            async with contextlib.aclosing(client.watch()) as lists:
                async for devices in lists:
                    if self._is_current(resource, client):
                        await self._replace(resource, devices)
        except DevicePluginError as error:
            _log.info("device_plugin_ended", resource=resource, error=str(error))
        finally:
            await client.aclose()
        if self._is_current(resource, client):
            del self._endpoints[resource]
            await self._lose(resource)

    async def _hang_up(self, resource: str, client: PluginClient) -> None:
        await client.aclose()
        if resource not in self._endpoints:
            await self._lose(resource)

    async def _replace(self, resource: str, devices: tuple[Device, ...]) -> None:
        farewell = self._farewells.pop(resource, None)
        if farewell is not None:
            farewell.cancel()
        await self._set(resource, devices)

    async def _lose(self, resource: str) -> None:
        """Take the devices of a plugin for unhealthy that went away; drop them after a while."""
        gone = tuple(replace(device, healthy=False) for device in self._devices.get(resource, ()))
        await self._set(resource, gone)
        self._farewells[resource] = self._spawn(self._drop_later(resource))

    async def _drop_later(self, resource: str) -> None:
        await self._clock.sleep(GRACE_SECONDS)
        async with self._deciding:
            self._farewells.pop(resource, None)
            self._devices.pop(resource, None)
            self._admission.drop_devices(resource)
        self._changed()

    async def _set(self, resource: str, devices: tuple[Device, ...]) -> None:
        async with self._deciding:
            self._devices[resource] = devices
            self._admission.set_devices(resource, devices, preferred=self._asking(resource))
        self._changed()

    def _asking(self, resource: str) -> Callable[[Sequence[str], Sequence[str], int], list[str]]:
        """Return what the model calls, in its thread, to ask the plugin for its preference."""
        loop = asyncio.get_running_loop()

        def ask(available: Sequence[str], must_include: Sequence[str], size: int) -> list[str]:
            endpoint = self._endpoints.get(resource)
            if endpoint is None or not endpoint.options.preferred_allocation:
                return []
            call = endpoint.client.preferred(available, must_include, size)
            return list(asyncio.run_coroutine_threadsafe(call, loop).result())

        return ask

    def _refuse_second_connection(self, resource: str, socket: Path) -> None:
        known = self._endpoints.get(resource)
        strict = self._admission.model.behaviour.version >= _ONE_CONNECTION_SINCE
        if strict and known is not None and known.client.socket == socket:
            raise DevicePluginError(f"device plugin already connected: {socket}")

    def _is_current(self, resource: str, client: PluginClient) -> bool:
        """Tell whether the resource belongs to this connection: the newest one wins."""
        known = self._endpoints.get(resource)
        return known is not None and known.client is client

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _refusal(text: str) -> Rejected:
    failure = unexpected(text)
    return Rejected(failure.reason, failure.message)


FOLDER: Final = "plugins_registry"
# The kubelet's own times.
_FIRST_RETRY_SECONDS: Final = 0.5
_LONGEST_RETRY_SECONDS: Final = 122.0


_Identity: TypeAlias = tuple[int, int]


class PluginRegistry:
    """The registry of one incarnation of a kubelet."""

    def __init__(
        self,
        folder: Path,
        plugins: DevicePlugins,
        drivers: DraDrivers,
        *,
        clock: Clock,
        watch: FolderWatch,
    ) -> None:
        """Prepare.

        Args:
            folder: where plugins put their sockets.
            plugins: what connects to device plugins.
            drivers: what connects to DRA drivers.
            clock: for pauses between attempts.
            watch: tells when the folder changes.
        """
        self._folder = folder
        self._plugins = plugins
        self._drivers = drivers
        self._clock = clock
        self._watch = watch
        self._known: dict[Path, tuple[_Identity, asyncio.Task[None]]] = {}

    def open(self) -> None:
        """Take up what is there, and what comes."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._watch.add(self._folder, self.look)
        self.look()

    async def aclose(self) -> None:
        """Stop looking; sockets stay where they are."""
        self._watch.remove(self._folder)
        tasks = [task for _, task in self._known.values()]
        self._known.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def look(self) -> None:
        """Compare the sockets in the folder with those that are known."""
        found = dict(_sockets(self._folder))
        for socket, (identity, task) in tuple(self._known.items()):
            if found.get(socket) != identity:
                task.cancel()
                del self._known[socket]
                self._plugins.disconnect(socket)
                self._drivers.disconnect(socket)
        for socket, identity in found.items():
            if socket not in self._known:
                task = asyncio.create_task(self._take_up(socket))
                self._known[socket] = identity, task

    async def _take_up(self, socket: Path) -> None:
        """Register the plugin behind *socket*; try until it works or the socket is gone."""
        failures = 0
        while True:
            client = RegistryClient(socket)
            try:
                await client.dial()
                await self._register(client, socket)
            except DevicePluginError as error:
                _log.info("plugin_refused", socket=socket.name, error=str(error))
            else:
                return
            finally:
                await client.aclose()
            wait = growing(failures, base=_FIRST_RETRY_SECONDS, cap=_LONGEST_RETRY_SECONDS)
            failures += 1
            await self._clock.sleep(wait)

    async def _register(self, client: RegistryClient, socket: Path) -> None:
        info = await client.info()
        try:
            endpoint = Path(info.endpoint) if info.endpoint else socket
            if info.type == DRA_PLUGIN:
                self._drivers.connect(info, socket)
            else:
                _check(info, socket)
                await self._plugins.connect(info.name, endpoint)
        except DevicePluginError as error:
            with contextlib.suppress(DevicePluginError):
                await client.notify(str(error))
            raise
        try:
            await client.notify()
        except DevicePluginError:
            self._plugins.disconnect(endpoint)
            self._drivers.disconnect(socket)
            raise


def _check(info: PluginInfo, socket: Path) -> None:
    """Refuse what a kubelet refuses, in its words."""
    if info.type != DEVICE_PLUGIN:
        raise DevicePluginError(
            "RegisterPlugin error -- no handler registered for plugin type: "
            f"{info.type} at socket {socket}"
        )
    failure = "RegisterPlugin error -- plugin validation failed with err: "
    if VERSION not in info.versions:
        versions = " ".join(info.versions)
        raise DevicePluginError(
            f"{failure}manager version, {VERSION}, is not among plugin supported versions "
            f"[{versions}]"
        )
    if not is_extended(info.name):
        raise DevicePluginError(
            f"{failure}invalid name of device plugin socket: "
            f"the ResourceName {go_quote(info.name)} is invalid"
        )


def _sockets(folder: Path) -> list[tuple[Path, _Identity]]:
    """Return the sockets whose names do not begin with a dot."""
    found = []
    for path in folder.rglob("[!.]*"):
        with contextlib.suppress(OSError):
            if path.is_socket():
                status = path.stat()
                found.append((path, (status.st_ino, status.st_ctime_ns)))
    return found
