"""The state of the cluster, kept event by event, and the view of it that a cycle works on.

`Cluster` takes nodes, pods and topology reports in any order and any number of times: a pod may be
seen before its node, a node may go and come back, a pod may be assumed by us before the API server
tells of it. Rows of removed nodes are used again.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
from numakube.scheduling.snapshot.node_columns import NodeColumns
from numakube.scheduling.snapshot.node_resources import ResourceTable
from numakube.scheduling.snapshot.nodes import ImageTable, NodeInfo
from numakube.scheduling.snapshot.pod_indexes import PodIndexes
from numakube.scheduling.snapshot.zone_table import ZoneTable
from numakube.values.safe_text import reason_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from numakube.api.nodes import Node
    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.snapshot.node_columns import NodeColumn
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges, Believer, NumaBelief

T = TypeVar("T")
V = TypeVar("V", bound="Hashable")
_TOUCHES_KEPT: Final = 256
_MORE: Final = -1


class StaleSnapshotError(AssertionError):
    """A view was used after the cluster had changed: a bug in the code that kept it."""


class NodePart(StrEnum):
    """What is known of a node, each part from an object of its own."""

    OBJECT = "Node"
    ZONES = "NodeResourceTopology"


class Cluster:
    """Everything known of nodes and of the pods on them."""

    def __init__(self) -> None:
        self.generation = 0
        self.room_generation = 0
        """Changes only when a plain pod that fitted nowhere may fit now: not when pods arrive."""
        self.nodes_generation = 0
        """Changes when node objects do; what is derived from labels and taints lasts until then."""
        self.objects = ClusterObjects()
        self.resources = ResourceTable()
        self.zones = ZoneTable()
        self.aside: dict[tuple[str, NodePart], str] = {}
        """Nodes of which a part cannot be evaluated, and why; until that part changes."""
        self.columns = NodeColumns(self._column_failed)
        self.images = ImageTable()
        self.indexes = PodIndexes()
        self.by_row: list[NodeInfo | None] = []
        self.row_of: dict[str, int] = {}
        self._free_rows: list[int] = []
        self._where: dict[str, str] = {}
        self._waiting: dict[str, dict[str, PodInfo]] = {}
        self._beliefs: dict[str, NumaBelief] = {}
        self._rows: Rows | None = None
        self._touched: deque[int] = deque(maxlen=_TOUCHES_KEPT)
        """The row that each of the last generations changed; `_MORE` where it was not one row."""
        self.derived: dict[object, object] = {}

    def node(self, name: str) -> NodeInfo | None:
        """Return the node called *name*."""
        row = self.row_of.get(name)
        return None if row is None else self.by_row[row]

    def nodes(self) -> Iterator[NodeInfo]:
        """Yield every node."""
        return (node for node in self.by_row if node is not None)

    def pod(self, uid: str) -> PodInfo | None:
        """Return the placed pod with that uid."""
        name = self._where.get(uid)
        if name is None:
            return None
        node = self.node(name)
        pods = self._waiting.get(name, {}) if node is None else node.pods
        return pods.get(uid)

    def node_of(self, uid: str) -> str | None:
        """Return the name of the node that the pod with that uid is on."""
        return self._where.get(uid)

    def set_node(self, node: Node) -> NodeInfo:
        """Add a node or take over its new version.

        Nodes report every few seconds that they are alive; that alone changes nothing here.
        """
        info = self.node(node.metadata.name)
        if info is None:
            info = self._add_node(node)
            self.indexes.add_all(info)
        elif not info.set_node(node):
            return info
        self.nodes_generation += 1
        self.derived.clear()
        self.resources.write_node(info)
        self.aside.pop((info.name, NodePart.OBJECT), None)
        self.columns.write(info)
        self.images.write(info)
        self._touch(info)
        self.room_generation += 1
        return info

    def remove_node(self, name: str) -> None:
        """Forget a node; pods that are still said to be on it wait for its return."""
        info = self.node(name)
        if info is None:
            return
        self.indexes.remove_all(info)
        for pod in info.pods.values():
            self._wait(pod, name)
        row = self.row_of.pop(name)
        self.aside.pop((name, NodePart.OBJECT), None)
        self.aside.pop((name, NodePart.ZONES), None)
        self.by_row[row] = None
        self._free_rows.append(row)
        self.resources.clear(row)
        self.zones.clear(row)
        self.columns.clear(row)
        self.images.clear(row)
        self._turn(_MORE)
        self.room_generation += 1
        self.nodes_generation += 1
        self.derived.clear()
        self._rows = None

    def set_aside(self, node: str, part: NodePart, error: Exception) -> None:
        """Keep pods off *node*: reading what its object or its zones say has raised *error*."""
        self.aside[node, part] = reason_of(error)

    def place(self, pod: PodInfo, node: str) -> None:
        """Put *pod* on *node*, or replace what is known of it; it leaves any other node."""
        before = self._where.get(pod.uid)
        if before is not None and before != node:
            self.remove_pod(pod.uid)
        self._where[pod.uid] = node
        info = self.node(node)
        if info is None:
            self._wait_no_longer(pod.uid, node)
            self._wait(pod, node)
            return
        known = info.pods.get(pod.uid)
        if known is not None:
            self.indexes.remove(known, info.row)
            self.room_generation += pod.may_hold_less_than(known)
        info.add_pod(pod)
        self.indexes.add(pod, info.row)
        self.resources.write_pods(info)
        self._touch(info)

    def remove_pod(self, uid: str) -> PodInfo | None:
        """Take a pod off its node; return it if it was known."""
        name = self._where.pop(uid, None)
        if name is None:
            return None
        info = self.node(name)
        if info is None:
            return self._wait_no_longer(uid, name)
        pod = info.remove_pod(uid)
        if pod is not None:
            self.indexes.remove(pod, info.row)
        self.resources.write_pods(info)
        self._touch(info)
        self.room_generation += 1
        return pod

    def take(self, changes: BeliefChanges, cache: Believer) -> None:
        """Take over what *cache* believes now of the nodes that *changes* names.

        This is how reports and reservations get here. Pods that fitted nowhere need to be tried
        again only where room was made.
        """
        freed = frozenset(changes.freed)
        for node in changes.nodes:
            self._believe(node, cache.belief(node), makes_room=node in freed)

    def suppose(self, node: str, belief: NumaBelief | None) -> None:
        """Believe something of *node* that no cache says: for what-ifs and recorded cases."""
        self._believe(node, belief, makes_room=True)

    def _believe(self, node: str, belief: NumaBelief | None, *, makes_room: bool) -> None:
        if belief is None:
            self._beliefs.pop(node, None)
        else:
            self._beliefs[node] = belief
        self.room_generation += makes_room
        self.aside.pop((node, NodePart.ZONES), None)
        info = self.node(node)
        if info is not None:
            info.numa = belief
            self._write_zones(info)
            self._touch(info)

    def snapshot(self) -> Snapshot:
        """Return the view for one cycle."""
        return Snapshot(self)

    def objects_changed(self, node: str = "") -> None:
        """Say that something in ``objects`` was changed, which may be about one *node*."""
        self._turn(_MORE)
        self.room_generation += 1
        info = self.node(node) if node else None
        if info is not None:
            self._touch(info)

    def judge_again(self, node: str) -> None:
        """Say that something besides its own object has changed what may be done with *node*."""
        info = self.node(node)
        if info is not None:
            self.columns.write(info)
        self.objects_changed(node)

    def changed_since(self, generation: int, *, most: int) -> list[NodeInfo] | None:
        """Return the nodes with the changes since *generation*.

        ``None`` if more than *most* nodes have changed, something else has, or it is too long ago.
        """
        count = self.generation - generation
        if count > len(self._touched):
            return None
        rows = {self._touched[-back] for back in range(1, count + 1)}
        if len(rows) > most or _MORE in rows:
            return None
        return [node for row in rows if (node := self.by_row[row]) is not None]

    def live_rows(self) -> Rows:
        """Return the rows that hold a node, ascending."""
        if self._rows is None:
            self._rows = np.array(sorted(self.row_of.values()), dtype=np.intp)
            self._rows.flags.writeable = False
        return self._rows

    def _add_node(self, node: Node) -> NodeInfo:
        name = node.metadata.name
        row = self._free_rows.pop() if self._free_rows else len(self.by_row)
        waiting = list(self._waiting.get(name, ()))
        pods = [pod for uid in waiting if (pod := self._wait_no_longer(uid, name)) is not None]
        info = NodeInfo(node, row=row, pods=pods)
        info.numa = self._beliefs.get(name)
        if row == len(self.by_row):
            self.by_row.append(info)
            self.resources.reserve(row + 1)
            self.zones.reserve(row + 1)
        else:
            self.by_row[row] = info
        self._write_zones(info)
        self.row_of[name] = row
        self._rows = None
        return info

    def _wait(self, pod: PodInfo, node: str) -> None:
        """Keep a pod until its node comes; what it has claimed nobody else may."""
        self._waiting.setdefault(node, {})[pod.uid] = pod
        self.indexes.claims.add(pod)

    def _wait_no_longer(self, uid: str, node: str) -> PodInfo | None:
        waiting = self._waiting.get(node, {})
        pod = waiting.pop(uid, None)
        if pod is not None:
            self.indexes.claims.remove(pod)
        if not waiting:
            self._waiting.pop(node, None)
        return pod

    def _write_zones(self, info: NodeInfo) -> None:
        if info.numa is None:
            self.zones.clear(info.row)
        else:
            self.zones.write(info.row, info.numa)

    def _column_failed(self, info: NodeInfo, error: Exception) -> None:
        self.set_aside(info.name, NodePart.OBJECT, error)

    def _touch(self, info: NodeInfo) -> None:
        self._turn(info.row)
        info.generation = self.generation

    def _turn(self, row: int) -> None:
        self.generation += 1
        self._touched.append(row)


class Snapshot:
    """The cluster as one cycle sees it; valid until the cluster changes."""

    __slots__ = ("_cluster", "generation")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.generation = cluster.generation

    @classmethod
    def of(cls, nodes: Iterable[NodeInfo], *, objects: ClusterObjects | None = None) -> Snapshot:
        """Return a view of copies of just these nodes, for what-ifs and tests."""
        cluster = Cluster()
        cluster.objects = objects or cluster.objects
        for node in nodes:
            cluster.suppose(node.name, node.numa)
            cluster.set_node(node.node)
            for pod in node.pods.values():
                cluster.place(pod, node.name)
        return cluster.snapshot()

    @property
    def rows(self) -> Rows:
        """The rows that hold a node, ascending."""
        return self._valid().live_rows()

    @property
    def resources(self) -> ResourceTable:
        """Allocatable and requested amounts by row."""
        return self._valid().resources

    @property
    def zones(self) -> ZoneTable:
        """What is known of the NUMA zones by row."""
        return self._valid().zones

    @property
    def pods(self) -> PodIndexes:
        """Counts of pods by what they are like."""
        return self._valid().indexes

    @property
    def images(self) -> ImageTable:
        """Which nodes have which images."""
        return self._valid().images

    def column(self, key: Hashable, of: Callable[[NodeInfo], V | None]) -> NodeColumn[V]:
        """Return what ``of(node)`` is for every node, kept up to date under *key*."""
        cluster = self._valid()
        return cluster.columns.get(key, of, cluster.nodes())

    def label(self, key: str) -> NodeColumn[str]:
        """Return the values of the label *key*."""
        return self.column(("label", key), lambda node: node.labels.get(key))

    @property
    def aside(self) -> Mapping[tuple[str, NodePart], str]:
        """Nodes that are set aside for everybody, and why."""
        return self._valid().aside

    def set_aside(self, node: str, error: Exception) -> None:
        """Keep pods off *node*: reading what its zones say has raised *error*."""
        self._valid().set_aside(node, NodePart.ZONES, error)

    @property
    def objects(self) -> ClusterObjects:
        """Namespaces, volumes and other objects."""
        return self._valid().objects

    @property
    def row_of(self) -> Mapping[str, int]:
        """Row by name of the node."""
        return self._valid().row_of

    @property
    def by_row(self) -> Sequence[NodeInfo | None]:
        """Node by row; ``None`` where there is none."""
        return self._valid().by_row

    def node(self, name: str) -> NodeInfo | None:
        """Return the node called *name*."""
        return self._valid().node(name)

    def has_placed(self, uid: str) -> bool:
        """Tell whether the pod with that uid is counted on a node."""
        return self._valid().node_of(uid) is not None

    def at(self, row: int) -> NodeInfo:
        """Return the node at a live *row*."""
        node = self._valid().by_row[row]
        if node is None:
            raise StaleSnapshotError(f"no node at row {row}")
        return node

    def nodes(self) -> Iterator[NodeInfo]:
        """Yield every node."""
        return self._valid().nodes()

    def derived(self, key: object, make: Callable[[Snapshot], T]) -> T:
        """Return ``make(self)``, computed once until node objects change; for label columns."""
        known = self._valid().derived
        if key not in known:
            known[key] = make(self)
        return known[key]  # type: ignore[return-value]

    def _valid(self) -> Cluster:
        if self._cluster.generation != self.generation:
            raise StaleSnapshotError("the cluster has changed since this snapshot was taken")
        return self._cluster
