"""The driver as a process: from settings to an exit code.

    code = await run(settings, Surroundings(), stop)

The same function runs it as a program of its own, as a container of the lab, and in tests: what
surrounds it is given.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from numakube.apps.host import Access
from numakube.apps.host.common_settings import cluster_of, listen_of
from numakube.apps.host.http_serving import Health, Serving
from numakube.apps.host.process_life import new_registry
from numakube.apps.host.program import Program
from numakube.errors import ConfigError, NumakubeError
from numakube.kube.connect import connect
from numakube.node.podresources_client import PodResourcesClient
from numakube.values.cpuset import CpuSet
from numakube_dra_driver.adopting import adopt, hold
from numakube_dra_driver.annex import CORES
from numakube_dra_driver.confinement import COMPONENT, ClaimConfinement
from numakube_dra_driver.dry_run import printed
from numakube_dra_driver.identity import COMPATIBLE, OWN
from numakube_dra_driver.ledger import Ledger
from numakube_dra_driver.metrics import DraCpuMetrics, DraMetrics
from numakube_dra_driver.named_driver import Folders, NamedDriver, Shared
from numakube_dra_driver.offer import OfferOptions, OfferReader
from numakube_dra_driver.settings import SETTINGS, read_settings

if TYPE_CHECKING:
    from numakube.apps.host.process_life import Surroundings
    from numakube.kube import Client
    from numakube_dra_driver.pci_functions import NodeFunctions
    from numakube_dra_driver.settings import DraSettings

PUBLISH_SECONDS: Final = 30.0
SWEEP_SECONDS: Final = 60.0

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
        grouping=settings.grouping,
        whole_cores=settings.cpu_step == CORES,
        reserved=CpuSet.parse(reserved) if reserved else None,
        compatible=settings.compatible,
        node_allocatable=settings.node_allocatable,
        pcie_roots=settings.pcie_roots,
        policy_options={name: value for name, _, value in pairs},
    )


async def run(settings: DraSettings, around: Surroundings, stop: asyncio.Event) -> int:
    """Serve the kubelet until *stop* is set, or print what would be offered; return the exit code.

    Raises:
        ConfigError: it cannot even start.
    """
    functions = _functions(settings, around)
    reader = OfferReader(offer_options(settings, around), functions.look if functions else None)
    if settings.dry_run:
        note = await _without_plugins(functions) if functions is not None else ""
        around.echo(printed(reader.read(), settings.output, note))
        return 0
    config = cluster_of(settings.connection, env=around.env, root=around.root)
    async with connect(config, clock=around.clock, env=around.env, user_agent=COMPONENT) as client:
        return await DraProcess(settings, around, client, reader, functions).run(stop)


async def _without_plugins(functions: NodeFunctions) -> str:
    """Leave out what device plugins have; return what is to be said if that is not known."""
    try:
        await functions.taken()
    except NumakubeError as error:
        functions.assume_none()
        return f"functions that device plugins have are not left out: {error}"
    return ""


def _functions(settings: DraSettings, around: Surroundings) -> NodeFunctions | None:
    """Return the PCI functions of the node, if there is a configuration of pools.

    Raises:
        ConfigError: it makes no sense.
    """
    if not settings.pci_config:
        return None
    # Only here: most drivers do without.
    from numakube.node.pci.host_scan import SurveyOptions
    from numakube_dra_driver.pci_functions import FunctionReader, NodeFunctions, host_of

    locate, path = around.locate, settings.pci_config
    # Its links are not followed: a ConfigMap changes by them.
    file = around.root / path.lstrip("/") if path.startswith("/") else locate(path)
    reader = FunctionReader(
        file,
        host_of(locate(settings.sysfs), locate(settings.dev), locate(settings.proc)),
        prefix=settings.prefix,
        options=SurveyOptions(check_link=settings.check_link),
    )
    kubelet = PodResourcesClient(locate(settings.pod_resources_socket))
    return NodeFunctions(reader, kubelet, around.clock)


class DraProcess:
    """A running driver."""

    def __init__(
        self,
        settings: DraSettings,
        around: Surroundings,
        client: Client,
        reader: OfferReader,
        functions: NodeFunctions | None = None,
    ) -> None:
        locate = around.locate
        self._settings = settings
        self._around = around
        self._client = client
        self._reader = reader
        self._functions = functions
        self._node = settings.node_name or socket.gethostname()
        self._registry = new_registry("dra-driver")
        identities = (COMPATIBLE, OWN) if settings.compatible else (OWN,)
        self._ledger = Ledger(locate(settings.state_dir), around.clock)
        self._confinement = ClaimConfinement(
            client,
            self._ledger,
            settings,
            around,
            node=self._node,
            registry=self._registry,
            identities=identities,
        )
        self._folders = Folders(
            cdi=locate(settings.cdi_dir),
            network_info=locate(settings.device_info_dir),
            plugin=lambda driver: locate(f"{settings.plugins_dir}/{driver}"),
            registry=locate(settings.registry_dir),
        )
        shared = Shared(
            client=client,
            ledger=self._ledger,
            confinement=self._confinement,
            metrics=DraMetrics(self._registry),
            folders=self._folders,
            node=self._node,
            pod_uid=settings.pod_uid,
            offer=lambda: self._reader.current,
            news=lambda: self._news.set(),
            functions=functions,
        )
        cpu_metrics = DraCpuMetrics(self._registry) if settings.compatible else None
        self._drivers = [
            NamedDriver(shared, one, cpu_metrics=cpu_metrics if one is COMPATIBLE else None)
            for one in identities
        ]
        self._kubelet = PodResourcesClient(locate(settings.pod_resources_socket))
        self._news = asyncio.Event()
        self._unpublished = "slices are not published yet"
        self._unswept = ""
        self._unasked = ""

    async def run(self, stop: asyncio.Event) -> int:
        """Serve until *stop* is set.

        Raises:
            ConfigError: the sockets cannot be made.
            StateError: it is not known what claims have.
        """
        if self._settings.forget_state:
            self._ledger.forget()
        # Before anybody can ask: what claims have is known, and the runtime can look it up.
        await self._restore()
        _log.info("dra_driver_started", node=self._node, claims=len(self._ledger.claims))
        async with AsyncExitStack() as stack:
            await self._serve(stack)
            stack.callback(self._confinement.close)
            for driver in self._drivers:
                stack.push_async_callback(driver.stop)
                await driver.start()
            async with asyncio.TaskGroup() as tasks:
                named = [job for driver in self._drivers for job in driver.jobs()]
                work = [*named, self._publish(), self._sweep(), *self._confinement.jobs(stop)]
                # In the lab the host's own devices do not count.
                if self._functions is not None and self._around.root == Path("/"):
                    from numakube.node.pci.netlink import hear_uevents  # most do without

                    work.append(hear_uevents(self._news.set, self._around.clock.sleep))
                jobs = [tasks.create_task(job) for job in work]
                await stop.wait()
                for job in jobs:
                    job.cancel()
        _log.info("dra_driver_ended", node=self._node)
        return 0

    async def _restore(self) -> None:
        """Let everything be as the ledger has it, and hold what claims of others have."""
        if self._settings.compatible:
            async with self._ledger.locked():
                hold(self._ledger, self._folders.cdi)
        for driver in self._drivers:
            await driver.preparer.restore()

    async def _publish(self) -> None:
        """Keep the slices as they should be: at every news, and from time to time."""
        while True:
            self._news.clear()
            try:
                await self._look()
                for driver in self._drivers:
                    await driver.publish()
                self._unpublished = self._fall_back()
            except (NumakubeError, OSError) as error:
                if str(error) != self._unpublished:
                    _log.warning("not_published", error=str(error))
                self._unpublished = str(error)
            await self._pause()

    async def _look(self) -> None:
        """Look what the node has."""
        if self._functions is not None:
            try:
                await self._functions.taken()
            except NumakubeError as error:
                if str(error) != self._unasked:
                    _log.warning("device_plugins_unknown", why=str(error))
                self._unasked = str(error)
            else:
                self._unasked = ""
        self._reader.current = await asyncio.to_thread(self._reader.read)

    async def _pause(self) -> None:
        """Wait for news; functions come and go without any, and are looked at more often."""
        clock = self._around.clock
        most = PUBLISH_SECONDS
        if self._functions is not None and self._settings.rescan:
            most = min(most, self._settings.rescan)
        until = clock.monotonic() + PUBLISH_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                async with clock.timeout(min(most, max(until - clock.monotonic(), 0.0))):
                    await self._news.wait()
            if self._news.is_set() or clock.monotonic() >= until or await self._has_changed():
                return

    async def _has_changed(self) -> bool:
        """Tell whether the node has other functions than slices say: the server is not asked."""
        before = [driver.function_devices() for driver in self._drivers]
        try:
            await self._look()
        except (NumakubeError, OSError):
            return True
        return before != [driver.function_devices() for driver in self._drivers]

    def _pools_trouble(self) -> str:
        functions = self._reader.current.functions
        return functions.trouble if functions is not None else ""

    def _fall_back(self) -> str:
        """Offer what the server knows, if it knows no shared devices; return what is wrong then."""
        lost = next(filter(None, (driver.lost for driver in self._drivers)), "")
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
                await adopt(self._client, self._ledger, self._reader.current, self._node)
                for driver in self._drivers:
                    await driver.preparer.sweep(self._kubelet)
                self._unswept = ""
            except (NumakubeError, OSError) as error:
                if str(error) != self._unswept:
                    _log.warning("not_swept", error=str(error))
                self._unswept = str(error)
            await self._around.clock.sleep(SWEEP_SECONDS)

    def _unregistered(self) -> str:
        return "; ".join(driver.unregistered for driver in self._drivers if driver.unregistered)

    async def _serve(self, stack: AsyncExitStack) -> None:
        if not self._around.serve:
            return
        health = Health()
        health.ready("registration", self._unregistered)
        health.ready("slices", lambda: self._unpublished)
        health.ready("pools", self._pools_trouble)
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
    name="dra-driver", about=_ABOUT, settings=SETTINGS, read=read_settings, run=run
)
