"""Device plugins without devices: a name, ids and NUMA places, registered with a real kubelet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from numakube.kubelet.machine import Device
from numakube.node.device_plugin.plugin_messages import Allocation, PluginOptions
from numakube.node.device_plugin.plugin_protocol import (
    KUBELET_SOCKET,
    DevicePluginError,
    PluginServer,
)
from numakube.testing import elapse

_LOOK_SECONDS: Final = 0.2


class _Plugin:
    """Gives out what it has, without a preference."""

    options = PluginOptions()

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = devices

    async def watch(self) -> AsyncIterator[Sequence[Device]]:
        yield self._devices
        await asyncio.Event().wait()

    async def allocate(self, ids: Sequence[str]) -> Allocation:
        return Allocation(envs={"DEVICES": ",".join(sorted(ids))})

    async def preferred(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        raise DevicePluginError("has no preference")

    async def pre_start(self, ids: Sequence[str]) -> None:
        return None


@dataclass(slots=True)
class FakePlugins:
    """The device plugins of one node; each kubelet that comes up hears of them.

    Attributes:
        folder: the kubelet's folder of device plugins.
        devices: what they offer by resource name.
    """

    folder: Path
    devices: Mapping[str, Sequence[Device]]
    _servers: list[PluginServer] = field(default_factory=list)
    _task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Serve, and register with whatever kubelet is there, now and later."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """End them all."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        await self._hang_up()

    async def _run(self) -> None:
        known = None
        while True:
            found = _identity(self.folder / KUBELET_SOCKET)
            if found is not None and found != known:
                with contextlib.suppress(DevicePluginError):
                    await self._register()
                    known = found
            await elapse(_LOOK_SECONDS)

    async def _register(self) -> None:
        """Serve again: a kubelet removes the sockets that it finds when it starts."""
        await self._hang_up()
        for number, (resource, devices) in enumerate(self.devices.items()):
            socket = self.folder / f"fake-{number}.sock"
            server = PluginServer(_Plugin(devices), resource=resource, socket=socket)
            await server.start()
            self._servers.append(server)
            await server.announce(self.folder / KUBELET_SOCKET)

    async def _hang_up(self) -> None:
        while self._servers:
            await self._servers.pop().stop()


def _identity(socket: Path) -> tuple[int, int] | None:
    try:
        status = socket.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_ctime_ns
