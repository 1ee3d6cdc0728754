"""Work that waits until it fits, wherever it comes from, and what is asked for it.

Work that waits until it fits, wherever it comes from.

Asks the scheduler that leads whether work fits, and has it keep the room.

Pods that carry our scheduling gate, for clusters without Kueue.

A pod with the gate `GATE` is not scheduled. Pods of one group (see `pod_gangs`) lose their gates
together, when all of them fit; a pod without a group when it fits itself. The patch that removes
the gate adds the annotation by which the pod takes the place that is kept for it. While they do not
fit, an event on the first of them says why.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
import structlog

from numakube.api.codec import decode, encode
from numakube.api.fit_question import HOLD, PATH, AskedPodSet, Fit, FitQuestion, Hold
from numakube.apps import reach_schedulers
from numakube.errors import (
    BadRequest,
    ConfigError,
    Conflict,
    Invalid,
    NotFound,
    NumakubeError,
    RequestTooLarge,
)
from numakube.kube import Reflector, reference_to, strategic_patch
from numakube.kube.catalog import PODS
from numakube.scheduling.plugins.pod_gangs import gang_key
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numakube.api.pod import Pod
    from numakube.apps import Reached
    from numakube.kube import Client, EventRecorder


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Pods that are of use together only.

    Attributes:
        hold: the name under which the scheduler keeps their room.
        pods: what is to fit.
        gang: whether the rules of the pods' group hold.
        priority: work with a higher one is asked about first.
        since: when it came, as a text that sorts by time.
        admitted: whether it was let in already, and its room is kept until its pods have come.
        seconds: how long the room is to be kept from now on.
        domains: for each of *pods*, the nodes that were chosen for them elsewhere, for people.
        problem: why nothing can be asked about it.
    """

    hold: str
    pods: tuple[AskedPodSet, ...]
    gang: bool = False
    priority: int = 0
    since: str = ""
    admitted: bool = False
    seconds: float
    domains: tuple[str, ...] = ()
    problem: str = ""


class WorkSource(Protocol):
    """Where work comes from, and who is told what becomes of it.

    Attributes:
        gives_back: whether room is to be given back once the source has no such work any more;
            else its pods have come by then.
    """

    name: str
    gives_back: bool

    def reflectors(self) -> Iterable[Reflector[Any]]:
        """Return what has to run for the source."""
        ...

    async def work(self) -> list[Work]:
        """Return all work that waits or whose room is kept."""
        ...

    async def admit(self, work: Work) -> None:
        """Let work in: all of it fits, and its room is kept."""
        ...

    async def refuse(self, work: Work, reason: str) -> None:
        """Say why work has to wait, or that the room of admitted work is gone."""
        ...


def next_to_ask(work: Iterable[Work], asked: Mapping[str, float], most: int) -> list[Work]:
    """Return the work to ask about now, in order; *asked* tells when that was done last.

    Room that is kept goes first: a scheduler that has started again has to know of it before it
    gives the room away. Of what waits, *most* have their turn, those that were asked about longest
    ago.
    """
    everything = list(work)
    held = [other for other in everything if other.admitted]
    waiting = [other for other in everything if not other.admitted]
    waiting.sort(key=lambda one: (asked.get(one.hold, 0.0), -one.priority, one.since))
    return held + sorted(waiting[:most], key=lambda one: (-one.priority, one.since))


_DOMAINS_TOLD: Final = 3
_MOST_BYTES: Final = 7 << 20
"""Of the pods in a question; a scheduler reads 8 MiB."""
_KNOWN_SECONDS: Final = 300.0
"""A token for a scheduler lasts twice as long."""


class Asker:
    """Knows which scheduler leads; looks again after a failure."""

    def __init__(
        self,
        client: Client,
        *,
        url: str = "",
        selector: str = "",
        authority: str = "",
        token: Callable[[], str] = str,
    ) -> None:
        self._client = client
        self._urls = (url,) if url else ()
        self._selector = selector
        self._authority = authority
        self._token = token
        self._leader: Reached | None = None
        self._known_since = 0.0

    async def reason_against(self, work: Work) -> str:
        """Have room kept for all pods of *work*; return why that cannot be, or the empty text.

        Raises:
            NumakubeError: no scheduler answers.
        """
        if work.problem:
            return work.problem
        if _is_too_large(work):
            return f"its pods have more than {_MOST_BYTES >> 20} MiB together, node by node"
        question = FitQuestion(
            pod_sets=work.pods, gang=work.gang, hold=Hold(name=work.hold, seconds=work.seconds)
        )
        try:
            answer = await self._ask(question)
        except (BadRequest, RequestTooLarge) as error:
            return str(error)
        if answer.fits >= answer.wanted:
            return ""
        short = _short_domains(work, answer)
        if short:
            return short
        reason = answer.refused[0].reason if answer.refused else "no reason"
        if work.gang and not answer.fits:
            return reason
        return f"{answer.fits} of {answer.wanted} pods fit: {reason}"

    async def release(self, hold: str) -> None:
        """Give back what is kept under that name; raises as `reason_against` does."""
        await self._ask(FitQuestion(hold=Hold(name=hold, seconds=0)))

    async def aclose(self) -> None:
        """Close what was opened."""
        if self._leader is not None:
            await self._leader.aclose()
            self._leader = None

    async def _ask(self, question: FitQuestion) -> Fit:
        leader = await self._the_leader()
        try:
            return decode(Fit, await leader.send("POST", PATH, encode(question)), "Fit")
        except (BadRequest, RequestTooLarge):
            raise
        except NumakubeError:
            await self.aclose()
            raise

    async def _the_leader(self) -> Reached:
        now = self._client.clock.monotonic()
        if self._leader is not None and now - self._known_since < _KNOWN_SECONDS:
            return self._leader
        await self.aclose()
        found = await reach_schedulers(
            self._client,
            urls=self._urls,
            selector=self._selector,
            authority=self._authority,
            token=self._token(),
        )
        leaders = [one for one in found if one.leads and one.kind == "scheduler"]
        for one in found:
            if one not in leaders[:1]:
                await one.aclose()
        if not leaders:
            troubles = [f"{one.name}: {one.trouble}" for one in found if one.trouble]
            raise ConfigError(troubles[0] if troubles else "no scheduler of numakube leads")
        self._leader, self._known_since = leaders[0], now
        return leaders[0]


def _is_too_large(work: Work) -> bool:
    """Tell whether a scheduler would not read a question about *work*.

    A workload of a megabyte has as many copies of its pod as it was given domains.
    """
    left = _MOST_BYTES
    for pods in work.pods:
        left -= len(encode(pods.pod))
        if left < 0:
            return True
    return False


def _short_domains(work: Work, answer: Fit) -> str:
    """Name the domains that do not take what was assigned to them; empty where none was."""
    told: list[str] = []
    for pods, domain in zip(work.pods, work.domains, strict=False):
        key = pods.pod.metadata.key
        own = {key, *(f"{key}-{number}" for number in range(1, pods.count + 1))}
        short = [one for one in answer.refused if one.pod in own]
        if short:
            takes = pods.count - len(short)
            told.append(f"{domain} takes {takes} of {pods.count} pods: {short[0].reason}")
    more = f"; and {len(told) - _DOMAINS_TOLD} more" if len(told) > _DOMAINS_TOLD else ""
    return "; ".join(told[:_DOMAINS_TOLD]) + more


GATE: Final = "numakube.dev/fits"
_AT_ONCE: Final = 16

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class GatedPods:
    """A source of work."""

    name = "gate"
    gives_back = False

    def __init__(self, client: Client, recorder: EventRecorder, *, hold_seconds: float) -> None:
        self._client = client
        self._recorder = recorder
        self._hold_seconds = hold_seconds
        self._pods: Reflector[Pod] = Reflector(client, PODS, fields="spec.nodeName=")
        self._known: dict[str, list[Pod]] = {}
        self._told: dict[str, str] = {}

    def reflectors(self) -> list[Reflector[Any]]:
        """Return what has to run."""
        return [self._pods]

    async def work(self) -> list[Work]:
        """Return the groups of pods that wait for us."""
        self._known = {}
        for pod in self._pods.store:
            if is_gated(pod):
                self._known.setdefault(group_of(pod), []).append(pod)
        self._told = {hold: text for hold, text in self._told.items() if hold in self._known}
        return [self._work_of(hold, pods) for hold, pods in self._known.items()]

    async def admit(self, work: Work) -> None:
        """Let pods be scheduled."""
        limit = asyncio.Semaphore(_AT_ONCE)
        pods = self._known[work.hold]
        await asyncio.gather(*(self._open(pod, limit) for pod in pods))
        _log.info("gates_removed", group=work.hold, pods=len(pods))

    async def refuse(self, work: Work, reason: str) -> None:
        """Say why pods have to wait, if that was not said before."""
        if self._told.get(work.hold) == reason:
            return
        self._told[work.hold] = reason
        first = min(self._known[work.hold], key=lambda one: one.metadata.name)
        about = reference_to(PODS, first)
        self._recorder.warning(about, "DoesNotFit", reason, action="KeepingGate")

    def _work_of(self, hold: str, pods: list[Pod]) -> Work:
        return Work(
            hold=hold,
            pods=tuple(AskedPodSet(pod=as_asked(one)) for one in pods),
            gang=len(pods) > 1 or gang_key(PodInfo(pods[0])) is not None,
            priority=max(one.spec.priority or 0 for one in pods),
            since=min(one.metadata.creation_timestamp or "" for one in pods),
            seconds=self._hold_seconds,
        )

    async def _open(self, pod: Pod, limit: asyncio.Semaphore) -> None:
        """Remove the gate, unless the pod is gone meanwhile."""
        meta = pod.metadata
        change = {
            "metadata": {"uid": meta.uid, "annotations": {HOLD: meta.uid}},
            "spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]},
        }
        async with limit:
            try:
                patch = strategic_patch(change)
                await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace)
            except (Conflict, Invalid, NotFound) as error:
                _log.info("gate_not_removed", pod=meta.key, error=str(error))


def is_gated(pod: Pod) -> bool:
    """Tell whether *pod* waits for us."""
    gates = (gate.name for gate in pod.spec.scheduling_gates)
    return GATE in gates and pod.metadata.deletion_timestamp is None


def group_of(pod: Pod) -> str:
    """Return the name of the hold for *pod* and all that wait with it."""
    key = gang_key(PodInfo(pod))
    return "/".join(("pods", *key)) if key is not None else f"pod/{pod.metadata.uid}"


def as_asked(pod: Pod) -> Pod:
    """Return *pod* with the annotation that it gets when it is let in."""
    annotations = {**pod.metadata.annotations, HOLD: pod.metadata.uid}
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
    return msgspec.structs.replace(pod, metadata=metadata, status=None)
