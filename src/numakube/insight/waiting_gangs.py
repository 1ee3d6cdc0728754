"""Gangs that have every pod they need, and that no scheduler tries.

A scheduler says of every member that it tried why it did not fit. Where too few members have such
an answer that came of a try of all of them, the gang as a whole was not tried. It is not told of
young pods, which a scheduler may be about to try.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.dra.pod_claims import pod_claims
from numakube.errors import InvalidValue
from numakube.insight.object_ages import pod_age
from numakube.scheduling.gang_placements import TOO_FEW_TRIED
from numakube.scheduling.plugins.pod_gangs import Gang, gang_key, gang_of
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.insight.facts import ClusterFacts

_PATIENCE_SECONDS: Final = 60.0
"""How long it may take until a scheduler has tried a gang that is complete."""


@dataclass(frozen=True, slots=True)
class UntriedGang:
    """A gang that should have been tried.

    Attributes:
        members: the pods without a node that nothing holds back.
        untried: how many of them have no answer that came of a try of the gang.
        seconds: for how long all of them have been there.
    """

    key: tuple[str, str, str]
    gang: Gang
    members: tuple[PodInfo, ...]
    untried: int
    seconds: float

    @property
    def words(self) -> str:
        """What is wrong, as part of a sentence."""
        those = f"{self.untried} of its {len(self.members)} waiting pods"
        return (
            f"gang {self.gang.name} needs {self.gang.min_count} pods and has them, but the"
            f" scheduler has not tried {those} with the others for {self.seconds:.0f} s"
        )


def untried_gangs(facts: ClusterFacts) -> Iterator[UntriedGang]:
    """Yield the gangs that have all they need, and are not tried."""
    gangs: dict[tuple[str, str, str], list[PodInfo]] = {}
    for pod in map(PodInfo, facts.pods):
        key = gang_key(pod)
        if key is not None and not pod.is_being_deleted:
            gangs.setdefault(key, []).append(pod)
    for key, pods in gangs.items():
        found = _untried(facts, key, pods)
        if found is not None:
            yield found


def untried_gang_of(facts: ClusterFacts, pod: PodInfo) -> UntriedGang | None:
    """Return the gang of *pod* if it has all it needs, and is not tried."""
    key = gang_key(pod)
    if key is None:
        return None
    return _untried(
        facts, key, [other for other in map(PodInfo, facts.pods) if gang_key(other) == key]
    )


def _untried(
    facts: ClusterFacts, key: tuple[str, str, str], pods: Sequence[PodInfo]
) -> UntriedGang | None:
    waiting = [pod for pod in pods if not pod.node_name and not pod.has_ended]
    gang = gang_of(waiting[0], facts.objects) if waiting else None
    if not isinstance(gang, Gang):
        return None
    running = sum(_has_had_its_turn(pod) for pod in pods)
    ready = tuple(pod for pod in waiting if _is_ready(facts, pod))
    tried = sum(_was_tried(pod) for pod in ready)
    if not running + tried < gang.min_count <= running + len(ready):
        return None
    ages = [pod_age(facts, pod.pod) for pod in ready]
    seconds = min((age for age in ages if age is not None), default=0.0)
    if seconds < _PATIENCE_SECONDS:
        return None
    return UntriedGang(key, gang, ready, len(ready) - tried, seconds)


def _has_had_its_turn(pod: PodInfo) -> bool:
    succeeded = pod.pod.status is not None and pod.pod.status.phase == "Succeeded"
    return succeeded or bool(pod.node_name and not pod.has_ended)


def _is_ready(facts: ClusterFacts, pod: PodInfo) -> bool:
    """Tell whether nothing of its own holds *pod* back: neither gates nor claims."""
    if pod.is_being_deleted or pod.pod.spec.scheduling_gates:
        return False
    if pod.pod.spec.resource_claims and not facts.claims_known:
        return False
    try:
        list(pod_claims(pod.pod, facts.objects.resource_claims.get))
    except InvalidValue:
        return False
    return True


def _was_tried(pod: PodInfo) -> bool:
    """Tell whether a scheduler said what came of a try of the gang as a whole."""
    conditions = pod.pod.status.conditions if pod.pod.status else ()
    return any(
        condition.type == "PodScheduled"
        and condition.status == "False"
        and TOO_FEW_TRIED not in condition.message
        for condition in conditions
    )
