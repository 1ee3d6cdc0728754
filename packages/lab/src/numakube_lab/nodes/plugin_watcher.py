"""The kubelet's plugin watcher: it takes up plugins whose sockets it finds in ``plugins_registry``.

A socket that appears is asked who it is, checked, connected and told the outcome; what fails is
tried again later and later. A socket that vanishes takes its plugin with it. The folder is kept
when the kubelet restarts, and what is in it is taken up again,
as in Kubernetes' ``pkg/kubelet/pluginmanager`` (1.35).
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog

from numakube.kube.clock import growing
from numakube.node.device_plugin.plugin_messages import VERSION
from numakube.node.device_plugin.plugin_protocol import DevicePluginError
from numakube.node.device_plugin.plugin_registration import DEVICE_PLUGIN, RegistryClient
from numakube.values.gotext import go_quote
from numakube.values.resources import is_extended

if TYPE_CHECKING:
    from numakube.kube.clock import Clock
    from numakube.node.device_plugin.plugin_registration import PluginInfo
    from numakube_lab.nodes.device_plugins import DevicePlugins
    from numakube_lab.nodes.folder_watch import FolderWatch

FOLDER: Final = "plugins_registry"
# The kubelet's own times.
_FIRST_RETRY_SECONDS: Final = 0.5
_LONGEST_RETRY_SECONDS: Final = 122.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

_Identity: TypeAlias = tuple[int, int]


class PluginRegistry:
    """The registry of one incarnation of a kubelet."""

    def __init__(
        self, folder: Path, plugins: DevicePlugins, *, clock: Clock, watch: FolderWatch
    ) -> None:
        """Prepare.

        Args:
            folder: where plugins put their sockets.
            plugins: what connects to them.
            clock: for pauses between attempts.
            watch: tells when the folder changes.
        """
        self._folder = folder
        self._plugins = plugins
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
            _check(info, socket)
            endpoint = Path(info.endpoint) if info.endpoint else socket
            await self._plugins.connect(info.name, endpoint)
        except DevicePluginError as error:
            with contextlib.suppress(DevicePluginError):
                await client.notify(str(error))
            raise
        try:
            await client.notify()
        except DevicePluginError:
            self._plugins.disconnect(endpoint)
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
