"""The loop of the default scheduler: take the next pod, choose, bind, tell."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
import structlog

from numakube.api.pod_phase import has_ended
from numakube.errors import ApiError, ClusterUnreachable, Conflict, NotFound
from numakube.kube.catalog import NODES, PODS
from numakube.kube.events import reference_to
from numakube.kube.objects import key_of
from numakube.kube.patches import strategic_patch
from numakube.kube.store import Removed, Updated
from numakube.kube.subresources import bind_pod
from numakube.values.times import format_time
from numakube_lab.controllers.common.pod_states import condition_of
from numakube_lab.controllers.scheduler.choosing import Chooser, Unschedulable
from numakube_lab.controllers.scheduler.pending import Pending
from numakube_lab.controllers.scheduler.room import Demand, Rooms
from numakube_lab.controllers.scheduler.spreading import barred_nodes, hard_constraints

if TYPE_CHECKING:
    from numakube.api.core import Pod
    from numakube.api.nodes import Node
    from numakube.kube.events import EventRecorder
    from numakube.kube.objects import ObjectKey
    from numakube.kube.store import Change
    from numakube_lab.controllers.common.mirrors import Cluster

SCHEDULER_NAME: Final = "default-scheduler"

NEVER: Final = -1
"""A state that the cluster is never in: a pod that is put off in it gets its turn after a pause."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class DefaultScheduler:
    """Binds the pods whose scheduler is ``default-scheduler``."""

    name: ClassVar[str] = SCHEDULER_NAME

    def __init__(self, cluster: Cluster, *, recorder: EventRecorder | None = None) -> None:
        self._cluster = cluster
        self._client = cluster.client
        self._clock = cluster.clock
        self._recorder = recorder
        self._pods = cluster.mirror(PODS)
        self._nodes = cluster.mirror(NODES)
        self._rooms = Rooms()
        self._pending = Pending()
        self._chooser = Chooser(self._rooms, self._client.rng)
        # The last finding for each sort of pods, and the state of the cluster it holds for.
        self._hopeless: dict[bytes, tuple[int, Unschedulable]] = {}
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Schedule until cancelled."""
        await self._cluster.synced()
        stops = [
            self._nodes.store.subscribe(self._node_changed),
            self._pods.store.subscribe(self._pod_changed),
        ]
        try:
            while True:
                await self._turn()
        finally:
            for stop in stops:
                stop()

    async def _turn(self) -> None:
        """Schedule the next pod, or wait until there may be one."""
        self._changed.clear()
        pause = self._pending.wake(version=self._rooms.version, now=self._clock.monotonic())
        key = self._pending.take()
        if key is not None:
            await self._schedule(key)
            return
        try:
            async with self._clock.timeout(pause):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _schedule(self, key: ObjectKey) -> None:
        pod = self._pods.get(key)
        if pod is None or not _is_ours(pod):
            self._pending.remove(key)
            return
        demand = Demand.of(pod)
        choice = self._choose(pod, demand)
        try:
            if isinstance(choice, Unschedulable):
                # What other pods do may even out a spread without making room anywhere.
                version = NEVER if hard_constraints(pod) else self._rooms.version
                self._put_off(key, version=version)
                await self._tell(pod, choice)
            else:
                await self._bind(pod, choice, demand)
        except (ApiError, ClusterUnreachable) as failure:
            _log.warning("scheduling_failed", pod=str(key), error=str(failure))
            self._put_off(key, version=NEVER)

    def _choose(self, pod: Pod, demand: Demand) -> str | Unschedulable:
        """Choose a node; what found none a moment ago finds none now, unless there is more room."""
        spec = pod.spec
        if hard_constraints(pod):
            return self._chooser.choose(spec, demand, self._barred(pod))
        sort = msgspec.json.encode(
            (spec.node_selector, spec.affinity, spec.tolerations, demand.amounts)
        )
        version, finding = self._hopeless.get(sort, (-1, None))
        if finding is not None and version == self._rooms.version:
            return finding
        choice = self._chooser.choose(spec, demand)
        if isinstance(choice, Unschedulable):
            if version != self._rooms.version:
                self._forget_old_findings()
            self._hopeless[sort] = (self._rooms.version, choice)
        return choice

    def _barred(self, pod: Pod) -> dict[str, str]:
        """Return the nodes that are not for *pod*, because of where others of its kind are."""
        nodes = [room.node for room in self._rooms.all()]
        placed = ((one, self._rooms.node_of(one.metadata.uid)) for one in self._pods.store)
        return barred_nodes(pod, nodes, placed)

    def _forget_old_findings(self) -> None:
        current = self._rooms.version
        self._hopeless = {
            sort: found for sort, found in self._hopeless.items() if found[0] == current
        }

    def _put_off(self, key: ObjectKey, *, version: int) -> None:
        self._pending.put_off(key, version=version, now=self._clock.monotonic())

    async def _bind(self, pod: Pod, node: str, demand: Demand) -> None:
        """Bind *pod*; its room is taken from the moment on, not only when the mirror shows it."""
        key, uid = key_of(pod), pod.metadata.uid
        self._rooms.place(uid, node, demand)
        try:
            await bind_pod(self._client, key, node, uid=uid)
        except (Conflict, NotFound) as outdated:
            # Another bound it, or it is gone: the mirror will show which.
            _log.debug("binding_refused", pod=str(key), error=str(outdated))
            self._rooms.release(uid)
            self._pending.remove(key)
        except (ApiError, ClusterUnreachable):
            self._rooms.release(uid)
            raise
        else:
            self._pending.remove(key)
            if self._recorder is not None:
                message = f"Successfully assigned {key} to {node}"
                self._recorder.normal(
                    reference_to(PODS, pod), "Scheduled", message, action="Binding"
                )

    async def _tell(self, pod: Pod, why: Unschedulable) -> None:
        """Tell users why *pod* stays pending: in its status and in an event."""
        if self._recorder is not None:
            self._recorder.warning(
                reference_to(PODS, pod), "FailedScheduling", why.message, action="Scheduling"
            )
        told = condition_of(pod, "PodScheduled")
        if told and (told.status, told.message) == ("False", why.message):
            return
        since = told.last_transition_time if told and told.status == "False" else None
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": why.message,
            "lastTransitionTime": since or format_time(self._clock.now()),
        }
        try:
            await self._client.patch(
                PODS,
                pod.metadata.name,
                strategic_patch({"status": {"conditions": [condition]}}),
                namespace=pod.metadata.namespace,
                subresource="status",
            )
        except NotFound:
            return

    def _node_changed(self, change: Change[Node]) -> None:
        if isinstance(change, Removed):
            self._rooms.drop_node(change.object.metadata.name)
        else:
            self._rooms.put_node(change.object)
        self._changed.set()

    def _pod_changed(self, change: Change[Pod]) -> None:
        pod = change.object
        key = key_of(pod)
        if isinstance(change, Removed) or has_ended(pod):
            self._rooms.release(pod.metadata.uid)
            self._pending.remove(key)
        elif pod.spec.node_name:
            if not isinstance(change, Updated) or not _asks_the_same(change.old, pod):
                self._rooms.place(pod.metadata.uid, pod.spec.node_name, Demand.of(pod))
            self._pending.remove(key)
        elif _is_ours(pod):
            self._pending.add(
                key,
                priority=pod.spec.priority or 0,
                created=pod.metadata.creation_timestamp or "",
            )
            if isinstance(change, Updated) and not _asks_the_same(change.old, pod):
                self._pending.retry(key)
        else:
            self._pending.remove(key)
        self._changed.set()


def _asks_the_same(old: Pod, new: Pod) -> bool:
    """Tell whether a change of a pod leaves its place and what it asks for as they were."""
    return old.spec == new.spec and _given(old) == _given(new)


def _given(pod: Pod) -> list[object]:
    statuses = pod.status.container_statuses if pod.status else ()
    return [(one.name, one.resources, one.allocated_resources) for one in statuses]


def _is_ours(pod: Pod) -> bool:
    """Tell whether *pod* waits for this scheduler."""
    return (
        pod.spec.scheduler_name == SCHEDULER_NAME
        and not pod.spec.node_name
        and not pod.spec.scheduling_gates
        and pod.metadata.deletion_timestamp is None
        and not has_ended(pod)
    )
