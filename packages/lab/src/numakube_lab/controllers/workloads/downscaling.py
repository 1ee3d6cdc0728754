"""Which pods to delete first when there are too many.

The order is the ReplicaSet controller's: pods that lose least come first. Ages are compared by
their order of magnitude and then by uid, so that scaling down and up again does not always hit the
same, youngest pods.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cmp_to_key
from typing import TYPE_CHECKING, TypeVar

from numakube_lab.controllers.common.pod_states import (
    is_active,
    is_ready,
    most_restarts,
    phase_of,
    ready_since,
    time_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from numakube.api.pod import Pod

T = TypeVar("T", int, str)

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def choose_victims(
    pods: Sequence[Pod], count: int, *, related: Iterable[Pod], now: datetime
) -> tuple[Pod, ...]:
    """Return the *count* of *pods* to delete.

    Args:
        pods: active pods.
        count: how many have to go.
        related: the pods of the same deployment; of pods that share a node one is to go first.
        now: the present.
    """
    if count >= len(pods):
        return tuple(pods)
    neighbours = Counter(pod.spec.node_name for pod in related if is_active(pod))
    ranked = [_Candidate.of(pod, neighbours[pod.spec.node_name]) for pod in pods]
    ranked.sort(key=cmp_to_key(lambda one, other: _compare(one, other, now)))
    return tuple(candidate.pod for candidate in ranked[:count])


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A pod and what decides about it: first `standing`, lower goes first, then the rest."""

    pod: Pod
    standing: tuple[bool, int, bool, int, int]
    ready: datetime | None
    restarts: tuple[int, int]
    created: datetime | None

    @classmethod
    def of(cls, pod: Pod, neighbours: int) -> _Candidate:
        standing = (
            bool(pod.spec.node_name),
            _PHASES.get(phase_of(pod), 0),
            is_ready(pod),
            deletion_cost(pod),
            -neighbours,
        )
        created = time_of(pod.metadata.creation_timestamp)
        return cls(pod, standing, ready_since(pod), most_restarts(pod), created)


def deletion_cost(pod: Pod) -> int:
    """Return what the pod's annotation says it costs to delete it; 0 if it says nothing sane."""
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() else 0


def _compare(one: _Candidate, other: _Candidate, now: datetime) -> int:
    if one.standing != other.standing:
        return -1 if one.standing < other.standing else 1
    both_ready = one.standing[2]
    if both_ready and one.ready != other.ready:
        return _compare_ages(one, other, one.ready, other.ready, now)
    if one.restarts != other.restarts:
        return -1 if one.restarts > other.restarts else 1
    if one.created != other.created:
        return _compare_ages(one, other, one.created, other.created, now)
    return 0


def _compare_ages(
    one: _Candidate, other: _Candidate, began: datetime | None, other_began: datetime | None,
    now: datetime,
) -> int:  # fmt: skip
    """Compare by how long ago two moments were; an unknown one is the latest."""
    if began is None or other_began is None:
        return -1 if began is None else 1
    difference = _magnitude(began, now) - _magnitude(other_began, now)
    if difference == 0:
        return -1 if one.pod.metadata.uid < other.pod.metadata.uid else 1
    return difference


def _magnitude(moment: datetime, now: datetime) -> int:
    """Return the binary order of magnitude of a past moment's age in nanoseconds."""
    age = (now - moment).total_seconds() * 1e9
    return int(math.log2(age)) if age > 0 else -1
