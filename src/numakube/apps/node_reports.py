"""The report of every node: its NodeResourceTopology, or else what Volcano's agent says of it.

What has changed since a NodeResourceTopology was written may be in an object of its own
(`numakube.topology.report_update`): the report is both together.

Volcano has a kind of its own, Numatopology. A cluster that moves from one kind to the other has
both for a while; then the NodeResourceTopology counts, which tells more.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api import volcano_numatopology as names
from numakube.api.volcano_numatopology import Numatopology
from numakube.errors import Forbidden
from numakube.kube.object_keys import key_of
from numakube.kube.reflector import Reflector
from numakube.kube.resource_types import Resource
from numakube.kube.served_topologies import TopologyStore, topology_reflector, update_reflector
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
    from collections.abc import Callable
    from typing import Any

    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.nrt_update import NodeResourceTopologyUpdate
    from numakube.kube.client import Client
    from numakube.kube.decode import Malformed
    from numakube.kube.object_keys import ObjectKey
    from numakube.kube.store import Change

NUMATOPOLOGIES: Final = Resource(
    group=names.GROUP,
    version=names.VERSION,
    plural=names.PLURAL,
    kind=names.KIND,
    namespaced=False,
    object_type=Numatopology,
)
_LOOK_SECONDS: Final = 0.02


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
        old = any(is_overdue(one, now) for one in self.topologies.store.values())
        return f"reports are old: {error.message}" if old else ""

    async def run(self) -> None:
        """Mirror until cancelled; updates come first, so that no report is taken for the latest."""
        async with asyncio.TaskGroup() as tasks:
            for one in self.optional:
                tasks.create_task(one.run(), name=f"mirror-{one}")
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
