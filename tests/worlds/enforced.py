"""Enforcers on the nodes of a lab, and the control groups that they write: files of their own.

They are the real ones, as tasks of this process. Each starts when its node joins and ends with it,
as the pods of a DaemonSet do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from numakube.api.koordinator import keys
from numakube.api.pod import Pod
from numakube.apps.host.process_life import Surroundings
from numakube.kube.client import Client
from numakube.node.cgroups import FakeCgroups
from numakube.values.cpuset import CpuSet
from numakube_lab.nodes.node_cgroups import group_of_container
from numakube_lab.nodes.node_pool import NodePool
from numakube_placement.enforcer.process import EnforcerProcess
from numakube_placement.enforcer.settings import EnforcerSettings
from numakube_placement.koordinator.allotments import allotment_of


@dataclass(slots=True)
class RunningEnforcer:
    """An enforcer at work, the groups that it writes, and what ends it."""

    groups: FakeCgroups
    task: asyncio.Task[int]
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    async def start(cls, name: str, pool: NodePool, client: Client) -> RunningEnforcer:
        """Start one on a node that is there."""
        folder = await pool.folder(name)
        cgroups = pool.kubelet(name).cgroups
        assert cgroups is not None
        settings = EnforcerSettings(
            node_name=name,
            nri="off",
            cgroup_root=str(folder / "sys/fs/cgroup"),
            sysfs=str(folder / "sys"),
            kubelet_dir=str(folder),
            state_dir=str(folder / "enforcer"),
        )
        around = Surroundings(env={}, clock=client.clock, serve=False)
        process, stop = EnforcerProcess(settings, around, client), asyncio.Event()
        return cls(cgroups.tree, asyncio.create_task(process.run(stop)), stop)

    async def kill(self) -> None:
        """End it without a chance to put anything back."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Enforcers:
    """The enforcers of a lab: one on every node, from `start` on."""

    def __init__(self, pool: NodePool, connect: Callable[[], Client]) -> None:
        self._pool = pool
        self._connect = connect
        self._starts = False
        self.running: dict[str, RunningEnforcer] = {}

    async def start(self) -> None:
        """Start one on every node, and on those that join."""
        self._starts = True
        for name in sorted(self._pool.kubelets):
            await self.node_joined(name)

    async def node_joined(self, name: str) -> None:
        """Start the one of a new node."""
        if self._starts and name not in self.running:
            self.running[name] = await RunningEnforcer.start(name, self._pool, self._connect())

    async def node_leaves(self, name: str) -> None:
        """End that of a node."""
        if (running := self.running.pop(name, None)) is not None:
            await running.kill()

    async def kill(self) -> None:
        """End all of them without a chance to put anything back; new ones may be started."""
        self._starts = False
        for name in list(self.running):
            await self.node_leaves(name)

    async def stop(self) -> dict[str, FakeCgroups]:
        """Stop all of them as SIGTERM does; return the groups of nodes whose kubelets set none."""
        self._starts, stopped = False, self.running
        self.running = {}
        for one in stopped.values():
            one.stop.set()
            await one.task
        return {name: one.groups for name, one in stopped.items() if not self._pins(name)}

    def _pins(self, name: str) -> bool:
        admission = self._pool.kubelet(name).admission
        return admission is None or admission.model.cpus is not None


@dataclass(frozen=True, slots=True)
class Confined:
    """What a running container can use, and what a scheduler gave it for itself, if anything."""

    pod: Pod
    container: str
    can_use: CpuSet
    given: CpuSet


def confined(groups: FakeCgroups, pods: list[Pod]) -> Iterator[Confined]:
    """Yield the running containers of *pods*, all of one node."""
    for pod in pods:
        statuses = pod.status.container_statuses if pod.status is not None else ()
        allotment = allotment_of(pod, [])
        for status in statuses:
            if status.state is None or status.state.running is None:
                continue
            can_use = CpuSet.parse(groups.effective_cpus(group_of_container(pod, status.name)))
            share = None
            if allotment is not None:
                own = allotment.containers
                share = own.get(status.name) if own else allotment.total
            given = CpuSet(share.cpus if share is not None else 0)
            yield Confined(pod, status.name, can_use, given)


def is_allotted(pod: Pod) -> bool:
    """Whether a scheduler, not the kubelet, has given a pod its CPUs."""
    return keys.RESOURCE_STATUS in pod.metadata.annotations


def still_set(groups: Mapping[str, FakeCgroups]) -> Iterator[str]:
    """Yield the groups that enforcers have not put back; kubelets there set none."""
    for node, tree in groups.items():
        for group in tree.groups():
            if cpus := tree.cpus(group):
                yield f"group {group} of {node} still has CPUs {cpus}"
