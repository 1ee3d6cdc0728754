"""The driver as a process: from settings to an exit code.

    code = await run(settings, Surroundings(), stop)

The same function runs it as a program of its own, as a container of the lab, and in tests: what
surrounds it is given.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

import structlog

from numakube.apps.host.common_settings import cluster_of, listen_of
from numakube.apps.host.endpoint_access import Access
from numakube.apps.host.http_serving import Health, Serving
from numakube.apps.host.process_life import new_registry
from numakube.apps.host.program import Program
from numakube.errors import ConfigError, NumakubeError
from numakube.kube.connect import connect
from numakube.kube.reflector import Reflector
from numakube.kube.store import Removed
from numakube.node.device_plugin.plugin_protocol import DevicePluginError
from numakube.node.dra_plugin import LONGEST_PATH, DraPluginServer
from numakube.node.podresources_client import PodResourcesClient
from numakube.values.cpuset import CpuSet
from numakube_dra_driver.annex import CORES
from numakube_dra_driver.cdi import CdiFiles
from numakube_dra_driver.confinement import COMPONENT, ClaimConfinement
from numakube_dra_driver.devices import DRIVER, Grouping
from numakube_dra_driver.dry_run import printed
from numakube_dra_driver.ledger import Disk, Ledger
from numakube_dra_driver.metrics import DraMetrics
from numakube_dra_driver.offer import OfferOptions, OfferReader
from numakube_dra_driver.preparing import Preparer
from numakube_dra_driver.settings import SETTINGS
from numakube_dra_driver.slices import SLICES, SlicePublisher

if TYPE_CHECKING:
    from pathlib import Path

    from numakube.api.resource_slices import ResourceSlice
    from numakube.apps.host.process_life import Surroundings
    from numakube.kube.client import Client
    from numakube.kube.store import Change
    from numakube_dra_driver.offer import Offer
    from numakube_dra_driver.settings import DraSettings

PUBLISH_SECONDS: Final = 30.0
SWEEP_SECONDS: Final = 60.0
_GRACE_SECONDS: Final = 5.0
"""How long calls under way may take when the process ends."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def offer_options(settings: DraSettings, around: Surroundings) -> OfferOptions:
    """Return how the settings want CPUs to be offered.

    Raises:
        ConfigError: they make no sense.
    """
    pairs = [option.partition("=") for option in settings.policy_options]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise ConfigError(f"--cpu-policy-options: {wrong[0]!r} has no value; write NAME=VALUE")
    reserved = settings.reserved_cpus
    return OfferOptions(
        sysfs=around.locate(settings.sysfs),
        kubelet_config=around.locate(settings.kubelet_config),
        grouping=Grouping(settings.cpu_devices),
        whole_cores=settings.cpu_step == CORES,
        reserved=CpuSet.parse(reserved) if reserved else None,
        policy_options={name: value for name, _, value in pairs},
    )


async def run(settings: DraSettings, around: Surroundings, stop: asyncio.Event) -> int:
    """Serve the kubelet until *stop* is set, or print what would be offered; return the exit code.

    Raises:
        ConfigError: it cannot even start.
    """
    reader = OfferReader(offer_options(settings, around))
    if settings.dry_run:
        around.echo(printed(reader.current, settings.output))
        return 0
    config = cluster_of(settings.connection, env=around.env, root=around.root)
    async with connect(config, clock=around.clock, env=around.env, user_agent=COMPONENT) as client:
        return await DraProcess(settings, around, client, reader).run(stop)


def own_part(pod_uid: str, folder: Path) -> str:
    """Return what names of sockets have of their own in *folder*; shorter if they are too long."""
    if not pod_uid:
        return ""
    name = folder / f"{DRIVER}-{pod_uid}-reg.sock"
    if len(str(name).encode()) <= LONGEST_PATH:
        return f"-{pod_uid}"
    return f"-{hashlib.sha256(pod_uid.encode()).hexdigest()[:8]}"


class DraProcess:
    """A running driver."""

    def __init__(
        self, settings: DraSettings, around: Surroundings, client: Client, reader: OfferReader
    ) -> None:
        locate = around.locate
        self._settings = settings
        self._around = around
        self._client = client
        self._reader = reader
        self._node = settings.node_name or socket.gethostname()
        self._registry = new_registry("dra-driver")
        metrics = DraMetrics(self._registry)
        self._ledger = Ledger(locate(settings.state_dir), around.clock)
        self._confinement = ClaimConfinement(
            client, self._ledger, settings, around, node=self._node, registry=self._registry
        )
        pool = f"{self._node}/compute"
        self._preparer = Preparer(
            client,
            self._ledger,
            CdiFiles(locate(settings.cdi_dir), Disk()),
            pool=pool,
            offer=self._offer,
            metrics=metrics,
            confining=self._confinement,
        )
        self._slices = SlicePublisher(
            client, driver=DRIVER, node=self._node, pool=pool, metrics=metrics
        )
        self._watched: Reflector[ResourceSlice] = Reflector(
            client, SLICES, fields=self._slices.fields
        )
        self._watched.store.subscribe(self._on_slice)
        self._kubelet = PodResourcesClient(locate(settings.pod_resources_socket))
        plugin, registry = locate(f"{settings.plugins_dir}/{DRIVER}"), locate(settings.registry_dir)
        own = own_part(settings.pod_uid, registry)
        self._server = DraPluginServer(
            self._preparer,
            driver=DRIVER,
            socket=plugin / f"dra{own}.sock",
            registration=registry / f"{DRIVER}{own}-reg.sock",
            told=self._told,
        )
        self._news = asyncio.Event()
        self._unregistered = "the kubelet has not registered the driver yet"
        self._unpublished = "slices are not published yet"
        self._unswept = ""

    async def run(self, stop: asyncio.Event) -> int:
        """Serve until *stop* is set.

        Raises:
            ConfigError: the sockets cannot be made.
            StateError: it is not known what claims have.
        """
        if self._settings.forget_state:
            self._ledger.forget()
        # Before anybody can ask: what claims have is known, and the runtime can look it up.
        await self._preparer.restore()
        _log.info("dra_driver_started", node=self._node, claims=len(self._ledger.claims))
        async with AsyncExitStack() as stack:
            await self._serve(stack)
            stack.callback(self._confinement.close)
            stack.push_async_callback(self._server.stop, grace=_GRACE_SECONDS)
            await self._start()
            async with asyncio.TaskGroup() as tasks:
                work = (self._watched.run(), self._publish(), self._sweep(), self._preparer.tell())
                jobs = [tasks.create_task(job) for job in (*work, *self._confinement.jobs(stop))]
                await stop.wait()
                for job in jobs:
                    job.cancel()
        _log.info("dra_driver_ended", node=self._node)
        return 0

    async def _start(self) -> None:
        try:
            await self._server.start()
        except DevicePluginError as error:
            raise ConfigError(str(error)) from None

    def _offer(self) -> Offer:
        return self._reader.current

    def _told(self, why_not: str) -> None:
        """Hear that the kubelet has registered the driver: it may have deleted its slices."""
        self._unregistered = why_not
        _log.info("registered", driver=DRIVER) if not why_not else _log.warning(
            "registration_failed", why=why_not
        )
        self._news.set()

    def _on_slice(self, change: Change[ResourceSlice]) -> None:
        if isinstance(change, Removed):
            self._news.set()

    async def _publish(self) -> None:
        """Keep the slices as they should be: at every news, and from time to time."""
        while True:
            self._news.clear()
            try:
                self._reader.current = await asyncio.to_thread(self._reader.read)
                await self._slices.publish(self._reader.current.devices)
                self._unpublished = self._fall_back()
            except (NumakubeError, OSError) as error:
                if str(error) != self._unpublished:
                    _log.warning("not_published", error=str(error))
                self._unpublished = str(error)
            with contextlib.suppress(TimeoutError):
                async with self._around.clock.timeout(PUBLISH_SECONDS):
                    await self._news.wait()

    def _fall_back(self) -> str:
        """Offer what the server knows, if it knows no shared devices; return what is wrong then."""
        lost = self._slices.lost
        if not lost:
            return ""
        if self._reader.can_share:
            _log.warning("only_unshared_devices_offered", why=lost)
            self._reader.can_share = False
            self._news.set()
            return ""
        return f"{lost}; use --cpu-devices core, or auto"

    async def _sweep(self) -> None:
        """Take back from time to time what nobody knows any more."""
        while True:
            try:
                await self._preparer.sweep(self._kubelet)
                self._unswept = ""
            except (NumakubeError, OSError) as error:
                if str(error) != self._unswept:
                    _log.warning("not_swept", error=str(error))
                self._unswept = str(error)
            await self._around.clock.sleep(SWEEP_SECONDS)

    async def _serve(self, stack: AsyncExitStack) -> None:
        if not self._around.serve:
            return
        health = Health()
        health.ready("registration", lambda: self._unregistered)
        health.ready("slices", lambda: self._unpublished)
        health.ready("cpus", lambda: self._reader.current.refused)
        health.ready("groups", lambda: self._confinement.enforcer.trouble)
        health.ready("enforced", self._confinement.enforcer.unenforced)
        if self._settings.nri == "on":
            health.ready("nri", lambda: self._confinement.link.trouble)
        listen = self._around.placed(listen_of(self._settings.serving, locate=self._around.locate))
        access = Access(self._client, host=listen.host)
        serving = Serving(listen, health=health, registry=self._registry, access=access)
        _log.info("serving", url=(await stack.enter_async_context(serving)).url)


_ABOUT: Final = """\
A driver of dynamic resource allocation (DRA): any scheduler that knows it, the stock one included,
chooses the NUMA node of a claim, and the driver gives the claim CPUs there, as the kubelet's static
CPU Manager would choose them.
"""

PROGRAM: Final = Program(
    name="dra-driver", about=_ABOUT, settings=SETTINGS, read=SETTINGS.read, run=run
)
