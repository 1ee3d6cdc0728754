"""The driver under one of its names: what answers the kubelet there, and the slices.

With ``--compatible`` a process has two of them, one for CPUs and one for everything else. They
share the ledger and what confines pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from numakube.errors import ConfigError
from numakube.kube import Reflector, Removed
from numakube.node.device_plugin.plugin_protocol import DevicePluginError
from numakube.node.dra_plugin import LONGEST_PATH, DraPluginServer
from numakube_dra_driver.cdi import CdiFiles
from numakube_dra_driver.device_health import SAY_SECONDS, device_health
from numakube_dra_driver.device_metadata import MetadataFiles, NetworkInfoFiles
from numakube_dra_driver.devices import DRIVER
from numakube_dra_driver.ledger import Disk
from numakube_dra_driver.preparing import Preparer
from numakube_dra_driver.slices import SLICES, SlicePublisher

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
    from pathlib import Path

    from numakube.api.resource_slices import Device, ResourceSlice
    from numakube.kube import Change, Client
    from numakube.node.dra_plugin import ClaimRef, DeviceHealth, Prepared
    from numakube_dra_driver.confinement import ClaimConfinement
    from numakube_dra_driver.identity import Identity
    from numakube_dra_driver.ledger import Ledger
    from numakube_dra_driver.metrics import DraCpuMetrics, DraMetrics
    from numakube_dra_driver.offer import Offer
    from numakube_dra_driver.preparing import FunctionSource

GRACE_SECONDS: Final = 5.0
"""How long calls under way may take when the process ends."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Where a driver reads and writes on its node; *plugin* is the folder of each name."""

    cdi: Path
    network_info: Path
    plugin: Callable[[str], Path]
    registry: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What all names of a driver have in common."""

    client: Client
    ledger: Ledger
    confinement: ClaimConfinement
    metrics: DraMetrics
    folders: Folders
    node: str
    pod_uid: str
    offer: Callable[[], Offer]
    news: Callable[[], None]
    functions: FunctionSource | None = None


def own_part(pod_uid: str, folder: Path, driver: str = DRIVER) -> str:
    """Return what names of sockets have of their own in *folder*; shorter if they are too long."""
    if not pod_uid:
        return ""
    name = folder / f"{driver}-{pod_uid}-reg.sock"
    if len(str(name).encode()) <= LONGEST_PATH:
        return f"-{pod_uid}"
    return f"-{hashlib.sha256(pod_uid.encode()).hexdigest()[:8]}"


class NamedDriver:
    """A driver as the kubelet and the API server know it.

    Attributes:
        preparer: prepares claims.
        unregistered: why the kubelet does not call; empty if it does.
    """

    def __init__(
        self, shared: Shared, identity: Identity, *, cpu_metrics: DraCpuMetrics | None = None
    ) -> None:
        driver = identity.driver
        self._shared = shared
        self._driver = driver
        self._changed = asyncio.Event()
        folders, disk = shared.folders, Disk()
        plugin = folders.plugin(driver)
        pools = tuple(self._devices())
        self.preparer = Preparer(
            shared.client,
            shared.ledger,
            CdiFiles(folders.cdi, disk, identity.cdi),
            pools=pools,
            offer=shared.offer,
            metrics=shared.metrics,
            confining=shared.confinement,
            metadata=MetadataFiles(
                driver, disk, folder=plugin, cdi_folder=folders.cdi, devices=self._by_name
            ),
            network_info=NetworkInfoFiles(folders.network_info, disk),
            identity=identity,
            cpu_metrics=cpu_metrics,
            functions=shared.functions,
        )
        self._slices = {
            pool: SlicePublisher(
                shared.client,
                driver=driver,
                node=shared.node,
                pool=pool,
                metrics=shared.metrics,
                siblings=[one for one in pools if one != pool],
            )
            for pool in pools
        }
        fields = next(iter(self._slices.values())).fields
        self._watched: Reflector[ResourceSlice] = Reflector(shared.client, SLICES, fields=fields)
        self._watched.store.subscribe(self._on_slice)
        own = own_part(shared.pod_uid, folders.registry, driver)
        self._server = DraPluginServer(
            self,
            driver=driver,
            socket=plugin / f"dra{own}.sock",
            registration=folders.registry / f"{driver}{own}-reg.sock",
            told=self._told,
        )
        self.unregistered = f"the kubelet has not registered the driver yet ({driver})"

    @property
    def lost(self) -> str:
        """What the API server does not keep of slices; empty if nothing."""
        return next(filter(None, (one.lost for one in self._slices.values())), "")

    async def start(self) -> None:
        """Let the kubelet find the driver.

        Raises:
            ConfigError: the sockets cannot be made.
        """
        try:
            await self._server.start()
        except DevicePluginError as error:
            raise ConfigError(str(error)) from None

    async def stop(self) -> None:
        """Answer nobody any more."""
        await self._server.stop(grace=GRACE_SECONDS)

    def jobs(self) -> list[Coroutine[None, None, None]]:
        """Return what is to run until it is cancelled."""
        return [self._watched.run(), self.preparer.tell()]

    async def publish(self) -> None:
        """Let the slices be as the offer is.

        Raises:
            NumakubeError: the API server does not want them, or does not answer.
        """
        for pool, devices in self._devices().items():
            await self._slices[pool].publish(devices)
        self._tell_health()

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, Prepared]:
        """Ready the devices of each claim."""
        done = await self.preparer.prepare(claims)
        self._tell_health()
        return done

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        """Take back what was readied."""
        done = await self.preparer.unprepare(claims)
        self._tell_health()
        return done

    def function_devices(self) -> tuple[Device, ...]:
        """Return the PCI functions that slices are to have."""
        return self._devices().get(f"{self._shared.node}/pci", ())

    async def watch_health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        """Yield how devices are, at every change and from time to time."""
        clock = self._shared.client.clock
        while True:
            changed = self._changed
            yield self._health()
            with contextlib.suppress(TimeoutError):
                async with clock.timeout(SAY_SECONDS):
                    await changed.wait()

    def _health(self) -> Sequence[DeviceHealth]:
        pools = {one.name: pool for pool, devices in self._devices().items() for one in devices}
        claims = self._shared.ledger.claims.values()
        return device_health(
            self._shared.offer().of(self._driver),
            pools,
            [claim for claim in claims if claim.driver == self._driver],
            seconds=int(self._shared.client.clock.now().timestamp()),
        )

    def _tell_health(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _devices(self) -> dict[str, tuple[Device, ...]]:
        """Return what slices have, by pool."""
        node, offer = self._shared.node, self._shared.offer().of(self._driver)
        if self._driver != DRIVER:
            return {node: offer.devices}
        devices = {f"{node}/compute": offer.devices}
        if offer.functions is not None:
            # What no claim can have leaves the slices, where every scheduler understands it.
            held = self._shared.ledger.held.functions
            devices[f"{node}/pci"] = tuple(
                one.device
                for one in offer.functions.by_name.values()
                if not one.trouble or one.id in held
            )
        return devices

    def _by_name(self) -> Mapping[str, Device]:
        return {one.name: one for devices in self._devices().values() for one in devices}

    def _told(self, why_not: str) -> None:
        """Hear that the kubelet has registered the driver: it may have deleted its slices."""
        self.unregistered = why_not
        if why_not:
            _log.warning("registration_failed", driver=self._driver, why=why_not)
        else:
            _log.info("registered", driver=self._driver)
        self._shared.news()

    def _on_slice(self, change: Change[ResourceSlice]) -> None:
        if isinstance(change, Removed):
            self._shared.news()
