"""A whole lab in virtual time: API server, kubelets, controllers, producers and schedulers.

All parts are the real ones of the lab and of the product. They reach the API server without sockets
and share a clock that only moves when it is told to, so that minutes of a cluster take a fraction
of a second and a world is the same every time. `Lab` is what it has in common with labs whose API
server, controllers or time are others.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import abstractmethod
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    MutableMapping,
)
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import msgspec
import structlog
from tests.apps.scheduler.gang_trials import RACK
from tests.worlds.claimed_cpus import ClaimDrivers
from tests.worlds.disks import Disks
from tests.worlds.enforced import Enforcers
from tests.worlds.manifests import exporter_pod, fixtures
from tests.worlds.measuring import Measuring
from tests.worlds.outage import Line, Server
from tests.worlds.producers import ForeignProducer
from tests.worlds.quiet_loop import this_loop
from tests.worlds.seen import Seen
from tests.worlds.stock import RunningExtender, StockScheduler

from kube_lab_server import ApiServer
from kube_lab_server.kinds.all_kinds import GATES
from numakube.api.meta import ServerVersion
from numakube.api.pod import Pod, has_ended
from numakube.api.scheduler_config import SCHEDULER_NAME, KubeSchedulerConfiguration
from numakube.apps.extender.verb_endpoints import VerbEndpoints
from numakube.apps.gathering import EVERYTHING, gather
from numakube.apps.host.common_settings import LeaseSettings
from numakube.apps.host.http_serving import Handler
from numakube.apps.scheduler.process import SchedulerProcess
from numakube.errors import NotFound
from numakube.insight.collected import CONFIGZ, SCHEDULER
from numakube.insight.facts import ClusterFacts, facts_of
from numakube.kube.catalog import NAMESPACES, NODE_RESOURCE_TOPOLOGIES, NODES, PODS
from numakube.kube.client import Client
from numakube.kube.clock import Clock, ManualClock
from numakube.kube.reflector import Reflector
from numakube.kubelet.config_from_words import lab_configuration, parse_kubelet_options
from numakube.kubelet.machine import Device
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import turns
from numakube.testing.pods import GPU
from numakube.values.times import parse_time
from numakube_lab.controllers.all_controllers import ALL, Controllers
from numakube_lab.exporters import ExporterPool
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.lifetime import Lifetime
from numakube_lab.nodes.dra_driver import publish
from numakube_lab.nodes.lab_kubelet import LabKubelet
from numakube_lab.nodes.node_documents import NodePlan
from numakube_lab.nodes.node_pool import NodePool
from numakube_lab.testing import without_election
from numakube_planning.rebalancer.process import RebalancerProcess, RebalancerSettings

T = TypeVar("T")
PRODUCERS: Final = ("ours", "pod", "surprises", "rte", "nfd", "none")
EXPORTERS: Final = "kube-system"
EXPORTER: Final = "exporter"
EXTENDERS: Final = "numakube"
"""The namespace of the leases by which extenders keep apart."""
EXACT: Final = ("ours", "pod")
"""Producers of reports that tell everything, at once; ``pod`` runs in a pod and says so."""
SILENCE_SECONDS: Final = 300.0
QUIET_SECONDS: Final = 60
"""In which everything that can start has started: longer than any back-off, shorter than the five
minutes after which a scheduler tries every pod again."""
LAST_SECONDS: Final = 20
"""In which nothing is to be written any more."""
REPORT_SECONDS: Final = 5.0
"""Within which a node that joins is reported; until then nothing is known of its zones."""
MOST_ZONES: Final = 8
"""With more, a kubelet may not come to an end, which amounts do not tell."""
REBALANCE_SECONDS: Final = 20.0
_POD_LEVEL_SINCE: Final = (1, 34)
"""The first release whose kubelets read pod-level resources by default."""
_ROUNDS: Final = 20
_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - folders in it have random names
"""Where files cost no disk: nodes have thousands of small ones."""
_LOST: Final = ("lease_lost", "leadership_lost")
"""What programs rightly log as errors when they cannot renew their leases."""
_TICK_SECONDS: Final = 0.05


@dataclass(slots=True)
class RunningScheduler:
    """A scheduler at work, and what ends it."""

    process: SchedulerProcess
    task: asyncio.Task[int]
    stop: asyncio.Event
    shard: str = ""


class Lab(Lifetime):
    """What all labs have in common, whatever their API server is and however their time passes.

    Attributes:
        client: has all rights.
        pool: the nodes.
        enforcers: on the nodes, if there are any.
        claim_drivers: likewise, those that give CPUs to claims.
        measuring: which nodes are measured.
        schedulers: those that run, by name.
        producers: who writes the report of each node.
        seen: what was seen of pods.
        complaints: log lines at level error.
        rewritten: nodes whose report was written when all was quiet.
        orphaned_since: when the pod of a node's exporter was deleted.
        told: how often promises were tried, and the doctor has told of each rule.
        services: ``/v1/fit`` of schedulers, by identity.
        extender: the one that a stock scheduler asks, if there is one.
        disks: makes the disks of claims, if there are any.
        known_since: when the report of each node was there.
        young_seconds: how old a pod has to be before it must have been placed; owners make new ones
            all the time.
        moment_seconds: within which a scheduler may not know yet what another one has bound.
    """

    young_seconds: float = 20.0
    moment_seconds: float = 1.0

    def __init__(self, clock: Clock, rng: Random) -> None:
        self.clock = clock
        self.rng = rng
        self.client = self.connect()
        self._folder = TemporaryDirectory(
            prefix="worlds-", dir=_MEMORY if _MEMORY.is_dir() else None
        )
        self.claim_drivers = ClaimDrivers(self.connect)
        self.pool = NodePool(
            self.client,
            root=Path(self._folder.name),
            sockets=False,
            drivers=self.claim_drivers.of,
        )
        self.measuring = Measuring(self.client, self.pool, Path(self._folder.name))
        more = self.measuring.annotations()
        self.enforcers = Enforcers(self.pool, self.connect)
        self.schedulers: dict[str, RunningScheduler] = {}
        self.producers: dict[str, str] = {}
        self.seen = Seen(clock)
        self.complaints: list[str] = []
        self.known_since: dict[str, float] = {}
        self.rewritten: list[str] = []
        self.orphaned_since: dict[str, float] = {}
        self._exporter_pods: dict[str, str] = {}
        self._numbers = count()
        self.told: Counter[str] = Counter()
        self.services: dict[str, Handler] = {}
        self.extender: RunningExtender | None = None
        self.rebalances = False
        self.disks: Disks | None = None
        self._stock: StockScheduler | None = None
        self._jobs: list[asyncio.Task[Any]] = []
        self._exporters = {
            "ours": ExporterPool(
                self.client, self.pool, serves=self._served_by("ours"), annotations=more
            ),
            "pod": ExporterPool(
                self.client,
                self.pool,
                serves=self._served_by("pod"),
                pod_of=lambda _: f"{EXPORTERS}/{EXPORTER}-aaaaa",
                annotations=more,
            ),
            "surprises": ExporterPool(
                self.client,
                self.pool,
                serves=self._served_by("surprises"),
                max_silence=SILENCE_SECONDS,
            ),
        }
        self._foreign = {
            "rte": self._foreign_producer("rte", fingerprint=True),
            "nfd": self._foreign_producer("nfd", fingerprint=False),
        }

    @abstractmethod
    def connect(self) -> Client:
        """Return another client."""

    @abstractmethod
    async def through(self, work: Awaitable[T]) -> T:
        """Let time pass until *work* is done."""

    @abstractmethod
    async def pass_time(self, seconds: float) -> None:
        """Let time pass."""

    @abstractmethod
    async def found_at_rest(self, ask: Callable[[], Awaitable[list[T]]]) -> list[T]:
        """Let the cluster come to rest; return what *ask* finds then."""

    async def found_in_the_end(self, ask: Callable[[], Awaitable[list[T]]]) -> list[T]:
        """Return what *ask* finds after a while in which everything had its time."""
        return await ask()

    @abstractmethod
    async def outage(self, seconds: float) -> None:
        """Kill the API server in the middle of whatever goes on, and start it after a while."""

    @abstractmethod
    async def break_watches(self, *, forget: bool) -> None:
        """Have all watches end; the server may *forget* the past as well."""

    @abstractmethod
    def surroundings(self) -> AbstractAsyncContextManager[None]:
        """Have for a while what is there besides nodes, producers and our schedulers."""

    def _served_by(self, producer: str) -> Callable[[str], bool]:
        return lambda name: self.producers.get(name) == producer

    def _foreign_producer(self, name: str, *, fingerprint: bool) -> ForeignProducer:
        serves = self._served_by(name)
        return ForeignProducer(self.client, self.pool, serves, fingerprint=fingerprint)

    async def live(self) -> AsyncIterator[None]:
        """Start everything but nodes and schedulers."""
        async with AsyncExitStack() as stack:
            stack.enter_context(self._folder)
            stack.enter_context(self._listening())
            await stack.enter_async_context(self.surroundings())
            reflector = Reflector(self.client, PODS)
            reflector.store.subscribe(self.seen.note)
            self.begin(reflector.run())
            await self.through(stack.enter_async_context(self.pool))
            for exporters in self._exporters.values():
                await self.through(stack.enter_async_context(exporters))
            for other in self._foreign.values():
                self.begin(other.run())
            try:
                yield
            finally:
                for name in list(self.schedulers):
                    await self.kill_scheduler(name)
                await self.kill_extender()
                await self.enforcers.kill()
                await self.claim_drivers.kill()
                for job in self._jobs:
                    job.cancel()
                await asyncio.gather(*self._jobs, return_exceptions=True)

    def begin(self, work: Coroutine[Any, Any, object]) -> None:
        """Have *work* done beside everything else; that it fails is a complaint."""
        task = asyncio.create_task(work)
        task.add_done_callback(self._note_end)
        self._jobs.append(task)

    def _note_end(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.complaints.append(f"{task.get_coro()} has ended with {error!r}")

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Keep what is logged at level error, and nothing else."""

        def keep(_: object, method: str, event: MutableMapping[str, Any]) -> Any:
            if method in ("error", "critical", "exception"):
                told = {key: value for key, value in event.items() if key != "exc_info"}
                self.complaints.append(str(told))
            raise structlog.DropEvent

        before = structlog.get_config()
        structlog.configure(processors=[keep], cache_logger_on_first_use=False)
        try:
            yield
        finally:
            structlog.configure(**before)

    async def listen(self, seconds: float) -> None:
        """Let time pass, and note which reports are written although no pod changes meanwhile."""
        before, changes = await self._versions(), self.seen.changes
        await self.pass_time(seconds)
        after = await self._versions()
        written = [name for name, version in after.items() if before.get(name) != version]
        self.rewritten = written if self.seen.changes == changes else []

    async def _versions(self) -> dict[str, str]:
        found = (await self.through(self.client.list(NODE_RESOURCE_TOPOLOGIES))).items
        return {report.metadata.name: report.metadata.resource_version for report in found}

    async def add_node(
        self,
        name: str,
        machine: str,
        *,
        kubelet: str = "",
        version: str = "1.35",
        rack: str = "",
        claims: bool = False,
        producer: str = "ours",
        measured: bool = False,
    ) -> None:
        """Let a node join."""
        if measured:
            self.measuring.nodes.add(name)
        hardware = from_shape(machine)
        plan = NodePlan(
            name=name,
            machine=hardware,
            config=lab_configuration(hardware, parse_kubelet_options(kubelet)),
            kubernetes=version,
            labels={RACK: rack} if rack else {},
        )
        if claims:
            plan = plan.with_claimable(GPU)
        self.producers[name] = producer
        await self._join(plan)
        if producer == "pod":
            await self._begin_exporter(name)

    async def _join(self, plan: NodePlan) -> None:
        await self.through(self.pool.add(plan))
        await self.through(self.measuring.begin(plan.name))
        await self.through(self.enforcers.node_joined(plan.name))
        await self.through(self.claim_drivers.node_joined(plan.name, self.pool))
        self._relearn([plan.name])

    async def remove_node(self, name: str) -> None:
        """Take a machine away; its pods stay for a while."""
        await self.enforcers.node_leaves(name)
        await self.claim_drivers.node_leaves(name)
        await self.through(self.pool.remove(name))

    async def reconfigure(self, name: str, words: str, version: str = "") -> None:
        """Restart a kubelet with another configuration, as an administrator does: state removed.

        One of another *version* keeps its configuration unless other *words* are given.
        """
        kubelet = self.pool.kubelet(name)
        await self.through(self.pool.kill(name))
        plan, producer = kubelet.plan, self.producers.pop(name)
        if words or not version:
            config = lab_configuration(plan.machine, parse_kubelet_options(words))
            plan = replace(plan, config=config)
        plan = replace(plan, kubernetes=version or plan.kubernetes)
        await self.remove_node(name)
        self.producers[name] = producer
        await self._join(plan)
        if producer == "pod":
            await self._begin_exporter(name)

    async def restart_server(self, seconds: float) -> None:
        """Let the API server be away for a while.

        A scheduler that cannot renew its lease says so and ends; its pod is started again.
        """
        await self.outage(seconds)
        self._relearn(self.pool.kubelets)
        await self.revive_schedulers()

    async def revive_schedulers(self) -> None:
        """Start those again that have ended because they could not renew their leases."""
        self.complaints = [
            complaint for complaint in self.complaints if not any(map(complaint.count, _LOST))
        ]
        for name, running in list(self.schedulers.items()):
            if running.task.done():
                if (error := running.task.exception()) is not None:
                    self.complaints.append(f"scheduler {name} has ended with {error!r}")
                await self.start_scheduler(name, shard=running.shard)

    async def break_device(self, name: str, *, healthy: bool) -> None:
        """Let a node's first device break, or have all that are broken mended."""
        kubelet = self.pool.kubelet(name)
        plan = kubelet.plan
        for resource, devices in plan.machine.devices.items():
            told = _broken(devices, healthy=healthy)
            self.pool.set_devices(name, resource, told)
        if plan.claimable:
            claimable = {
                key: _broken(devices, healthy=healthy) for key, devices in plan.claimable.items()
            }
            uid = (await self.through(self.client.get(NODES, name))).metadata.uid
            written = publish(self.client, replace(plan, claimable=claimable), node_uid=uid)
            await self.through(written)
        self._relearn([name])

    def _relearn(self, names: Iterable[str]) -> None:
        """Give reports a moment before they count."""
        self.known_since |= dict.fromkeys(names, self.clock.monotonic() + REPORT_SECONDS)

    async def start_rebalancer(self) -> None:
        """Start a rebalancer that looks often; it makes room that no tool can know of before."""
        self.rebalances = True
        lease = LeaseSettings(leader_elect=False)
        settings = RebalancerSettings(interval=REBALANCE_SECONDS, patience=60.0, lease=lease)
        process = RebalancerProcess(settings, self.connect())
        self.begin(process.run(asyncio.Event()))

    async def start_extender(self) -> None:
        """Start an extender, and the first time a stock scheduler that asks it."""
        if self.extender is not None:
            return
        if self._stock is None:
            await self.client.create(NAMESPACES, {"metadata": {"name": EXTENDERS}})
            self._stock = StockScheduler(self.connect(), self._endpoints)
            self.begin(self._stock.run())
        self.extender = running = RunningExtender.start(self.connect())
        await self.through(running.process.mirror.synced())

    async def kill_extender(self) -> None:
        """End the extender; whoever calls it is refused."""
        running, self.extender = self.extender, None
        if running is not None:
            await running.kill()

    def _endpoints(self) -> VerbEndpoints | None:
        return self.extender.endpoints if self.extender is not None else None

    async def start_disks(self) -> None:
        """Have disks made for claims from now on."""
        self.disks = Disks(self.connect(), self.rng)
        await self.disks.create_classes()
        for name in sorted(self.pool.kubelets):
            await self.disks.offer(name)
        self.begin(self.disks.run())

    async def produce(self, name: str, producer: str) -> None:
        """Let another producer write the reports of a node from now on; that takes a moment."""
        if self.producers.get(name) == "pod" and producer != "pod":
            await self._end_exporter(name)
        if producer == "pod" and self.producers.get(name) != "pod":
            await self._begin_exporter(name)
        self.producers[name] = producer
        self._relearn([name])
        for exporters in self._exporters.values():
            exporters.review()
        for other in self._foreign.values():
            other.review()

    async def _begin_exporter(self, name: str) -> None:
        """Start a pod as a DaemonSet does, in which an exporter says that it runs."""
        self._exporter_pods[name] = pod = f"{EXPORTER}-{next(self._numbers):05}"
        await self.client.create(PODS.raw, exporter_pod(pod, name), namespace=EXPORTERS)

    async def _end_exporter(self, name: str) -> None:
        """Delete that pod; the exporter ends with it."""
        self.orphaned_since[name] = self.clock.monotonic()
        with contextlib.suppress(NotFound):
            pod = self._exporter_pods.pop(name)
            await self.client.delete(PODS.raw, pod, namespace=EXPORTERS, grace_seconds=0)

    async def start_scheduler(self, name: str, *, elect: bool = True, shard: str = "") -> None:
        """Start a scheduler."""
        process = SchedulerProcess(_configuration(elect=elect), self.connect(), shard=shard)
        stop = asyncio.Event()
        task = asyncio.create_task(process.run(stop))
        await self.through(process.mirror.synced())
        await self.pass_time(2)
        self.schedulers[name] = RunningScheduler(process, task, stop, shard)

    async def stop_scheduler(self, name: str) -> None:
        """Stop a scheduler as SIGTERM does."""
        running = self.schedulers.pop(name)
        running.stop.set()
        await self.through(running.task)

    async def kill_scheduler(self, name: str) -> None:
        """End a scheduler without a chance to tidy up."""
        running = self.schedulers.pop(name)
        running.task.cancel()
        await asyncio.gather(running.task, return_exceptions=True)

    @property
    def served(self) -> bool:
        """Whether a scheduler runs."""
        return any(not scheduler.task.done() for scheduler in self.schedulers.values())

    def could_know(self, pod: Pod) -> bool:
        """Tell whether schedulers could know that a kubelet would reject a pod.

        Without reports they know nothing, and amounts alone do not tell all.
        Nobody knows of a pod that another scheduler binds at the same moment.
        """
        node = pod.spec.node_name
        producer, kubelet = self.producers.get(node), self.pool.kubelets.get(node)
        bound_at = self.seen.bound_at[pod.metadata.uid]
        if bound_at < self.known_since.get(node, 0.0) or self._met_others(pod):
            return False
        if producer in ("rte", "nfd") and kubelet is not None:
            return _tells_by_amounts(kubelet.plan, pod) and not _has_memory_groups(kubelet)
        return producer in (*EXACT, "surprises")

    def _met_others(self, pod: Pod) -> bool:
        """Tell whether another scheduler bound a pod to the same node at the same moment."""
        node, moment = pod.spec.node_name, self.seen.bound_at[pod.metadata.uid]
        return any(
            nodes == {node}
            and self.seen.ever[uid] != pod.spec.scheduler_name
            and abs(self.seen.bound_at[uid] - moment) < self.moment_seconds
            for uid, nodes in self.seen.nodes.items()
        )

    @property
    def sharded(self) -> bool:
        """Whether schedulers share the nodes."""
        return any(scheduler.shard for scheduler in self.schedulers.values())

    @property
    def all_exact(self) -> bool:
        """Whether tools know all of every node.

        Amounts alone may promise too little, and so do reports only of surprises, from which a tool
        cannot tell a pod that has ended from one that was deleted by force.
        """
        return all(self.producers[name] in EXACT for name in self.pool.kubelets)

    @property
    def all_read_pod_level(self) -> bool:
        """Whether all kubelets read pod-level resources."""
        plans = (kubelet.plan for kubelet in self.pool.kubelets.values())
        return all(_release_of(plan) >= _POD_LEVEL_SINCE for plan in plans)

    @property
    def unsettled(self) -> bool:
        """Whether pods are rejected for what nobody could know, and their owners make new ones."""
        return any(not self.could_know(pod) for pod in self.seen.rejected.values())

    def tells_exactly(self, name: str) -> bool:
        """Tell whether schedulers can know what the kubelet of a node would do."""
        return self.producers.get(name) in (*EXACT, "surprises")

    async def facts(self) -> ClusterFacts:
        """Return what the tools know of the cluster."""
        return await self.through(self.facts_now())

    async def facts_now(self) -> ClusterFacts:
        """Return the same, for those who let time pass themselves."""
        what = EVERYTHING - {SCHEDULER, CONFIGZ}
        facts = facts_of(await gather(self.client, what=what))
        # Schedulers here are not told of which release the API server is, so no tool is.
        return replace(facts, version=ServerVersion())

    @property
    def pods(self) -> list[Pod]:
        """All pods that there are, in the order of their names."""
        return sorted(self.seen.pods.values(), key=lambda pod: pod.metadata.name)

    def age(self, pod: Pod) -> float:
        """Return for how many seconds a pod has been there."""
        created = parse_time(pod.metadata.creation_timestamp or "")
        return (self.clock.now() - created).total_seconds()

    def waiting(self, scheduler: str = SCHEDULER_NAME) -> list[Pod]:
        """Return the pods of a scheduler, of ours if none is named, that have no node."""
        return [
            pod
            for pod in self.pods
            if not pod.spec.node_name
            and pod.spec.scheduler_name == scheduler
            and pod.metadata.deletion_timestamp is None
            and not has_ended(pod)
        ]


class VirtualLab(Lab):
    """A lab in virtual time; use `virtual_lab`.

    Attributes:
        server: the API server.
        there: whether it is.
    """

    def __init__(self, server: ApiServer, clock: ManualClock, rng: Random) -> None:
        self.server = server
        self._advance = clock.advance
        self.there = Server()
        super().__init__(clock, rng)

    def connect(self) -> Client:
        """Return another client."""
        line = Line(InProcess(self.server), self.there)
        return Client(line, clock=self.clock, rng=self.rng, rate=0)

    @contextlib.asynccontextmanager
    async def surroundings(self) -> AsyncIterator[None]:
        """Have the lab's controllers at work, in an event loop without threads."""
        asyncio.get_running_loop().set_default_executor(_AtOnce())
        for resource, document in fixtures():
            await self.client.create(resource, document)
        async with AsyncExitStack() as stack:
            controllers = Controllers(self.client, which=ALL)
            await self.through(stack.enter_async_context(controllers))
            yield

    async def through(self, work: Awaitable[T]) -> T:
        """Let time pass until *work* is done."""
        task = asyncio.ensure_future(work)
        await this_loop().quiet()
        while not task.done():
            await self._advance(_TICK_SECONDS)
        return await task

    async def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds)):
            await self._advance(1.0)

    async def found_at_rest(self, ask: Callable[[], Awaitable[list[T]]]) -> list[T]:
        """Ask once, when a minute has passed."""
        await self.pass_time(QUIET_SECONDS - LAST_SECONDS)
        await self.listen(LAST_SECONDS)
        return await ask()

    async def outage(self, seconds: float) -> None:
        """Refuse all requests for a while; what is stored is kept."""
        await turns(self.rng.randint(1, _ROUNDS))
        self.there.kill()
        self.server.state.feeds.end()
        await self.pass_time(seconds)
        self.there.start()

    async def break_watches(self, *, forget: bool) -> None:
        """Have all watches end."""
        if forget:
            self.server.state.store.compact()
        self.server.state.feeds.end()


class _AtOnce(ThreadPoolExecutor):
    """Does what others leave to threads at once: no time passes meanwhile."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call *fn*."""
        done: Future[T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


def _release_of(plan: NodePlan) -> tuple[int, ...]:
    return tuple(map(int, plan.kubernetes.split(".")))


def _tells_by_amounts(plan: NodePlan, pod: Pod) -> bool:
    """Tell whether amounts are all that the kubelet of *plan* decides about *pod* by.

    They do not tell of options of managers, nor how an old kubelet reads pod-level resources.
    """
    reads = pod.spec.resources is None or _release_of(plan) >= _POD_LEVEL_SINCE
    options = plan.config.cpu_manager_policy_options
    return reads and not options and len(plan.machine.nodes) <= MOST_ZONES


def _has_memory_groups(kubelet: LabKubelet) -> bool:
    """Tell whether a pod has memory of several NUMA nodes, which then serve no pod alone."""
    memory = kubelet.admission.model.memory if kubelet.admission is not None else None
    return memory is not None and any(
        len(block.numa_nodes) > 1
        for containers in memory.assignments.values()
        for blocks in containers.values()
        for block in blocks
    )


def _broken(devices: tuple[Device, ...], *, healthy: bool) -> tuple[Device, ...]:
    return tuple(replace(one, healthy=healthy or number > 0) for number, one in enumerate(devices))


def _configuration(*, elect: bool) -> KubeSchedulerConfiguration:
    config = without_election()
    if not elect:
        return config
    election = msgspec.structs.replace(config.leader_election, leader_elect=True)
    return msgspec.structs.replace(config, leader_election=election)


@contextlib.asynccontextmanager
async def virtual_lab(seed: object = 0) -> AsyncIterator[VirtualLab]:
    """Run a lab for the length of a context."""
    loop, rng = this_loop(), Random(str(seed))
    clock = ManualClock(settle=loop.quiet)
    loop.moment = clock.monotonic
    async with (
        ApiServer(now=clock.now, rng=rng, gates=GATES) as server,
        VirtualLab(server, clock, rng) as lab,
    ):
        yield lab
