"""The parts of a scheduler on a small world, without a process, a server, or time that passes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

from prometheus_client import CollectorRegistry

from numakube.api.pod import Pod
from numakube.apps.cluster_mirror import Mirror
from numakube.apps.flight_recording import Recording
from numakube.apps.scheduler.binders import ApiClaimActions, ApiVolumeActions
from numakube.apps.scheduler.binding_cycle import BindingPlacement, WaitingPods
from numakube.apps.scheduler.metrics import SchedulerMetrics
from numakube.apps.scheduler.scheduler_parts import PluginServices, Reporting, SchedulerParts
from numakube.insight.scheduler_engine import fill
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.kube.connection.transport import Request, Response
from numakube.kube.event_recorder import EventRecorder
from numakube.scheduling.arrays import Rows
from numakube.scheduling.assembly import (
    DEFAULT_BINDER,
    all_plugins,
    assemble,
    default_configuration,
)
from numakube.scheduling.cycle import Chosen, FirstOfEquals
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import (
    BOOKED,
    Bind,
    Booking,
    Permit,
    Plugin,
    PreBind,
    PreScore,
    Reserve,
)
from numakube.scheduling.framework.registry import Handle, Services
from numakube.scheduling.framework.status import SUCCESS, Status
from numakube.scheduling.plugins.gang_scheduling import GANG_MEMBERS, GangMembers
from numakube.scheduling.recorder.flight_recorder import FlightRecorder
from numakube.scheduling.scheduling_queue import Place, QueuedPod
from numakube.scheduling.snapshot.cluster import Snapshot
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.scheduling.snapshot.zone_belief import NOTHING, BeliefChanges
from numakube.testing import World


class Told:
    """Outcomes that write down what users are told: what, about which pod, and the details.

    Attributes:
        on_refused: is called when users are told that a pod was refused.
    """

    def __init__(self) -> None:
        self.all: list[tuple[Any, ...]] = []
        self.on_refused: Callable[[], None] = lambda: None

    def __getattr__(self, what: str) -> Any:
        def tell(pod: PodInfo | str, *details: Any, **more: Any) -> None:
            name = pod if isinstance(pod, str) else pod.name
            self.all.append((what, name, *details, *more.values()))
            if what == "refused":
                self.on_refused()

        return tell

    async def withdraw(self, pod: PodInfo) -> None:
        """Say nothing more about a pod."""
        self.all.append(("withdraw", pod.name))

    def of(self, what: str) -> list[tuple[Any, ...]]:
        """Return what was told in one way."""
        return [one[1:] for one in self.all if one[0] == what]


class Gatekeeper(PreScore, Reserve, Permit, PreBind, Bind):
    """Reserves, permits and binds as a test says: at once, when the test lets it, or not at all.

    Attributes:
        opinion: what it says before nodes are rated.
        stumbles_over: names of pods for which reserving ends in an exception.
        awaited: what pods wait for before they are bound, by name.
        on_bind: is called with each pod that is bound, and its node.
        bound: the pods that were bound, and where to.
    """

    name = DEFAULT_BINDER

    def __init__(self) -> None:
        self.opinion: Status = SUCCESS
        self.permission: tuple[Status, float] = (SUCCESS, 0.0)
        self.answer: Status = SUCCESS
        self.open = asyncio.Event()
        self.open.set()
        self.stumbles_over: set[str] = set()
        self.awaited: dict[str, asyncio.Event] = {}
        self.on_bind: Callable[[PodInfo, str], None] = lambda _pod, _node: None
        self.bound: list[tuple[str, str]] = []

    def make(self, args: Mapping[str, object], handle: Handle) -> Plugin:
        """Return the plugin itself."""
        del args, handle
        return self

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Say what the test wants it to."""
        del state, pod, snapshot, rows
        return self.opinion

    def reserve(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Booking:
        """Stumble over some."""
        del state, node
        if pod.name in self.stumbles_over:
            raise LookupError(pod.name)
        return BOOKED

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """Nothing is booked."""
        return NOTHING

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> tuple[Status, float]:
        """Answer as told."""
        del state, pod, node
        return self.permission

    def waits_for_others(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        """Tell whether the pod has something to wait for."""
        del state, node
        return pod.name in self.awaited

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Wait for it."""
        del state, node
        if pod.name in self.awaited:
            await self.awaited[pod.name].wait()
        return SUCCESS

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Answer as told, when the gate is open."""
        del state
        await self.open.wait()
        self.on_bind(pod, node)
        self.bound.append((pod.name, node))
        return self.answer


class Accepting:
    """A transport to a server that writes everything down and takes it, or *refuses* it."""

    def __init__(self) -> None:
        self.received: list[Request] = []
        self.refuses = False

    async def send(self, request: Request) -> Response:
        """Accept, or not."""
        self.received.append(request)
        if self.refuses:
            return Response(403, {"Content-Type": "application/json"}, b'{"kind":"Status"}')
        return Response(200, {"Content-Type": "application/json"}, b'{"metadata":{"name":"x"}}')


class Parts:
    """What a scheduler process makes of an engine, bound by a `Gatekeeper`."""

    def __init__(self, world: World) -> None:
        self.gate = Gatekeeper()
        self.members, services = GangMembers(), Services()
        services.offer(GANG_MEMBERS, self.members)
        self.engine = assemble(default_configuration(), all_plugins(self.gate.make), services)
        fill(self.engine, world.facts())
        self.clock = ManualClock()
        self.wire = Accepting()
        self.told = Told()
        self.client = client = Client(cast("Any", self.wire), clock=self.clock, rate=0)
        engine, outcomes = self.engine, cast("Any", self.told)
        self.registry = CollectorRegistry()
        self.metrics = SchedulerMetrics(self.registry)
        self.recording = Recording(FlightRecorder(), engine.cluster, self.clock)
        self.mirror = Mirror(client, engine.cluster, engine.cache)
        self.permits = WaitingPods(self.clock)
        self.recorder = recorder = EventRecorder(client, component="test", instance="i")
        self.claims = ApiClaimActions(client, recorder)
        self.parts = parts = SchedulerParts(
            engine,
            self.mirror,
            client,
            Reporting(
                outcomes=outcomes,
                events=recorder,
                recording=self.recording,
                metrics=self.metrics,
            ),
            PluginServices(
                volumes=ApiVolumeActions(client),
                claims=self.claims,
                permits=self.permits,
                members=self.members,
            ),
            dice=FirstOfEquals(),
        )
        self.queue, self.results, self.listener = parts.queue, parts.results, parts.listener
        self.preemptions, self.bindings, self.holds = (
            parts.preemptions,
            parts.bindings,
            parts.holds,
        )
        self.scheduler, self.gang_view = parts.loop, parts.gang_view
        self.incomplete_gangs = parts.incomplete_gangs
        self.queue.leads = True

    def waits(self, one: Pod) -> PodInfo:
        """Let a pod wait for the scheduler."""
        info = PodInfo(one)
        self.listener.pod_waits(info)
        return info

    def taken(self, one: Pod) -> QueuedPod:
        """Let a pod wait, and return it as the one whose turn it is."""
        self.waits(one)
        entry = self.queue.pop()
        assert entry is not None
        return entry

    def placement(self, one: Pod) -> BindingPlacement:
        """Return a pod on its way to the node that is chosen for it."""
        entry = self.taken(one)
        runtime = self.engine.runtime_for(entry.pod.scheduler_name)
        decision = self.parts.cycle.decide(entry.pod, runtime)
        assert isinstance(decision, Chosen)
        return BindingPlacement(
            entry, runtime, decision.node, decision.state, self.clock.monotonic()
        )

    def place_of(self, uid: str) -> Place | None:
        """Return where a pod waits; nothing if it does not."""
        entry = self.queue.waiting.get(uid)
        return None if entry is None else entry.place
