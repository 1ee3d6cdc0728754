"""NodeResourceTopologies as a cluster serves them, in whichever version and scope that is.

The API has had three shapes: objects in namespaces, version v1alpha1 (up to v0.0.10, 2021); of the
cluster, still v1alpha1 (v0.0.11 to v0.0.13); and v1alpha2 with attributes of the node (since
v0.1.0, 2023). A definition may be installed, upgraded or removed while we run. So every reader
asks here:

    topologies = topology_reflector(client)       # mirrors them, and follows the definition
    updates = update_reflector(client)            # what has changed since, where that is apart
    resource = await served_topologies(client)    # for one list; NotFound if there are none
    report = await read_topology(client, "worker-0")

All of them yield one object a node, in the current version and without a namespace.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from numakube.api.interning import shared_nrt
from numakube.api.nrt import GROUP, PLURAL, NodeResourceTopology, by_node
from numakube.errors import Forbidden, MalformedObject, NotFound
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, NODE_RESOURCE_TOPOLOGY_UPDATES
from numakube.kube.object_keys import ObjectKey
from numakube.kube.reflector import Reflector, ReflectorTiming
from numakube.kube.served_versions import served_in
from numakube.kube.store import Store
from numakube.topology.report_update import updated, with_unreadable_update

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numakube.api.nrt_update import NodeResourceTopologyUpdate
    from numakube.kube.client import Client
    from numakube.kube.decode import Malformed
    from numakube.kube.resource_types import Resource

READABLE: Final = ("v1alpha2", "v1alpha1")
"""The versions that we read, the best first."""
NOT_SERVED: Final = f"the cluster serves {PLURAL}.{GROUP} in none of {', '.join(READABLE)}"

_IMPATIENT: Final = ReflectorTiming(longest_backoff=5.0)
"""The kind may be installed after us; its nodes should not wait half a minute then."""
_NOT_FOUND: Final = 404


async def served_topologies(client: Client) -> Resource[NodeResourceTopology]:
    """Return the best of the versions that are served, and whether its objects have namespaces.

    Raises:
        NotFound: the cluster has none that we read.
    """
    for version in READABLE:
        try:
            found = await served_in(client, GROUP, version, PLURAL)
        except NotFound:
            continue
        except Forbidden:
            # Who may not ask what there is can still read what there usually is.
            return NODE_RESOURCE_TOPOLOGIES
        if found is not None:
            return replace(NODE_RESOURCE_TOPOLOGIES, version=version, namespaced=found.namespaced)
    raise NotFound(NOT_SERVED, code=_NOT_FOUND, reason="NotFound")


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
        for one in by_node(rivals.values() if rivals else (obj,)).values():
            super().put(one)

    def remove(
        self, key: ObjectKey, *, last: NodeResourceTopology | None = None, unseen: bool = False
    ) -> None:
        """Drop an object; if the node has another one in some namespace, that counts from now."""
        if key.namespace:
            rivals = self._in_namespaces.get(key.name, {})
            rivals.pop(key.namespace, None)
            for one in by_node(rivals.values()).values():
                super().put(one)
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
