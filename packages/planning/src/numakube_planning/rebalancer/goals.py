"""What the rebalancer works towards, when it may move pods, and how many.

What the rebalancer works towards: room for what waits, then less that is stranded.

Pods that wait come first, the most important and longest waiting first, gangs as a whole. The first
plan counts that lets all of them fit and takes no more moves than are allowed now.

When the rebalancer may move pods, and how many.

Not in quiet hours, only so many an hour, and not for a while after a plan was given up.
"""

from __future__ import annotations

import re
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, time
from typing import TYPE_CHECKING, Final

from numakube.errors import ConfigError
from numakube.insight import engine_of
from numakube.scheduling.plugins.pod_gangs import gang_key
from numakube.scheduling.snapshot.pods import PodInfo
from numakube_planning.defrag.defrag_plan import MovePlan, on_known_zones
from numakube_planning.defrag.plan_making import gang_members, plan_for_waiting, reduce_stranded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numakube.api.pod import Pod
    from numakube.insight import ClusterFacts

_MOST_TRIED: Final = 5
"""Pods or gangs that wait and are planned for in one turn; each takes seconds."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Something to work towards.

    Attributes:
        why: what is won by it, after "so that".
        about: the pod that it is for, if there is one.
        plan: makes the plan for a cluster, with so many moves at most.
    """

    why: str
    plan: Callable[[ClusterFacts, int], MovePlan]
    about: Pod | None = None


def chosen(
    facts: ClusterFacts, most: int, *, waiting: bool, stranded: bool
) -> tuple[Goal, MovePlan] | None:
    """Return the first goal that at most *most* moves reach, and how; ``None`` if there is none."""
    goals = [*(_waiting(facts) if waiting else ())][:_MOST_TRIED]
    if stranded:
        goals.append(Goal("less is stranded", _less_stranded))
    for goal in goals:
        plan = goal.plan(facts, most)
        if plan.steps and plan.moves <= most and len(plan.nodes) == plan.wanted:
            return goal, plan
    return None


def _less_stranded(facts: ClusterFacts, most: int) -> MovePlan:
    return on_known_zones(facts, (), lambda known: reduce_stranded(engine_of(known), most=most))


def _waiting(facts: ClusterFacts) -> Iterator[Goal]:
    """Yield a goal for each pod, or gang, that a scheduler has refused."""
    pods = [one for one in facts.pods if _is_refused(one)]
    pods.sort(key=lambda one: (-PodInfo(one).priority, one.metadata.creation_timestamp or ""))
    known = set[object]()
    for pod in pods:
        gang = gang_key(PodInfo(pod))
        if gang is None:
            yield Goal(f"{pod.metadata.key} fits", _for_pod(pod), pod)
        elif gang not in known:
            known.add(gang)
            yield Goal(f"the gang {gang[1]}/{gang[2]} fits", _for_gang(gang[1], gang[2]), pod)


def _is_refused(pod: Pod) -> bool:
    conditions = pod.status.conditions if pod.status else ()
    refused = any(
        (condition.type, condition.reason) == ("PodScheduled", "Unschedulable")
        for condition in conditions
    )
    return refused and not pod.spec.node_name and pod.metadata.deletion_timestamp is None


def _for_pod(pod: Pod) -> Callable[[ClusterFacts, int], MovePlan]:
    def plan(facts: ClusterFacts, most: int) -> MovePlan:
        del most
        now = facts.pod(pod.metadata.namespace, pod.metadata.name)
        return _planned(facts, [now] if now is not None else [])

    return plan


def _for_gang(namespace: str, name: str) -> Callable[[ClusterFacts, int], MovePlan]:
    def plan(facts: ClusterFacts, most: int) -> MovePlan:
        del most
        return _planned(facts, gang_members(facts.pods, namespace, name))

    return plan


def _planned(facts: ClusterFacts, pods: list[Pod]) -> MovePlan:
    if not pods:
        return MovePlan(0)
    name = pods[0].spec.scheduler_name

    def make(known: ClusterFacts) -> MovePlan:
        return plan_for_waiting(engine_of(known, scheduler=name), pods)

    return on_known_zones(facts, pods, make)


_HOUR_SECONDS: Final = 3600.0
_SPAN: Final = re.compile(r"\d\d:\d\d-\d\d:\d\d")


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Times of the day, in UTC; a span may go past midnight."""

    spans: tuple[tuple[time, time], ...] = ()

    def __contains__(self, moment: datetime) -> bool:
        now = moment.time()
        return any(
            begin <= now < end if begin < end else now >= begin or now < end
            for begin, end in self.spans
        )


def quiet_hours(text: str) -> QuietHours:
    """Return the spans of ``08:00-12:00,13:00-18:00``.

    Raises:
        ConfigError: a part is not like that.
    """
    return QuietHours(tuple(map(_span, filter(None, map(str.strip, text.split(","))))))


def _span(text: str) -> tuple[time, time]:
    if _SPAN.fullmatch(text):
        with suppress(ValueError):
            begin, end = map(time.fromisoformat, text.split("-"))
            return begin, end
    raise ConfigError(f"--quiet-hours: {text!r} is not like 08:00-18:00")


@dataclass(slots=True)
class HourlyBudget:
    """How many moves are left, by a monotonic clock."""

    most: int
    _times: deque[float] = field(default_factory=deque)

    def spend(self, now: float) -> None:
        """Count a move."""
        self._times.append(now)

    def left(self, now: float) -> int:
        """Return how many more moves this hour allows."""
        while self._times and self._times[0] <= now - _HOUR_SECONDS:
            self._times.popleft()
        return self.most - len(self._times)


@dataclass(slots=True)
class Restraint:
    """All rules together.

    Attributes:
        pause_seconds: how long nothing is moved after a plan was given up.
    """

    quiet: QuietHours
    budget: HourlyBudget
    pause_seconds: float
    _paused_until: float = 0.0

    def pause(self, now: float) -> None:
        """Move nothing for a while."""
        self._paused_until = now + self.pause_seconds

    def is_paused(self, now: float) -> bool:
        """Whether a plan was given up a short while ago."""
        return now < self._paused_until

    def moves_allowed(self, now: float, moment: datetime) -> int:
        """Return how many pods may be moved *now*, by a monotonic clock; *moment* is in UTC."""
        if self.is_paused(now) or moment in self.quiet:
            return 0
        return self.budget.left(now)
