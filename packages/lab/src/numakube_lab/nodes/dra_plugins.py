"""The kubelet's side of DRA drivers: who has registered, and whose slices are to go.

A starting kubelet deletes all slices of its node, as it does not know which drivers will be back.
The slices of a driver go when none of its processes has been connected for 30 seconds. Of several
that serve one driver the newest is called. Kubernetes' ``pkg/kubelet/cm/dra/plugin`` (1.35) does
the same.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from numakube.errors import NotFound, NumakubeError
from numakube.kube.catalog import RESOURCE_SLICES
from numakube.node.device_plugin import DevicePluginError
from numakube.node.dra_plugin import VERSIONS, DraPluginClient

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Mapping, Sequence

    from numakube.kube import Client
    from numakube.node.device_plugin import PluginInfo
    from numakube.node.dra_plugin import ClaimRef, Prepared

WIPE_SECONDS: Final = 30.0
"""How long the slices of a driver without a process are kept."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class CalledDriver(Protocol):
    """What a kubelet asks of a driver."""

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, Prepared]:
        """Ready the devices of claims."""

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        """Take back what was readied."""


class DraDrivers:
    """The drivers of one node that have registered with its kubelet."""

    def __init__(self, client: Client, node: str) -> None:
        self._client = client
        self._node = node
        # By driver and the socket in the registry, in the order of registration.
        self._connected: dict[str, dict[Path, DraPluginClient]] = {}
        self._wiping: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def newest(self, driver: str) -> CalledDriver | None:
        """Return the process that is called for a driver."""
        connected = self._connected.get(driver)
        return next(reversed(connected.values())) if connected else None

    def connect(self, info: PluginInfo, registered: Path) -> None:
        """Take up the process whose socket *registered* was found.

        Raises:
            DevicePluginError: it talks no version that is known.
        """
        version = next((version for version in info.versions if version in VERSIONS), None)
        if version is None or not info.endpoint:
            raise DevicePluginError(
                "RegisterPlugin error -- plugin validation failed with err: none of the gRPC "
                f"services is supported: {' '.join(info.versions)}"
            )
        wiping = self._wiping.pop(info.name, None)
        if wiping is not None:
            wiping.cancel()
        client = DraPluginClient(Path(info.endpoint), version)
        self._connected.setdefault(info.name, {})[registered] = client

    def disconnect(self, registered: Path) -> None:
        """Hang up on the process whose socket in the registry is gone."""
        for driver, connected in self._connected.items():
            client = connected.pop(registered, None)
            if client is not None:
                self._spawn(client.aclose())
                if not connected:
                    self._wiping[driver] = self._spawn(self._wipe_later(driver))

    async def wipe(self, driver: str = "", *, spared: Collection[str] = ()) -> None:
        """Delete the slices of *driver*, or of all but those that are *spared*, on this node."""
        fields = f"spec.nodeName={self._node}" + (f",spec.driver={driver}" if driver else "")
        for item in (await self._client.list(RESOURCE_SLICES, fields=fields)).items:
            if item["spec"]["driver"] not in spared:
                try:
                    await self._client.delete(RESOURCE_SLICES, item["metadata"]["name"])
                except NotFound:
                    continue

    async def aclose(self) -> None:
        """Hang up on all."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._wiping.clear()
        for connected in self._connected.values():
            for client in connected.values():
                await client.aclose()
        self._connected.clear()

    async def _wipe_later(self, driver: str) -> None:
        await self._client.clock.sleep(WIPE_SECONDS)
        try:
            await self.wipe(driver)
        except NumakubeError as error:
            _log.warning("slices_not_wiped", driver=driver, error=str(error))

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
