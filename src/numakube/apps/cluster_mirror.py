"""What the API server says of nodes, pods and topologies, kept as the state that decisions need.

The scheduler and the extender both have a mirror. It feeds `Cluster` and the NUMA cache from
reflectors, keeps the pods that we assume on a node (`assume`) until the server reports them,
and tells a listener what happened. Everything runs in the event loop, one event at a time, so a
cycle that does not await sees one consistent state.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from numakube.api.interning import shared_pod
from numakube.api.koordinator.keys import POD_HOLDING
from numakube.apps.node_reports import ReportMirror
from numakube.apps.unusable_objects import UnusableObjects
from numakube.apps.watched_kinds import CLAIMS, NAMESPACES, RESOURCE_CLAIMS, RESOURCES, located
from numakube.errors import Forbidden, NotFound
from numakube.kube.catalog import NODES, PODS
from numakube.kube.reflector import Reflector
from numakube.kube.resource_types import ObjectKey, key_of
from numakube.kube.store import Removed, Store, Updated
from numakube.scheduling.framework.cluster_events import OBJECT_KINDS, ClusterEvent, EventKind
from numakube.scheduling.snapshot.pod_equivalence import PodInfos
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.pod import Pod
    from numakube.api.resource_claims import ResourceClaim
    from numakube.api.workloads import Namespace
    from numakube.kube.client import Client
    from numakube.kube.store import Change
    from numakube.scheduling.framework.cluster_events import ObjectKind
    from numakube.scheduling.numa.caches.cache_contract import NumaCache
    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Listener(Protocol):
    """What a program does about changes."""

    def pod_waits(self, pod: PodInfo) -> None:
        """A pod without a node was seen, or has changed."""
        ...

    def pod_placed(self, pod: PodInfo) -> None:
        """A pod is bound, by us or by another scheduler."""
        ...

    def pod_gone(self, pod: PodInfo, *, deleted: bool) -> None:
        """A pod has ended or was deleted; told again when one that has ended is deleted."""
        ...

    def pod_ended(self, pod: PodInfo) -> None:
        """A pod that was counted on a node has ended: told once, and not of ancient ones."""
        ...

    def happened(self, event: ClusterEvent) -> None:
        """Something happened that may let a waiting pod fit."""
        ...

    def cache_changed(self, changes: BeliefChanges) -> None:
        """The NUMA cache has something to tell; its beliefs are in the cluster already."""
        ...


class Mirror:
    """Keeps a cluster and a cache equal to the server's state."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        cache: NumaCache,
        *,
        kinds: Iterable[ObjectKind] = OBJECT_KINDS,
        namespaces: bool = True,
        topologies: bool = True,
    ) -> None:
        self.cluster = cluster
        self.cache = cache
        self.listener: Listener | None = None
        self.pods: Reflector[Pod] = Reflector(client, PODS, store=Store(transform=shared_pod))
        self.nodes: Reflector[Node] = Reflector(client, NODES)
        self._assumed: dict[str, str] = {}
        self.reported_at: dict[str, float] = {}
        """When the latest report of each node came, by the monotonic clock."""
        self._client = client
        self._infos = PodInfos()
        self.unusable = UnusableObjects()
        """What could not be taken over, and why."""
        guarding = self.unusable.guarding
        self._take_pod = guarding("Pod", self._on_pod)
        self._take_node = guarding("Node", self._on_node)
        self._take_report = guarding("NodeResourceTopology", self._on_report)
        self.pods.store.subscribe(self._take_pod)
        self.nodes.store.subscribe(self._take_node)
        self._report_mirror = ReportMirror(client)
        self.topologies: Reflector[NodeResourceTopology] = self._report_mirror.topologies
        self.reports = self._report_mirror.store
        """The report of every node, whatever its kind."""
        self.reports.subscribe(self._take_report)
        self._reads_reports = topologies
        self._others: list[Reflector[Any]] = []
        self._optional: list[Reflector[Any]] = [*self._report_mirror.optional]
        self.stores: dict[str, Store[Any]] = {}
        """The objects of other kinds, by the field of `ClusterObjects`."""
        if namespaces:
            labelled = Reflector(client, NAMESPACES)
            labelled.store.subscribe(guarding("Namespace", self._on_namespace))
            self._others.append(labelled)
        for kind in kinds:
            self._mirror(kind)

    async def run(self) -> None:
        """Keep the mirror up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in (self.nodes, *self._others, self.pods):
                tasks.create_task(reflector.run(), name=f"mirror-{reflector}")
            if self._reads_reports:
                # The belief of a node is then worked out once, and not again for each pod on it.
                await self.pods.synced.wait()
                tasks.create_task(self._report_mirror.run(), name="mirror-reports")

    def missing(self) -> str:
        """Say what is not known yet; empty once decisions can be made."""
        waiting = [
            str(reflector)
            for reflector in self._reflectors()
            if not reflector.synced.is_set() and not self._is_absent(reflector)
        ]
        return f"not listed yet: {', '.join(waiting)}" if waiting else ""

    def topology_trouble(self) -> str:
        """Say why there are no reports at all, or old ones; empty as long as they are read."""
        source = self.topologies
        if not self._reads_reports or self._report_mirror.has_others:
            return ""
        if trouble := self._report_mirror.update_trouble():
            return trouble
        if source.synced.is_set() and not source.denied:
            return ""
        if not isinstance(source.last_error, NotFound | Forbidden):
            return ""
        never = "" if source.synced.is_set() else "never synced: "
        return f"{never}{source.last_error.message}"

    async def synced(self) -> None:
        """Return as soon as decisions can be made."""
        while self.missing():
            await self._client.clock.sleep(0.02)

    def waiting(self, pod: PodInfo) -> PodInfo | None:
        """Return *pod* as the server tells of it, if it does and the pod has no node yet."""
        known = self.pods.store.get(ObjectKey(pod.namespace, pod.name))
        if known is None or known.metadata.uid != pod.uid:
            return None
        told = pod if known == pod.pod else PodInfo(known)
        return None if told.node_name or told.has_ended or told.is_being_deleted else told

    def has_met(self, pod: Pod) -> bool:
        """Tell whether *pod*, which the server tells of, is ours to care about: here all are."""
        del pod
        return True

    def assume(self, pod: PodInfo, node: str) -> None:
        """Count *pod* on *node* until the server tells of it or it is forgotten."""
        self._assumed[pod.uid] = node
        self.cluster.place(pod, node)

    def is_assumed(self, uid: str) -> bool:
        """Tell whether a pod is counted on a node though the server has not said so."""
        return uid in self._assumed

    @property
    def assumed_count(self) -> int:
        """How many pods are counted on a node though the server has not said so."""
        return len(self._assumed)

    def assumed_nodes(self) -> set[str]:
        """Return the nodes on which such pods are counted."""
        return set(self._assumed.values())

    def forget(self, pod: PodInfo) -> None:
        """Stop counting an assumed pod: it was not bound."""
        node = self._assumed.pop(pod.uid, None)
        if node is not None:
            assumed = self.cluster.remove_pod(pod.uid)
            self._tell(EventKind.POD_DELETED, node=node, pod=assumed or pod)

    def apply(self, changes: BeliefChanges) -> None:
        """Take over what the cache believes now, and pass on what it has to tell."""
        if not changes:
            return
        self.cluster.take(changes, self.cache)
        for node in changes.freed:
            self._tell(EventKind.TOPOLOGY_CHANGED, node=node)
        if self.listener is not None:
            self.listener.cache_changed(changes)

    @contextmanager
    def silently(self) -> Iterator[None]:
        """Tell nobody of what happens inside: it undoes what was only tried."""
        listener, self.listener = self.listener, None
        try:
            yield
        finally:
            self.listener = listener

    def _reflectors(self) -> tuple[Reflector[Any], ...]:
        reports = self._report_mirror.reflectors if self._reads_reports else ()
        return (self.nodes, *reports, *self._others, self.pods)

    def _is_absent(self, reflector: Reflector[Any]) -> bool:
        """Tell whether the server does not have the kind; it may come later.

        One that we can do without need not be ours to read either. Reports that we may not read
        are waited for a little, because rights may be granted after us.
        """
        if reflector in self._optional and isinstance(reflector.last_error, Forbidden):
            return True
        if reflector is self.topologies and reflector.denied:
            return True
        return isinstance(reflector.last_error, NotFound)

    def _on_node(self, change: Change[Node]) -> None:
        node = change.object
        name = node.metadata.name
        if isinstance(change, Removed):
            self.cluster.remove_node(name)
            self._tell(EventKind.NODE_REMOVED, node=name)
            return
        before = self.cluster.nodes_generation
        self.cluster.set_node(node)
        if self.cluster.nodes_generation == before:
            return  # a heartbeat
        kind = EventKind.NODE_UPDATED if isinstance(change, Updated) else EventKind.NODE_ADDED
        self._tell(kind, node=name)

    def _on_report(self, change: Change[NodeResourceTopology]) -> None:
        topology = change.object
        if isinstance(change, Removed):
            self.reported_at.pop(topology.metadata.name, None)
            self.apply(self.cache.remove_report(topology.metadata.name))
        else:
            self.reported_at[topology.metadata.name] = self._client.clock.monotonic()
            self.apply(self.cache.set_report(topology))

    def _mirror(self, kind: ObjectKind) -> None:
        resource = RESOURCES[kind.field]
        objects: dict[str, object] = getattr(self.cluster.objects, kind.field)

        def on_change(change: Change[Any]) -> None:
            key = str(key_of(change.object))
            if isinstance(change, Removed):
                objects.pop(key, None)
            else:
                objects[key] = change.object
            self.cluster.objects_changed(node=key if kind.of_node else "")
            if resource is RESOURCE_CLAIMS:
                self._on_resource_claim(key, change)
            elif kind.event is EventKind.POD_GROUP_CHANGED:
                metadata = change.object.metadata
                group = resource.group, metadata.namespace, metadata.name
                if _asks_for_another_gang(change):
                    self._tell(kind.event, pod_group=group)
            elif kind.event is not None:
                claim = key if resource is CLAIMS else ""
                self._tell(kind.event, node=key if kind.of_node else "", claim=claim)

        reflector: Reflector[Any] = Reflector(
            self._client,
            resource,
            optional=kind.optional,
            locate=partial(located, self._client, resource) if kind.versions else None,
        )
        reflector.store.subscribe(self.unusable.guarding(resource.kind, on_change))
        self.stores[kind.field] = reflector.store
        self._others.append(reflector)
        if kind.optional:
            self._optional.append(reflector)

    def _on_resource_claim(self, key: str, change: Change[ResourceClaim]) -> None:
        removed = isinstance(change, Removed)
        before = change.old if isinstance(change, Updated) else None
        event = ClusterEvent(
            kind=EventKind.CLAIM_CHANGED,
            claim=key,
            claim_before=change.object if removed else before,
            claim_now=None if removed else change.object,
        )
        if self.listener is not None:
            self.listener.happened(event)

    def _on_namespace(self, change: Change[Namespace]) -> None:
        metadata = change.object.metadata
        if isinstance(change, Removed):
            self.cluster.objects.namespace_labels.pop(metadata.name, None)
        else:
            self.cluster.objects.namespace_labels[metadata.name] = metadata.labels
        self.cluster.objects_changed()
        self._tell(EventKind.NAMESPACE_CHANGED)

    def _on_pod(self, change: Change[Pod]) -> None:
        pod = self._infos.of(change.object)
        if isinstance(change, Removed):
            if pod.has_ended:
                self.apply(self.cache.pod_seen(pod))
            self._pod_is_gone(pod, deleted=True)
            self.apply(self.cache.pod_gone(pod.uid))
            return
        self._note_holding(pod)
        if pod.has_ended:
            self._pod_is_gone(pod, deleted=False)
        elif pod.node_name:
            self._pod_is_placed(pod, change)
        elif pod.uid not in self._assumed and self.listener is not None:
            self.listener.pod_waits(pod)

    def _note_holding(self, pod: PodInfo) -> None:
        """Let the cache know of a pod that may hold something of a zone."""
        self.apply(self.cache.pod_seen(pod))

    def _pod_is_placed(self, pod: PodInfo, change: Change[Pod]) -> None:
        known = self.cluster.node_of(pod.uid) is not None
        before = self._counted(pod.uid)
        self._assumed.pop(pod.uid, None)
        self.cluster.place(pod, pod.node_name)
        if self.listener is not None:
            self.listener.pod_placed(pod)
        # One that we have assumed is known, and yet told of as added: binding changes its spec.
        if not known or not isinstance(change, Updated) or not change.old.spec.node_name:
            self._tell(EventKind.POD_ADDED, node=pod.node_name, pod=pod)
            # It may have been resized while it was being bound, and others waited meanwhile.
            changed = before is not None and pod.may_hold_less_than(before)
        else:
            changed = _matters(change.old, change.object)
        if changed:
            self._tell(EventKind.POD_UPDATED, node=pod.node_name, pod=pod)

    def _counted(self, uid: str) -> PodInfo | None:
        """Return a pod as it counts on its node now."""
        node = self.cluster.node(self.cluster.node_of(uid) or "")
        return node.pods.get(uid) if node is not None else None

    def _pod_is_gone(self, pod: PodInfo, *, deleted: bool) -> None:
        self._assumed.pop(pod.uid, None)
        node = self.cluster.node_of(pod.uid)
        before = self.cluster.remove_pod(pod.uid)
        if self.listener is not None:
            self.listener.pod_gone(pod, deleted=deleted)
            if before is not None and pod.has_ended:
                self.listener.pod_ended(pod)
        if node is not None:
            self._tell(EventKind.POD_DELETED, node=node, pod=before or pod)

    def _tell(
        self,
        kind: EventKind,
        *,
        node: str = "",
        pod: PodInfo | None = None,
        claim: str = "",
        pod_group: tuple[str, str, str] | None = None,
    ) -> None:
        if self.listener is not None:
            info = self.cluster.node(node) if node else None
            event = ClusterEvent(
                kind=kind, node=node, node_info=info, pod=pod, claim=claim, pod_group=pod_group
            )
            self.listener.happened(event)


def _matters(before: Pod, after: Pod) -> bool:
    """Tell whether a bound pod changed in a way that others' placement depends on."""
    old, new = before.metadata, after.metadata
    if old.labels != new.labels or before.spec != after.spec:
        return True
    return any(old.annotations.get(key) != new.annotations.get(key) for key in POD_HOLDING)


def _asks_for_another_gang(change: Change[Any]) -> bool:
    """Tell whether a group has changed in more than its status.

    The status is written after each attempt: to try again for that would never end.
    """
    if not isinstance(change, Updated):
        return True
    old, new = change.old, change.object
    return bool(old.spec != new.spec or old.metadata.annotations != new.metadata.annotations)
