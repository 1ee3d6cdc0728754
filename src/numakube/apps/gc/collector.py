"""Which objects to remove, and when: those whose node has been missing for the grace time.

A node that is deleted and registers again within that time keeps its object. Before an object is
removed the API is asked once more for the node, and the deletion names the object's uid, so that
neither an old cache nor a new object of the same name can lead to a mistake.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge

from numakube.api.meta import Named
from numakube.apps.served_topologies import served_topologies
from numakube.errors import ApiError, ClusterUnreachable, Conflict, NotFound
from numakube.kube.catalog import NODES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numakube.kube.client import Client

KIND: Final = "NodeResourceTopology"

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class GcMetrics:
    """The metrics of a garbage collector."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.deleted = Counter(
            "nfd_gc_objects_deleted_total", "Objects removed.", ("kind",), registry=registry
        )
        self.failures = Counter(
            "nfd_gc_object_delete_failures_total",
            "Objects that could not be removed.",
            ("kind",),
            registry=registry,
        )
        self.orphans = Gauge(
            "numakube_gc_orphans", "Objects whose node is missing now.", registry=registry
        )


@dataclass(frozen=True, slots=True)
class Orphan:
    """An object without a node.

    Attributes:
        namespace: where it is; empty for an object of the cluster.
        name: its name, and that of the missing node.
        uid: which object of that name it is.
        since: when the node was first missed, by the monotonic clock.
    """

    namespace: str
    name: str
    uid: str
    since: float

    @property
    def key(self) -> str:
        """``namespace/name``, or the name alone if the object has no namespace."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(slots=True, kw_only=True)
class Collector:
    """Removes objects of nodes that have vanished.

    Attributes:
        client: the API.
        nodes: tells the names of all nodes.
        grace: seconds for which a node must be missing.
        page_size: objects to list at a time; 0 for all at once.
        dry_run: only say what would be removed.
        metrics: what is counted.
        orphans: the objects that wait for the end of their grace time.
    """

    client: Client
    nodes: Callable[[], Collection[str]]
    grace: float
    page_size: int
    dry_run: bool
    metrics: GcMetrics
    orphans: dict[str, Orphan] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    async def look(self) -> None:
        """Find out which objects have no node now."""
        try:
            objects = (await served_topologies(self.client)).decoded_as(Named)
            found = await self.client.list(objects, page_size=self.page_size)
        except NotFound:
            # The cluster has no such objects at all.
            self.orphans.clear()
            return
        now, nodes = self.client.clock.monotonic(), self.nodes()
        missing = {
            one.metadata.key: Orphan(
                one.metadata.namespace, one.metadata.name, one.metadata.uid, now
            )
            for one in found.items
            if one.metadata.name not in nodes
        }
        for key, orphan in missing.items():
            known = self.orphans.get(key)
            if known is not None and known.uid == orphan.uid:
                missing[key] = known
        self.orphans = missing
        self._told &= {orphan.uid for orphan in missing.values()}
        self.metrics.orphans.set(len(missing))

    async def collect(self) -> list[str]:
        """Remove what is due; return the names of what was removed, or would be in a dry run."""
        removed = []
        for orphan in self._due():
            if orphan.name in self.nodes() or await self._node_exists(orphan.name):
                del self.orphans[orphan.key]
            elif await self._remove(orphan):
                removed.append(orphan.key)
        return removed

    def seconds_to_next(self) -> float | None:
        """Return how long it takes until an object is due; ``None`` if none waits."""
        waiting = [one for one in self.orphans.values() if one.uid not in self._told]
        if not waiting:
            return None
        first = min(orphan.since for orphan in waiting)
        return max(0.0, first + self.grace - self.client.clock.monotonic())

    def _due(self) -> list[Orphan]:
        limit = self.client.clock.monotonic() - self.grace
        due = [one for one in self.orphans.values() if one.since <= limit]
        return [one for one in due if one.uid not in self._told]

    async def _node_exists(self, name: str) -> bool:
        try:
            await self.client.get(NODES.decoded_as(Named), name)
        except NotFound:
            return False
        return True

    async def _remove(self, orphan: Orphan) -> bool:
        if self.dry_run:
            self._told.add(orphan.uid)
            _log.info("would_be_removed", object=orphan.key)
            return True
        try:
            objects = (await served_topologies(self.client)).decoded_as(Named)
            place = orphan.namespace if objects.namespaced else ""
            await self.client.delete(objects, orphan.name, namespace=place, uid=orphan.uid)
        except (NotFound, Conflict):
            # It was removed in the meantime, or there is a new object of that name.
            del self.orphans[orphan.key]
            return False
        except (ApiError, ClusterUnreachable) as error:
            self.metrics.failures.labels(KIND).inc()
            _log.warning("object_not_removed", object=orphan.key, error=str(error))
            raise
        del self.orphans[orphan.key]
        self.metrics.deleted.labels(KIND).inc()
        _log.info("object_removed", object=orphan.key, reason="its node has vanished")
        return True
