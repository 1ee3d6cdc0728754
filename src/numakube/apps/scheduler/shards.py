"""Schedulers that share the nodes of a cluster: the leases of the group, and the mirror of a shard.

The stores have the latest state of every object. What follows from them (beliefs, sums, arrays,
places in the queue) is kept only for nodes that the shard has taken in and for pods that it has
met. A node that it gets is taken in from the stores, as all nodes are after a restart, and until
then `NodeShards` refuses it. A node that goes to another shard is dropped once no pod of ours is
on its way to it.

A pod on another shard's node, or one that another shard tries first, is passed over, unless more
than its node depends on it: it belongs to a gang, uses a claim for a volume, takes a place that is
held, or has a nominated node. As soon as any pod has affinity to pods or spread constraints, all
nodes and bound pods are taken in, without beliefs, because such rules count pods everywhere.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from numakube.api.fit_question import HOLD
from numakube.api.pod import has_ended
from numakube.api.scheduler_config import SHARD_LABEL
from numakube.apps.cluster_mirror import Mirror
from numakube.errors import NumakubeError
from numakube.kube.catalog import LEASES
from numakube.kube.leader_election import LeaderElection
from numakube.kube.resource_types import ObjectKey
from numakube.kube.store import Added, Removed
from numakube.scheduling.plugins.pod_gangs import group_named_by
from numakube.scheduling.snapshot.pod_equivalence import selects_pods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numakube.api.meta import Lease, LeaseSpec
    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.pod import Pod
    from numakube.apps.scheduler.scheduling_loop import PodQueue
    from numakube.kube.client import Client
    from numakube.kube.leader_election import LeaseTiming
    from numakube.kube.store import Change
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.framework.cluster_events import ObjectKind
    from numakube.scheduling.plugins.node_shards import NodeShards
    from numakube.scheduling.snapshot.pods import PodInfo


_BY_NODE: Final = "node"
_SLICE: Final = 20
"""Nodes that are taken in before leases, answers and other pods get their turn."""


class ShardMirror(Mirror):
    """Keeps a shard's part of a cluster equal to the server's state.

    Attributes:
        taken_in: the nodes of which everything is known that decisions need.
    """

    def __init__(
        self,
        client: Client,
        engine: Engine,
        *,
        kinds: Iterable[ObjectKind],
        topologies: bool = True,
    ) -> None:
        self.taken_in: set[str] = set()
        self._shards = engine.shards
        self._shards.taken_in = self.taken_in
        self._shared_at = -1
        self._has_leftovers = False
        self._met: set[str] = set()
        self._counts_everywhere = False
        self._takes_in_all = False
        super().__init__(client, engine.cluster, engine.cache, kinds=kinds, topologies=topologies)
        self.pods.store.add_index(_BY_NODE, lambda pod: (pod.spec.node_name,))

    def has_met(self, pod: Pod) -> bool:
        """Tell whether *pod* was not passed over."""
        return pod.metadata.uid in self._met

    @property
    def is_settled(self) -> bool:
        """Whether everything is taken in and dropped as the view of the group has it."""
        counts = self._counts_everywhere or not self._takes_in_all
        return counts and not self._has_leftovers and self._shared_at == self._shards.changes

    async def share(self) -> None:
        """Take in and drop nodes and pods as the shard's view of the group has it now."""
        self._shared_at = self._shards.changes
        if self._takes_in_all and not self._counts_everywhere:
            await self._take_in_all()
        owned = [node for node in self.nodes.store if self._shards.owns(node)]
        for number, node in enumerate(owned):
            if node.metadata.name not in self.taken_in:
                self._take_in(node)
                await self._pause(number)
        lost = self.taken_in - {node.metadata.name for node in owned}
        busy = self.assumed_nodes()
        self._has_leftovers = not lost.isdisjoint(busy)
        for number, name in enumerate(lost - busy):
            self._drop(name)
            await self._pause(number)
        self._take_unmet(self.pods.store.select(_BY_NODE, ""))

    async def _pause(self, number: int) -> None:
        if number % _SLICE == 0:
            await asyncio.sleep(0)

    async def _take_in_all(self) -> None:
        """Count every bound pod on its node."""
        for number, node in enumerate(self.nodes.store):
            if node.metadata.name not in self.cluster.row_of:
                self._take_node(Added(node))
            self._take_unmet(self.pods.store.select(_BY_NODE, node.metadata.name))
            await self._pause(number)
        self._counts_everywhere = True

    def _take_unmet(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            if not self.has_met(pod):
                self._take_pod(Added(pod))

    def _take_in(self, node: Node) -> None:
        """Work out what *node* has left, and let pods be bound to it from now on."""
        name = node.metadata.name
        self.taken_in.add(name)
        report = self.reports.get(ObjectKey("", name))
        if report is not None:
            self._take_report(Added(report))
        for pod in self.pods.store.select(_BY_NODE, name):
            self._take_pod(Added(pod))
        if name in self.cluster.row_of:
            self.cluster.judge_again(name)
        else:
            self._take_node(Added(node))

    def _drop(self, name: str) -> None:
        """Forget what a node has left: it is another shard's, or gone."""
        self.taken_in.discard(name)
        self.reported_at.pop(name, None)
        self.apply(self.cache.remove_report(name))
        info = self.cluster.node(name)
        for pod in [] if info is None else list(info.pods.values()):
            self.apply(self.cache.pod_gone(pod.uid))
            if not self._takes_in_all and self._may_be_forgotten(pod):
                self._met.discard(pod.uid)
                self.cluster.remove_pod(pod.uid)
        if self._takes_in_all:
            self.cluster.judge_again(name)
        else:
            self.cluster.remove_node(name)

    def _may_be_forgotten(self, pod: PodInfo) -> bool:
        """Tell whether nothing is under way with *pod*, nor depends on it."""
        under_way = pod.is_being_deleted or self.is_assumed(pod.uid)
        return not under_way and not _is_followed(pod.pod)

    def _on_node(self, change: Change[Node]) -> None:
        name = change.object.metadata.name
        if isinstance(change, Removed):
            self._drop(name)
            super()._on_node(change)
        elif name in self.taken_in or self._takes_in_all or self._shards.owns(change.object):
            super()._on_node(change)
            owns = self._shards.owns(change.object)
            self._has_leftovers |= not owns and name in self.taken_in
            if owns and name not in self.taken_in:
                self._take_in(change.object)

    def _on_report(self, change: Change[NodeResourceTopology]) -> None:
        if change.object.metadata.name in self.taken_in:
            super()._on_report(change)

    def _on_pod(self, change: Change[Pod]) -> None:
        pod = change.object
        if not self.has_met(pod) and self._is_passed_over(pod):
            return
        if isinstance(change, Removed):
            self._met.discard(pod.metadata.uid)
        else:
            self._met.add(pod.metadata.uid)
        super()._on_pod(change)

    def _is_passed_over(self, pod: Pod) -> bool:
        """Tell whether nothing here depends on a pod that has been passed over so far."""
        if selects_pods(pod) and not has_ended(pod):
            self._takes_in_all = True
        node = pod.spec.node_name
        if node:
            concerns = node in self.taken_in or self._takes_in_all
        elif selects_pods(pod) and not self._counts_everywhere:
            return True
        else:
            concerns = self._shards.tries(pod)
        return not (concerns or _is_followed(pod))

    def _note_holding(self, pod: PodInfo) -> None:
        if not pod.node_name or pod.node_name in self.taken_in:
            super()._note_holding(pod)
        else:
            self.apply(self.cache.pod_gone(pod.uid))


def _is_followed(pod: Pod) -> bool:
    """Tell whether more than the node of *pod* depends on it."""
    status = pod.status
    return (
        group_named_by(pod) is not None
        or HOLD in pod.metadata.annotations
        or (status is not None and bool(status.nominated_node_name))
        or any(volume.persistent_volume_claim is not None for volume in pod.spec.volumes)
    )


# The group of schedulers that share the nodes of a cluster, kept by their leases.
#
# Each shard holds a lease of its own, with an annotation that says which shards it takes into
# account. It reads the leases of all every few seconds. When the group has changed, it first stops
# binding to nodes that will be another's, waits until what it was binding there is done, announces
# the new group, and reads again. The rule by which it then takes over nodes is `ShardView.holds`.
#
# A shard that dies is left out once its lease has not been renewed for its whole duration, counted
# by the clock of the one that looks; the dead one has stopped binding some seconds before that (see
# `numakube.kube.leader_election`). A shard that gives nodes away announces the latest version of a
# pod that it knows, its own bindings included, and the new owner waits until it has read as much.


GROUP_LABEL: Final = "numakube.dev/shards-of"
"""On the leases of a group: the name of the lease that it would have without shards."""
MEMBERS: Final = "numakube.dev/shard-members"
"""On a shard's lease: the shards that it takes into account, separated by commas."""

PODS_VERSION: Final = "numakube.dev/pods-version"
"""On a shard's lease: the latest version of a pod that it knew when it announced the group."""

_LOOK_SECONDS: Final = 0.02

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _SeenLease:
    """A lease, and when we first saw it like that."""

    spec: LeaseSpec
    at: float


class ShardMembership:
    """Keeps one shard's place in the group.

    Attributes:
        election: for the shard's own lease.
    """

    def __init__(
        self,
        client: Client,
        shards: NodeShards,
        *,
        name: str,
        lease: ObjectKey,
        identity: str,
        timing: LeaseTiming,
    ) -> None:
        self.election = LeaderElection(
            client,
            ObjectKey(lease.namespace, f"{lease.name}-shard-{name}"),
            identity=identity,
            timing=timing,
            labels={GROUP_LABEL: lease.name, SHARD_LABEL: name},
        )
        self._client = client
        self._shards = shards
        self._name = name
        self._lease = lease
        self._timing = timing
        self._seen: dict[str, _SeenLease] = {}
        shards.join(name)

    def mirror_of(
        self, engine: Engine, *, kinds: Iterable[ObjectKind], topologies: bool
    ) -> ShardMirror:
        """Make the mirror that this shard schedules by."""
        self._mirror = ShardMirror(self._client, engine, kinds=kinds, topologies=topologies)
        return self._mirror

    async def run(self, queue: PodQueue) -> None:
        """Follow the group until cancelled; called while the shard's lease is held."""
        self._shards.join(self._name)
        while True:
            try:
                await self._follow(queue)
            except NumakubeError as error:
                _log.warning("shards_not_read", error=str(error))
            await self._client.clock.sleep(self._timing.retry)

    async def _follow(self, queue: PodQueue) -> None:
        """Take in what the others have announced, and announce what follows from it."""
        while (group := self._shards.saw(await self._read())) is not None:
            await self._until(self._has_let_go)
            await self._announce(group, _latest_version(self._mirror))
        view = self._shards.view
        if self._mirror.is_settled or view is None:
            return
        await self._mirror.share()
        held = sum(self._shards.holds(node) for node in self._mirror.cluster.nodes())
        _log.info("shards", shard=self._name, members=sorted(view.members), nodes=held)
        self._mirror.cluster.objects_changed()
        queue.recheck_gates()

    async def _announce(self, group: frozenset[str], pods_version: str) -> None:
        self.election.annotations = {MEMBERS: ",".join(sorted(group)), PODS_VERSION: pods_version}
        while not await self.election.try_acquire_or_renew():
            await self._client.clock.sleep(self._timing.retry)
        self._shards.announced(group)

    async def _read(self) -> dict[str, frozenset[str]]:
        """Return what each other shard that is alive has announced, once we know of its pods."""
        listing = await self._client.list(
            LEASES, namespace=self._lease.namespace, labels=f"{GROUP_LABEL}={self._lease.name}"
        )
        now = self._client.clock.monotonic()
        alive = [lease for lease in listing.items if self._is_alive(lease, now)]
        versions = [lease.metadata.annotations.get(PODS_VERSION, "") for lease in alive]
        await self._until(lambda: not any(map(self._mirror.pods.is_behind, versions)))
        return {lease.metadata.labels[SHARD_LABEL]: _members_of(lease) for lease in alive}

    def _has_let_go(self) -> bool:
        """Tell whether nothing is being bound any more to nodes that this shard does not hold."""
        nodes = map(self._mirror.cluster.node, self._mirror.assumed_nodes())
        return all(node is None or self._shards.holds(node) for node in nodes)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self._client.clock.sleep(_LOOK_SECONDS)

    def _is_alive(self, lease: Lease, now: float) -> bool:
        """Tell whether *lease* is that of another shard that may act."""
        if lease.metadata.labels.get(SHARD_LABEL, self._name) == self._name:
            return False
        seen = self._seen.get(lease.metadata.name)
        if seen is None or seen.spec != lease.spec:
            seen = self._seen[lease.metadata.name] = _SeenLease(lease.spec, now)
        duration = lease.spec.lease_duration_seconds or self._timing.duration
        return bool(lease.spec.holder_identity) and now < seen.at + duration


def _members_of(lease: Lease) -> frozenset[str]:
    text = lease.metadata.annotations.get(MEMBERS, "")
    return frozenset(text.split(",")) if text else frozenset()


def _latest_version(mirror: Mirror) -> str:
    """Return the latest version of any pod; that of a list may be one that no pod ever gets to."""
    versions = (pod.metadata.resource_version for pod in mirror.pods.store)
    return str(max((int(version) for version in versions if version.isdecimal()), default=""))
