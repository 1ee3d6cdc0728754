"""A node's unix sockets: PodResources and the registration of device plugins.

    <folder>/pod-resources/kubelet.sock
    <folder>/device-plugins/kubelet.sock
    <folder>/plugins_registry/...        where plugins put sockets that the kubelet finds

The first two come and go with the kubelet's process. When it starts, every socket in the plugins'
folder is removed, which is how plugins notice that they have to register again. The registry is
left as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.errors import ConfigError
from numakube.node.device_plugin.plugin_protocol import KUBELET_SOCKET, RegistrationServer
from numakube.node.podresources_server import PodResourcesServer
from numakube_lab.nodes.device_plugins import DevicePlugins
from numakube_lab.nodes.plugin_watcher import FOLDER as REGISTRY
from numakube_lab.nodes.plugin_watcher import PluginRegistry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numakube.kube.clock import Clock
    from numakube.node.podresources_server import PodResourcesSource
    from numakube_lab.nodes.folder_watch import FolderWatch
    from numakube_lab.nodes.kubelet_admission import Admission

POD_RESOURCES: Final = "pod-resources"
DEVICE_PLUGINS: Final = "device-plugins"
_LONGEST_PATH: Final = 107
"""Bytes of a socket's path that Linux can take."""


class NodeSockets:
    """The sockets of one node."""

    def __init__(
        self, folder: Path, *, clock: Clock, watch: FolderWatch, changed: Callable[[], None]
    ) -> None:
        """Prepare sockets.

        Args:
            folder: where they are.
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

    def attach(self, admission: Admission) -> DevicePlugins:
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
            self.registry, self._plugins, clock=self._clock, watch=self._watch
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

    def _remove_stale_sockets(self) -> None:
        folder = self.registration.parent
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if path.is_socket():
                path.unlink()
