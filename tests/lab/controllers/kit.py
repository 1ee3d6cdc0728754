"""A cluster for tests of controllers: the lab's API server, and a node that runs what it gets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from kube_lab_server import ApiServer
from numakube.api.pod import Pod
from numakube.errors import Conflict, NotFound
from numakube.kube.catalog import NODES, PODS
from numakube.kube.client import Client, merge_patch
from numakube.kube.clock import Clock, SystemClock
from numakube.kube.resource_types import ObjectKey, Resource, key_of
from numakube.kube.store import Change, Removed
from numakube.kube.subresources import bind_pod
from numakube.testing import until
from numakube.values.times import format_time
from numakube_lab.controllers.all_controllers import Controllers, Factory
from numakube_lab.controllers.common.controller_loop import MirroredCluster, Owned, ResourceMirror
from numakube_lab.inprocess_transport import InProcess

T = TypeVar("T", bound=Owned)


class FakeKubelet:
    """Runs every pod that has a node at once: it becomes ready, and is gone when deleted.

    Attributes:
        outcome: what becomes of a pod: its phase, and whether it is ready; None to leave it alone.
    """

    def __init__(self, client: Client, pods: ResourceMirror[Pod], *, assign: str = "") -> None:
        self.outcome: Callable[[Pod], tuple[str, bool] | None] = lambda _: ("Running", True)
        self._client = client
        self._pods = pods
        self._assign = assign
        self._changed: asyncio.Queue[ObjectKey] = asyncio.Queue()

    async def run(self) -> None:
        """Work until cancelled."""
        self._pods.store.subscribe(self._note)
        while True:
            key = await self._changed.get()
            with contextlib.suppress(Conflict, NotFound):
                await self._look_at(key)

    def again(self) -> None:
        """Look at all pods again."""
        for pod in self._pods.store:
            self._changed.put_nowait(key_of(pod))

    def _note(self, change: Change[Pod]) -> None:
        if not isinstance(change, Removed):
            self._changed.put_nowait(key_of(change.object))

    async def _look_at(self, key: ObjectKey) -> None:
        pod = self._pods.get(key)
        if pod is None:
            return
        if not pod.spec.node_name:
            if self._assign:
                await bind_pod(self._client, key, self._assign)
            return
        if pod.metadata.deletion_timestamp is not None:
            await self._client.delete(PODS, key.name, namespace=key.namespace, grace_seconds=0)
            return
        outcome = self.outcome(pod)
        if outcome is not None and outcome != state_of(pod):
            await report(self._client, pod, *outcome)


def state_of(pod: Pod) -> tuple[str, bool]:
    """Return phase and readiness of *pod*."""
    status = pod.status
    conditions = status.conditions if status else ()
    ready = any(
        condition.type == "Ready" and condition.status == "True" for condition in conditions
    )
    return (status.phase if status else ""), ready


async def report(client: Client, pod: Pod, phase: str, ready: bool) -> None:
    """Report the state of *pod* as its kubelet would."""
    moment = format_time(client.clock.now())
    condition = {
        "type": "Ready",
        "status": "True" if ready else "False",
        "lastTransitionTime": moment,
    }
    status = {"phase": phase, "conditions": [condition], "startTime": moment}
    await client.patch(
        PODS,
        pod.metadata.name,
        merge_patch({"status": status}),
        namespace=pod.metadata.namespace,
        subresource="status",
    )


class Bench:
    """An API server, some controllers, a fake kubelet, and eyes on all of it."""

    def __init__(
        self, server: ApiServer, client: Client, controllers: Controllers, eyes: MirroredCluster
    ) -> None:
        self.server = server
        self.client = client
        self.controllers = controllers
        self.eyes = eyes
        self.pods = controllers.cluster.find(PODS) or eyes.mirror(PODS)
        self.kubelet: FakeKubelet

    def mirror(self, resource: Resource[T]) -> ResourceMirror[T]:
        """Return what the controllers see of a resource, or else this test."""
        found = self.controllers.cluster.find(resource) or self.eyes.find(resource)
        assert found is not None, f"nobody looks at {resource}"
        return found

    async def sees(
        self, resource: Resource[T], name: str, holds: Callable[[T], bool] = lambda _: True
    ) -> T:
        """Wait until an object is as it should be, and return it."""
        key = ObjectKey("default" if resource.namespaced else "", name)
        mirror = self.mirror(resource)

        def found() -> bool:
            obj = mirror.get(key)
            return obj is not None and holds(obj)

        await self.until(resource, found)
        return self.get(resource, name)

    async def until(self, resource: Resource[T], holds: Callable[[], bool]) -> None:
        """Wait for something that shows in the objects of a resource."""
        mirror, changed = self.mirror(resource), asyncio.Event()
        stop = mirror.store.subscribe(lambda _: changed.set())
        try:
            await until(holds, news=changed)
        except AssertionError as error:
            shown = [msgspec.to_builtins(obj) for obj in mirror.store.values()]
            raise AssertionError(f"{error}; {shown}") from None
        finally:
            stop()

    async def recorded(self) -> None:
        """Wait until all events so far are written."""
        await self.controllers.flush()

    async def apply(self, resource: Resource[T], document: Mapping[str, Any]) -> T:
        """Create an object in the default namespace."""
        namespace = "default" if resource.namespaced else ""
        return await self.client.create(resource, document, namespace=namespace)

    async def change(
        self, resource: Resource[T], name: str, change: Mapping[str, Any], subresource: str = ""
    ) -> T:
        """Change an object by a merge patch, and wait until the controllers know."""
        changed = await self.client.patch(
            resource,
            name,
            merge_patch(change),
            namespace="default" if resource.namespaced else "",
            subresource=subresource,
        )
        if mirror := self.controllers.cluster.find(resource):
            await mirror.shows(changed.metadata.resource_version)
        return changed

    def get(self, resource: Resource[T], name: str) -> T:
        """Return an object as the controllers see it."""
        namespace = "default" if resource.namespaced else ""
        found = self.mirror(resource).get(ObjectKey(namespace, name))
        assert found is not None, f"{resource} {name} does not exist"
        return found


@contextlib.asynccontextmanager
async def bench(
    *which: Factory,
    clock: Clock | None = None,
    nodes: Sequence[str] = (),
    assign: str = "node-1",
    also: Sequence[Resource[Any]] = (),
    report_seconds: float = 0.0,
) -> AsyncIterator[Bench]:
    """Run controllers against a fresh API server.

    Args:
        which: the controllers.
        clock: the clock of server and controllers.
        nodes: nodes to create.
        assign: the node to bind all pods to; empty to leave that to a scheduler.
        also: resources that no controller looks at, but the test does.
        report_seconds: how long at least between two reports of a status.
    """
    clock = clock or SystemClock()
    async with ApiServer(now=clock.now) as server:
        client = Client(InProcess(server), rate=0, clock=clock)
        for name in nodes:
            await add_node(client, node(name))
        controllers = Controllers(client, which=which, report_seconds=report_seconds)
        async with controllers:
            seen = MirroredCluster(client)
            for resource in also:
                seen.mirror(resource)
            made = Bench(server, client, controllers, seen)
            made.kubelet = FakeKubelet(client, seen.mirror(PODS), assign=assign)
            tasks = [asyncio.create_task(seen.run()), asyncio.create_task(made.kubelet.run())]
            try:
                yield made
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


async def add_node(client: Client, document: Mapping[str, Any]) -> None:
    """Create a node that is ready; a new one is tainted until its kubelet says that it is."""
    taints = document.get("spec", {}).get("taints")
    await client.create(NODES, document)
    change = merge_patch({"spec": {"taints": taints}})
    await client.patch(NODES, document["metadata"]["name"], change)


def node(name: str, **labels: str) -> dict[str, Any]:
    """A node that is ready and has room."""
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def template(**more: Any) -> dict[str, Any]:
    """A pod template."""
    container = {"name": "main", "image": "example.com/main:1", **more}
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}


def workload(name: str, **spec: Any) -> dict[str, Any]:
    """A workload of pods labelled ``app=web``."""
    return {
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(),
            **spec,
        },
    }
