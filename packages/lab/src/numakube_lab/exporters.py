"""Exporters for the lab's nodes: the real ones, reading kubelets of the same process.

    async with ExporterPool(client, nodes) as exporters:
        exporters.freeze(["node-0"])

They are the real ones: their loop, their computation and their writes. Only what they read comes
straight from the kubelet, which also tells them of changes. What has changed within the last
moments is published together. `steer` passes on what other processes ask of them.

The definitions of NodeResourceTopology objects and their updates, installed in a lab.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec
from prometheus_client import CollectorRegistry

from numakube.api.crds import UPDATE_CRD, crd
from numakube.api.meta import Named
from numakube.apps.exporter import (
    Checkpoints,
    Exporter,
    ExporterMetrics,
    KnownConfig,
    NodeObject,
    NodePods,
    NodeReader,
    ObjectPublisher,
    ReportOptions,
    Silence,
    Trigger,
    Wakeups,
    hardware_of,
    uids_of,
)
from numakube.errors import (
    AlreadyExists,
    ConfigError,
    InvalidValue,
    KubeletUnavailable,
    MalformedObject,
)
from numakube.kube import Reflector, Removed
from numakube.kube.catalog import CUSTOM_RESOURCE_DEFINITIONS, NODE_RESOURCE_TOPOLOGIES
from numakube.kubelet import states_of
from numakube.node.pci import UNKNOWN, Connected, connected_devices
from numakube.values.quantity import value
from numakube_lab.lifetime import Lifetime
from numakube_lab.nodes.lab_kubelet import KubeletState
from numakube_lab.nodes.node_pool import NODE_INDEX

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping

    from numakube.api.nrt import Zone, ZoneResource
    from numakube.api.pod import Pod
    from numakube.apps.exporter import (
        AnnotationReader,
        Hardware,
        NodeInputs,
        PodName,
        Publisher,
        Report,
        ScanCause,
        Written,
    )
    from numakube.kube import Change, Client, Clock, Store
    from numakube.kubelet import Machine
    from numakube.node import AllocatableResources, PodResources
    from numakube_lab.nodes.kubelet_admission import KubeletAdmission
    from numakube_lab.nodes.lab_kubelet import LabKubelet
    from numakube_lab.nodes.node_pool import NodePool


# Exporters that hang, lag or lie, for tests of those who trust them.
#
# A frozen exporter does nothing until it is thawed: its object grows old. A skewed one publishes
# amounts that differ from the truth, or publishes late; the exact data is left out then, since it
# would tell the truth.


class Freezer:
    """Holds an exporter up until it is released."""

    def __init__(self) -> None:
        self._reasons: set[str] = set()
        self._open = asyncio.Event()
        self._open.set()

    @property
    def reasons(self) -> frozenset[str]:
        """Why it is held up; nothing if it is not."""
        return frozenset(self._reasons)

    def hold(self, reason: str) -> None:
        """Hold it up."""
        self._reasons.add(reason)
        self._open.clear()

    def let_go(self, reason: str) -> None:
        """Do not hold it up for this reason any more."""
        self._reasons.discard(reason)
        if not self._reasons:
            self._open.set()

    async def thawed(self) -> None:
        """Return as soon as nothing holds it up."""
        await self._open.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """How reports differ from the truth.

    Attributes:
        amounts: what is added to the available amount of resources, in every zone that has them.
        zone: the only zone to change; all of them if empty.
        delay: seconds by which reports are late.
    """

    amounts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    zone: str = ""
    delay: float = 0.0

    @property
    def is_straight(self) -> bool:
        """Whether it changes nothing."""
        return not self.amounts and not self.delay

    def applied(self, report: Report) -> Report:
        """Return what is published instead of *report*."""
        if not self.amounts:
            return report
        return replace(report, zones=tuple(map(self._zone, report.zones)), exact=None)

    def _zone(self, zone: Zone) -> Zone:
        if self.zone not in ("", zone.name):
            return zone
        return msgspec.structs.replace(zone, resources=tuple(map(self._resource, zone.resources)))

    def _resource(self, resource: ZoneResource) -> ZoneResource:
        if resource.name not in self.amounts:
            return resource
        true = value(resource.available)
        most = value(resource.allocatable)
        told = min(most, max(0, true + self.amounts[resource.name]))
        return msgspec.structs.replace(resource, available=str(told))


def parse_amounts(words: Mapping[str, str]) -> dict[str, int]:
    """Return amounts such as ``{"cpu": "-2", "memory": "1Gi"}`` in base units.

    Raises:
        ConfigError: one is not a whole quantity.
    """
    amounts = {}
    for name, text in words.items():
        try:
            amounts[name] = value(text)
        except InvalidValue as error:
            raise ConfigError(f"amount of {name}: {error}") from None
    return amounts


class SkewedPublisher:
    """Publishes what a `Skew` makes of reports."""

    def __init__(self, publisher: Publisher, clock: Clock) -> None:
        self._publisher = publisher
        self._clock = clock
        self.skew = Skew()

    async def publish(self, report: Report, *, cause: ScanCause, slept: float | None) -> Written:
        """Publish a report as it is skewed now."""
        skew = self.skew
        if skew.delay:
            await self._clock.sleep(skew.delay)
        return await self._publisher.publish(skew.applied(report), cause=cause, slept=slept)

    async def mark_stale(self, reason: str) -> Written:
        """Say that what was published must not be trusted."""
        return await self._publisher.mark_stale(reason)


# What an exporter reads of a lab's kubelet, without sockets and files in between.
#
# The kubelet's own answers, its state and its pods, read in the way of every exporter, so that a
# thousand exporters cost what they compute. One that runs in a container of the lab reads the same
# over sockets and from disk.


class LabSource:
    """Reads one kubelet of the lab."""

    def __init__(
        self,
        kubelet: LabKubelet,
        hardware: Hardware,
        pods: Store[Pod],
        freezer: Freezer,
        *,
        annotations: tuple[AnnotationReader, ...] = (),
    ) -> None:
        machine = hardware.machine
        connected = UNKNOWN if machine is None else connected_devices(machine)

        async def known_hardware() -> Hardware:
            return hardware

        async def known_connections(ids: frozenset[str]) -> Connected:
            return connected

        self._freezer = freezer
        self._reader = NodeReader(
            hardware=known_hardware,
            kubelet=_PodResourcesAnswers(kubelet),
            config=KnownConfig(lambda: kubelet.config),
            checkpoints=_States(kubelet),
            pods=_NodePods(kubelet, pods),
            version=lambda: kubelet.plan.kubelet_version,
            connections=known_connections,
            annotations=annotations,
        )

    async def read(self) -> NodeInputs:
        """Return what the node is and holds now; a frozen exporter does not get there.

        Raises:
            KubeletUnavailable: the kubelet is stopped, or has just started.
        """
        await self._freezer.thawed()
        return await self._reader.read()


class _PodResourcesAnswers:
    """A kubelet's PodResources."""

    def __init__(self, kubelet: LabKubelet) -> None:
        self._kubelet = kubelet
        self._calls = 0

    def incarnation(self) -> object:
        """Return the book-keeping, which every start resets."""
        return self._kubelet.admission

    async def list_pods(self) -> tuple[PodResources, ...]:
        """Return what every listed pod holds, in another order each time, as kubelets do."""
        _running(self._kubelet)
        pods = tuple(self._kubelet.pod_resources())
        self._calls += 1
        first = self._calls % max(len(pods), 1)
        return pods[first:] + pods[:first]

    async def allocatable(self) -> AllocatableResources:
        """Return what the node could give out if it were empty."""
        _running(self._kubelet)
        return self._kubelet.allocatable_resources()


class _States:
    """A kubelet's state files, which need not be written to be read."""

    def __init__(self, kubelet: LabKubelet) -> None:
        self._kubelet = kubelet
        self._seen: tuple[KubeletAdmission, int] | None = None
        self._known = Checkpoints()

    def read(self) -> Checkpoints:
        """Return the state: the same object for as long as it has not changed."""
        admission = self._kubelet.admission
        if admission is None:
            return self._known
        if self._seen is None or self._seen != (admission, admission.version):
            cpu, memory, devices = states_of(admission.model)
            self._known = Checkpoints(
                cpu=cpu, memory=memory, devices=devices, allocated=admission.allocated
            )
            self._seen = admission, admission.version
        return self._known


class _NodePods(NodePods):
    """The pods of a node as the lab's kubelets know them."""

    def __init__(self, kubelet: LabKubelet, pods: Store[Pod]) -> None:
        self._kubelet = kubelet
        self._pods = pods

    def objects(self) -> Iterable[Pod]:
        """Return the pods that are bound to the node."""
        return self._pods.select("node", self._kubelet.name)

    async def uids(
        self, listed: Collection[PodName], held: Collection[str]
    ) -> Mapping[PodName, str]:
        """Return the uids of the pods that the kubelet lists."""
        del listed, held
        return uids_of(_running(self._kubelet).listed)


def _running(kubelet: LabKubelet) -> KubeletAdmission:
    if kubelet.admission is None:
        raise KubeletUnavailable(f"the kubelet of {kubelet.name} is not running")
    return kubelet.admission


class HardwareShelf:
    """The zones of machines, described once: most nodes of a lab share a few machines."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Machine, Hardware]] = {}

    def of(self, machine: Machine) -> Hardware:
        """Return the zones of *machine*."""
        # Keeping the machine keeps its id from being given to another one.
        kept = self._known.get(id(machine)) or (machine, hardware_of(machine))
        self._known[id(machine)] = kept
        return kept[1]


_POLL_SECONDS: Final = 0.02
_SECONDS: Final = 30.0


async def install_definition(client: Client) -> None:
    """Create the definitions unless they are there; return when such objects can be written."""
    for definition in (crd(), crd(UPDATE_CRD)):
        with contextlib.suppress(AlreadyExists):
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        await established(client, definition["metadata"]["name"])


async def established(client: Client, name: str) -> None:
    """Return when objects of the definition called *name* can be written."""
    async with client.clock.timeout(_SECONDS):
        while not _is_established(await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)):
            await client.clock.sleep(_POLL_SECONDS)


def _is_established(definition: dict[str, Any]) -> bool:
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(
        condition["type"] == "Established" and condition["status"] == "True"
        for condition in conditions
    )


PERIOD_SECONDS: Final = 600.0
"""How often an exporter looks by itself: rarely, since the kubelet tells it of every change."""

RATE: Final = 10.0
STALE_AFTER_SECONDS: Final = 10.0
_FROZEN: Final = "frozen"
_SILENT: Final = "node paused"


@dataclass(frozen=True, slots=True)
class MoreAnnotations:
    """What exporters write besides: the keys, and who reads for a node and wakes its exporter."""

    written: frozenset[str]
    readers: Callable[[str, Callable[[], None]], tuple[AnnotationReader, ...]]


@dataclass(slots=True)
class _Seat:
    """One node's exporter and what can be done to it."""

    exporter: Exporter
    target: ObjectPublisher
    publisher: SkewedPublisher
    freezer: Freezer
    tasks: list[asyncio.Task[None]]


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
        pod_of: Callable[[str], str] = lambda _: "",
        annotations: MoreAnnotations | None = None,
    ) -> None:
        """Prepare exporters for those nodes that *serves* says; have it asked again by `review`.

        They say that they run in the pod that *pod_of* their node is, ``namespace/name``, and
        write *annotations* into their reports besides.
        """
        self._client = client
        self._serves = serves
        self._pod_of = pod_of
        self._annotations = annotations
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
            ours=self._annotations.written if self._annotations else frozenset(),
        )
        publisher = SkewedPublisher(target, clock)
        kubelet = self._nodes.kubelet(name)
        period = min(self._period, self._max_silence or self._period)
        wakeups = Wakeups(clock=clock, period=period, rate=RATE)
        beside = self._beside(name, lambda: wakeups.note(Trigger.ANNOTATION))
        hardware = self._shelf.of(kubelet.plan.machine)
        exporter = Exporter(
            source=LabSource(kubelet, hardware, self._nodes.pods, freezer, annotations=beside),
            publisher=publisher,
            wakeups=wakeups,
            options=ReportOptions(node_name=name, exporter=self._pod_of(name)),
            clock=clock,
            metrics=self._metrics,
            stale_after=self._stale_after,
            silence=self._silence(name),
        )
        tasks = [asyncio.create_task(exporter.run(), name=f"lab-exporter-{name}")]
        tasks += [asyncio.create_task(reader.run()) for reader in beside]
        self._seats[name] = seat = _Seat(exporter, target, publisher, freezer, tasks)
        return seat

    def _beside(self, name: str, wake: Callable[[], None]) -> tuple[AnnotationReader, ...]:
        return () if self._annotations is None else self._annotations.readers(name, wake)

    def _dismiss(self, name: str) -> None:
        seat = self._seats.pop(name, None)
        if seat is not None:
            # Nothing may wait for a report that will not come.
            seat.exporter.has_published.set()
            for task in seat.tasks:
                task.cancel()
            self._ended += seat.tasks


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
