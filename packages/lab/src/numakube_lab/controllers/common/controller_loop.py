"""The loop that all controllers share, the mirrors that it reads, and the actions that it takes.

A controller says which changes concern which of its objects (`watch`) and what to do about one
(`plan`). Everything else is here. An object is never worked on twice at a time. A plan that turns
out to rest on an outdated view is dropped, and made again.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import msgspec
import structlog

from numakube.errors import AlreadyExists, ApiError, Conflict, NotFound
from numakube.kube import (
    ObjectKey,
    Reflector,
    Updated,
    WorkQueue,
    key_of,
    merge_patch,
    run_workers,
    wait_synced,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numakube.api.meta import ObjectMeta, ObjectReference
    from numakube.kube import Change, Client, Document, EventRecorder, Resource, Store


# What controllers decide to do, as values.


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Create an object.

    Attributes:
        told: whose events tell of it: ``SuccessfulCreate``, ``FailedCreate``.
    """

    resource: Resource[Any]
    document: Document
    told: ObjectReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """Change fields of an object by a merge patch; None removes a field.

    Attributes:
        chained: change it only if it is still as the plan's last change of such an object left it.
    """

    resource: Resource[Any]
    key: ObjectKey
    patch: Document
    subresource: str = ""
    chained: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete an object, if it is still the one with this uid.

    Attributes:
        told: whose events tell of it: ``SuccessfulDelete``.
    """

    resource: Resource[Any]
    key: ObjectKey
    uid: str
    propagation: str = ""
    grace_seconds: int | None = None
    told: ObjectReference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Record an event."""

    about: ObjectReference
    reason: str
    message: str
    warning: bool = False


Action: TypeAlias = Create | PlannedChange | Delete | Note


@dataclass(frozen=True, slots=True)
class ObjectPlan:
    """What to do about an object, in order.

    Attributes:
        again_after: seconds after which to look again, although nothing may have changed.
        then: says what to do after that, given the objects that were created.
    """

    actions: tuple[Action, ...] = ()
    again_after: float | None = None
    then: Callable[[Sequence[Any]], Iterable[Action]] | None = None


NOTHING = ObjectPlan()


def differences(old: msgspec.Struct, new: msgspec.Struct) -> Document:
    """Return the merge patch that makes *old* equal to *new*; empty if they are."""
    if old == new:
        return {}
    return _merge_patch(msgspec.to_builtins(old), msgspec.to_builtins(new))


def _merge_patch(before: Document, after: Document) -> Document:
    patch: Document = {name: None for name in before if name not in after}
    for name, value in after.items():
        known = before.get(name)
        if known == value and name in before:
            continue
        nested = isinstance(known, dict) and isinstance(value, dict)
        patch[name] = _merge_patch(known or {}, value) if nested else value
    return patch


def status_change(
    resource: Resource[Any], key: ObjectKey, version: str, old: msgspec.Struct, new: msgspec.Struct
) -> tuple[PlannedChange, ...]:
    """Return the change that makes the status *new*: none if it is.

    Only the state that the decision was made from, *version*, is changed: should the object be
    newer, the server refuses, and the decision is made again. An empty version means any; the plan
    changes the object before.
    """
    patch = differences(old, new)
    if not patch:
        return ()
    document: Document = {"status": patch}
    if version:
        document["metadata"] = {"resourceVersion": version}
    return (PlannedChange(resource=resource, key=key, patch=document, subresource="status"),)


def soonest(waits: Iterable[float | None]) -> float | None:
    """Return the shortest of some waits; None if there is none."""
    return min((wait for wait in waits if wait is not None), default=None)


T = TypeVar("T", bound="Owned")

_Done: TypeAlias = "tuple[Action, Owned | None]"
"""What was done, and the object as it is then."""

WORKERS = 4
STALE_TRIES = 3
"""How often in a row an outdated plan is made again at once; after that with pauses."""

NAMESPACE_TERMINATING = "NamespaceTerminating"
"""Why the server refuses content for a namespace that goes away: nothing to try again."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class LabController(ABC):
    """Looks after the objects of one kind."""

    name: ClassVar[str]
    workers: ClassVar[int] = WORKERS

    def __init__(self, cluster: MirroredCluster, *, recorder: EventRecorder | None = None) -> None:
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
    def plan(self, key: ObjectKey) -> ObjectPlan:
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
        self, mirror: ResourceMirror[T], keys: Callable[[T], Iterable[ObjectKey]] | None = None
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

    async def _perform(self, plan: ObjectPlan) -> None:
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
            if isinstance(action, PlannedChange) and action.chained:
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
            case PlannedChange(resource=resource, key=key, patch=patch, subresource=subresource):
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
        if obj is not None and isinstance(action, Create | PlannedChange)
    }


def _at_version(action: PlannedChange, version: str) -> PlannedChange:
    metadata = {**action.patch.get("metadata", {}), "resourceVersion": version}
    return replace(action, patch={**action.patch, "metadata": metadata})


def _is_report(action: Action) -> bool:
    return isinstance(action, PlannedChange) and action.subresource == "status"


def _states(change: Change[T]) -> tuple[T, ...]:
    """Return the states of an object that a change is about: old and new may concern others."""
    return (change.old, change.object) if isinstance(change, Updated) else (change.object,)


# What controllers see of the cluster: one mirror of each resource, shared by all of them.
#
# A mirror lags behind the server by a few turns of the event loop. A controller that has written
# something waits here until the mirror shows it; one that looked earlier would, for one, create its
# pods twice. (kube-controller-manager keeps counts of what it expects to see instead.)


class Owned(Protocol):
    """An object with all of its metadata."""

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata."""
        ...


Mirrored = TypeVar("Mirrored", bound=Owned)

BY_NAMESPACE = "namespace"
BY_CONTROLLER = "controller"
"""Finds objects by the uid of the controller that manages them."""

ORPHANS = "orphans"
"""Finds objects that no controller manages, by namespace."""

REPORT_SECONDS = 0.05
PATIENCE = 10.0
"""Seconds after which a controller goes on with a mirror that does not show its work.

It is then cut off from the server, and what it does next is refused if it rests on the past.
"""


class ResourceMirror(Generic[Mirrored]):
    """The objects of one resource, as the server last told of them."""

    def __init__(self, client: Client, resource: Resource[Mirrored]) -> None:
        self.reflector: Reflector[Mirrored] = Reflector(client, resource)
        self.store: Store[Mirrored] = self.reflector.store
        self._clock = client.clock
        self._waiters: set[asyncio.Event] = set()
        self.store.subscribe(self._tell)

    def indexed(self, name: str, function: Callable[[Mirrored], Iterable[str]]) -> None:
        """Have an index of this name; the first caller makes it."""
        if not self.store.has_index(name):
            self.store.add_index(name, function)

    def get(self, key: ObjectKey) -> Mirrored | None:
        """Return the object with this key."""
        return self.store.get(key)

    def managed_by(self, uid: str) -> tuple[Mirrored, ...]:
        """Return the objects whose controller has this uid."""
        self.indexed(BY_CONTROLLER, _controller_uid)
        return self.store.select(BY_CONTROLLER, uid)

    def orphans_in(self, namespace: str) -> tuple[Mirrored, ...]:
        """Return the objects in *namespace* that no controller manages."""
        self.indexed(ORPHANS, _orphan_namespace)
        return self.store.select(ORPHANS, namespace)

    def in_namespace(self, namespace: str) -> tuple[Mirrored, ...]:
        """Return all objects in *namespace*."""
        self.indexed(BY_NAMESPACE, _namespace)
        return self.store.select(BY_NAMESPACE, namespace)

    async def shows(self, version: str) -> None:
        """Return once everything up to the resource version *version* is here."""
        wanted = int(version)
        await self.until(lambda: int(self.reflector.resource_version or 0) >= wanted)

    async def lost(self, key: ObjectKey, uid: str) -> None:
        """Return once the object is gone from here, or marked as being deleted."""
        await self.until(lambda: _is_lost(self.store.get(key), uid))

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once *holds*, which is asked whenever something changes here."""
        if holds():
            return
        changed = asyncio.Event()
        self._waiters.add(changed)
        try:
            async with self._clock.timeout(PATIENCE):
                while not holds():
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            _log.warning("mirror_lags", resource=str(self.reflector), seconds=PATIENCE)
        finally:
            self._waiters.discard(changed)

    def _tell(self, _: Change[Mirrored]) -> None:
        for waiter in self._waiters:
            waiter.set()


class MirroredCluster:
    """The mirrors of the resources that controllers asked for, and the client to change them.

    Attributes:
        report_seconds: how long at least between two reports about an object, if nothing but its
            status is to change.
    """

    def __init__(self, client: Client, *, report_seconds: float = REPORT_SECONDS) -> None:
        self.client = client
        self.report_seconds = report_seconds
        self.clock = client.clock
        self._mirrors: dict[tuple[str, str], ResourceMirror[Any]] = {}

    def mirror(self, resource: Resource[Mirrored]) -> ResourceMirror[Mirrored]:
        """Return the mirror of *resource*; ask before `run`."""
        name = (resource.group, resource.plural)
        mirror: ResourceMirror[Mirrored] | None = self._mirrors.get(name)
        if mirror is None:
            mirror = self._mirrors[name] = ResourceMirror(self.client, resource)
        return mirror

    def find(self, resource: Resource[Any]) -> ResourceMirror[Any] | None:
        """Return the mirror of *resource*, if there is one."""
        return self._mirrors.get((resource.group, resource.plural))

    async def run(self) -> None:
        """Keep all mirrors up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for mirror in self._mirrors.values():
                tasks.create_task(mirror.reflector.run(), name=f"mirror-{mirror.reflector}")

    async def synced(self) -> None:
        """Return once every mirror has held everything."""
        await wait_synced(*(mirror.reflector for mirror in self._mirrors.values()))


def _controller_uid(obj: Owned) -> Iterable[str]:
    controller = obj.metadata.controller
    return () if controller is None else (controller.uid,)


def _namespace(obj: Owned) -> Iterable[str]:
    return (obj.metadata.namespace,)


def _orphan_namespace(obj: Owned) -> Iterable[str]:
    return (obj.metadata.namespace,) if obj.metadata.controller is None else ()


def _is_lost(found: Owned | None, uid: str) -> bool:
    if found is None or found.metadata.uid != uid:
        return True
    return found.metadata.deletion_timestamp is not None
