"""What the pages are made from: three collections of the API server, and the inside of a process.

The stores belong to the program that runs the dashboard: a scheduler's mirror, reflectors of our
own, or objects of a file. Their handlers run for every event of the cluster, so they only take
notes here: everything that costs time is computed when a page is opened.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from numakube.api.nrt import attribute_value
from numakube.apps.dashboard.dashboard_pods import PodBook
from numakube.apps.dashboard.heatmap_data import ZoneBook
from numakube.apps.dra_devices_by_node import DeviceBook
from numakube.apps.watched_kinds import RESOURCES
from numakube.errors import NumakubeError
from numakube.insight.facts import ClusterFacts
from numakube.insight.list_reading import Unreadable
from numakube.kube.resource_types import ObjectKey
from numakube.kube.store import Removed, Updated
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
from numakube.topology import nrt_names
from numakube.topology.exporter_presence import current_state, is_named_like, trouble_with
from numakube.topology.numa_zones import Unusable
from numakube.topology.topology_view import NodeTopology, view_of
from numakube.values.times import format_time

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
    from datetime import datetime

    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.pod import Pod
    from numakube.apps.dashboard.scheduler_view import Inside
    from numakube.kube.clock import Clock
    from numakube.kube.store import Change, Store
    from numakube.topology.pci_places import PciPlaces

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
        self.pod_book = PodBook()
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
        if not isinstance(view, NodeTopology) or self.missing():
            return view
        return current_state(view, self.pod_book.on(name), now=self._now())

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
        return None if belief is None else belief.topology

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

    def _on_pod(self, change: Change[Pod]) -> None:
        if isinstance(change, Removed):
            self.pod_book.remove(change.object)
        else:
            self.pod_book.put(change.object)
        node = change.object.spec.node_name
        if node and is_named_like(change.object, self._exporter_of(node)):
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
    ready = next((one.status for one in node.status.conditions if one.type == "Ready"), "")
    return ready, node.spec, node.status.allocatable, node.metadata.labels
