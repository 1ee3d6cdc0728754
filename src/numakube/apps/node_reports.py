"""The report of every node: its NodeResourceTopology, or else what Volcano's agent says of it.

Volcano has a kind of its own, Numatopology. A cluster that moves from one kind to the other has
both for a while; then the NodeResourceTopology counts, which tells more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api import volcano_numatopology as names
from numakube.api.volcano_numatopology import Numatopology
from numakube.kube.object_keys import key_of
from numakube.kube.resource_types import Resource
from numakube.kube.served_topologies import TopologyStore
from numakube.kube.store import Removed, Store
from numakube.topology.volcano import as_nrt

if TYPE_CHECKING:
    from numakube.api.nrt import NodeResourceTopology
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


def node_reports(
    topologies: Store[NodeResourceTopology], numatopologies: Store[Numatopology]
) -> Store[NodeResourceTopology]:
    """Return a store that always has the report of every node that has one."""
    reports = TopologyStore()

    def show(key: ObjectKey) -> None:
        topology, numatopology = topologies.get(key), numatopologies.get(key)
        if topology is not None:
            reports.put(topology)
        elif numatopology is not None:
            reports.put(as_nrt(numatopology))

    def on_topology(change: Change[NodeResourceTopology]) -> None:
        key = key_of(change.object)
        if isinstance(change, Removed) and key not in topologies:
            reports.remove(key, last=change.object, unseen=change.unseen)
        show(key)

    def on_numatopology(change: Change[Numatopology]) -> None:
        key = key_of(change.object)
        if isinstance(change, Removed) and key not in topologies and key not in numatopologies:
            reports.remove(key, unseen=change.unseen)
        show(key)

    topologies.subscribe(on_topology)
    numatopologies.subscribe(on_numatopology)
    return reports
