"""The loop that all controllers share: look, decide, act, wait until the outcome shows.

A controller says which changes concern which of its objects (`watch`) and what to do about one
(`plan`). Everything else is here. An object is never worked on twice at a time. A plan that turns
out to rest on an outdated view is dropped, and made again.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

import structlog

from numakube.errors import AlreadyExists, ApiError, Conflict, NotFound
from numakube.kube.client import merge_patch
from numakube.kube.resource_types import ObjectKey, key_of
from numakube.kube.store import Updated
from numakube.kube.workqueue import WorkQueue, run_workers
from numakube_lab.controllers.common.controller_actions import Action, Create, Delete, Note, Plan
from numakube_lab.controllers.common.controller_actions import Change as Patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numakube.kube.event_recorder import EventRecorder
    from numakube.kube.resource_types import Resource
    from numakube.kube.store import Change
    from numakube_lab.controllers.common.resource_mirrors import Cluster, Mirror, Owned

T = TypeVar("T", bound="Owned")

_Done: TypeAlias = "tuple[Action, Owned | None]"
"""What was done, and the object as it is then."""

WORKERS = 4
STALE_TRIES = 3
"""How often in a row an outdated plan is made again at once; after that with pauses."""

NAMESPACE_TERMINATING = "NamespaceTerminating"
"""Why the server refuses content for a namespace that goes away: nothing to try again."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Controller(ABC):
    """Looks after the objects of one kind."""

    name: ClassVar[str]
    workers: ClassVar[int] = WORKERS

    def __init__(self, cluster: Cluster, *, recorder: EventRecorder | None = None) -> None:
        self.cluster = cluster
        self.clock = cluster.clock
        self.queue: WorkQueue[ObjectKey] = WorkQueue(clock=cluster.clock)
        self._recorder = recorder
        self._stale: Counter[ObjectKey] = Counter()
        self._reported: dict[ObjectKey, float] = {}
        self._held: set[ObjectKey] = set()
        self._unsubscribe: list[Callable[[], None]] = []

    @abstractmethod
    def watch(self) -> None:
        """Subscribe to what concerns this controller's objects, with `follow`."""

    @abstractmethod
    def plan(self, key: ObjectKey) -> Plan:
        """Decide what to do about the object with this key, which may be gone."""

    def needs_work(self, key: ObjectKey) -> bool:
        """Tell whether there may be something to do about an object that a change concerns."""
        del key
        return True

    async def run(self) -> None:
        """Work until cancelled."""
        await self.cluster.synced()
        self.watch()
        try:
            await run_workers(self.queue, self._work, workers=self.workers)
        finally:
            for stop in self._unsubscribe:
                stop()
            self._unsubscribe.clear()

    def follow(
        self, mirror: Mirror[T], keys: Callable[[T], Iterable[ObjectKey]] | None = None
    ) -> None:
        """Look again at the objects that a change of *mirror* concerns: itself by default."""
        concerned: Callable[[T], Iterable[ObjectKey]] = keys or (lambda obj: (key_of(obj),))

        def handler(change: Change[T]) -> None:
            keys = {key: None for obj in _states(change) for key in concerned(obj)}
            for key in filter(self.needs_work, keys):
                self.queue.add(key)

        self._unsubscribe.append(mirror.store.subscribe(handler))

    async def _work(self, key: ObjectKey) -> float | None:
        if self._holds_back(key):
            return None
        plan = self.plan(key)
        if plan.actions and all(map(_is_report, plan.actions)):
            self._reported[key] = asyncio.get_running_loop().time()
        else:
            self._reported.pop(key, None)
        try:
            await self._perform(plan)
        except (AlreadyExists, Conflict, NotFound) as stale:
            self._stale[key] += 1
            if self._stale[key] > STALE_TRIES:
                raise
            _log.debug("plan_outdated", controller=self.name, key=str(key), error=str(stale))
            return 0.0
        self._stale.pop(key, None)
        return plan.again_after

    def _holds_back(self, key: ObjectKey) -> bool:
        """Put off an object that has only just been reported on, so that reports are few.

        A hundred pods that get ready one by one should not cause a hundred new statuses. This is
        about the load of this process, so it goes by the event loop's time.
        """
        loop = asyncio.get_running_loop()
        last = self._reported.get(key)
        left = 0.0 if last is None else last + self.cluster.report_seconds - loop.time()
        if left <= 0:
            self._held.discard(key)
            return False
        if key not in self._held:
            self._held.add(key)
            loop.call_later(left, self._look_again, key)
        return True

    def _look_again(self, key: ObjectKey) -> None:
        """Look at an object that was put off; if a timer was early, it is put off once more."""
        self._held.discard(key)
        self.queue.add(key)

    async def _perform(self, plan: Plan) -> None:
        """Act, then wait until the mirrors show it."""
        done: list[_Done] = []
        try:
            await self._act_on(plan.actions, done)
            if plan.then is not None:
                created = [obj for action, obj in done if isinstance(action, Create)]
                await self._act_on(plan.then(created), done)
        finally:
            await self._settle(done)

    async def _act_on(self, actions: Iterable[Action], done: list[_Done]) -> None:
        for action in actions:
            if isinstance(action, Patch) and action.chained:
                action = _at_version(action, _latest(done)[action.resource])
            done.append((action, await self._act(action)))

    async def _settle(self, done: Iterable[_Done]) -> None:
        for resource, version in _latest(done).items():
            if mirror := self.cluster.find(resource):
                await mirror.shows(version)
        for action, _ in done:
            if isinstance(action, Delete) and (mirror := self.cluster.find(action.resource)):
                await mirror.lost(action.key, action.uid)

    async def _act(self, action: Action) -> Owned | None:
        """Perform *action*; return the object as it is then, if there is one."""
        match action:
            case Create():
                return await self._create(action)
            case Patch(resource=resource, key=key, patch=patch, subresource=subresource):
                changed: Owned = await self.cluster.client.patch(
                    resource,
                    key.name,
                    merge_patch(patch),
                    namespace=key.namespace,
                    subresource=subresource,
                )
                return changed
            case Delete():
                await self._delete(action)
                return None
            case Note():
                self._note(action)
                return None

    async def _create(self, action: Create) -> Owned | None:
        kind = action.resource.kind.lower()
        try:
            created: Owned = await self.cluster.client.create(action.resource, action.document)
        except ApiError as refusal:
            if any(cause.reason == NAMESPACE_TERMINATING for cause in refusal.causes):
                return None
            if action.told is not None and not isinstance(refusal, AlreadyExists):
                message = f"Error creating: {refusal.message}"
                self._note(
                    Note(about=action.told, reason="FailedCreate", message=message, warning=True)
                )
            raise
        if action.told is not None:
            message = f"Created {kind}: {created.metadata.name}"
            self._note(Note(about=action.told, reason="SuccessfulCreate", message=message))
        return created

    async def _delete(self, action: Delete) -> None:
        try:
            await self.cluster.client.delete(
                action.resource,
                action.key.name,
                namespace=action.key.namespace,
                uid=action.uid,
                propagation=action.propagation,
                grace_seconds=action.grace_seconds,
            )
        except NotFound:
            return
        if action.told is not None:
            kind = action.resource.kind.lower()
            message = f"Deleted {kind}: {action.key.name}"
            self._note(Note(about=action.told, reason="SuccessfulDelete", message=message))

    def _note(self, note: Note) -> None:
        if self._recorder is None:
            return
        record = self._recorder.warning if note.warning else self._recorder.normal
        record(note.about, note.reason, note.message)


def _latest(done: Iterable[_Done]) -> dict[Resource[Any], str]:
    """Return the last version that was written of each resource."""
    return {
        action.resource: obj.metadata.resource_version
        for action, obj in done
        if obj is not None and isinstance(action, Create | Patch)
    }


def _at_version(action: Patch, version: str) -> Patch:
    metadata = {**action.patch.get("metadata", {}), "resourceVersion": version}
    return replace(action, patch={**action.patch, "metadata": metadata})


def _is_report(action: Action) -> bool:
    return isinstance(action, Patch) and action.subresource == "status"


def _states(change: Change[T]) -> tuple[T, ...]:
    """Return the states of an object that a change is about: old and new may concern others."""
    return (change.old, change.object) if isinstance(change, Updated) else (change.object,)
