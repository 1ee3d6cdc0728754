"""Keeping one pool registered with the kubelet, whatever happens to either of them.

There are two ways to register. The kubelet's ``Register`` call is up to us: after every restart of
the kubelet, which also removes our socket. In the folder ``plugins_registry`` the kubelet finds our
socket by itself, also after its restarts. In both a stream of devices that ends is never opened
again by the kubelet, so one that has been missing for a while makes us start over.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog

from numakube.kube.clock import Backoff
from numakube.node.device_plugin.plugin_protocol import (
    KUBELET_SOCKET,
    DevicePluginError,
    PluginServer,
)
from numakube.node.device_plugin.plugin_registration import PluginInfo, RegistryRegistrant

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path
    from random import Random

    from numakube.kube import Clock
    from numakube_sriov.metrics import SriovMetrics
    from numakube_sriov.pool_plugin import PoolPlugin

CHECK_SECONDS: Final = 2.0
"""How often to look whether sockets and stream are still there."""

STREAM_PATIENCE: Final = 10.0
"""How long the kubelet may go without following our devices."""

_RETRY_SECONDS: Final = 0.5
_LONGEST_RETRY_SECONDS: Final = 30.0
_LONGEST_PATH: Final = 107
"""Bytes of a socket's path that Linux can take."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()

_Identity: TypeAlias = tuple[int, int, int]


class Way(StrEnum):
    """How to register."""

    AUTO = "auto"
    REGISTER = "register"
    REGISTRY = "registry"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletFolders:
    """Where the kubelet takes plugins.

    Attributes:
        device_plugins: where it serves ``Register`` and expects our sockets.
        registry: where it finds sockets by itself.
        way: which of the two to use; by itself, the registry if it exists.
        patience: seconds that the kubelet may go without following our devices.
    """

    device_plugins: Path
    registry: Path
    way: Way = Way.AUTO
    patience: float = STREAM_PATIENCE

    @property
    def uses_registry(self) -> bool:
        """Whether the kubelet is to find our sockets."""
        return self.way is Way.REGISTRY or (self.way is Way.AUTO and self.registry.is_dir())

    @property
    def kubelet_socket(self) -> Path:
        """Where to call ``Register``."""
        return self.device_plugins / KUBELET_SOCKET


class PoolSocket:
    """The socket of one pool.

    Attributes:
        trouble: why the kubelet does not follow the pool's devices; empty if it does.
    """

    def __init__(
        self,
        plugin: PoolPlugin,
        folders: KubeletFolders,
        *,
        clock: Clock,
        rng: Random,
        metrics: SriovMetrics,
        news: asyncio.Event,
    ) -> None:
        """Prepare an endpoint; `run` it.

        Args:
            plugin: the pool.
            folders: where the kubelet takes plugins.
            clock: for pauses.
            rng: spreads pauses.
            metrics: counts registrations.
            news: set when the kubelet's socket has changed.
        """
        self._plugin = plugin
        self._folders = folders
        self._clock = clock
        self._metrics = metrics
        self._news = news
        self._backoff = Backoff(base=_RETRY_SECONDS, cap=_LONGEST_RETRY_SECONDS, rng=rng)
        self._resource = plugin.pool.resource
        registrant = None
        folder = folders.device_plugins
        if folders.uses_registry:
            folder = folders.registry
            registrant = RegistryRegistrant(PluginInfo(name=self._resource), self._told)
        self.socket = folder / f"{plugin.pool.prefix}_{plugin.pool.name}.sock"
        self._by_kubelet = registrant is not None
        self._server = PluginServer(
            plugin,
            resource=self._resource,
            socket=self.socket,
            registrant=registrant,
            on_watch=news.set,
        )
        self._own: _Identity | None = None
        self._kubelet: _Identity | None = None
        self._is_registered = False
        # When to start over if the kubelet does not follow our devices by then.
        self._again_at: float | None = None
        self._show("not registered yet")

    async def run(self) -> None:
        """Serve and keep registered until cancelled."""
        try:
            while True:
                await self._check()
                await self._wait(self._pause())
        finally:
            self._plugin.serve(on=False)
            await self._server.stop()
            self._show("stopped")

    async def _check(self) -> None:
        """Bring everything in order that is not."""
        if self._own is None or _identity(self.socket) != self._own:
            await self._serve()
        if not self._by_kubelet and not self._is_registered:
            await self._register()
        elif not self._by_kubelet and _identity(self._folders.kubelet_socket) != self._kubelet:
            # Another kubelet, or none.
            self._is_registered = False
            await self._register()
        self._look_at_stream()
        if self._is_due():
            _log.warning("registering_again", resource=self._resource, why=self.trouble)
            await self._serve()
            if not self._by_kubelet:
                await self._register()

    async def _serve(self) -> None:
        """Make the socket, again if it was there."""
        self._own, self._is_registered, self._again_at = None, False, None
        try:
            _check_length(self.socket)
            await self._server.stop()
            self.socket.parent.mkdir(parents=True, exist_ok=True)
            await self._server.start()
        except (OSError, DevicePluginError) as error:
            self._fail(str(error))
            return
        self._own = _identity(self.socket)
        # The kubelet's first words about the devices make exporters look.
        self._plugin.serve(on=True)
        _log.debug("endpoint_serving", resource=self._resource, socket=str(self.socket))

    async def _register(self) -> None:
        if self._own is None:
            return
        kubelet = _identity(self._folders.kubelet_socket)
        try:
            await self._server.announce(self._folders.kubelet_socket)
        except DevicePluginError as error:
            self._fail(str(error))
            return
        self._kubelet = kubelet
        self._succeed()

    def _told(self, why_not: str) -> None:
        """Take what the kubelet says that has found our socket."""
        if why_not:
            self._fail(why_not)
            # It asks again when it finds another socket in the place of this one.
            self._again_at = self._clock.monotonic() + self._backoff.next()
        else:
            self._succeed()

    def _succeed(self) -> None:
        self._is_registered = True
        self._plugin.serve(on=True)
        self._again_at = None
        self._metrics.registration(self._resource, done=True)
        _log.info("registered", resource=self._resource, socket=self.socket.name)

    def _fail(self, why: str) -> None:
        self._is_registered = False
        self._plugin.serve(on=False)
        self._metrics.registration(self._resource, done=False)
        if why != self.trouble:
            _log.warning("registration_failed", resource=self._resource, why=why)
        self._show(why)

    def _look_at_stream(self) -> None:
        if self._server.watchers:
            self._again_at = None
            self._backoff.reset()
            self._show("")
        elif self._is_registered and self._again_at is None:
            self._again_at = self._clock.monotonic() + self._folders.patience
            self._show("the kubelet does not follow the devices")

    def _is_due(self) -> bool:
        """Tell whether it is time to start over."""
        return self._again_at is not None and self._clock.monotonic() >= self._again_at

    def _pause(self) -> float:
        has_failed = self._own is None or not (self._by_kubelet or self._is_registered)
        return self._backoff.next() if has_failed else min(CHECK_SECONDS, self._folders.patience)

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(seconds):
                await self._news.wait()
        self._news.clear()

    def _show(self, trouble: str) -> None:
        self.trouble = trouble
        self._metrics.show_registered(self._resource, registered=not trouble)


def _check_length(socket: Path) -> None:
    if len(str(socket).encode()) > _LONGEST_PATH:
        raise DevicePluginError(
            f"{socket}: too long for a unix socket (at most {_LONGEST_PATH} bytes)"
        )


def _identity(path: Path) -> _Identity | None:
    """Return what tells one socket from another of the same name."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns
