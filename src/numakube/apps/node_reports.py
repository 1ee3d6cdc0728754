"""The report of every node: its NodeResourceTopology, or else what Volcano's agent says of it.

What has changed since a NodeResourceTopology was written may be in an object of its own
(`numakube.topology.report_update`): the report is both together.

Volcano has a kind of its own, Numatopology. A cluster that moves from one kind to the other has
both for a while; then the NodeResourceTopology counts, which tells more.

    reports = ReportMirror(client)                # mirrors them, and follows the definition
    report = await read_topology(client, "worker-0")

Both have one object a node, in the current version and without a namespace.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api import volcano_numatopology as names
from numakube.api.interning import shared_nrt
from numakube.api.nrt import NodeResourceTopology, by_node
from numakube.api.volcano_numatopology import Numatopology
from numakube.apps.served_topologies import served_topologies
from numakube.errors import Forbidden, MalformedObject, NotFound
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, NODE_RESOURCE_TOPOLOGY_UPDATES
from numakube.kube.reflector import Reflector, ReflectorTiming
from numakube.kube.resource_types import ObjectKey, Resource, key_of
from numakube.kube.store import Added, Removed, Store
from numakube.topology.report_update import (
    distrusted,
    is_of,
    is_overdue,
    promises_updates,
    updated,
    versioned,
    with_unreadable_update,
)
from numakube.topology.volcano import as_nrt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from numakube.api.nrt_update import NodeResourceTopologyUpdate
    from numakube.kube.client import Client
    from numakube.kube.decode import Malformed
    from numakube.kube.store import Change

NUMATOPOLOGIES: Final = Resource(
    group=names.GROUP,
    version=names.VERSION,
    plural=names.PLURAL,
    kind=names.KIND,
    namespaced=False,
    object_type=Numatopology,
)
_IMPATIENT: Final = ReflectorTiming(longest_backoff=5.0)
"""The kind may be installed after us; its nodes should not wait half a minute then."""
_LOOK_SECONDS: Final = 0.02


async def read_topology(client: Client, node: str) -> NodeResourceTopology | None:
    """Return the object of *node* as the server has it now; ``None`` if there is none.

    If its update cannot be read, the report says that it must not be trusted.
    """
    # A report that comes after its update was read is no older than both.
    try:
        update, odd = await _read_update(client, node), None
    except MalformedObject as error:
        update, odd = None, error
    try:
        resource = await served_topologies(client)
        found = await client.list(resource, fields=f"metadata.name={node}")
    except NotFound:
        return None
    report = by_node(found.items).get(node)
    if report is not None and odd is not None:
        return with_unreadable_update(report, odd)
    return None if report is None else updated(report, update)


async def _read_update(client: Client, node: str) -> NodeResourceTopologyUpdate | None:
    try:
        return await client.get(NODE_RESOURCE_TOPOLOGY_UPDATES, node)
    except (Forbidden, NotFound):
        return None


def topology_reflector(
    client: Client, *, timing: ReflectorTiming = _IMPATIENT
) -> Reflector[NodeResourceTopology]:
    """Return what mirrors the objects of all nodes, wherever they are served."""
    return Reflector(
        client,
        NODE_RESOURCE_TOPOLOGIES,
        store=TopologyStore(),
        timing=timing,
        locate=partial(served_topologies, client),
    )


def update_reflector(
    client: Client, on_malformed: Callable[[Malformed], None]
) -> Reflector[NodeResourceTopologyUpdate]:
    """Return what mirrors the updates of reports; a cluster may do without."""
    return Reflector(
        client,
        NODE_RESOURCE_TOPOLOGY_UPDATES,
        timing=_IMPATIENT,
        optional=True,
        on_malformed=on_malformed,
    )


class TopologyStore(Store[NodeResourceTopology]):
    """One object a node; of several in namespaces the one that was written last."""

    def __init__(
        self,
        *,
        transform: Callable[[NodeResourceTopology], NodeResourceTopology] | None = shared_nrt,
    ) -> None:
        super().__init__(transform=transform)
        self._in_namespaces: dict[str, dict[str, NodeResourceTopology]] = {}

    def put(self, obj: NodeResourceTopology) -> None:
        """Store *obj* in the current version, unless the node has a later one."""
        self._note(obj)
        rivals = self._in_namespaces.get(obj.metadata.name)
        for report in by_node(rivals.values() if rivals else (obj,)).values():
            super().put(report)

    def remove(
        self, key: ObjectKey, *, last: NodeResourceTopology | None = None, unseen: bool = False
    ) -> None:
        """Drop an object; if the node has another one in some namespace, that counts from now."""
        if key.namespace:
            rivals = self._in_namespaces.get(key.name, {})
            rivals.pop(key.namespace, None)
            for report in by_node(rivals.values()).values():
                super().put(report)
                return
        final = None if last is None else by_node([last])[key.name]
        super().remove(ObjectKey("", key.name), last=final, unseen=unseen)

    def replace(self, objects: Iterable[NodeResourceTopology]) -> None:
        """Make *objects* the whole content."""
        objects = tuple(objects)
        self._in_namespaces.clear()
        for obj in objects:
            self._note(obj)
        super().replace(by_node(objects).values())

    def _note(self, obj: NodeResourceTopology) -> None:
        if obj.metadata.namespace:
            found = self._in_namespaces.setdefault(obj.metadata.name, {})
            found[obj.metadata.namespace] = obj

    def _is_same_state(self, old: NodeResourceTopology, new: NodeResourceTopology) -> bool:
        # An older version of the API shows the same state without its attributes.
        return super()._is_same_state(old, new) and old.attributes == new.attributes


class ReportMirror:
    """Mirrors every kind of object that reports are made of.

    Attributes:
        topologies: the reports as they were written.
        optional: mirrors of the kinds that a cluster may do without.
        store: always has the report of every node that has one.
    """

    def __init__(self, client: Client) -> None:
        self._clock = client.clock
        self.topologies: Reflector[NodeResourceTopology] = topology_reflector(client)
        self._updates = update_reflector(client, self._on_malformed_update)
        self._numatopologies = Reflector(client, NUMATOPOLOGIES, optional=True)
        self.optional: tuple[Reflector[Any], ...] = (self._updates, self._numatopologies)
        self._reports = NodeReports(
            self.topologies.store,
            self._updates.store,
            self._numatopologies.store,
            knows_updates=self._knows_updates,
        )
        self.store = self._reports.store

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """All mirrors."""
        return (self.topologies, *self.optional)

    @property
    def has_others(self) -> bool:
        """Whether reports of another kind are there, whatever is with the first one."""
        return bool(len(self._numatopologies.store))

    def update_trouble(self) -> str:
        """Say why reports that are there are old; empty if they are not."""
        error = self._updates.last_error
        if not isinstance(error, Forbidden) or not self._updates.denied:
            return ""
        now = self._clock.now()
        old = any(is_overdue(topology, now) for topology in self.topologies.store.values())
        return f"reports are old: {error.message}" if old else ""

    async def run(self) -> None:
        """Mirror until cancelled; updates come first, so that no report is taken for the latest."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self.optional:
                tasks.create_task(reflector.run(), name=f"mirror-{reflector}")
            while not self._updates.synced.is_set() and self._updates.last_error is None:
                await self._clock.sleep(_LOOK_SECONDS)
            tasks.create_task(self.topologies.run(), name=f"mirror-{self.topologies}")
            while not self._knows_updates():
                await self._clock.sleep(_LOOK_SECONDS)
            self._reports.show_all()

    def _knows_updates(self) -> bool:
        """Tell whether updates were read, or are known not to be there.

        A server that has just started may not know yet that it serves them, nor that we may read.
        """
        return self._updates.synced.is_set() or self._updates.denied

    def _on_malformed_update(self, malformed: Malformed) -> None:
        self._reports.note_malformed(malformed)


def node_reports(
    topologies: Store[NodeResourceTopology],
    updates: Store[NodeResourceTopologyUpdate],
    numatopologies: Store[Numatopology],
) -> Store[NodeResourceTopology]:
    """Return a store that always has the report of every node that has one."""
    return NodeReports(topologies, updates, numatopologies).store


class NodeReports:
    """Puts the reports of nodes together as their parts come and go."""

    def __init__(
        self,
        topologies: Store[NodeResourceTopology],
        updates: Store[NodeResourceTopologyUpdate],
        numatopologies: Store[Numatopology],
        *,
        knows_updates: Callable[[], bool] = lambda: True,
    ) -> None:
        """Put together what is there.

        Args:
            topologies: the reports as they were written.
            updates: what has changed since.
            numatopologies: the reports of Volcano's agents.
            knows_updates: whether *updates* has them all. Until then a report that may have one is
                not trusted: it may be an hour old.
        """
        # Most are the objects of the other store, whose parts are shared already.
        self.store = TopologyStore(transform=None)
        self._topologies, self._updates = topologies, updates
        self._numatopologies = numatopologies
        self._knows_updates = knows_updates
        self._applied: dict[ObjectKey, NodeResourceTopologyUpdate] = {}
        self._malformed: dict[ObjectKey, Malformed] = {}
        topologies.subscribe(self._on_topology)
        updates.subscribe(self._on_update)
        numatopologies.subscribe(self._on_numatopology)

    def show_all(self) -> None:
        """Put everything together again: updates are known from now on."""
        for topology in list(self._topologies.values()):
            if promises_updates(topology):
                self._show(key_of(topology))

    def note_malformed(self, malformed: Malformed) -> None:
        """Do not trust a report whose update cannot be read, until there is another of either."""
        self._malformed[malformed.key] = malformed
        self._show(malformed.key)

    def _show(self, key: ObjectKey) -> None:
        topology, numatopology = self._topologies.get(key), self._numatopologies.get(key)
        if topology is not None:
            update = self._updates.get(key)
            if update is not None and is_of(update, topology):
                self._applied[key] = update
            # The update of a report that has yet to come does not take back the one before.
            self.store.put(self._current(topology, self._applied.get(key)))
        elif numatopology is not None:
            self.store.put(as_nrt(numatopology))

    def _current(
        self, topology: NodeResourceTopology, update: NodeResourceTopologyUpdate | None
    ) -> NodeResourceTopology:
        """Return the report with its update, and the word if it must not be trusted."""
        current = updated(topology, update)
        if malformed := self._malformed.get(key_of(topology)):
            return versioned(
                with_unreadable_update(current, malformed.error), malformed.resource_version
            )
        if update is None and promises_updates(topology) and not self._knows_updates():
            # Without a version, so that the same report is news once it can be trusted.
            metadata = msgspec.structs.replace(current.metadata, resource_version="")
            current = msgspec.structs.replace(current, metadata=metadata)
            return distrusted(current, "its updates have not been read yet")
        return current

    def _on_topology(self, change: Change[NodeResourceTopology]) -> None:
        key = key_of(change.object)
        if not isinstance(change, Added):
            # A new report is written with a new update.
            self._malformed.pop(key, None)
        if isinstance(change, Removed) and key not in self._topologies:
            self._applied.pop(key, None)
            self.store.remove(key, last=change.object, unseen=change.unseen)
        self._show(key)

    def _on_update(self, change: Change[NodeResourceTopologyUpdate]) -> None:
        # Without its report it says nothing; and a report keeps what an update said of it.
        if not isinstance(change, Removed):
            self._malformed.pop(key_of(change.object), None)
            self._show(key_of(change.object))

    def _on_numatopology(self, change: Change[Numatopology]) -> None:
        key = key_of(change.object)
        known = key in self._topologies or key in self._numatopologies
        if isinstance(change, Removed) and not known:
            self.store.remove(key, unseen=change.unseen)
        self._show(key)
