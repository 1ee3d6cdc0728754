"""All nodes of a lab: one pod reflector, a queue of nodes that have work, a few workers.

    async with NodePool(client) as pool:
        await pool.add(NodePlan(name="node-1", machine=machine, config=config))
        await pool.restart("node-1")

There is no task and no connection per node, so that a thousand nodes cost what their pods cost.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from numakube.errors import ConfigError
from numakube.kube import ObjectKey, Reflector, Removed, WorkQueue, key_of, run_workers, wait_synced
from numakube.kube.catalog import NODES, PODS
from numakube.node.cgroups import Version
from numakube_lab.lifetime import Lifetime
from numakube_lab.nodes.dra_plugins import DraDrivers
from numakube_lab.nodes.kubelet_admission import FreshModels
from numakube_lab.nodes.lab_kubelet import KubeletState, LabKubelet
from numakube_lab.nodes.lease_heartbeats import Heartbeats, lease_seconds_for
from numakube_lab.nodes.node_cgroups import ModelAligner, NodeCgroups
from numakube_lab.nodes.node_documents import MAX_NODES, NodeAddresses, is_ready
from numakube_lab.nodes.node_folder import SYSFS, FolderWatch, NodeFolder, NodeSockets

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping
    from pathlib import Path

    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube.kube import Change, Client
    from numakube.kubelet import Device
    from numakube_lab.nodes.container_timeline import ContainerRuntime
    from numakube_lab.nodes.node_documents import NodePlan

LONGEST_RETRY_SECONDS: Final = 10.0
"""How soon a node tries again at the latest what the API refused or was not there for."""

NODE_INDEX: Final = "node"
WORKERS: Final = 4
MAX_NODES_WITH_SOCKETS: Final = 64
"""How many nodes have sockets unless told otherwise: each costs two gRPC servers."""


class NodePool(Lifetime):
    """The nodes of a lab.

    Attributes:
        pods: the mirror of all pods that are bound to a node.
    """

    def __init__(
        self,
        client: Client,
        *,
        root: Path | None = None,
        sockets: bool | None = None,
        drivers: Callable[[str], DraDrivers] | None = None,
        runtime: ContainerRuntime | None = None,
        workers: int = WORKERS,
    ) -> None:
        """Prepare a pool; use it as a context.

        Args:
            client: the API; its clock is the clock of all nodes.
            root: where every node has its sockets, and a folder for its checkpoint files and sysfs
                once it is asked for (see `folder`); keep the path short. Without it nodes
                keep their state in memory.
            sockets: whether nodes serve PodResources and take device plugins on unix sockets under
                *root*; if not given, the first 64 nodes do.
            drivers: the DRA drivers of each node without sockets; none if not given.
            runtime: what runs containers; the simulation if not given.
            workers: how many nodes are worked on at a time.
        """
        self._client = client
        self._runtime = runtime
        self._workers = workers
        self._root = root
        self._with_sockets = sockets
        self._drivers = drivers
        self._kubelets: dict[str, LabKubelet] = {}
        self._models = FreshModels()
        self._sockets: dict[str, NodeSockets] = {}
        self._disks: dict[str, NodeFolder] = {}
        self._folders = FolderWatch()
        self._numbers: dict[str, int] = {}
        self._queue: WorkQueue[str] = WorkQueue(clock=client.clock, cap=LONGEST_RETRY_SECONDS)
        self._heartbeats = Heartbeats(self._kubelets, clock=client.clock)
        self._pod_reflector: Reflector[Pod] = Reflector(client, PODS, fields="spec.nodeName!=")
        self._node_reflector: Reflector[Node] = Reflector(client, NODES)
        self.pods = self._pod_reflector.store
        self.pods.add_index(NODE_INDEX, lambda pod: (pod.spec.node_name,))
        self.pods.subscribe(self._on_pod)
        self._node_reflector.store.subscribe(self._on_node)
        self._tasks: list[asyncio.Task[None]] = []
        self._registered: dict[str, asyncio.Event] = {}
        self._observers: list[Callable[[str], None]] = []
        # Nodes that others take for dead.
        self._doubted: set[str] = set()

    async def live(self) -> AsyncIterator[None]:
        """Watch until everything that exists is known; in the end, cut the power of every node."""
        jobs = {
            "lab-pods": self._pod_reflector.run(),
            "lab-nodes": self._node_reflector.run(),
            "lab-kubelets": run_workers(self._queue, self._work, workers=self._workers),
            "lab-heartbeats": self._heartbeats.run(),
        }
        self._tasks = [asyncio.create_task(job, name=name) for name, job in jobs.items()]
        try:
            await wait_synced(self._pod_reflector, self._node_reflector)
            yield
        finally:
            for name, kubelet in self._kubelets.items():
                kubelet.kill()
                await self._close_sockets(name)
            await self._folders.aclose()
            await self._end()

    @property
    def kubelets(self) -> Mapping[str, LabKubelet]:
        """The kubelets by the name of their node."""
        return self._kubelets

    def observe(self, observer: Callable[[str], None]) -> None:
        """Have *observer* called with a node whose state, or what it holds, has changed."""
        self._observers.append(observer)

    def kubelet(self, name: str) -> LabKubelet:
        """Return the kubelet of a node."""
        try:
            return self._kubelets[name]
        except KeyError:
            known = ", ".join(sorted(self._kubelets)) or "none"
            raise ConfigError(f"no node {name!r} in this lab; there are: {known}") from None

    async def add(self, *plans: NodePlan, tell: Callable[[str], None] = lambda _: None) -> None:
        """Start nodes; returns when they are registered. *tell* is called with the progress."""
        lasting = lease_seconds_for(len(self._kubelets) + len(plans))
        for number, plan in enumerate(plans, 1):
            self._create(plan, lasting)
            await self._open_sockets(plan.name)
            tell(f"{number} of {len(plans)} nodes are started")
            # A thousand of them take a while, in which others want to go on.
            await asyncio.sleep(0)
        for number, plan in enumerate(plans, 1):
            await self.registered(plan.name)
            tell(f"{number} of {len(plans)} nodes are registered")

    async def remove(self, name: str) -> None:
        """End a node and delete its objects; its pods stay, as when a machine is taken away."""
        kubelet = self.kubelet(name)
        kubelet.kill()
        await self._close_sockets(name)
        if self._runtime is not None:
            self._runtime.retain(name, ())
        del self._kubelets[name], self._registered[name]
        self._sockets.pop(name, None)
        self._heartbeats.forget(name)
        if (disk := self._disks.pop(name, None)) is not None:
            await disk.remove()
        self._tell(name)
        await kubelet.reporter.unregister()

    async def kill(self, name: str) -> None:
        """End a node's kubelet on the spot; what it had written to its disk is kept."""
        self.kubelet(name).kill()
        self._registered[name].clear()
        self._tell(name)
        await self._close_sockets(name)

    async def start(self, name: str) -> None:
        """Start the kubelet of a node that was killed; returns when it has its pods again."""
        self.kubelet(name).start()
        await self._open_sockets(name)
        await self.registered(name)

    async def restart(self, name: str) -> None:
        """Restart a node's kubelet, its state kept."""
        await self.kill(name)
        await self.start(name)

    async def reconfigure(self, name: str, plan: NodePlan) -> None:
        """Restart a node's kubelet with the configuration and version of *plan*.

        As an administrator does it: the state of its managers is removed, and pods that are still
        there are admitted again.

        Raises:
            KubeletStartError: no kubelet would start with it; the node is left alone.
        """
        self._models.of(plan)
        await self.kill(name)
        self.kubelet(name).reconfigure(plan)
        await self.start(name)

    def pause(self, name: str) -> None:
        """Let a node go silent."""
        self.kubelet(name).pause()
        self._tell(name)

    def resume(self, name: str) -> None:
        """Let a node go on after a pause."""
        self.kubelet(name).resume()
        self._doubted.add(name)
        self._tell(name)

    def config(self, name: str) -> KubeletConfiguration | None:
        """Return the configuration of a node's kubelet, if it runs."""
        kubelet = self._kubelets.get(name)
        if kubelet is None or kubelet.state is not KubeletState.RUNNING:
            return None
        return kubelet.plan.config

    def sockets(self, name: str) -> NodeSockets | None:
        """Return a node's sockets, if it has any."""
        return self._sockets.get(name)

    async def folder(self, name: str, *, cgroups: bool = True) -> Path:
        """Return a node's folder with everything that its disk has, and its control groups."""
        kubelet = self.kubelet(name)
        if kubelet.cgroups is None:
            raise ConfigError("nodes have folders only if a root folder is given")
        path = await self._disks[name].make()
        if cgroups:
            _ = kubelet.cgroups.tree
        return path

    def lag(self, name: str, seconds: float) -> None:
        """Let a node notice changes of its pods only after *seconds*."""
        self.kubelet(name).lag_seconds = seconds

    def slow_down(self, name: str, seconds: float) -> None:
        """Let each step of a node's starts and admissions take *seconds*."""
        self.kubelet(name).step_seconds = seconds

    def set_devices(self, name: str, resource: str, devices: Iterable[Device]) -> None:
        """Let a node's plugin say which devices it has, and which of them are healthy."""
        admission = self.kubelet(name).admission
        if admission is not None:
            admission.set_devices(resource, devices)
            self._queue.add(name)

    def look_again(self, key: ObjectKey) -> None:
        """Have a pod looked at, for a runtime whose containers change by themselves."""
        pod = self.pods.get(key)
        kubelet = self._kubelets.get(pod.spec.node_name) if pod is not None else None
        if kubelet is not None:
            kubelet.note(key)

    async def registered(self, name: str) -> None:
        """Return as soon as a node has registered and has admitted the pods that it had."""
        await self._registered[name].wait()

    def _create(self, plan: NodePlan, lease_seconds: int) -> None:
        name = plan.name
        if name in self._kubelets:
            raise ConfigError(f"node {name!r} is there already")
        folder = None if self._root is None else NodeFolder(self._root / name, plan)
        sockets = self._sockets_in(folder, name)
        cgroups = None
        if folder is not None:
            self._disks[name] = folder
            version = Version(plan.cgroup_version)
            cgroups = NodeCgroups(plan.machine, folder.path / SYSFS, version)
        kubelet = LabKubelet(
            plan,
            client=self._client,
            pods=self.pods,
            addresses=NodeAddresses(self._number(name)),
            wake=lambda seconds: self._queue.add_after(name, seconds),
            runtime=self._runtime,
            disk=folder,
            changed=lambda: self._tell(name),
            aligner_of=ModelAligner if sockets is None else sockets.attach,
            cgroups=cgroups,
            models=self._models,
            drivers=self._drivers_of(name) if sockets is None else sockets.drivers,
        )
        kubelet.reporter.lease_seconds = lease_seconds
        kubelet.start()
        self._kubelets[name] = kubelet
        self._registered[name] = asyncio.Event()
        if sockets is not None:
            self._sockets[name] = sockets

    def _drivers_of(self, name: str) -> DraDrivers | None:
        return None if self._drivers is None else self._drivers(name)

    def _sockets_in(self, folder: NodeFolder | None, name: str) -> NodeSockets | None:
        wanted = self._with_sockets
        if wanted is None:
            wanted = folder is not None and len(self._kubelets) < MAX_NODES_WITH_SOCKETS
        if not wanted:
            return None
        if folder is None:
            raise ConfigError("nodes can have sockets only if a root folder is given")
        return NodeSockets(
            folder.path,
            DraDrivers(self._client, name),
            clock=self._client.clock,
            watch=self._folders,
            changed=lambda: self._queue.add(name),
        )

    async def _open_sockets(self, name: str) -> None:
        if name in self._sockets:
            await self._sockets[name].open(self._kubelets[name])

    async def _close_sockets(self, name: str) -> None:
        if name in self._sockets:
            await self._sockets[name].close()

    def _tell(self, name: str) -> None:
        for observer in self._observers:
            observer(name)

    def _number(self, name: str) -> int:
        """Return the number for the addresses of a node; it keeps it when it comes back.

        The server does not let pods that stayed behind have another host.
        """
        return self._numbers.setdefault(name, len(self._numbers) % MAX_NODES)

    async def _work(self, name: str) -> float | None:
        """Let a node do what is due."""
        kubelet = self._kubelets.get(name)
        if kubelet is None:
            return None
        again = await kubelet.work()
        registered = self._registered.get(name)
        if kubelet.is_up and registered is not None and not registered.is_set():
            self._heartbeats.registered(name)
            registered.set()
        if name in self._doubted:
            await self._defend(kubelet)
        return again

    async def _defend(self, kubelet: LabKubelet) -> None:
        node = self._node_reflector.store.get(ObjectKey("", kubelet.name))
        if node is not None:
            await kubelet.heal(node)
        self._doubted.discard(kubelet.name)

    def _on_pod(self, change: Change[Pod]) -> None:
        kubelet = self._kubelets.get(change.object.spec.node_name)
        if kubelet is not None:
            kubelet.note(key_of(change.object))

    def _on_node(self, change: Change[Node]) -> None:
        name = change.object.metadata.name
        kubelet = self._kubelets.get(name)
        if kubelet is None or isinstance(change, Removed):
            return
        kubelet.note_node(change.object)
        if kubelet.state is KubeletState.RUNNING and not is_ready(change.object):
            self._doubted.add(name)
            self._queue.add(name)

    async def _end(self) -> None:
        """End all tasks; what went wrong in one of them is raised."""
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        for result in results:
            if isinstance(result, Exception):
                raise result
