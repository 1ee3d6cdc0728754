"""A whole cluster for a test: nodes with exporters, and schedulers that reach it over HTTP.

async with lab_cluster(2) as cluster:
    await cluster.start()
    await cluster.create(pod_document("web", cpu="4"))
    await cluster.runs("web")
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from numakube.api.pod import Pod
from numakube.api.scheduler_config import KubeSchedulerConfiguration, PluginConfig
from numakube.apps.scheduler.process import SchedulerProcess
from numakube.kube.catalog import CORE_EVENTS, NODES, PODS
from numakube.kube.client import Client, merge_patch
from numakube.kube.reflector import Reflector, reflecting
from numakube.kube.resource_types import ObjectKey
from numakube.kubelet.machines.shape_text import from_shape
from numakube.scheduling.assembly import default_configuration
from numakube.testing import refusal_of, until
from numakube_lab.exporters.exporter_pool import ExporterPool
from numakube_lab.faults import Faults
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.nodes.node_plan import NodePlan
from numakube_lab.nodes.node_pool import NodePool
from numakube_lab.testing.site import Opener, Site, SiteOptions, lab_site


def without_election(**arguments: dict[str, Any]) -> KubeSchedulerConfiguration:
    """Return a configuration for a scheduler that is alone, with *arguments* of its plugins."""
    config = default_configuration()
    election = msgspec.structs.replace(config.leader_election, leader_elect=False)
    plugins = tuple(PluginConfig(name=name, args=args) for name, args in arguments.items())
    profiles = tuple(
        msgspec.structs.replace(one, plugin_config=(*one.plugin_config, *plugins))
        for one in config.profiles
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
        keys = [ObjectKey("default", one["metadata"]["name"]) for one in documents]
        await self.until(lambda: all(key in self.pods.store for key in keys))

    async def delete(self, name: str) -> None:
        """Delete a pod at once."""
        key = ObjectKey("default", name)
        known = self.pods.store.get(key)
        await self.client.delete(PODS, name, namespace="default", grace_seconds=0)
        uid = "" if known is None else known.metadata.uid
        await self.until(lambda: uid not in {one.metadata.uid for one in self.pods.store})

    async def change_node(self, name: str, change: dict[str, Any]) -> None:
        """Change a node by a merge patch; every scheduler knows of it when this returns."""
        changed = await self.client.patch(NODES, name, merge_patch(change))
        version = changed.metadata.resource_version
        seen = [one.process.mirror.nodes for one in self.running if not one.task.done()]
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
    """
    plans = plans or uniform_plans(nodes, from_shape(shape), kubelet, "1.35")
    options = SiteOptions(
        plans=plans,
        rbac=rbac,
        exporters=exporters,
        enforcers=enforcers,
        default_scheduler=default_scheduler,
    )
    async with on(options) as site:
        pods = Reflector(site.client, PODS)
        async with reflecting(pods):
            cluster = LabCluster(site, pods)
            try:
                yield cluster
            finally:
                for one in cluster.running:
                    if not one.task.done():
                        await one.end()
                for client in cluster.clients:
                    await client.aclose()
