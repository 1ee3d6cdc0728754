"""Waiting pods by what stands in their way.

The reason is what a scheduler wrote into the pod's condition ``PodScheduled``: ``0/5 nodes are
available: 3 cannot align container (cpu: best zone has 6 of 8), 2 Insufficient memory.`` Pods are
told together whose most frequent refusal differs in numbers only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from numakube.apps.dashboard.dashboard_pods import condition_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.pod import Pod
    from numakube.apps.dashboard.scheduler_view import Waiting

NO_VERDICT: Final = "No scheduler has taken it up yet"
GATED: Final = "Scheduling gates are closed"

_HEAD: Final = re.compile(r"^(?:gang [^:]+: [^;]+; \S+: )?\d+/(\d+) nodes are available:\s*")
"""Of a pod, or of the first member that does not fit of a gang."""
_ELSEWHERE: Final = "node(s) outside the topology domain"
"""Said of nodes that were not tried for a gang: never the main reason."""
_TAIL: Final = re.compile(r"\.?\s*preemption: .*$", re.DOTALL)
_NEXT: Final = re.compile(r",\s+(?=\d+\s)")
_COUNTED: Final = re.compile(r"^(\d+)\s+(.*)$", re.DOTALL)
_NUMBER: Final = re.compile(r"\d[\d.]*(?:[KMGTPE]i?|m)?\b")


@dataclass(frozen=True, slots=True)
class Refusal:
    """How many nodes refused a pod with the same words."""

    nodes: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingGroup:
    """Pods that wait for the same reason.

    Attributes:
        reason: in the words of the first of them.
        nodes: how many nodes said so, of the pod with most.
    """

    reason: str
    nodes: int
    pods: tuple[Pod, ...]


@lru_cache(maxsize=16384)
def refusals_in(message: str) -> tuple[Refusal, ...]:
    """Return the parts of a scheduler's message, the most frequent first."""
    head = _HEAD.match(message)
    if head is None:
        return (Refusal(0, message),) if message else ()
    rest = _TAIL.sub("", message[head.end() :]).rstrip(".")
    found = [_counted(part) for part in _NEXT.split(rest) if part]
    return tuple(sorted(found, key=lambda one: (one.text.startswith(_ELSEWHERE), -one.nodes)))


def verdict_on(pod: Pod) -> Refusal:
    """Return what mainly keeps a pod waiting."""
    if pod.spec.scheduling_gates:
        gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        return Refusal(0, f"{GATED}: {gates}")
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled is None or not (scheduled.message or scheduled.reason):
        return Refusal(0, NO_VERDICT)
    refusals = refusals_in(scheduled.message)
    return refusals[0] if refusals else Refusal(0, scheduled.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingGang:
    """A gang with members that wait.

    Attributes:
        needed: how many have to run; *running* and *waiting* are there.
        domain: the topology domain that it asks for, or has.
        since: when the member was created that has waited longest.
        why: what the scheduler says of that member.
    """

    name: str
    needed: int
    running: int
    waiting: int
    domain: str
    since: str
    why: str


def waiting_gangs(queue: Iterable[Waiting], pods: Mapping[str, Pod]) -> tuple[WaitingGang, ...]:
    """Return the gangs in the *queue*, those that have waited longest first."""
    found: dict[str, list[Waiting]] = {}
    for entry in queue:
        if entry.gang is not None and entry.pod in pods:
            found.setdefault(str(entry.gang["name"]), []).append(entry)
    gangs = [_waiting_gang(name, entries, pods) for name, entries in found.items()]
    return tuple(sorted(gangs, key=lambda one: one.since))


def _waiting_gang(name: str, entries: list[Waiting], pods: Mapping[str, Pod]) -> WaitingGang:
    first = min(entries, key=lambda one: pods[one.pod].metadata.creation_timestamp or "")
    pod, told = pods[first.pod], first.gang or {}
    scheduled = condition_of(pod, "PodScheduled")
    why = scheduled.message.removeprefix(f"gang {name}: ") if scheduled is not None else ""
    return WaitingGang(
        name=name,
        needed=told.get("needed", 0),
        running=told.get("running", 0),
        waiting=told.get("waiting", len(entries)),
        domain=": ".join(filter(None, (told.get("topology"), ", ".join(told.get("domains", ()))))),
        since=pod.metadata.creation_timestamp or "",
        # What holds the one back that came last counts those before it.
        why=entries[-1].gate or why or NO_VERDICT,
    )


def group_by_reason(pods: Iterable[Pod]) -> tuple[WaitingGroup, ...]:
    """Return waiting pods by reason, the largest group first."""
    found: dict[str, list[tuple[Refusal, Pod]]] = {}
    for pod in sorted(pods, key=lambda pod: pod.metadata.key):
        verdict = verdict_on(pod)
        found.setdefault(_without_numbers(verdict.text), []).append((verdict, pod))
    groups = [
        WaitingGroup(
            reason=members[0][0].text,
            nodes=max(verdict.nodes for verdict, _ in members),
            pods=tuple(pod for _, pod in members),
        )
        for members in found.values()
    ]
    return tuple(sorted(groups, key=lambda group: -len(group.pods)))


def _counted(part: str) -> Refusal:
    match = _COUNTED.match(part)
    return Refusal(0, part) if match is None else Refusal(int(match[1]), match[2])


@lru_cache(maxsize=16384)
def _without_numbers(text: str) -> str:
    return _NUMBER.sub("#", text)
