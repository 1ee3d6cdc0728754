"""The garbage collector: deletes objects of every kind whose owners are gone.

It mirrors the metadata of all resources that the server has, those of custom kinds included, as
they come and go. The decisions are made on a `Graph` of owners. Before an object is deleted because
its owners are not known, the server is asked whether they exist.

Who owns whom, over all kinds of objects, and what follows from that. The rules are those of
kube-controller-manager's garbage collector: an object all of whose owners are gone is deleted; an
owner that is deleted in the foreground waits for those dependents that block it; an owner that is
deleted as an orphan-maker first lets go of its dependents.

Which resources a server has: for controllers that look after objects of every kind.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import msgspec
import structlog

from numakube.api.codec import Wire
from numakube.errors import ApiError, ClusterUnreachable, Conflict, NotFound
from numakube.kube import (
    Client,
    Removed,
    Request,
    Resource,
    Updated,
    WorkQueue,
    codec_of,
    growing,
    key_of,
    merge_patch,
    run_workers,
)
from numakube.kube.catalog import CUSTOM_RESOURCE_DEFINITIONS
from numakube_lab.controllers.common.controller_loop import ResourceMirror
from numakube_lab.controllers.object_types import MetadataObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numakube.api.meta import ObjectMeta, OwnerReference
    from numakube.kube import Change, Document, EventRecorder, ObjectKey
    from numakube_lab.controllers.common.controller_loop import MirroredCluster, Owned


FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"


@dataclass(frozen=True, slots=True)
class Item:
    """An object in the graph."""

    resource: Resource[Any]
    key: ObjectKey
    metadata: ObjectMeta

    @property
    def is_going(self) -> bool:
        """Whether it is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def waits_for_dependents(self) -> bool:
        """Whether it is being deleted in the foreground."""
        return self.is_going and FOREGROUND in self.metadata.finalizers

    @property
    def makes_orphans(self) -> bool:
        """Whether it is being deleted and its dependents are to stay."""
        return self.is_going and ORPHAN in self.metadata.finalizers


class OwnerState(Enum):
    """What is known of an owner."""

    THERE = auto()
    WAITING = auto()
    """It is being deleted in the foreground, and waits for its dependents."""
    GONE = auto()


class Graph:
    """All objects by uid, and the dependents of each."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._dependents: dict[str, dict[str, None]] = {}

    def get(self, uid: str) -> Item | None:
        """Return the object with this uid."""
        return self._items.get(uid)

    def dependents(self, uid: str) -> list[Item]:
        """Return the objects that name the one with this uid as an owner."""
        return [self._items[each] for each in self._dependents.get(uid, ())]

    def put(self, item: Item) -> None:
        """Take in an object, or its new state."""
        uid = item.metadata.uid
        old = self._items.get(uid)
        if old is not None and old.metadata.owner_references != item.metadata.owner_references:
            self._unlink(old)
            old = None
        self._items[uid] = item
        if old is None:
            for owner in item.metadata.owner_references:
                self._dependents.setdefault(owner.uid, {})[uid] = None

    def remove(self, uid: str) -> None:
        """Forget an object."""
        item = self._items.pop(uid, None)
        if item is not None:
            self._unlink(item)

    def _unlink(self, item: Item) -> None:
        for owner in item.metadata.owner_references:
            known = self._dependents.get(owner.uid)
            if known is not None:
                known.pop(item.metadata.uid, None)
                if not known:
                    del self._dependents[owner.uid]


@dataclass(frozen=True, slots=True)
class Collect:
    """Delete the object, passing *propagation* on."""

    propagation: str


@dataclass(frozen=True, slots=True)
class Disown:
    """Remove owners from the object's references."""

    uids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Unblock:
    """Remove a finalizer: what it waited for is done."""

    finalizer: str


@dataclass(frozen=True, slots=True)
class ReleaseDependents:
    """Let go of all dependents, then remove the finalizer that asked for it."""

    dependents: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class CollectDependents:
    """Have the dependents looked at: they are to go before their owner."""

    dependents: tuple[Item, ...]


Step = Collect | Disown | Unblock | ReleaseDependents | CollectDependents


def decide(item: Item, owners: Mapping[str, OwnerState], dependents: Sequence[Item]) -> Step | None:
    """Return what to do about *item*; None if it may stay, or go by itself.

    Args:
        item: the object.
        owners: the state of each of its owners, by uid.
        dependents: the objects that name it as an owner.
    """
    if item.makes_orphans:
        return ReleaseDependents(tuple(dependents))
    if item.waits_for_dependents:
        return _after_dependents(item, dependents)
    references = item.metadata.owner_references
    if item.is_going or not references:
        return None
    return _by_owners(item, references, owners, dependents)


def _after_dependents(item: Item, dependents: Sequence[Item]) -> Step:
    uid = item.metadata.uid
    blocking = [each for each in dependents if _blocks(each, uid)]
    if not blocking:
        return Unblock(FOREGROUND)
    return CollectDependents(tuple(dependents))


def _by_owners(
    item: Item,
    references: Sequence[OwnerReference],
    owners: Mapping[str, OwnerState],
    dependents: Sequence[Item],
) -> Step | None:
    states = {reference.uid: owners[reference.uid] for reference in references}
    lost = frozenset(uid for uid, state in states.items() if state is not OwnerState.THERE)
    if len(lost) < len(states):
        return Disown(lost) if lost else None
    if OwnerState.WAITING in states.values() and dependents:
        return Collect("Foreground")
    finalizers = item.metadata.finalizers
    if ORPHAN in finalizers:
        return Collect("Orphan")
    return Collect("Foreground" if FOREGROUND in finalizers else "Background")


def _blocks(dependent: Item, owner_uid: str) -> bool:
    return any(
        reference.uid == owner_uid and reference.block_owner_deletion
        for reference in dependent.metadata.owner_references
    )


T = TypeVar("T")

_NEEDED: Final = frozenset({"delete", "list", "watch"})
# Events are many, own nothing and go by themselves; the real collector leaves them out too.
_IGNORED: Final = frozenset({("", "events"), ("events.k8s.io", "events")})


class _GroupVersion(Wire, frozen=True):
    group_version: str = ""


class _Group(Wire, frozen=True):
    name: str = ""
    preferred_version: _GroupVersion = _GroupVersion()


class _Groups(Wire, frozen=True):
    groups: tuple[_Group, ...] = ()


class _ApiResource(Wire, frozen=True):
    name: str = ""
    kind: str = ""
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _ApiResources(Wire, frozen=True):
    resources: tuple[_ApiResource, ...] = ()


async def collectable_resources(client: Client) -> list[Resource[MetadataObject]]:
    """Return the resources whose objects can be listed, watched and deleted."""
    groups = await _read(client, "/apis", _Groups)
    versions = ["v1", *(group.preferred_version.group_version for group in groups.groups)]
    found: list[Resource[MetadataObject]] = []
    for group_version in versions:
        root = "/apis" if "/" in group_version else "/api"
        listed = await _read(client, f"{root}/{group_version}", _ApiResources)
        group, _, version = group_version.rpartition("/")
        found += [
            _resource(group, version, each)
            for each in listed.resources
            if set(each.verbs) >= _NEEDED and (group, each.name) not in _IGNORED
        ]
    return found


def _resource(group: str, version: str, listed: _ApiResource) -> Resource[MetadataObject]:
    return Resource(
        group=group,
        version=version,
        plural=listed.name,
        kind=listed.kind,
        namespaced=listed.namespaced,
        object_type=MetadataObject,
    )


async def _read(client: Client, path: str, type_: type[T]) -> T:
    response = await client.request(Request(method="GET", path=path))
    return codec_of(type_).one(response.body, kind=path)


WORKERS: Final = 4
RETRY_SECONDS: Final = 5.0
"""How long to wait before the server is asked again which resources it has, if it did not say."""

FIRST_DOUBT: Final = 0.01
LAST_DOUBT: Final = 300.0
"""Seconds after which to look again at an object with an owner that cannot be watched, growing."""

CRDS: Final = CUSTOM_RESOURCE_DEFINITIONS.decoded_as(MetadataObject)

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class GarbageCollector:
    """Collects objects whose owners are gone."""

    name: ClassVar[str] = "garbage-collector-controller"

    def __init__(self, cluster: MirroredCluster, *, recorder: EventRecorder | None = None) -> None:
        del recorder  # What it does is not told in events.
        self._cluster = cluster
        self._client = cluster.client
        self._clock = cluster.clock
        self._definitions = cluster.mirror(CRDS)
        self._graph = Graph()
        self._queue: WorkQueue[str] = WorkQueue(clock=cluster.clock)
        self._followed: dict[tuple[str, str], _Followed] = {}
        self._kinds: dict[tuple[str, str], Resource[MetadataObject]] = {}
        self._doubts: dict[str, int] = {}
        self._outdated = asyncio.Event()

    async def run(self) -> None:
        """Collect until cancelled."""
        await self._cluster.synced()
        self._outdated.set()
        stop = self._definitions.store.subscribe(lambda _: self._outdated.set(), replay=False)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._keep_following(tasks), name="garbage-discovery")
                tasks.create_task(run_workers(self._queue, self._work, workers=WORKERS))
        finally:
            stop()
            for followed in self._followed.values():
                followed.unsubscribe()

    # Which resources there are.

    async def _keep_following(self, tasks: asyncio.TaskGroup) -> None:
        """Follow all resources of the server, and look again whenever definitions change."""
        while True:
            await self._outdated.wait()
            self._outdated.clear()
            try:
                found = await collectable_resources(self._client)
            except (ApiError, ClusterUnreachable) as failure:
                _log.warning("discovery_failed", error=str(failure))
                await self._clock.sleep(RETRY_SECONDS)
                self._outdated.set()
                continue
            self._follow(found, tasks)

    def _follow(self, found: Iterable[Resource[MetadataObject]], tasks: asyncio.TaskGroup) -> None:
        resources = {(each.group, each.plural): each for each in found}
        for name in [name for name in self._followed if name not in resources]:
            self._unfollow(name)
        self._kinds = {(each.group, each.kind): each for each in resources.values()}
        for name, resource in resources.items():
            if name not in self._followed:
                self._followed[name] = self._start(resource, tasks)

    def _start(self, resource: Resource[MetadataObject], tasks: asyncio.TaskGroup) -> _Followed:
        """Begin to follow a resource, through a mirror that others use if there is one."""
        shared = self._cluster.find(resource)
        mirror = shared or ResourceMirror(self._client, resource)
        task = None
        if shared is None:
            task = tasks.create_task(mirror.reflector.run(), name=f"garbage-{resource}")

        def handler(change: Change[Any]) -> None:
            self._changed(resource, change)

        return _Followed(mirror.store.subscribe(handler), mirror, task)

    def _unfollow(self, name: tuple[str, str]) -> None:
        """Stop following a resource that is no longer there; so are its objects."""
        followed = self._followed.pop(name)
        followed.unsubscribe()
        for obj in followed.mirror.store:
            self._forget(obj.metadata.uid)
        if followed.task is not None:
            followed.task.cancel()

    # What changes.

    def _changed(self, resource: Resource[MetadataObject], change: Change[Owned]) -> None:
        metadata = change.object.metadata
        if isinstance(change, Removed):
            self._forget(metadata.uid)
            for owner in metadata.owner_references:
                self._wake(owner.uid)
            return
        item = Item(resource, key_of(change.object), metadata)
        self._graph.put(item)
        if isinstance(change, Updated) and _is_owned_alike(change.old.metadata, metadata):
            return
        if metadata.owner_references or item.is_going:
            self._queue.add(metadata.uid)
        for owner in metadata.owner_references:
            self._wake(owner.uid)

    def _wake(self, owner_uid: str) -> None:
        """Look again at an owner that waits for its dependents."""
        owner = self._graph.get(owner_uid)
        if owner is not None and owner.waits_for_dependents:
            self._queue.add(owner_uid)

    def _forget(self, uid: str) -> None:
        dependents = self._graph.dependents(uid)
        self._graph.remove(uid)
        self._doubts.pop(uid, None)
        for dependent in dependents:
            self._queue.add(dependent.metadata.uid)

    # What follows.

    async def _work(self, uid: str) -> float | None:
        item = self._graph.get(uid)
        if item is None:
            return None
        owners = {
            reference.uid: await self._state_of(item, reference)
            for reference in item.metadata.owner_references
        }
        step = decide(item, owners, self._graph.dependents(uid))
        if step is not None:
            try:
                await self._take(item, step)
            except (Conflict, NotFound) as outdated:
                _log.debug("collection_outdated", object=str(item.key), error=str(outdated))
                await self._caught_up(item)
                return 0.0
        return self._doubt(item) if step is None else None

    def _doubt(self, item: Item) -> float | None:
        """Return when to look again at an object with an owner that exists but is not mirrored.

        No event would announce the end of such an owner. Mostly its mirror is just being set up.
        """
        uid = item.metadata.uid
        references = item.metadata.owner_references
        if item.is_going or all(self._graph.get(each.uid) for each in references):
            self._doubts.pop(uid, None)
            return None
        self._doubts[uid] = self._doubts.get(uid, 0) + 1
        return growing(self._doubts[uid], base=FIRST_DOUBT, cap=LAST_DOUBT)

    async def _caught_up(self, item: Item) -> None:
        """Wait until the graph shows another state of *item* than the one that was outdated."""
        name = (item.resource.group, item.resource.plural)
        followed, uid = self._followed.get(name), item.metadata.uid
        if followed is not None:
            await followed.mirror.until(lambda: self._graph.get(uid) is not item)

    async def _state_of(self, item: Item, reference: OwnerReference) -> OwnerState:
        owner = self._graph.get(reference.uid)
        if owner is not None:
            return OwnerState.WAITING if owner.waits_for_dependents else OwnerState.THERE
        group, _, _ = reference.api_version.rpartition("/")
        resource = self._kinds.get((group, reference.kind))
        if resource is None:
            # An unknown kind: its objects may exist where we cannot see them.
            return OwnerState.THERE
        namespace = item.key.namespace if resource.namespaced else ""
        if resource.namespaced and not namespace:
            return OwnerState.THERE
        try:
            found = await self._client.get(resource, reference.name, namespace=namespace)
        except NotFound:
            return OwnerState.GONE
        return OwnerState.THERE if found.metadata.uid == reference.uid else OwnerState.GONE

    async def _take(self, item: Item, step: Step) -> None:
        match step:
            case Collect(propagation):
                await self._client.delete(
                    item.resource,
                    item.key.name,
                    namespace=item.key.namespace,
                    uid=item.metadata.uid,
                    resource_version=item.metadata.resource_version,
                    propagation=propagation,
                )
            case Disown(uids):
                await self._patch(item, _without_owners(item, uids))
            case Unblock(finalizer):
                await self._patch(item, _without_finalizer(item, finalizer))
            case CollectDependents(dependents):
                for dependent in dependents:
                    self._queue.add(dependent.metadata.uid)
            case ReleaseDependents(dependents):
                for dependent in dependents:
                    owners = _without_owners(dependent, frozenset({item.metadata.uid}))
                    await self._patch(dependent, owners)
                await self._patch(item, _without_finalizer(item, ORPHAN))

    async def _patch(self, item: Item, change: Document) -> None:
        metadata = {"resourceVersion": item.metadata.resource_version, "uid": item.metadata.uid}
        await self._client.patch(
            item.resource,
            item.key.name,
            merge_patch({"metadata": {**metadata, **change}}),
            namespace=item.key.namespace,
        )


class _Followed:
    """A resource that is followed."""

    def __init__(
        self,
        unsubscribe: Callable[[], None],
        mirror: ResourceMirror[Any],
        task: asyncio.Task[None] | None,
    ) -> None:
        self.unsubscribe = unsubscribe
        self.mirror = mirror
        self.task = task


def _is_owned_alike(old: ObjectMeta, new: ObjectMeta) -> bool:
    """Tell whether a change can be ignored; most are changes of a status."""
    return (
        old.owner_references == new.owner_references
        and old.finalizers == new.finalizers
        and old.deletion_timestamp == new.deletion_timestamp
    )


def _without_owners(item: Item, uids: frozenset[str]) -> Document:
    kept = [each for each in item.metadata.owner_references if each.uid not in uids]
    return {"ownerReferences": msgspec.to_builtins(kept) or None}


def _without_finalizer(item: Item, finalizer: str) -> Document:
    kept = [each for each in item.metadata.finalizers if each != finalizer]
    return {"finalizers": kept or None}
