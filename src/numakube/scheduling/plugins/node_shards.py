"""NodeShards: several schedulers of one name, each of which places pods on nodes of its own.

A scheduler of such a group is called a shard. Every node has one owner among the shards that are
alive, by its label or else by a hash, so no two of them count the same zone as free. A pod is first
tried by one shard; if that refuses it, an annotation says so and the next one tries, so a pod waits
only while it fits nowhere. A shard that has refused a pod goes on trying it whenever room appears
on its own nodes: if two shards bind it at the same time, the API server takes the first binding.

Shards learn of each other from their leases (`numakube.apps.scheduler.shards`). While the
group changes, two of them may see different groups. A shard therefore acts on a node only if the
node is its own in the group that it has announced, and no other shard has announced a group in
which the node belongs to that other one. Each announces first and reads what the others announced
after that, so of two that want the same node at least one sees the other's announcement and waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from numakube.api.scheduler_config import SHARD_LABEL
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.plugins import Filter, PreEnqueue, VectorFilter
from numakube.scheduling.framework.registry import Service
from numakube.scheduling.framework.status import SUCCESS, Code, Status, Verdicts, unresolvable
from numakube.scheduling.plugins.pod_gangs import group_named_by

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.registry import Handle, Services
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

REFUSED_BY: Final = "numakube.dev/refused-by-shards"
"""On a waiting pod: the shards that have tried it, separated by commas."""

_REFUSAL: Final = unresolvable("node(s) of another shard")
_NOT_YET: Final = Status(Code.PENDING, ("another shard tries it first",))


@dataclass(frozen=True, slots=True)
class ShardView:
    """What one shard knows of the group.

    Attributes:
        me: its name.
        members: the group that it has announced, itself included; none before the first time.
        coming: the group that it is about to announce.
        others: what every other shard that is alive had announced after it had.
    """

    me: str
    members: frozenset[str] = frozenset()
    coming: frozenset[str] = frozenset()
    others: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def holds(self, node: str, label: str) -> bool:
        """Tell whether this shard may act on *node*, and no other shard can think the same."""
        groups = (self.members, self.coming)
        return all(owner_of(node, label, group) == self.me for group in groups) and not any(
            owner_of(node, label, group) == shard for shard, group in self.others.items()
        )


def owner_of(node: str, label: str, shards: frozenset[str]) -> str:
    """Return the one of *shards* to which *node* belongs; empty if there are none."""
    if label in shards:
        return label
    return max(shards, key=lambda shard: _weight(shard, node), default="")


def ranking(key: str, shards: Iterable[str]) -> list[str]:
    """Return *shards* in the order in which they try the pods of *key*."""
    return sorted(shards, key=lambda shard: _weight(shard, key), reverse=True)


def _weight(shard: str, name: str) -> int:
    """Return a number that depends on nothing but the two names, the same in every process."""
    digest = blake2b(f"{shard}/{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest)


class NodeShards(PreEnqueue, Filter, VectorFilter):
    """Keeps to the shard's own nodes and pods; without a group all of them are its own."""

    name = "NodeShards"
    wakes_on = EventKind.NODE_ADDED | EventKind.NODE_UPDATED | EventKind.OTHER
    judges_nodes_alone = True

    def __init__(self) -> None:
        self.changes = 0
        """How often the view has changed."""
        self.taken_in: Container[str] | None = None
        """The nodes of which everything is known that decisions need; nothing means all."""
        self._view: ShardView | None = None
        self._owned: dict[tuple[str, str], bool] = {}
        self._announced: frozenset[str] = frozenset()

    @classmethod
    def make(cls, args: Mapping[str, object], handle: Handle) -> NodeShards:
        """Make the plugin; all profiles share one."""
        return cls.shared(handle.services)

    @classmethod
    def shared(cls, services: Services) -> NodeShards:
        """Return the one that all profiles share."""
        return services.shared(_SHARED, cls)

    @property
    def view(self) -> ShardView | None:
        """What is known of the group; nothing without one."""
        return self._view

    def join(self, me: str) -> None:
        """Be the shard called *me*; it has no nodes until it knows the others."""
        self._announced = frozenset()
        self._see(ShardView(me))

    def saw(self, others: Mapping[str, frozenset[str]]) -> frozenset[str] | None:
        """Take in what each other shard that is alive has announced, read just now.

        Returns:
            The group to announce next, as soon as nothing is being bound to nodes that this shard
            no longer holds; nothing if what it has announced is right.
        """
        view = self._view
        if view is None:
            return None
        group = frozenset({view.me, *others})
        if group == self._announced:
            self._see(ShardView(view.me, group, group, dict(others)))
            return None
        self._see(replace(view, coming=group))
        return group

    def announced(self, group: frozenset[str]) -> None:
        """Remember what the others can read from now on."""
        self._announced = group

    def _see(self, view: ShardView) -> None:
        if view != self._view:
            self._view = view
            self._owned.clear()
            self.changes += 1

    def holds(self, node: NodeInfo | None) -> bool:
        """Tell whether pods may be bound to *node*."""
        if self.view is None or node is None:
            return self.view is None
        known = self.taken_in is None or node.name in self.taken_in
        return known and self.owns(node.node)

    def owns(self, node: Node) -> bool:
        """Tell whether this shard may act on *node* as soon as it knows enough of it."""
        if self._view is None:
            return True
        key = node.metadata.name, node.metadata.labels.get(SHARD_LABEL, "")
        known = self._owned.get(key)
        if known is None:
            known = self._owned[key] = self._view.holds(*key)
        return known

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Leave a pod to the shards before this one until they have refused it."""
        return SUCCESS if self.tries(pod.pod) else _NOT_YET

    def likeness(self, pod: PodInfo) -> None:
        """Only nodes are looked at."""
        return

    def tries(self, pod: Pod) -> bool:
        """Tell whether it is for this shard to try *pod*: those before it have refused the pod."""
        view = self.view
        if view is None:
            return True
        refused = refused_by(pod)
        if view.me in refused:
            return True
        return next((one for one in _order(pod, view) if one not in refused), "") == view.me

    def may_preempt(self, pod: PodInfo) -> bool:
        """Tell whether others may be evicted for *pod*: all shards refused it, this one first."""
        view = self.view
        if view is None:
            return True
        others = view.members - {view.me}
        return others <= refused_by(pod.pod) and _order(pod.pod, view)[:1] == [view.me]

    def marks(self, pod: PodInfo) -> dict[str, str]:
        """Return the annotations that say of *pod* that this shard has refused it too."""
        view = self.view
        if view is None:
            return {}
        return {REFUSED_BY: ",".join(sorted(refused_by(pod.pod) | {view.me}))}

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node of another shard."""
        return SUCCESS if self.holds(node) else _REFUSAL

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse all nodes of other shards."""
        if self.view is None:
            return None
        held = snapshot.column((self, self.changes), lambda node: self.holds(node) or None)
        return Verdicts.where(held.present(rows), _REFUSAL)


def refused_by(pod: Pod) -> frozenset[str]:
    """Return the shards that have refused *pod*."""
    text = pod.metadata.annotations.get(REFUSED_BY, "")
    return frozenset(text.split(",")) if text else frozenset()


def _order(pod: Pod, view: ShardView) -> list[str]:
    """Return the shards in the order in which they try *pod*; a gang goes to one as a whole."""
    gang = group_named_by(pod)
    return ranking(pod.metadata.uid if gang is None else "/".join(gang), view.members)


_SHARED: Final = Service[NodeShards](NodeShards.name)
