"""A stand-in for kube-scheduler 1.35 that calls an extender in the sequence of the real one.

One attempt at a time: its own filters (room on the node, assumed pods included), a nominated node
alone first, filter, prioritize if two or more nodes are left, preempt if none is. The winner is
assumed and bound in the background while the next attempt begins. A refusal is written into the
pod's condition if its text is new, and wakes the pod by this; it then rests until a pod or a node
changes. Errors go to a backoff that nothing shortens.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import aiohttp
import msgspec

from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.errors import NotFound
from numakube.kube.catalog import NODES, PODS
from numakube.kube.client import Client, strategic_patch
from numakube.kube.reflector import Reflector
from numakube.kube.store import Change, Removed, Updated
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo

Json = dict[str, Any]


@dataclass(slots=True)
class Waiting:
    """A pod in the queue."""

    info: PodInfo
    errors: int = 0
    message: str = ""
    rests: bool = False
    not_before: float = 0.0


@dataclass(slots=True)
class Log:
    """What happened."""

    calls: Counter[str] = field(default_factory=Counter)
    refused_binds: list[str] = field(default_factory=list)
    refusals: list[Json] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)


class KubeScheduler:
    """Schedules the pods of one scheduler name."""

    def __init__(
        self,
        client: Client,
        urls: tuple[str, ...],
        *,
        name: str = "default-scheduler",
        names_only: bool = True,
        seed: int = 1,
        error_backoff: float = 0.05,
    ) -> None:
        self.log = Log()
        self._client = client
        self._urls = urls
        self._name = name
        self._names_only = names_only
        self._rng = Random(seed)
        self._error_backoff = error_backoff
        self._cluster = Cluster()
        self._queue: dict[str, Waiting] = {}
        self._assumed: set[str] = set()
        self._last: Json = {}
        self._something = asyncio.Event()
        self._pods: Reflector[Pod] = Reflector(client, PODS)
        self._nodes: Reflector[Node] = Reflector(client, NODES)
        self._pods.store.subscribe(self._on_pod)
        self._nodes.store.subscribe(self._on_node)

    async def run(self) -> None:
        """Schedule until cancelled."""
        async with aiohttp.ClientSession() as self._session, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._nodes.run())
            tasks.create_task(self._pods.run())
            await self._nodes.synced.wait()
            await self._pods.synced.wait()
            while True:
                waiting = self._next()
                if waiting is not None:
                    await self._attempt(waiting, tasks)
                    continue
                self._something.clear()
                try:
                    async with asyncio.timeout(0.02):
                        await self._something.wait()
                except TimeoutError:
                    pass

    def _next(self) -> Waiting | None:
        now = asyncio.get_running_loop().time()
        ready = [
            waiting
            for waiting in self._queue.values()
            if not waiting.rests and waiting.not_before <= now
        ]
        return max(ready, key=lambda one: one.info.priority, default=None)

    # Events.

    def _on_node(self, change: Change[Node]) -> None:
        if isinstance(change, Removed):
            self._cluster.remove_node(change.object.metadata.name)
        else:
            self._cluster.set_node(change.object)
        self._wake_all()

    def _on_pod(self, change: Change[Pod]) -> None:
        pod = PodInfo(change.object)
        if isinstance(change, Removed) or pod.has_ended:
            self._queue.pop(pod.uid, None)
            self._assumed.discard(pod.uid)
            if self._cluster.remove_pod(pod.uid) is not None:
                self._wake_all()
        elif pod.node_name:
            self._queue.pop(pod.uid, None)
            self._assumed.discard(pod.uid)
            self._cluster.place(pod, pod.node_name)
            self._wake_all()
        elif pod.scheduler_name == self._name and pod.uid not in self._assumed:
            known = self._queue.setdefault(pod.uid, Waiting(pod))
            known.info = pod
            if isinstance(change, Updated):
                known.rests = False
            self._something.set()

    def _wake_all(self) -> None:
        for waiting in self._queue.values():
            waiting.rests = False
        self._something.set()

    # One attempt.

    async def _attempt(self, waiting: Waiting, tasks: asyncio.TaskGroup) -> None:
        waiting.rests = True
        pod = waiting.info
        room = {node.name: node for node in self._cluster.nodes() if _has_room(pod, node)}
        try:
            node = await self._choose(waiting, room)
        except Trouble as error:
            self._failed(waiting, str(error))
            return
        if node is None:
            return
        self._queue.pop(pod.uid, None)
        self._assumed.add(pod.uid)
        self._cluster.place(pod, node)
        tasks.create_task(self._bind(waiting, node))

    async def _choose(self, waiting: Waiting, room: dict[str, NodeInfo]) -> str | None:
        pod = waiting.info
        nominated = pod.nominated_node_name
        if nominated in room and await self._filter(pod, [nominated]) == [nominated]:
            return nominated
        names = list(room)
        self._rng.shuffle(names)
        kept = await self._filter(pod, names) if names else []
        if not kept:
            await self._refuse(waiting)
            return None
        return kept[0] if len(kept) == 1 else await self._best(pod, kept)

    async def _filter(self, pod: PodInfo, names: list[str]) -> list[str]:
        answer = await self._call("filter", self._args(pod, names))
        if answer.get("Error"):
            raise Trouble(answer["Error"])
        self._last = answer
        if self._names_only:
            kept: list[str] = answer["NodeNames"]
        else:
            kept = [item["metadata"]["name"] for item in answer["Nodes"]["items"]]
        assert set(kept) <= set(names), "kube-scheduler refuses names that it has not sent"
        return kept

    async def _best(self, pod: PodInfo, names: list[str]) -> str:
        answer = await self._call("prioritize", self._args(pod, names))
        scores = {entry["Host"]: entry["Score"] for entry in answer}
        assert set(scores) == set(names)
        assert all(type(score) is int and 0 <= score <= 10 for score in scores.values())
        top = max(scores.values())
        return self._rng.choice([name for name in names if scores[name] == top])

    def _args(self, pod: PodInfo, names: list[str]) -> Json:
        document = {"Pod": _document(pod.pod), "Nodes": None, "NodeNames": None}
        if self._names_only:
            return {**document, "NodeNames": names}
        nodes = [self._cluster.node(name) for name in names]
        items = [_document(node.node) for node in nodes if node is not None]
        return {**document, "Nodes": {"metadata": {}, "items": items}}

    async def _refuse(self, waiting: Waiting) -> None:
        pod = waiting.info
        self.log.refusals.append(self._last)
        texts = Counter((self._last.get("FailedNodes") or {}).values())
        texts.update((self._last.get("FailedAndUnresolvableNodes") or {}).values())
        reasons = ", ".join(sorted(f"{count} {text}" for text, count in texts.items()))
        message = f"0/{len(self._cluster.row_of)} nodes are available: {reasons}"
        await self._preempt(waiting)
        if message != waiting.message:
            waiting.message = message
            await self._note(pod, "Unschedulable", message)

    async def _preempt(self, waiting: Waiting) -> None:
        pod = waiting.info
        candidates = {}
        for node in self._cluster.nodes():
            victims = _victims(pod, node)
            if victims:
                candidates[node.name] = {
                    "Pods": [{"UID": victim.uid} for victim in victims],
                    "NumPDBViolations": 0,
                }
        if not candidates:
            return
        args = {
            "Pod": _document(pod.pod),
            "NodeNameToVictims": None,
            "NodeNameToMetaVictims": candidates,
        }
        answer = (await self._call("preempt", args))["NodeNameToMetaVictims"]
        if answer:
            name = min(answer, key=lambda name: len(answer[name]["Pods"]))
            assert answer[name]["Pods"], "a node without victims fails the whole call"
            await self._make_room(pod, name, [pod["UID"] for pod in answer[name]["Pods"]])

    async def _make_room(self, pod: PodInfo, name: str, uids: list[str]) -> None:
        patch = strategic_patch({"status": {"nominatedNodeName": name}})
        await self._client.patch(
            PODS, pod.name, patch, namespace=pod.namespace, subresource="status"
        )
        for uid in uids:
            victim = self._cluster.pod(uid)
            assert victim is not None
            self.log.evicted.append(victim.name)
            await self._client.delete(
                PODS, victim.name, namespace=victim.namespace, grace_seconds=0
            )

    async def _bind(self, waiting: Waiting, node: str) -> None:
        pod = waiting.info
        args = {
            "PodName": pod.name,
            "PodNamespace": pod.namespace,
            "PodUID": pod.uid,
            "Node": node,
        }
        try:
            error = (await self._call("bind", args)).get("Error")
        except Trouble as trouble:
            error = str(trouble)
        if not error:
            return
        self.log.refused_binds.append(error)
        if pod.uid in self._assumed:
            self._assumed.discard(pod.uid)
            self._cluster.remove_pod(pod.uid)
            self._queue[pod.uid] = waiting
            self._failed(waiting, error)
        self._wake_all()

    def _failed(self, waiting: Waiting, message: str) -> None:
        self.log.errors.append(message)
        waiting.errors += 1
        waiting.rests = False
        delay = self._error_backoff * min(2 ** (waiting.errors - 1), 10)
        waiting.not_before = asyncio.get_running_loop().time() + delay

    async def _note(self, pod: PodInfo, reason: str, message: str) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": reason}
        change = {"status": {"conditions": [{**condition, "message": message}]}}
        with contextlib.suppress(NotFound):
            await self._client.patch(
                PODS,
                pod.name,
                strategic_patch(change),
                namespace=pod.namespace,
                subresource="status",
            )

    async def _call(self, verb: str, body: Mapping[str, Any]) -> Any:
        self.log.calls[verb] += 1
        url = self._rng.choice(self._urls)
        async with self._session.post(f"{url}/{verb}", json=body) as response:
            if response.status != 200:
                raise Trouble(f"{verb}: {response.status} {await response.text()}")
            return await response.json()


class Trouble(Exception):
    """A call failed."""


def _document(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _has_room(pod: PodInfo, node: NodeInfo, *, without: tuple[PodInfo, ...] = ()) -> bool:
    if node.node.spec.unschedulable or len(node.pods) - len(without) >= node.allowed_pods:
        return False
    return all(
        node.requested.get(name, 0) - sum(other.requests.get(name, 0) for other in without) + wanted
        <= node.allocatable.get(name, 0)
        for name, wanted in pod.requests.items()
    )


def _victims(pod: PodInfo, node: NodeInfo) -> tuple[PodInfo, ...]:
    """Return whom kube-scheduler would evict: nobody if its own filters let the pod in as it is."""
    lower = tuple(other for other in node.pods.values() if other.priority < pod.priority)
    if _has_room(pod, node) or not lower or not _has_room(pod, node, without=lower):
        return ()
    victims = lower
    for one in sorted(lower, key=lambda one: -one.priority):
        rest = tuple(other for other in victims if other is not one)
        if _has_room(pod, node, without=rest):
            victims = rest
    return victims
