"""What controllers see of the cluster: one mirror of each resource, shared by all of them.

A mirror lags behind the server by a few turns of the event loop. A controller that has written
something waits here until the mirror shows it; one that looked earlier would, for one, create its
pods twice. (kube-controller-manager keeps counts of what it expects to see instead.)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import structlog

from numakube.kube.reflector import Reflector, wait_synced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numakube.api.meta import ObjectMeta
    from numakube.kube.client import Client
    from numakube.kube.resource_types import ObjectKey, Resource
    from numakube.kube.store import Change, Store


class Owned(Protocol):
    """An object with all of its metadata."""

    @property
    def metadata(self) -> ObjectMeta:
        """The metadata."""
        ...


T = TypeVar("T", bound=Owned)

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

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Mirror(Generic[T]):
    """The objects of one resource, as the server last told of them."""

    def __init__(self, client: Client, resource: Resource[T]) -> None:
        self.reflector: Reflector[T] = Reflector(client, resource)
        self.store: Store[T] = self.reflector.store
        self._clock = client.clock
        self._waiters: set[asyncio.Event] = set()
        self.store.subscribe(self._tell)

    def indexed(self, name: str, function: Callable[[T], Iterable[str]]) -> None:
        """Have an index of this name; the first caller makes it."""
        if not self.store.has_index(name):
            self.store.add_index(name, function)

    def get(self, key: ObjectKey) -> T | None:
        """Return the object with this key."""
        return self.store.get(key)

    def managed_by(self, uid: str) -> tuple[T, ...]:
        """Return the objects whose controller has this uid."""
        self.indexed(BY_CONTROLLER, _controller_uid)
        return self.store.select(BY_CONTROLLER, uid)

    def orphans_in(self, namespace: str) -> tuple[T, ...]:
        """Return the objects in *namespace* that no controller manages."""
        self.indexed(ORPHANS, _orphan_namespace)
        return self.store.select(ORPHANS, namespace)

    def in_namespace(self, namespace: str) -> tuple[T, ...]:
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

    def _tell(self, _: Change[T]) -> None:
        for waiter in self._waiters:
            waiter.set()


class Cluster:
    """The mirrors of the resources that controllers asked for, and the client to change them.

    Attributes:
        report_seconds: how long at least between two reports about an object, if nothing but its
            status is to change.
    """

    def __init__(self, client: Client, *, report_seconds: float = REPORT_SECONDS) -> None:
        self.client = client
        self.report_seconds = report_seconds
        self.clock = client.clock
        self._mirrors: dict[tuple[str, str], Mirror[Any]] = {}

    def mirror(self, resource: Resource[T]) -> Mirror[T]:
        """Return the mirror of *resource*; ask before `run`."""
        name = (resource.group, resource.plural)
        mirror: Mirror[T] | None = self._mirrors.get(name)
        if mirror is None:
            mirror = self._mirrors[name] = Mirror(self.client, resource)
        return mirror

    def find(self, resource: Resource[Any]) -> Mirror[Any] | None:
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
