"""An exporter for every node of a lab, as tasks of its process.

    async with ExporterPool(client, nodes) as exporters:
        exporters.freeze(["node-0"])

They are the real ones: their loop, their computation and their writes. Only what they read comes
straight from the kubelet, which also tells them of changes. What has changed within the last
moments is published together. `steer` passes on what other processes ask of them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry

from numakube.api.meta import Named
from numakube.apps.exporter.export_loop import Exporter
from numakube.apps.exporter.metrics import ExporterMetrics
from numakube.apps.exporter.node_object import NodeObject
from numakube.apps.exporter.nrt_writer import ObjectPublisher
from numakube.apps.exporter.report_options import ReportOptions
from numakube.apps.exporter.scan_wakeups import Trigger, Wakeups
from numakube.apps.exporter.surprises import Silence
from numakube.errors import ConfigError, MalformedObject
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES
from numakube.kube.reflector import Reflector
from numakube.kube.store import Removed
from numakube_lab.exporters.exporter_faults import Freezer, Skew, SkewedPublisher, parse_amounts
from numakube_lab.exporters.kubelet_source import HardwareShelf, LabSource
from numakube_lab.exporters.nrt_definition import install_definition
from numakube_lab.lifetime import Lifetime
from numakube_lab.nodes.lab_kubelet import KubeletState
from numakube_lab.nodes.node_pool import NODE_INDEX

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from numakube.api.pod import Pod
    from numakube.kube.client import Client
    from numakube.kube.store import Change
    from numakube_lab.nodes.node_pool import NodePool


PERIOD_SECONDS: Final = 600.0
"""How often an exporter looks by itself: rarely, since the kubelet tells it of every change."""

RATE: Final = 10.0
STALE_AFTER_SECONDS: Final = 10.0
_FROZEN: Final = "frozen"
_SILENT: Final = "node paused"


@dataclass(slots=True)
class _Seat:
    """One node's exporter and what can be done to it."""

    exporter: Exporter
    target: ObjectPublisher
    publisher: SkewedPublisher
    freezer: Freezer
    task: asyncio.Task[None]


class ExporterPool(Lifetime):
    """The exporters of a lab; use it as a context.

    Attributes:
        registry: the metrics of all of them together.
    """

    def __init__(
        self,
        client: Client,
        nodes: NodePool,
        *,
        period: float = PERIOD_SECONDS,
        stale_after: float = STALE_AFTER_SECONDS,
        max_silence: float = 0.0,
        serves: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Prepare exporters for those nodes that *serves* says; have it asked again by `review`."""
        self._client = client
        self._serves = serves
        self._nodes = nodes
        self._period = period
        self._stale_after = stale_after
        self._max_silence = max_silence
        self._seats: dict[str, _Seat] = {}
        self._ended: list[asyncio.Task[None]] = []
        self.registry = CollectorRegistry(auto_describe=True)
        self._metrics = ExporterMetrics("lab", self.registry)
        self._shelf = HardwareShelf()
        self._objects: Reflector[Named] = Reflector(
            client, NODE_RESOURCE_TOPOLOGIES.decoded_as(Named)
        )
        self._watching: asyncio.Task[None] | None = None
        self._running = False

    async def live(self) -> AsyncIterator[None]:
        """Make sure that the API knows the objects, then export every node; they stay."""
        await install_definition(self._client)
        self._running = True
        self._nodes.observe(self._on_node)
        self._objects.store.subscribe(self._on_object)
        self._nodes.pods.subscribe(self._on_pod)
        self._watching = asyncio.create_task(self._objects.run(), name="lab-reports")
        self.review()
        try:
            yield
        finally:
            await self._end()

    async def _end(self) -> None:
        self._running = False
        for name in tuple(self._seats):
            self._dismiss(name)
        if self._watching is not None:
            self._watching.cancel()
            self._ended.append(self._watching)
        await asyncio.gather(*self._ended, return_exceptions=True)

    def review(self) -> None:
        """Begin with nodes that are served from now on, and end with those that are not."""
        for name in self._nodes.kubelets:
            self._on_node(name)

    async def reported(self, *names: str) -> None:
        """Return as soon as every one of these nodes has been reported once."""
        for seat in self._select(names):
            await seat.exporter.has_published.wait()

    def freeze(self, names: Iterable[str]) -> None:
        """Let the exporters of these nodes hang."""
        for seat in self._select(names):
            seat.freezer.hold(_FROZEN)

    def thaw(self, names: Iterable[str]) -> None:
        """Let the exporters of these nodes go on."""
        for seat in self._select(names):
            seat.freezer.let_go(_FROZEN)
            seat.exporter.wakeups.note(Trigger.START)

    def skew(self, names: Iterable[str], skew: Skew) -> None:
        """Let the exporters of these nodes tell other than the truth, or tell it late."""
        for seat in self._select(names):
            seat.publisher.skew = skew
            seat.exporter.wakeups.note(Trigger.START)

    def clear(self) -> None:
        """Let all exporters do what they should."""
        self.thaw(self._seats)
        self.skew(self._seats, Skew())

    def faults(self) -> dict[str, Any]:
        """Return what is done to exporters, by node."""
        found: dict[str, Any] = {}
        for name, seat in sorted(self._seats.items()):
            faults: dict[str, Any] = {}
            if _FROZEN in seat.freezer.reasons:
                faults["frozen"] = True
            if not seat.publisher.skew.is_straight:
                skew = seat.publisher.skew
                amounts = dict(skew.amounts)
                faults["skew"] = {"amounts": amounts, "zone": skew.zone, "delay": skew.delay}
            if faults:
                found[name] = faults
        return found

    def _select(self, names: Iterable[str]) -> list[_Seat]:
        names = tuple(names)
        missing = [name for name in names if name not in self._seats]
        if missing:
            raise ConfigError(f"no exporter runs for: {', '.join(missing)}")
        return [self._seats[name] for name in names]

    def _on_node(self, name: str) -> None:
        """Take note that a node has changed, come or gone."""
        kubelet = self._nodes.kubelets.get(name)
        if not self._running:
            return
        if kubelet is None or not self._serves(name):
            self._dismiss(name)
            return
        seat = self._seats.get(name) or self._employ(name)
        if kubelet.state is KubeletState.PAUSED:
            seat.freezer.hold(_SILENT)
        else:
            seat.freezer.let_go(_SILENT)
        seat.exporter.wakeups.note(Trigger.STATE)

    def _on_object(self, change: Change[Named]) -> None:
        """Have a deleted object written again."""
        seat = self._seats.get(change.object.metadata.name)
        if seat is not None and isinstance(change, Removed):
            seat.target.forget()
            if seat.exporter.silence is not None:
                seat.exporter.silence.end()
            seat.exporter.wakeups.note(Trigger.OBJECT)

    def _on_pod(self, change: Change[Pod]) -> None:
        """Have an exporter know what became of a pod, and look.

        Old kubelets do not note which pods they have admitted: the status of the pod tells alone.
        """
        name = change.object.spec.node_name
        seat = self._seats.get(name)
        if seat is None:
            return
        silence = seat.exporter.silence
        if silence is not None:
            silence.note(change)
        if silence is not None or not self._nodes.kubelet(name).notes_admissions:
            seat.exporter.wakeups.note(Trigger.POD)

    def _silence(self, name: str) -> Silence | None:
        if not self._max_silence:
            return None
        return Silence(
            lambda: self._nodes.pods.select(NODE_INDEX, name),
            seconds=self._max_silence,
            clock=self._client.clock,
            random=self._client.rng,
        )

    def _employ(self, name: str) -> _Seat:
        clock = self._client.clock
        freezer = Freezer()
        target = ObjectPublisher(
            self._client,
            NodeObject(self._client, name),
            name=name,
            max_silence=self._max_silence,
        )
        publisher = SkewedPublisher(target, clock)
        kubelet = self._nodes.kubelet(name)
        exporter = Exporter(
            source=LabSource(
                kubelet, self._shelf.of(kubelet.plan.machine), self._nodes.pods, freezer
            ),
            publisher=publisher,
            wakeups=Wakeups(
                clock=clock, period=min(self._period, self._max_silence or self._period), rate=RATE
            ),
            options=ReportOptions(node_name=name),
            clock=clock,
            metrics=self._metrics,
            stale_after=self._stale_after,
            silence=self._silence(name),
        )
        task = asyncio.create_task(exporter.run(), name=f"lab-exporter-{name}")
        self._seats[name] = seat = _Seat(exporter, target, publisher, freezer, task)
        return seat

    def _dismiss(self, name: str) -> None:
        seat = self._seats.pop(name, None)
        if seat is not None:
            # Nothing may wait for a report that will not come.
            seat.exporter.has_published.set()
            seat.task.cancel()
            self._ended.append(seat.task)


def steer(exporters: ExporterPool, request: Mapping[str, Any]) -> dict[str, Any]:
    """Do what *request* says: ``action``, ``nodes`` and what the action needs.

    Raises:
        ConfigError: an action, a node or an amount that does not exist.
        MalformedObject: something else than a request.
    """
    nodes = request.get("nodes")
    if not isinstance(nodes, list) or not all(isinstance(name, str) for name in nodes):
        raise MalformedObject("request", "must be a list of node names", path="nodes")
    match request.get("action"):
        case "freeze":
            exporters.freeze(nodes)
        case "thaw":
            exporters.thaw(nodes)
        case "skew":
            exporters.skew(nodes, _skew(request))
        case action:
            raise ConfigError(f"unknown action {action!r} for exporters")
    return {"nodes": nodes}


def _skew(request: Mapping[str, Any]) -> Skew:
    try:
        words = {str(name): str(text) for name, text in dict(request.get("amounts") or {}).items()}
        delay = float(request.get("delay") or 0.0)
    except (TypeError, ValueError) as error:
        raise MalformedObject("request", f"cannot skew reports: {error}") from None
    return Skew(
        amounts=MappingProxyType(parse_amounts(words)),
        zone=str(request.get("zone") or ""),
        delay=delay,
    )
