"""A cluster for the length of a test, and sites: several parts of it that a test describes at once.

async with lab_cluster(2) as cluster:
    await cluster.start()
    await cluster.create(pod_document("web", cpu="4"))
    await cluster.runs("web")
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import msgspec

from kube_lab_server import Faults
from numakube.api.pod import Pod
from numakube.api.scheduler_config import KubeSchedulerConfiguration, PluginConfig
from numakube.apps.scheduler import SchedulerProcess
from numakube.kube import (
    Client,
    Clock,
    ObjectKey,
    Reflector,
    UserConfig,
    ensure_configured,
    load_config,
    merge_patch,
    reflecting,
)
from numakube.kube.catalog import CORE_EVENTS, NODES, PODS
from numakube.kube.connect import connect
from numakube.kubelet import from_shape
from numakube.scheduling import default_configuration
from numakube.testing import refusal_of, until
from numakube_lab.exporters import ExporterPool, install_definition
from numakube_lab.lab_cluster import Crew, Lab, LabOptions, uniform_plans
from numakube_lab.nodes.node_documents import NodePlan
from numakube_lab.nodes.node_pool import NodePool
from numakube_lab.run_folder import RunDir

# A cluster to test on: what tests may expect of it, and the lab as one.
#
# The protocol is apart from the lab, so that the same tests can run on another API server.


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteOptions:
    """What a cluster is to be.

    Attributes:
        plans: its nodes.
        exporters: whether every node has an exporter.
        rbac: whether rights count; on a real server they always do.
        enforcers: whether every node of a lab has the enforcer.
        default_scheduler: whether pods that name no scheduler are scheduled.
        gates: feature gates of a lab's API server that are on.
    """

    plans: tuple[NodePlan, ...] = ()
    exporters: bool = True
    rbac: bool = False
    enforcers: bool = False
    default_scheduler: bool = True
    gates: frozenset[str] = frozenset()


class Site(Protocol):
    """A cluster: an API server over HTTP, and the lab's nodes, controllers and exporters on it."""

    @property
    def client(self) -> Client:
        """A client with all rights that no fault befalls."""
        ...

    @property
    def crew(self) -> Crew:
        """The nodes, and who else lives there; no fault befalls them either."""
        ...

    @property
    def faults(self) -> Faults:
        """What befalls requests of clients that `connect` has returned."""
        ...

    @property
    def folder(self) -> Path:
        """A folder for files."""
        ...

    @property
    def kubeconfig(self) -> Path:
        """How a program reaches the server, as its administrator."""
        ...

    def connect(self, *, clock: Clock | None = None, token: str = "") -> Client:
        """Return a client over HTTP: of the administrator, or of the user with *token*."""
        ...

    async def drop_watches(self) -> None:
        """Break off all watches of those who use the kubeconfig."""
        ...

    async def expire_history(self) -> None:
        """Make the server forget the past, so that watches from there are answered with 410."""
        ...


Opener: TypeAlias = Callable[[SiteOptions], AbstractAsyncContextManager[Site]]
"""What opens a cluster for the length of a context."""


@dataclass(frozen=True, slots=True)
class LabSite:
    """A lab of its own for every test."""

    lab: Lab
    directory: RunDir

    @property
    def client(self) -> Client:
        """A client inside of the lab."""
        return self.lab.client

    @property
    def crew(self) -> Crew:
        """Who lives there."""
        return self.lab.crew

    @property
    def faults(self) -> Faults:
        """The faults of the lab's server."""
        return self.lab.faults

    @property
    def folder(self) -> Path:
        """The folder of the lab."""
        return self.directory.path

    @property
    def kubeconfig(self) -> Path:
        """The lab's kubeconfig."""
        return self.directory.kubeconfig

    def connect(self, *, clock: Clock | None = None, token: str = "") -> Client:
        """Return a client over HTTP."""
        config = load_config(kubeconfig=self.kubeconfig, env={})
        if token:
            config = replace(config, user=UserConfig(token=token))
        return connect(config, clock=clock, rate=0)

    async def drop_watches(self) -> None:
        """Break off all watches."""
        await self.lab.drop_watches()

    async def expire_history(self) -> None:
        """Compact the lab's store."""
        await self.lab.expire_history()


@contextlib.asynccontextmanager
async def lab_site(options: SiteOptions) -> AsyncIterator[LabSite]:
    """Run a lab."""
    ensure_configured()
    # A program that is being ended in a pod may still write a file there.
    with tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as path:
        folder = RunDir(Path(path) / "test")
        folder.create()
        told = LabOptions(
            name="test",
            plans=options.plans,
            exporters=options.exporters,
            rbac=options.rbac,
            enforcers=options.enforcers,
            default_scheduler=options.default_scheduler,
            gates=options.gates,
        )
        async with Lab(told, folder) as lab:
            await install_definition(lab.client)
            yield LabSite(lab, folder)


def without_election(**arguments: dict[str, Any]) -> KubeSchedulerConfiguration:
    """Return a configuration for a scheduler that is alone, with *arguments* of its plugins."""
    config = default_configuration()
    election = msgspec.structs.replace(config.leader_election, leader_elect=False)
    plugins = tuple(PluginConfig(name=name, args=args) for name, args in arguments.items())
    profiles = tuple(
        msgspec.structs.replace(profile, plugin_config=(*profile.plugin_config, *plugins))
        for profile in config.profiles
    )
    return msgspec.structs.replace(config, leader_election=election, profiles=profiles)


@dataclass(slots=True)
class RunningScheduler:
    """A scheduler at work."""

    process: SchedulerProcess
    task: asyncio.Task[int]
    stop: asyncio.Event
    client: Client

    async def end(self) -> int:
        """Stop it as SIGTERM does."""
        self.stop.set()
        code = await self.task
        await self.client.aclose()
        return code

    async def kill(self) -> None:
        """End it without a chance to tidy up: its connection is gone first."""
        await self.client.aclose()
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.client.aclose()  # what was under way may have connected again


@dataclass(slots=True)
class LabCluster:
    """The cluster and what was seen of its pods.

    Attributes:
        site: the API server, and what lives on it.
        pods: the pods as they are now.
        running: the schedulers that were started.
        clients: what `connect` has returned; closed at the end, also of a test that fails.
    """

    site: Site
    pods: Reflector[Pod]
    running: list[RunningScheduler] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)

    @property
    def client(self) -> Client:
        """A client with all rights that no fault hits."""
        return self.site.client

    @property
    def pool(self) -> NodePool:
        """The nodes."""
        return self.site.crew.pool

    @property
    def exporters(self) -> ExporterPool:
        """Their exporters."""
        found = self.site.crew.exporters
        assert found is not None
        return found

    @property
    def faults(self) -> Faults:
        """What befalls requests of schedulers and of clients that `connect` has returned."""
        return self.site.faults

    def connect(self) -> Client:
        """Return a client over HTTP."""
        self.clients.append(self.site.connect())
        return self.clients[-1]

    async def start(
        self,
        config: KubeSchedulerConfiguration | None = None,
        client: Client | None = None,
        *,
        shard: str = "",
    ) -> RunningScheduler:
        """Start a scheduler; it has its state when this returns."""
        client = client or self.connect()
        process = SchedulerProcess(config or without_election(), client, shard=shard)
        stop = asyncio.Event()
        one = RunningScheduler(process, asyncio.create_task(process.run(stop)), stop, client)
        self.running.append(one)
        await process.mirror.synced()
        return one

    async def create(self, *documents: dict[str, Any]) -> None:
        """Create pods."""
        for document in documents:
            await self.client.create(PODS.raw, document, namespace="default")
        keys = [ObjectKey("default", document["metadata"]["name"]) for document in documents]
        await self.until(lambda: all(key in self.pods.store for key in keys))

    async def delete(self, name: str) -> None:
        """Delete a pod at once."""
        key = ObjectKey("default", name)
        known = self.pods.store.get(key)
        await self.client.delete(PODS, name, namespace="default", grace_seconds=0)
        uid = "" if known is None else known.metadata.uid
        await self.until(lambda: uid not in {pod.metadata.uid for pod in self.pods.store})

    async def change_node(self, name: str, change: dict[str, Any]) -> None:
        """Change a node by a merge patch; every scheduler knows of it when this returns."""
        changed = await self.client.patch(NODES, name, merge_patch(change))
        version = changed.metadata.resource_version
        seen = [
            scheduler.process.mirror.nodes
            for scheduler in self.running
            if not scheduler.task.done()
        ]
        await self.until(lambda: not any(nodes.is_behind(version) for nodes in seen))

    def pod(self, name: str) -> Pod:
        """Return a pod as it is now."""
        found = self.pods.store.get(ObjectKey("default", name))
        assert found is not None, f"there is no pod {name}"
        return found

    def by_phase(self, phase: str) -> set[str]:
        """Return the names of the pods in *phase*."""
        return {
            pod.metadata.name
            for pod in self.pods.store
            if pod.status is not None and pod.status.phase == phase
        }

    async def until(self, condition: Callable[[], bool | Awaitable[bool]]) -> None:
        """Wait until *condition* holds; the failure shows the pods."""
        changed = asyncio.Event()
        stop = self.pods.store.subscribe(lambda _: changed.set())
        try:
            await until(condition, news=changed)
        except AssertionError as error:
            raise AssertionError(f"{error}; pods: {self.summary()}") from None
        finally:
            stop()

    def summary(self) -> dict[str, str]:
        """Return where each pod stands, by its name."""
        return {
            pod.metadata.name: " ".join(
                (pod.status.phase if pod.status else "", pod.spec.node_name, refusal_of(pod))
            ).strip()
            for pod in self.pods.store
        }

    async def runs(self, *names: str) -> None:
        """Wait until these pods run, whatever others do."""
        await self.until(lambda: self.by_phase("Running") >= set(names))

    async def refuses(self, name: str, words: str = "") -> str:
        """Wait until a pod is refused in these words; return all of them."""

        def is_refused() -> bool:
            text = refusal_of(self.pod(name))
            return bool(text) and words in text

        await self.until(is_refused)
        return refusal_of(self.pod(name))

    async def settled(self) -> None:
        """Wait until every pod runs, has failed, or was refused."""

        def is_settled() -> bool:
            return all(
                pod.status is not None and (pod.status.phase != "Pending" or refusal_of(pod))
                for pod in self.pods.store
            )

        await self.until(is_settled)

    async def some_events(self, reason: str) -> list[str]:
        """Return the texts of the events with that reason as soon as there are any."""
        return await until(lambda: self.events(reason))

    async def events(self, reason: str) -> list[str]:
        """Return the texts of the events with that reason."""
        found = (await self.client.list(CORE_EVENTS)).items
        return [event.message for event in found if event.reason == reason]


@contextlib.asynccontextmanager
async def lab_cluster(
    nodes: int = 2,
    shape: str = "2 sockets, 8 cores, smt 2, 32Gi, gpu 2",
    kubelet: str = "policy=single-numa-node",
    plans: tuple[NodePlan, ...] = (),
    *,
    on: Opener = lab_site,
    rbac: bool = False,
    exporters: bool = True,
    enforcers: bool = False,
    default_scheduler: bool = True,
    gates: frozenset[str] = frozenset(),
) -> AsyncIterator[LabCluster]:
    """Run a cluster for the length of a context.

    Args:
        nodes: how many equal nodes it has.
        shape: their hardware in words.
        kubelet: their kubelets in words, as ``numakube lab start --kubelet`` takes them.
        plans: the nodes, instead of equal ones.
        on: opens the API server.
        rbac: whether rights count.
        exporters: whether every node has an exporter.
        enforcers: whether every node has the enforcer.
        default_scheduler: whether pods that name no scheduler are scheduled.
        gates: feature gates of a lab's API server that are on.
    """
    plans = plans or uniform_plans(nodes, from_shape(shape), kubelet, "1.35")
    options = SiteOptions(
        plans=plans,
        rbac=rbac,
        exporters=exporters,
        enforcers=enforcers,
        default_scheduler=default_scheduler,
        gates=gates,
    )
    async with on(options) as site:
        pods = Reflector(site.client, PODS)
        async with reflecting(pods):
            cluster = LabCluster(site, pods)
            try:
                yield cluster
            finally:
                for scheduler in cluster.running:
                    if not scheduler.task.done():
                        await scheduler.end()
                for client in cluster.clients:
                    await client.aclose()
