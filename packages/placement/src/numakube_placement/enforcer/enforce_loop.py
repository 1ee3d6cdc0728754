"""The enforcer's loop: wake up, read, decide, write, report; one pass at a time.

A pass follows every change of a pod, of a group and of the kubelet's state, and one also runs from
time to time. Nothing is done before all pods of the node are known: half of them would make the
pools of the others too large. While the API server is away, its last answer holds, and drift is
repaired.

The container runtime often knows more than the API server (`Announced`): the sandbox of a new pod
has its annotations before our watch sees the pod, and a container has a name before it starts,
while the pod's status names it a second later.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Pod, by_kubelet_uid
from numakube.errors import NumakubeError
from numakube_placement.enforcer.allowed_cpus import decide, departed, state_of
from numakube_placement.enforcer.group_writing import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numakube.kube.clock import Clock
    from numakube.node.cgroups import GroupSetting
    from numakube.node.nri import NriContainer, Sandbox
    from numakube_placement.enforcer.allowed_cpus import Decisions, MachineReader, PodState
    from numakube_placement.enforcer.group_writing import GroupWriter, UnwrittenFile
    from numakube_placement.enforcer.metrics import EnforcerMetrics, Reporter

SETTLE_SECONDS: Final = 0.02
"""How long changes are gathered: many come at once when a pod does."""
MOST_TOLD: Final = 5
"""How many of the groups that could not be written readiness names."""
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(slots=True)
class Announced:
    """Pods and containers that a runtime has told of."""

    _pods: dict[str, Pod] = field(default_factory=dict)
    _containers: dict[str, dict[str, str]] = field(default_factory=dict)

    def add_pod(self, sandbox: Sandbox) -> None:
        """Note a pod that is being started."""
        self._pods[sandbox.uid] = Pod(
            metadata=ObjectMeta(
                name=sandbox.name,
                namespace=sandbox.namespace,
                uid=sandbox.uid,
                labels=dict(sandbox.labels),
                annotations=dict(sandbox.annotations),
            )
        )

    def add_container(self, uid: str, container: NriContainer) -> None:
        """Note a container of a pod."""
        self._containers.setdefault(uid, {})[container.id] = container.name

    def begin(self, sandboxes: Iterable[Sandbox], containers: Iterable[NriContainer]) -> None:
        """Start over with the containers that there are.

        Their pods are not noted: whatever has run for long is known from the API, or forced out of
        it.
        """
        uids = {sandbox.id: sandbox.uid for sandbox in sandboxes}
        self._containers = {}
        for container in containers:
            if container.sandbox_id in uids:
                self.add_container(uids[container.sandbox_id], container)

    def remove_pod(self, uid: str) -> None:
        """Forget a pod that is gone, with its containers."""
        self._pods.pop(uid, None)
        self._containers.pop(uid, None)

    def remove_container(self, uid: str, identity: str) -> None:
        """Forget a container that is gone."""
        self._containers.get(uid, {}).pop(identity, None)

    def with_pods(self, known: Mapping[str, Pod]) -> dict[str, Pod]:
        """Return the API's pods, and those that it does not have yet, by uid."""
        for uid in self._pods.keys() & known.keys():
            del self._pods[uid]
        return {**self._pods, **known}

    def with_containers(self, pod: PodState) -> PodState:
        """Return *pod* with the containers that its status does not have yet."""
        told = self._containers.get(pod.uid)
        return replace(pod, containers={**told, **pod.containers}) if told else pod


class Knowledge(Protocol):
    """What the API says."""

    def pods(self) -> Sequence[Pod]:
        """Return the node's pods."""
        ...

    def node_annotations(self) -> Mapping[str, str]:
        """Return the annotations of the node."""
        ...


@dataclass(slots=True, kw_only=True)
class Enforcer:
    """Looks after the groups of one node.

    Attributes:
        knowledge: what the API says.
        reader: what the node says.
        executor: changes groups.
        state_of: what matters of a pod; what annotations give it, unless told otherwise.
        period: seconds after which a pass comes anyway.
        watched: told which groups to watch after every pass.
        wrote: told what every pass and the end have done.
        announced: what the runtime tells of pods and containers.
        trouble: why the last pass could not be made.
        refused: what the last pass could not write.
    """

    knowledge: Knowledge
    reader: MachineReader
    executor: GroupWriter
    reporter: Reporter
    metrics: EnforcerMetrics
    clock: Clock
    period: float
    state_of: Callable[[Pod, str], PodState] = state_of
    watched: Callable[[Sequence[str]], None] = lambda groups: None
    wrote: Callable[[Outcome], None] = lambda outcome: None
    announced: Announced = field(default_factory=Announced)
    trouble: str = "no pass has been made yet"
    refused: Sequence[UnwrittenFile] = ()
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _passes: asyncio.Lock = field(default_factory=asyncio.Lock)
    _queued: asyncio.Task[Outcome] | None = None
    _decided: tuple[Mapping[str, PodState], Decisions] | None = None
    # A pass that is cut short goes on in its thread; putting things back has to come after it.
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _ended: bool = False

    def wake(self) -> None:
        """Make a pass soon."""
        self._news.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Make passes until *stop* is set; the caller that sets it wakes the loop."""
        while not stop.is_set():
            self._news.clear()
            await self.step()
            with contextlib.suppress(TimeoutError):
                async with self.clock.timeout(self.period):
                    await self._news.wait()
            if not stop.is_set():
                await self.clock.sleep(SETTLE_SECONDS)

    async def step(self) -> Outcome:
        """Make a pass, or join one that has not begun yet.

        A runtime waits for so long and no longer, but a pass that has begun writes to its end. So
        it is also counted, told and remembered if whoever asked for it does not wait any more.
        """
        if self._queued is None:
            self._queued = asyncio.ensure_future(self._in_turn())
        return await asyncio.shield(self._queued)

    async def _in_turn(self) -> Outcome:
        async with self._passes:
            self._queued = None
            return await self._step()

    async def confine(self, uid: str, container: str) -> GroupSetting | None:
        """Make a pass, and return what a container is to have of its own that starts after it.

        Other pods have left its CPUs then, and its pod's group has them. Nothing is returned for
        one that shares with others.
        """
        outcome = await self.step()
        return None if outcome.failed else self.decided(uid, container)

    def decided(self, uid: str, container: str) -> GroupSetting | None:
        """Return what a container is to have of its own by the last pass that could be made."""
        if self._decided is None or self._ended:
            return None
        pods, decisions = self._decided
        if uid not in pods or uid not in decisions.pods:
            return None
        return self.executor.setting_of(pods[uid], decisions.pods[uid], container)

    async def declare(
        self, identity: str, setting: GroupSetting, *, gone: Collection[str] = ()
    ) -> None:
        """Keep on disk what a container would have without us; forget those that are *gone*."""
        await asyncio.to_thread(self._declare, identity, setting, gone)

    async def _step(self) -> Outcome:
        objects = self.announced.with_pods(by_kubelet_uid(self.knowledge.pods()))
        annotations = dict(self.knowledge.node_annotations())
        states = (self.state_of(pod, uid) for uid, pod in objects.items())
        pods = [self.announced.with_containers(state) for state in states]
        try:
            with self.metrics.pass_seconds.time():
                decisions, outcome = await asyncio.to_thread(self._pass, pods, annotations)
        except (NumakubeError, OSError) as error:
            return self._failed(str(error))
        self._decided = {pod.uid: pod for pod in pods}, decisions
        self.reporter.say(self.reader.problems)
        self.reporter.report(objects, decisions, outcome)
        self.metrics.show(decisions, outcome)
        self.watched(outcome.watched)
        self.wrote(outcome)
        self.trouble = outcome.trouble
        self.refused = outcome.refused
        return outcome

    def unenforced(self) -> str:
        """Return what is not as it should be; the empty text if everything is."""
        told = [
            f"{refused.owner.pod} {refused.group}: {refused.why}".strip()
            for refused in self.refused
        ]
        more = f" and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else ""
        return "; ".join(told[:MOST_TOLD]) + more

    async def restore(self) -> Outcome:
        """Put everything back as it was; no pass follows."""
        outcome = await asyncio.to_thread(self._restore)
        for refused in outcome.refused:
            _log.error("not_restored", group=refused.group, error=refused.why)
        _log.info("restored", files=len(outcome.changes))
        self.wrote(outcome)
        return outcome

    def _declare(self, identity: str, setting: GroupSetting, gone: Collection[str]) -> None:
        with self._turn:
            self.executor.forget(gone)
            self.executor.declare(identity, setting)

    def _restore(self) -> Outcome:
        with self._turn:
            self._ended = True
            return self.executor.restore()

    def _pass(
        self, pods: list[PodState], annotations: Mapping[str, str]
    ) -> tuple[Decisions, Outcome]:
        """Do what blocks."""
        with self._turn:
            return self._decide_and_apply(pods, annotations)

    def _decide_and_apply(
        self, pods: list[PodState], annotations: Mapping[str, str]
    ) -> tuple[Decisions, Outcome]:
        node = self.reader.read(annotations)
        trouble = self.executor.look()
        known = {pod.uid for pod in pods}
        pods += [departed(uid) for uid in sorted(self.executor.remembered() - known)]
        decisions = decide(pods, node)
        if trouble or self._ended:
            return decisions, Outcome(trouble=trouble)
        return decisions, self.executor.apply(pods, decisions)

    def _failed(self, why: str) -> Outcome:
        self.metrics.failures.inc()
        if why != self.trouble:
            _log.error("pass_failed", error=why)
        self.trouble = why
        return Outcome(trouble=why, failed=True)
