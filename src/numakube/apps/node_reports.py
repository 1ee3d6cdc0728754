"""The report of every node: its NodeResourceTopology, or else what Volcano's agent says of it.

What has changed since a NodeResourceTopology was written may be in an object of its own
(`numakube.topology.report_update`): the report is both together.

Volcano has a kind of its own, Numatopology. A cluster that moves from one kind to the other has
both for a while; then the NodeResourceTopology counts, which tells more.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from numakube.api import volcano_numatopology as names
from numakube.api.volcano_numatopology import Numatopology
from numakube.errors import Forbidden
from numakube.kube.object_keys import key_of
from numakube.kube.reflector import Reflector
from numakube.kube.resource_types import Resource
from numakube.kube.served_topologies import TopologyStore, topology_reflector, update_reflector
from numakube.kube.store import Removed, Store
from numakube.topology.nrt_names import SURPRISES_ANNOTATION
from numakube.topology.report_update import is_of, updated
from numakube.topology.volcano import as_nrt

if TYPE_CHECKING:
    from typing import Any

    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.nrt_update import NodeResourceTopologyUpdate
    from numakube.kube.client import Client
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
        self._updates = update_reflector(client)
        self._numatopologies = Reflector(client, NUMATOPOLOGIES, optional=True)
        self.optional: tuple[Reflector[Any], ...] = (self._updates, self._numatopologies)
        self.store = node_reports(
            self.topologies.store, self._updates.store, self._numatopologies.store
        )

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
        if not isinstance(error, Forbidden):
            return ""
        reports = self.topologies.store.values()
        old = any(SURPRISES_ANNOTATION in one.metadata.annotations for one in reports)
        return f"reports are old: {error.message}" if old else ""

    async def run(self) -> None:
        """Mirror until cancelled; updates come first, so that no report is taken for the latest."""
        async with asyncio.TaskGroup() as tasks:
            for one in self.optional:
                tasks.create_task(one.run(), name=f"mirror-{one}")
            while not self._updates.synced.is_set() and self._updates.last_error is None:
                await self._clock.sleep(_LOOK_SECONDS)
            tasks.create_task(self.topologies.run(), name=f"mirror-{self.topologies}")


def node_reports(
    topologies: Store[NodeResourceTopology],
    updates: Store[NodeResourceTopologyUpdate],
    numatopologies: Store[Numatopology],
) -> Store[NodeResourceTopology]:
    """Return a store that always has the report of every node that has one."""
    # Most are the objects of the other store, whose parts are shared already.
    reports = TopologyStore(transform=None)

    def show(key: ObjectKey) -> None:
        topology, numatopology = topologies.get(key), numatopologies.get(key)
        if topology is not None:
            reports.put(updated(topology, updates.get(key)))
        elif numatopology is not None:
            reports.put(as_nrt(numatopology))

    def on_topology(change: Change[NodeResourceTopology]) -> None:
        key = key_of(change.object)
        if isinstance(change, Removed) and key not in topologies:
            reports.remove(key, last=change.object, unseen=change.unseen)
        show(key)

    def on_update(change: Change[NodeResourceTopologyUpdate]) -> None:
        key = key_of(change.object)
        topology = topologies.get(key)
        # One of another report says nothing: that has yet to come, or a later one was there before.
        known = topology is not None and is_of(change.object, topology)
        if known and not isinstance(change, Removed):
            show(key)

    def on_numatopology(change: Change[Numatopology]) -> None:
        key = key_of(change.object)
        if isinstance(change, Removed) and key not in topologies and key not in numatopologies:
            reports.remove(key, unseen=change.unseen)
        show(key)

    topologies.subscribe(on_topology)
    updates.subscribe(on_update)
    numatopologies.subscribe(on_numatopology)
    return reports
