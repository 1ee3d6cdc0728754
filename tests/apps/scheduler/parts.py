"""The parts of a scheduler on a small world, without a process, a server, or time that passes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

from prometheus_client import CollectorRegistry

from numakube.api.pod import Pod
from numakube.apps.cluster_mirror import Mirror
from numakube.apps.flight_recording import Recording
from numakube.apps.scheduler.attempt_results import Results
from numakube.apps.scheduler.binding_cycle import BindingCycle, Placement
from numakube.apps.scheduler.claim_writer import ApiClaimActions
from numakube.apps.scheduler.gang_cycle import GangCycle
from numakube.apps.scheduler.held_room import Holds
from numakube.apps.scheduler.metrics import SchedulerMetrics
from numakube.apps.scheduler.mirror_listener import SchedulerListener
from numakube.apps.scheduler.pod_queue import PodQueue
from numakube.apps.scheduler.preemption_actions import Preemptions
from numakube.apps.scheduler.rejected_pods import Rejections
from numakube.apps.scheduler.scheduling_loop import Scheduler
from numakube.apps.scheduler.volume_binder import ApiVolumeActions
from numakube.apps.scheduler.waiting_pods import WaitingPods
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
from numakube.scheduling.cycle import Chosen, Cycle, FirstOfEquals
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import Bind, Permit, Plugin, PreBind, PreScore, Reserve
from numakube.scheduling.framework.registry import Handle, Services
from numakube.scheduling.framework.status import SUCCESS, Status
from numakube.scheduling.plugins.gang_scheduling.gang_members import GANG_MEMBERS, GangMembers
from numakube.scheduling.queue.queued_pod import Place, QueuedPod
from numakube.scheduling.queue.queueing_hints import ProfileHints
from numakube.scheduling.queue.scheduling_queue import SchedulingQueue
from numakube.scheduling.recorder.flight_recorder import FlightRecorder
from numakube.scheduling.snapshot.cluster import Snapshot
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo
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

    def reserve(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Stumble over some."""
        del state, node
        if pod.name in self.stumbles_over:
            raise LookupError(pod.name)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Nothing is booked."""

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
    """A transport to a server that takes everything and writes it down."""

    def __init__(self) -> None:
        self.received: list[Request] = []

    async def send(self, request: Request) -> Response:
        """Accept."""
        self.received.append(request)
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
        engine, clock, outcomes = self.engine, self.clock, cast("Any", self.told)
        hints = ProfileHints(engine.runtimes, engine.cluster, engine.nominations)
        self.queue = PodQueue(SchedulingQueue(hints), clock)
        self.queue.leads = True
        self.registry = CollectorRegistry()
        self.metrics = SchedulerMetrics(self.registry)
        self.recording = Recording(FlightRecorder(), engine.cluster, clock)
        self.results = Results(
            self.queue, clock, outcomes=outcomes, recording=self.recording, metrics=self.metrics
        )
        self.mirror = Mirror(client, engine.cluster, engine.cache)
        self.permits = WaitingPods(clock)
        self.preemptions = Preemptions(client, engine, self.queue, self.results, self.members)
        self.bindings = BindingCycle(
            self.mirror,
            self.queue,
            results=self.results,
            preemptions=self.preemptions,
            permits=self.permits,
            shards=engine.shards,
        )
        self.holds = Holds(engine, self.preemptions, clock)
        self.recorder = recorder = EventRecorder(client, component="test", instance="i")
        self.claims = ApiClaimActions(client, recorder)
        rejections = Rejections(
            engine.guard,
            clock,
            self.queue,
            cluster=engine.cluster,
            recorder=recorder,
            metrics=self.metrics,
        )
        self.listener = self.mirror.listener = SchedulerListener(
            set(engine.runtimes),
            self.queue,
            bindings=self.bindings,
            preemptions=self.preemptions,
            rejections=rejections,
            results=self.results,
            volumes=ApiVolumeActions(client),
            claims=self.claims,
            gangs=self.members,
            holds=self.holds,
            shards=engine.shards,
        )
        self.gangs = GangCycle(
            engine,
            Cycle(engine.cluster, engine.nominations, FirstOfEquals()),
            self.members,
            mirror=self.mirror,
            queue=self.queue,
            bindings=self.bindings,
            preemptions=self.preemptions,
            results=self.results,
            client=client,
        )
        self.scheduler = Scheduler(
            engine,
            clock,
            mirror=self.mirror,
            queue=self.queue,
            bindings=self.bindings,
            preemptions=self.preemptions,
            results=self.results,
            gangs=self.gangs,
            members=self.members,
            holds=self.holds,
        )

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

    def placement(self, one: Pod) -> Placement:
        """Return a pod on its way to the node that is chosen for it."""
        entry = self.taken(one)
        runtime = self.engine.runtime_for(entry.pod.scheduler_name)
        decision = self.gangs.cycle.decide(entry.pod, runtime)
        assert isinstance(decision, Chosen)
        return Placement(entry, runtime, decision.node, decision.state, self.clock.monotonic())

    def place_of(self, uid: str) -> Place | None:
        """Return where a pod waits; nothing if it does not."""
        entry = self.queue.waiting.get(uid)
        return None if entry is None else entry.place
