"""What the pages are made from: three collections of the API server, and the inside of a process.

The stores belong to the program that runs the dashboard: a scheduler's mirror, reflectors of our
own, or objects of a file. Their handlers run for every event of the cluster, so they only take
notes here: everything that costs time is computed when a page is opened.
"""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, Final

from numakube.api.codec import Timestamp, Wire
from numakube.api.interning import shared_pod
from numakube.api.koordinator import keys
from numakube.api.nrt import attribute_value
from numakube.api.pod import has_ended, is_rejected
from numakube.apps.dra_devices_by_node import DeviceBook
from numakube.apps.dra_mirror import DraMirror
from numakube.apps.node_reports import ReportMirror
from numakube.apps.served_topologies import served_topologies
from numakube.apps.watched_kinds import RESOURCES
from numakube.errors import (
    ClusterUnreachable,
    Expired,
    Forbidden,
    InvalidValue,
    NotFound,
    NumakubeError,
)
from numakube.insight import ClusterFacts
from numakube.insight.list_reading import Unreadable
from numakube.insight.scheduler_holdings import with_free_zones
from numakube.kube import ObjectKey, Reflector, Removed, Store, Updated
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGY_UPDATES, NODES, PODS
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
from numakube.topology import NodeTopology, nrt_names, view_of
from numakube.topology.exporter_presence import current_state, is_named_like, trouble_with
from numakube.topology.numa_zones import Unusable
from numakube.values.times import format_time, parse_time
from numakube_pages.heatmap import ZoneBook

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Collection,
        Hashable,
        Iterable,
        Iterator,
        Mapping,
    )
    from datetime import datetime

    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.pod import Pod, PodCondition
    from numakube.kube import Change, Client, Clock, Resource
    from numakube.topology.pci_places import PciPlaces
    from numakube_pages.scheduler_view import Inside


_PATIENCE_SECONDS: Final = 5.0
_NO_STORES: Final[Mapping[str, Store[Any]]] = MappingProxyType({})
_UNREAD: Final = tuple(
    Unreadable(RESOURCES[field].plural, "this dashboard does not read them")
    for field in ("claims", "services", "disruption_budgets")
)


def _nothing_missing() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Age:
    """For how many seconds a report has not changed; so long ``at_least`` if that is not noted."""

    seconds: float
    at_least: bool = False


class Source:
    """The state of a cluster, as far as pages need it; `open` it first.

    Attributes:
        version: grows with every change.
        frozen_at: when a recorded state was taken; empty for a live one.
        inside: what the process knows besides the API server's objects, if it decides on pods.
        missing: says what is not known, or no longer; empty while pages are complete and live.
        zone_book: usage by zone.
        device_book: devices of DRA drivers.
        pod_book: pods by node, waiting ones and refused ones.
    """

    def __init__(
        self,
        *,
        nodes: Store[Node],
        pods: Store[Pod],
        topologies: Store[NodeResourceTopology],
        clock: Clock,
        devices: Mapping[str, Store[Any]] = _NO_STORES,
        devices_known: Callable[[], bool] = lambda: True,
        inside: Inside | None = None,
        missing: Callable[[], str] = _nothing_missing,
        dates: Callable[[], Awaitable[Mapping[str, datetime]]] | None = None,
        facts: ClusterFacts | None = None,
    ) -> None:
        self.nodes = nodes
        self.pods = pods
        self.topologies = topologies
        self.clock = clock
        self.inside = inside
        self.missing = missing
        self.frozen_at = "" if facts is None else facts.taken_at
        self._facts = facts
        self.version = 0
        self.started = clock.monotonic()
        self.device_book = DeviceBook(
            devices, note=self._on_devices, is_known=devices_known, pci=self._pci_places
        )
        self.zone_book = ZoneBook(
            nodes, topologies, read=self._believed, devices=self.device_book.on
        )
        self.pod_book = SortedPods()
        self._labelled: set[str] = set()
        self._reported_at: dict[str, float] = {}
        self._dates = dates
        self._learning = asyncio.Lock()
        self._wakers: set[asyncio.Event] = set()
        self._subscriptions: tuple[Callable[[], None], ...] = ()
        self._opening = False

    def open(self) -> None:
        """Listen to the stores from now on, if that is not done yet."""
        if self._subscriptions:
            return
        self.started = self.clock.monotonic()
        self._opening = True
        self._subscriptions = (
            self.nodes.subscribe(self._on_node),
            self.topologies.subscribe(self._on_topology),
            self.pods.subscribe(self._on_pod),
            *self.device_book.open(),
        )
        self._opening = False

    def close(self) -> None:
        """Stop listening to the stores."""
        for unsubscribe in self._subscriptions:
            unsubscribe()

    async def learn_ages(self) -> None:
        """Ask once for how long reports have been as they are, if that is known."""
        async with self._learning:
            if self._dates is None or self.missing():
                return
            with suppress(NumakubeError, TimeoutError):
                async with self.clock.timeout(_PATIENCE_SECONDS):
                    dates = await self._dates()
                now, moment = self.clock.now(), self.clock.monotonic()
                for name, date in dates.items():
                    age = max((now - date).total_seconds(), 0.0)
                    self._reported_at.setdefault(name, moment - age)
                self._dates = None

    def facts(self) -> ClusterFacts:
        """Return everything as facts, for the tools that explain; stores are copied."""
        if self._facts is not None:
            return self._facts
        objects = self.inside.objects() if self.inside is not None else None
        return ClusterFacts(
            taken_at=format_time(self.clock.now()),
            nodes={node.metadata.name: node for node in self.nodes},
            pods=tuple(self.pods),
            topologies={report.metadata.name: report for report in self.topologies},
            objects=objects or ClusterObjects(),
            unreadable=() if objects else _UNREAD,
        )

    @contextmanager
    def woken(self) -> Iterator[asyncio.Event]:
        """Yield an event that is set by every change."""
        event = asyncio.Event()
        self._wakers.add(event)
        try:
            yield event
        finally:
            self._wakers.discard(event)

    def node(self, name: str) -> Node | None:
        """Return a node."""
        return self.nodes.get(ObjectKey("", name))

    def report(self, name: str) -> NodeResourceTopology | None:
        """Return a node's report as an object."""
        return self.topologies.get(ObjectKey("", name))

    def view(self, name: str) -> NodeTopology | Unusable | None:
        """Return what a node's report says, and what is known besides; ``None`` without one."""
        report = self.report(name)
        view = None if report is None else view_of(report)
        if not isinstance(view, NodeTopology):
            return view
        if not self.missing():
            view = current_state(view, self.pod_book.on(name), now=self._now())
        return self._with_allotments(view)

    def pod(self, namespace: str, name: str) -> Pod | None:
        """Return a pod."""
        return self.pods.get(ObjectKey(namespace, name))

    def report_age(self, name: str) -> Age | None:
        """Return for how long a report has not changed; a recorded state does not tell."""
        if self._facts is not None:
            return None
        now = self.clock.monotonic()
        seen = self._reported_at.get(name)
        return Age(now - self.started, at_least=True) if seen is None else Age(now - seen)

    def state_of(self, topic: str) -> Hashable:
        """Return a value that changes when what *topic* is about does.

        A topic is ``node/NAME``, ``pod/NAMESPACE/NAME``, or anything else for the whole cluster.
        """
        kind, _, name = topic.partition("/")
        if kind == "node":
            return self._state_of_node(name)
        if kind == "pod":
            namespace, _, pod_name = name.partition("/")
            pod = self.pod(namespace, pod_name)
            if pod is not None and pod.spec.node_name:
                return (_version(pod), self._state_of_node(pod.spec.node_name))
        return self.version

    def _believed(self, name: str) -> NodeTopology | None:
        """Return the report of a node if it was read already, or if more is known than it says."""
        if trouble_with(self._exporter_of(name), self.pod_book.on(name), now=self._now()):
            view = self.view(name)
            return view if isinstance(view, NodeTopology) else None
        belief = self.inside.belief(name) if self.inside is not None else None
        view = None if belief is None else belief.topology
        if view is None and self.allots:
            told = self.view(name)
            return told if isinstance(told, NodeTopology) else None
        return None if view is None else self._with_allotments(view)

    @property
    def allots(self) -> bool:
        """Whether a scheduler gives NUMA nodes in this cluster, by pods or by labels of nodes."""
        return self.pod_book.any_allotted or bool(self._labelled)

    def _with_allotments(self, view: NodeTopology) -> NodeTopology:
        """Return what is left of zones that a scheduler, and no kubelet, gives to pods."""
        node = self.node(view.node)
        if node is None or not self.allots:
            return view
        pods = self.pod_book.running_on(view.node)
        return with_free_zones(view, node, self.report(view.node), pods)

    def _now(self) -> datetime | None:
        """Return the time of what is shown; ``None`` if that is a recorded state."""
        return None if self._facts is not None else self.clock.now()

    def _exporter_of(self, name: str) -> str:
        """Return the pod that wrote the report of a node, as far as that is known."""
        report = self.report(name)
        return (
            "" if report is None else attribute_value(report.attributes, nrt_names.EXPORTER) or ""
        )

    def _pci_places(self, name: str) -> PciPlaces | None:
        view = self._believed(name) or self.view(name)
        return None if view is None or isinstance(view, Unusable) else view.pci

    def _state_of_node(self, name: str) -> Hashable:
        versions = _version(self.node(name)), _version(self.report(name))
        return (*versions, self.pod_book.version_of(name), self.device_book.version_of(name))

    def _on_node(self, change: Change[Node]) -> None:
        name, before = change.object.metadata.name, self.allots
        labelled = keys.NODE_POLICY in change.object.metadata.labels
        if labelled and not isinstance(change, Removed):
            self._labelled.add(name)
        else:
            self._labelled.discard(name)
        self._begin_or_end(before)
        if not isinstance(change, Updated) or _shows(change.old) != _shows(change.object):
            self.zone_book.note(change.object.metadata.name, layout=not isinstance(change, Updated))
            self._changed()

    def _on_topology(self, change: Change[NodeResourceTopology]) -> None:
        name = change.object.metadata.name
        if isinstance(change, Removed):
            self._reported_at.pop(name, None)
        elif isinstance(change, Updated) or not (self._opening or self.missing()):
            self._reported_at[name] = self.clock.monotonic()
        self.zone_book.note(name)
        self._changed()

    def _on_devices(self, node: str) -> None:
        self.zone_book.note(node)
        self._changed()

    def _begin_or_end(self, allotted: bool) -> None:
        """Have all zones counted again when a scheduler begins to give them out, or ends."""
        if self.allots != allotted:
            for node in self.nodes:
                self.zone_book.note(node.metadata.name)

    def _on_pod(self, change: Change[Pod]) -> None:
        before = self.allots
        if isinstance(change, Removed):
            self.pod_book.remove(change.object)
        else:
            self.pod_book.put(change.object)
        self._begin_or_end(before)
        node = change.object.spec.node_name
        given = keys.RESOURCE_STATUS in change.object.metadata.annotations
        if node and (given or is_named_like(change.object, self._exporter_of(node))):
            self.zone_book.note(node)
        self._changed()

    def _changed(self) -> None:
        self.version += 1
        for waker in self._wakers:
            waker.set()


def _version(obj: Node | NodeResourceTopology | Pod | None) -> str:
    return "" if obj is None else obj.metadata.uid + obj.metadata.resource_version


def _shows(node: Node) -> object:
    """Return the parts of a node that pages show; heartbeats are not."""
    ready = next(
        (condition.status for condition in node.status.conditions if condition.type == "Ready"), ""
    )
    return ready, node.spec, node.status.allocatable, node.metadata.labels


# A source fed by its own reflectors, for a dashboard that runs beside no scheduler.
#
# Reports carry no time, but the server notes in ``metadata.managedFields`` when each writer last
# changed an object. `report_dates` asks for that once, when a page is first opened, and sees later
# changes as they happen: keeping it in memory for every object would cost too much.


class Reflection:
    """Mirrors what pages show.

    Attributes:
        source: what pages are made from.
    """

    def __init__(self, client: Client) -> None:
        self._clock = client.clock
        self._nodes: Reflector[Node] = Reflector(client, NODES)
        self._pods: Reflector[Pod] = Reflector(client, PODS, store=Store(transform=shared_pod))
        self._reports = ReportMirror(client)
        self._dra = DraMirror(client)
        self.source = Source(
            nodes=self._nodes.store,
            pods=self._pods.store,
            topologies=self._reports.store,
            clock=client.clock,
            devices=self._dra.stores,
            devices_known=self._dra.is_known,
            missing=self.missing,
            dates=partial(report_dates, client),
        )

    async def run(self) -> None:
        """Keep the source up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            kinds: tuple[Reflector[Any], ...] = (self._nodes, self._pods, *self._dra.reflectors)
            for reflector in kinds:
                tasks.create_task(reflector.run(), name=f"dashboard-{reflector}")
            tasks.create_task(self._reports.run(), name="dashboard-reports")

    async def synced(self) -> None:
        """Return once everything that the server has is listed."""
        while self.not_ready():
            await self._clock.sleep(0.02)

    def missing(self) -> str:
        """Say what is not known, or no longer, and why; empty while all is up to date."""
        return missing_of(self._reflectors())

    def not_ready(self) -> str:
        """Say what has never been listed; the kind of reports may come later."""
        waiting = [
            str(reflector)
            for reflector in self._reflectors()
            if not reflector.synced.is_set() and not isinstance(reflector.last_error, NotFound)
        ]
        return f"not listed yet: {', '.join(waiting)}" if waiting else ""

    def _reflectors(self) -> tuple[Reflector[Any], ...]:
        return self._nodes, self._reports.topologies, self._pods


def missing_of(reflectors: Iterable[Reflector[Any]]) -> str:
    """Say which of them do not know what the server has, and why; empty if all do.

    One whose place in history has expired lists again at once: that is no news.
    """
    failing = [
        reflector
        for reflector in reflectors
        if not reflector.synced.is_set() or not isinstance(reflector.last_error, Expired | NoneType)
    ]
    return "; ".join(dict.fromkeys(map(_trouble, failing)))


def _trouble(reflector: Reflector[Any]) -> str:
    if isinstance(reflector.last_error, NotFound):
        return f"the API server does not know {reflector}"
    if isinstance(reflector.last_error, ClusterUnreachable):
        # Which request it was that failed does not matter to readers.
        return f"the API server cannot be reached ({str(reflector.last_error).rpartition(': ')[2]})"
    if reflector.last_error is not None:
        return f"{reflector}: {reflector.last_error}"
    return f"{reflector} are not listed yet"


class _Writer(Wire, frozen=True):
    time: Timestamp | None = None


class _Metadata(Wire, frozen=True):
    name: str = ""
    managed_fields: tuple[_Writer, ...] = ()


class _Dated(Wire, frozen=True):
    """A report of which only the dates matter."""

    metadata: _Metadata = _Metadata()


async def report_dates(client: Client) -> Mapping[str, datetime]:
    """Return when each report last changed; those of which it is not noted are missing.

    Raises:
        NumakubeError: the server does not say.
    """
    dated = (await served_topologies(client)).decoded_as(_Dated)
    found = await _dates(client, dated)
    with contextlib.suppress(Forbidden, NotFound):
        updates = await _dates(client, NODE_RESOURCE_TOPOLOGY_UPDATES.decoded_as(_Dated))
        found |= {name: max(date, updates.get(name, date)) for name, date in found.items()}
    return found


async def _dates(client: Client, dated: Resource[_Dated]) -> dict[str, datetime]:
    found = {}
    for report in (await client.list(dated, resource_version="0")).items:
        dates = [
            date for writer in report.metadata.managed_fields if (date := _date(writer)) is not None
        ]
        if dates:
            found[report.metadata.name] = max(dates)
    return found


def _date(writer: _Writer) -> datetime | None:
    try:
        return parse_time(writer.time) if writer.time else None
    except InvalidValue:
        return None


# Pods as pages need them: those of a node, those that wait, those that a kubelet refused.


class SortedPods:
    """Sorts pods as they come, so that no page has to look at all of them."""

    def __init__(self) -> None:
        self.waiting: dict[str, Pod] = {}
        self.refused: dict[str, Pod] = {}
        self._on: dict[str, dict[str, Pod]] = {}
        self._node_of: dict[str, str] = {}
        self._ended: set[str] = set()
        self._versions: dict[str, int] = {}
        self._allotted: set[str] = set()

    def __len__(self) -> int:
        return len(self._node_of) + len(self.waiting)

    def put(self, pod: Pod) -> None:
        """Take a pod that was added or has changed."""
        self._drop(pod.metadata.key)
        key, node = pod.metadata.key, pod.spec.node_name
        if is_rejected(pod):
            self.refused[key] = pod
        if keys.RESOURCE_STATUS in pod.metadata.annotations:
            self._allotted.add(key)
        if node:
            self._on.setdefault(node, {})[key] = pod
            self._node_of[key] = node
            if has_ended(pod):
                self._ended.add(key)
            self._versions[node] = self._versions.get(node, 0) + 1
        elif not has_ended(pod):
            self.waiting[key] = pod

    def remove(self, pod: Pod) -> None:
        """Forget a pod that was deleted."""
        self._drop(pod.metadata.key)

    def on(self, node: str) -> Collection[Pod]:
        """Return the pods of a node, ended ones too."""
        return self._on.get(node, {}).values()

    def running_on(self, node: str) -> list[Pod]:
        """Return the pods of a node that have not ended, by namespace and name."""
        pods = [pod for pod in self._on.get(node, {}).values() if not has_ended(pod)]
        return sorted(pods, key=lambda pod: pod.metadata.key)

    def count_on(self, node: str) -> int:
        """Return how many pods of a node have not ended."""
        return sum(not has_ended(pod) for pod in self._on.get(node, {}).values())

    @property
    def placed_count(self) -> int:
        """How many pods have a node and have not ended."""
        return len(self._node_of) - len(self._ended)

    @property
    def any_allotted(self) -> bool:
        """Whether there is a pod that a scheduler has given NUMA nodes."""
        return bool(self._allotted)

    def placed(self) -> Iterator[Pod]:
        """Yield every pod that has a node, node by node."""
        for pods in self._on.values():
            yield from pods.values()

    def version_of(self, node: str) -> int:
        """Return a number that changes when a pod of the node does."""
        return self._versions.get(node, 0)

    def _drop(self, key: str) -> None:
        self.waiting.pop(key, None)
        self.refused.pop(key, None)
        self._allotted.discard(key)
        self._ended.discard(key)
        node = self._node_of.pop(key, None)
        if node is None:
            return
        pods = self._on[node]
        pods.pop(key, None)
        self._versions[node] = self._versions.get(node, 0) + 1
        if not pods:
            del self._on[node]


def condition_of(pod: Pod, kind: str) -> PodCondition | None:
    """Return one condition of a pod."""
    conditions = pod.status.conditions if pod.status else ()
    return next((condition for condition in conditions if condition.type == kind), None)


def phase_of(pod: Pod) -> str:
    """Return in one word what a pod is doing."""
    if pod.metadata.deletion_timestamp is not None:
        return "Terminating"
    if pod.status is None or not pod.status.phase:
        return "Pending"
    return pod.status.reason or pod.status.phase
