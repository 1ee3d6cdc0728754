"""An API server with nodes and topology reports, and extenders at work on it; no kubelets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

from tests.sites.bare import BareOpener, BareServer, bare_lab

from numakube import testing
from numakube.api.nrt import zone_name
from numakube.api.pod import Pod
from numakube.apps.extender.extender_messages import BindingArgs, ExtenderArgs
from numakube.apps.extender.process import ExtenderOptions, ExtenderProcess
from numakube.apps.host.http_serving import Listen
from numakube.kube.catalog import (
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
)
from numakube.kube.client import Client
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import until

ZONE = {"cpu": "8", "memory": "16Gi"}


def node_document(name: str, cpu: str = "16") -> dict[str, Any]:
    """Return a node."""
    room = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    return {"metadata": {"name": name}, "status": {"capacity": room, "allocatable": room}}


def report(name: str, *free_cpus: int, of: int = 8) -> dict[str, Any]:
    """Return a report of single-numa-node with zones that have *free_cpus* of *of* left."""

    def resource(kind: str, all_: str, free: str) -> dict[str, str]:
        return {"name": kind, "capacity": all_, "allocatable": all_, "available": free}

    zones = [
        {
            "name": zone_name(number),
            "type": "Node",
            "resources": [
                resource("cpu", str(of), str(free)),
                resource("memory", "16Gi", "16Gi"),
            ],
        }
        for number, free in enumerate(free_cpus)
    ]
    attributes = [
        {"name": "topologyManagerPolicy", "value": "single-numa-node"},
        {"name": "topologyManagerScope", "value": "container"},
    ]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": attributes,
        "zones": zones,
    }


def pod_document(name: str, cpu: str = "6", **spec: Any) -> dict[str, Any]:
    """Return a guaranteed pod for a scheduler that asks extenders."""
    return testing.pod_document(name, cpu, **{"schedulerName": "kube", **spec})


@dataclass(slots=True)
class Place:
    """The server, and extenders."""

    server: BareServer
    extenders: list[ExtenderProcess] = field(default_factory=list)
    tasks: list[tuple[asyncio.Task[int], asyncio.Event]] = field(default_factory=list)

    @property
    def client(self) -> Client:
        """A client with all rights."""
        return self.server.client

    async def start(self, **options: Any) -> ExtenderProcess:
        """Start an extender; it has seen everything when this returns."""
        told = replace(ExtenderOptions.default(), **options)
        process = ExtenderProcess(told, self.server.connect())
        stop = asyncio.Event()
        self.tasks.append((asyncio.create_task(process.run(stop, Listen())), stop))
        self.extenders.append(process)
        await process.serving.wait()
        await process.mirror.synced()
        return process

    async def node(self, name: str, *free_cpus: int, of: int = 8) -> None:
        """Create a node with a report; without zones it has none."""
        await self.client.create(NODES.raw, node_document(name, str(of * len(free_cpus) or 16)))
        if free_cpus:
            await self.client.create(NODE_RESOURCE_TOPOLOGIES, report(name, *free_cpus, of=of))
        await self.seen(lambda one: one.mirror.cluster.node(name) is not None)
        if free_cpus:
            await self.seen(lambda one: _has_report(one, name))

    async def report(self, name: str, *free_cpus: int) -> None:
        """Replace a report."""
        old = await self.client.get(NODE_RESOURCE_TOPOLOGIES.raw, name)
        new = report(name, *free_cpus)
        new["metadata"] = old["metadata"]
        await self.client.update(NODE_RESOURCE_TOPOLOGIES.raw, new)

    async def pod(self, name: str, cpu: str = "6", **spec: Any) -> Pod:
        """Create a pod that every extender has seen."""
        document = pod_document(name, cpu, **spec)
        pod = await self.client.create(PODS, document)
        await self.seen(lambda one: _knows(one, pod))
        return pod

    async def seen(self, condition: Any) -> None:
        """Wait until *condition* holds for every extender."""
        await until(lambda: all(condition(extender) for extender in self.extenders))

    async def on(self, name: str) -> str:
        """Return the node of a pod, as the API server has it."""
        return (await self.client.get(PODS, name, namespace="default")).spec.node_name


def _has_report(process: ExtenderProcess, name: str) -> bool:
    node = process.mirror.cluster.node(name)
    return node is not None and node.numa is not None


def _knows(process: ExtenderProcess, pod: Pod) -> bool:
    store = process.mirror.pods.store
    return any(other.metadata.uid == pod.metadata.uid for other in store.values())


def info_of(process: ExtenderProcess, name: str) -> PodInfo:
    """Return a pod as an extender sees it."""
    store = process.mirror.pods.store
    return next(PodInfo(pod) for pod in store.values() if pod.metadata.name == name)


def asked(pod: Pod, *names: str) -> ExtenderArgs:
    """Return a filter or prioritize request with names."""
    return ExtenderArgs(pod=pod, node_names=names)


def binding(pod: Pod, node: str) -> BindingArgs:
    """Return a bind request."""
    meta = pod.metadata
    return BindingArgs(
        pod_name=meta.name, pod_namespace=meta.namespace, pod_uid=meta.uid, node=node
    )


@contextlib.asynccontextmanager
async def place_of(on: BareOpener = bare_lab) -> AsyncIterator[Place]:
    """Run an API server that knows topologies."""
    async with on() as server:
        client = server.client
        await client.create(NAMESPACES, {"metadata": {"name": "numakube"}})
        for name, policy in (("high", "PreemptLowerPriority"), ("meek", "Never")):
            urgent = {"metadata": {"name": name}, "value": 10, "preemptionPolicy": policy}
            await client.create(PRIORITY_CLASSES, urgent)
        place = Place(server)
        try:
            yield place
        finally:
            for task, stop in place.tasks:
                stop.set()
                await task
