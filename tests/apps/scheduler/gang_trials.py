"""A cluster in virtual time for gangs: a real scheduler, kubelet models, and every kind of fault.

The API server is the lab's, reached without sockets, so that a run takes a fraction of a second and
is the same every time. Kubelets act when they are told to. A scheduler dies after any write, and
requests fail before or after they have had their effect. Claims are made from templates when their
controller is told to, and not all at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import msgspec

from kube_lab_server import ApiServer
from numakube.api.pod import Pod
from numakube.api.scheduler_config import KubeSchedulerConfiguration
from numakube.apps.scheduler.process import SchedulerProcess
from numakube.apps.watched_kinds import RESOURCE_CLAIMS, RESOURCES
from numakube.errors import ClusterUnreachable, NotFound
from numakube.kube.catalog import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
)
from numakube.kube.client import Client, merge_patch
from numakube.kube.clock import ManualClock
from numakube.kube.connection.transport import Request, Response
from numakube.kube.reflector import Reflector
from numakube.kube.resource_types import Resource
from numakube.kube.store import Change, Removed
from numakube.kubelet.admission_outcome import Rejected
from numakube.testing import World, turns
from numakube_lab.exporters import install_definition
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.testing import without_election

RACK: Final = "example.com/rack"
GANG: Final = "example.com/gang"
"""Label of every member with the name of its gang, however the scheduler learns of it."""
DRIVER: Final = "nic.example.com"
NICS: Final = 3
"""Devices of each node that claims are allocated from."""
GROUP_VERSIONS: Final = {
    "scheduling.x-k8s.io": "v1alpha1",
    "scheduling.volcano.sh": "v1beta1",
}
"""APIs with an object for each gang; the lab's pods have no ``schedulingGroup``."""
MACHINE: Final = "2 sockets, 4 cores, smt 1, 16Gi"
"""Two NUMA nodes, with three and four free CPUs."""
LIMIT_SECONDS: Final = 3
"""How long a gang may be incomplete."""
SLACK_SECONDS: Final = 8
"""What looking once a second and repeated requests add to that."""
_WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_STARTED: Final = 100
"""Tenths of a second in which a scheduler has read everything."""
_SETTLED: Final = 40
"""Rounds of the event loop in which a change goes from the server through the scheduler."""


@dataclass(frozen=True, slots=True)
class Failing:
    """A request that fails: the next one that is meant.

    Attributes:
        path: what the path of the request has to contain.
        code: the status of the answer; 0 for none.
        done: whether the request has its effect all the same.
    """

    path: str
    code: int
    done: bool


class Unreliable:
    """A transport on which requests fail, and which is cut after so many writes.

    Events count as writes, but nobody reads them.
    """

    def __init__(self, inner: InProcess) -> None:
        self._inner = inner
        self.failing: deque[Failing] = deque()
        self.writes_left: int | None = None
        self.dead = False

    async def send(self, request: Request) -> Response:
        """Return the answer, unless something goes wrong."""
        writes = request.method in _WRITES
        if self.dead or (writes and self.writes_left == 0):
            self.dead = True
            raise ClusterUnreachable("the scheduler is dead")
        if writes and self.writes_left is not None:
            self.writes_left -= 1
        if request.path.endswith("/events"):
            return Response(201, {"Content-Type": request.content_type}, request.body or b"")
        fault = self.failing[0] if self.failing else None
        if fault is None or fault.path not in request.path or request.method == "GET":
            return await self._inner.send(request)
        self.failing.popleft()
        if fault.done:
            await self._inner.send(request)
        if not fault.code:
            raise ClusterUnreachable("no answer")
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": fault.code}
        body |= {"reason": "Conflict"} if fault.code == 409 else {}
        return Response(fault.code, {"Content-Type": "application/json"}, msgspec.json.encode(body))

    def open(self, request: Request) -> contextlib.AbstractAsyncContextManager[Any]:
        """Return a watch."""
        if self.dead:
            raise ClusterUnreachable("the scheduler is dead")
        return self._inner.open(request)

    async def aclose(self) -> None:
        """Cut it."""
        self.dead = True


@dataclass(slots=True)
class _Scheduler:
    process: SchedulerProcess
    wire: Unreliable


@dataclass
class GangTrial:
    """A cluster, what happens to it, and what must never happen.

    Attributes:
        wrong: what has happened that must not, in words.
        least: how many pods each gang needs, by its name.
        changed: gangs that a scheduler which comes later does not evict for want of members.
    """

    server: ApiServer
    clock: ManualClock
    client: Client
    rng: Random
    world: World = field(default_factory=World)
    wrong: list[str] = field(default_factory=list)
    least: dict[str, int] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    _bound: dict[str, list[Pod]] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict)
    _names: Counter[str] = field(default_factory=Counter)
    _running: _Scheduler | None = None
    _ours: set[asyncio.Task[Any]] = field(default_factory=set)
    _pods: dict[str, Pod] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)

    async def add_node(self, name: str) -> None:
        """Let a node join, empty; its report comes first, without which its zones do not count."""
        rack = f"r{int(name[1:]) % 2}"
        self.world.add_node(name, machine=MACHINE, labels={RACK: rack})
        node = msgspec.to_builtins(self.world.nodes[name])
        node["metadata"].pop("uid")
        self._bound[name] = []
        await self._report(name)
        await self.client.create(RESOURCES["resource_slices"].raw, slice_of(name))
        await self.client.create(NODES.raw, node)
        await self.client.patch(NODES, name, merge_patch({"spec": {"taints": None}}))

    async def remove_node(self, name: str) -> None:
        """Let a node vanish with all that runs there."""
        await self.client.delete(NODES, name)
        await self.client.delete(NODE_RESOURCE_TOPOLOGIES, name)
        await self.client.delete(RESOURCES["resource_slices"], name)
        del self.world.kubelets[name], self.world.nodes[name]
        self._bound.pop(name)
        for pod in list(self._pods.values()):
            if pod.spec.node_name == name:
                await self.delete(pod, gently=False)

    async def create(self, document: dict[str, Any]) -> None:
        """Create a pod; its name is a prefix."""
        prefix = document["metadata"]["name"]
        self._names[prefix] += 1
        document["metadata"]["name"] = f"{prefix}-{self._names[prefix]}"
        await self.client.create(PODS.raw, document, namespace="default")

    async def create_group(
        self, api: str, name: str, spec: dict[str, Any], annotations: dict[str, str]
    ) -> None:
        """Create the object of a gang."""
        document = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
        await self.client.create(groups_of(api), document, namespace="default")

    async def change_group(self, api: str, name: str, spec: dict[str, Any]) -> None:
        """Change the object of a gang."""
        change = merge_patch({"spec": spec})
        await self.client.patch(groups_of(api), name, change, namespace="default")

    async def claims_act(self, most: int) -> None:
        """Let the claim controller do up to *most* things: make claims, name them, delete them."""
        claims = (await self.client.list(RESOURCE_CLAIMS, namespace="default")).items
        names = {claim.metadata.name for claim in claims}
        todo = [pod for pod in self.pods if pod.spec.resource_claims and not _is_over(pod)]
        wanted = {f"{pod.metadata.name}-nic": pod for pod in todo}
        acts = [self._make_claim(name, pod) for name, pod in wanted.items() if name not in names]
        acts += [self._name_claim(name, pod) for name, pod in wanted.items() if not _has_claim(pod)]
        acts += [self._end_claim(name) for name in names - wanted.keys()]
        for number, act in enumerate(acts):
            if number < most:
                await act
            else:
                act.close()

    async def _make_claim(self, name: str, pod: Pod) -> None:
        await self.client.create(RESOURCE_CLAIMS.raw, claim_for(name, pod), namespace="default")

    async def _name_claim(self, name: str, pod: Pod) -> None:
        statuses = [{"name": "nic", "resourceClaimName": name}]
        change = merge_patch({"status": {"resourceClaimStatuses": statuses}})
        await self._patch_status(PODS, pod.metadata.name, change)

    async def _end_claim(self, name: str) -> None:
        nothing = merge_patch({"status": {"allocation": None, "reservedFor": None}})
        await self._patch_status(RESOURCE_CLAIMS, name, nothing)
        with contextlib.suppress(NotFound):
            change = merge_patch({"metadata": {"finalizers": None}})
            await self.client.patch(RESOURCE_CLAIMS, name, change, namespace="default")
            await self.client.delete(RESOURCE_CLAIMS, name, namespace="default")

    async def _patch_status(self, resource: Resource[Any], name: str, change: Any) -> None:
        with contextlib.suppress(NotFound):
            await self.client.patch(
                resource, name, change, namespace="default", subresource="status"
            )

    async def delete(self, pod: Pod, *, gently: bool) -> None:
        """Delete a pod, at once or when its kubelet gets to it."""
        with contextlib.suppress(NotFound):
            await self.client.delete(
                PODS,
                pod.metadata.name,
                namespace="default",
                grace_seconds=30 if gently else 0,
            )

    async def end(self, pod: Pod, phase: str) -> None:
        """Let a running pod succeed or fail."""
        if pod.status is None or pod.status.phase != "Running":
            return
        self.world.kubelets[pod.spec.node_name].remove(pod.metadata.uid)
        await self._set_phase(pod, phase)
        await self._report(pod.spec.node_name)

    async def kubelets_act(self) -> None:
        """Let every kubelet see to the pods that were bound to it, and to those that have to go."""
        for node, model in list(self.world.kubelets.items()):
            waiting, self._bound[node] = self._bound[node], []
            for pod in waiting:
                await self._admit(node, pod)
            for pod in list(self._pods.values()):
                if pod.spec.node_name == node and pod.metadata.deletion_timestamp is not None:
                    model.remove(pod.metadata.uid)
                    await self.delete(pod, gently=False)
                    self._changed.add(node)
        for node in self._changed & self.world.kubelets.keys():
            await self._report(node)
        self._changed.clear()

    async def pass_time(self, seconds: int) -> None:
        """Let virtual time pass, and look at the gangs meanwhile."""
        for _ in range(seconds):
            await self.clock.advance(1.0)
            await self.settle()
            self._look()

    async def settle(self, rounds: int = _SETTLED) -> None:
        """Let everybody act on what is known; bury a scheduler that has died."""
        await turns(rounds)
        if self._running is not None and self._running.wire.dead:
            await self.restart()

    async def start(self) -> None:
        """Start a scheduler."""
        wire = Unreliable(InProcess(self.server))
        client = Client(wire, clock=self.clock, rng=self.rng, rate=0)
        process = SchedulerProcess(configuration(), client)
        self._running = _Scheduler(process, wire)
        self._ours.update(asyncio.all_tasks())
        task = asyncio.create_task(process.run(asyncio.Event()))
        task.add_done_callback(_end)
        for _ in range(_STARTED):
            if process.leading:
                break
            await self.clock.advance(0.1)
        assert process.leading, process.mirror.missing()
        self._since.clear()

    async def restart(self) -> None:
        """Kill the scheduler where it stands, and start another."""
        await self.kill()
        await self.start()

    async def kill(self) -> None:
        """End everything that the scheduler has under way, and give it no chance to tidy up."""
        assert self._running is not None
        self._running.wire.dead = True
        for task in asyncio.all_tasks() - self._ours:
            task.cancel()
        await turns(_SETTLED)
        left = asyncio.all_tasks() - self._ours
        assert not left, left

    def fail(self, fault: Failing) -> None:
        """Let the next request that is meant fail."""
        assert self._running is not None
        self._running.wire.failing.append(fault)

    def die_after(self, writes: int) -> None:
        """Let the scheduler die before the write after the next *writes*."""
        assert self._running is not None
        self._running.wire.writes_left = writes

    def calm_down(self) -> None:
        """Let nothing more go wrong."""
        assert self._running is not None
        self._running.wire.failing.clear()
        self._running.wire.writes_left = None

    @property
    def process(self) -> SchedulerProcess:
        """The scheduler that runs now."""
        assert self._running is not None
        return self._running.process

    @property
    def pods(self) -> list[Pod]:
        """All pods, in the order of their names."""
        return sorted(self._pods.values(), key=lambda pod: pod.metadata.name)

    def placed(self) -> set[str]:
        """Return the pods that have a node."""
        return {pod.metadata.name for pod in self._pods.values() if pod.spec.node_name}

    def halves(self) -> dict[str, tuple[int, int]]:
        """Return the gangs that run with fewer pods than they need: how many, of how many."""
        counts: Counter[str] = Counter()
        least = self.least
        alive: set[str] = set()
        for pod in self._pods.values():
            name, phase = pod.metadata.labels.get(GANG), pod.status and pod.status.phase
            if name is None or name in self.changed:
                continue
            if not pod.spec.node_name or phase == "Failed":
                continue
            if pod.metadata.deletion_timestamp is None:
                counts[name] += 1
                alive |= {name} if phase != "Succeeded" else set()
        return {one: (counts[one], least[one]) for one in alive if counts[one] < least[one]}

    def _look(self) -> None:
        now, halves = self.clock.monotonic(), self.halves()
        self._since = {name: self._since.get(name, now) for name in halves}
        for name, since in self._since.items():
            if now - since > LIMIT_SECONDS + SLACK_SECONDS:
                self.wrong.append(f"{name} has {halves[name]} pods for {now - since} s")

    async def _admit(self, node: str, one: Pod) -> None:
        pod = self._pods.get(one.metadata.uid)
        if pod is None or pod.metadata.deletion_timestamp is not None:
            return
        self._changed.add(node)
        outcome = self.world.kubelets[node].admit(pod)
        if isinstance(outcome, Rejected):
            self.wrong.append(f"{node} rejects {pod.metadata.name}: {outcome.message}")
        await self._set_phase(pod, "Failed" if isinstance(outcome, Rejected) else "Running")

    async def _set_phase(self, pod: Pod, phase: str) -> None:
        await self._patch_status(PODS, pod.metadata.name, merge_patch({"status": {"phase": phase}}))

    async def _report(self, node: str) -> None:
        report = msgspec.to_builtins(self.world.report(node))
        for one in ("uid", "resourceVersion"):
            report["metadata"].pop(one, None)
        raw = NODE_RESOURCE_TOPOLOGIES.raw
        try:
            await self.client.patch(raw, node, merge_patch(report))
        except NotFound:
            await self.client.create(raw, report)

    def on_pod(self, change: Change[Pod]) -> None:
        """Keep what the server tells of pods."""
        pod = change.object
        uid = pod.metadata.uid
        before = self._pods.pop(uid, None)
        if isinstance(change, Removed):
            model = self.world.kubelets.get(pod.spec.node_name)
            if model is not None:
                model.remove(uid)
                self._changed.add(pod.spec.node_name)
            return
        self._pods[uid] = pod
        if pod.spec.node_name and (before is None or not before.spec.node_name):
            self._bound.setdefault(pod.spec.node_name, []).append(pod)


def _is_over(pod: Pod) -> bool:
    """Tell whether *pod* will not use its claims any more."""
    ended = pod.status is not None and pod.status.phase in ("Succeeded", "Failed")
    return ended or (pod.metadata.deletion_timestamp is not None and not pod.spec.node_name)


def _has_claim(pod: Pod) -> bool:
    return pod.status is not None and bool(pod.status.resource_claim_statuses)


def groups_of(api: str) -> Resource[Any]:
    """Return the kind of one API's groups."""
    return Resource(
        group=api,
        version=GROUP_VERSIONS[api],
        plural="podgroups",
        kind="PodGroup",
        namespaced=True,
        object_type=dict[str, Any],
    )


def group_definition(group: str, version: str) -> dict[str, Any]:
    """Return a definition that takes every PodGroup."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup"}
    served = {"name": version, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"podgroups.{group}",
            "annotations": {"api-approved.kubernetes.io": "https://example.com/approved"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": [{**served, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def slice_of(node: str) -> dict[str, Any]:
    """Return what a node offers to claims."""
    return {
        "metadata": {"name": node},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"nic-{index}"} for index in range(NICS)],
        },
    }


def claim_for(name: str, pod: Pod) -> dict[str, Any]:
    """Return the claim that is made for *pod*."""
    owner = {"apiVersion": "v1", "kind": "Pod", "controller": True}
    owner |= {"name": pod.metadata.name, "uid": pod.metadata.uid}
    exactly = {"deviceClassName": "nic", "allocationMode": "ExactCount", "count": 1}
    return {
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"devices": {"requests": [{"name": "nic", "exactly": exactly}]}},
    }


def _end(task: asyncio.Task[int]) -> None:
    """Let nobody wonder about how a scheduler died."""
    if not task.cancelled():
        task.exception()


def configuration() -> KubeSchedulerConfiguration:
    """Return a configuration with short times."""
    config = without_election(GangScheduling={"incompleteSeconds": LIMIT_SECONDS})
    return msgspec.structs.replace(config, pod_max_backoff_seconds=2)


@contextlib.asynccontextmanager
async def gang_trial(nodes: int, rng: Random) -> AsyncIterator[GangTrial]:
    """Run a cluster with a scheduler for the length of a context."""
    clock = ManualClock()
    async with ApiServer(now=clock.now, rng=rng) as server:
        client = Client(InProcess(server), clock=clock, rng=rng, rate=0)
        await install_definition(client)
        await client.create(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
        for group, version in GROUP_VERSIONS.items():
            kind = group_definition(group, version)
            await client.create(CUSTOM_RESOURCE_DEFINITIONS.raw, kind)
        selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
        nics = {"metadata": {"name": "nic"}, "spec": {"selectors": [selector]}}
        await client.create(RESOURCES["device_classes"].raw, nics)
        trial = GangTrial(server, clock, client, rng)
        reflector = Reflector(client, PODS)
        reflector.store.subscribe(trial.on_pod)
        watching = asyncio.create_task(reflector.run())
        await turns(_SETTLED)
        for number in range(nodes):
            await trial.add_node(f"n{number}")
        try:
            await trial.start()
            yield trial
        finally:
            await trial.kill()
            watching.cancel()
