"""A waiting pod with its history."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from numakube.scheduling.framework.status import SUCCESS, Status

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numakube.scheduling.snapshot.pods import PodInfo


class Place(Enum):
    """Where a pod waits; the values are the names that kube-scheduler's metrics use."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in-flight"
    """Being tried, or being bound."""


@dataclass(slots=True)
class QueuedPod:
    """A pod in the queue.

    Attributes:
        added_at: when it was first seen; the start of its scheduling latency.
        queued_at: when it came to its present place.
        attempts: how often it was tried.
        refusals: how often in a row it fitted nowhere.
        errors: how often in a row the attempt failed for other reasons.
        refused_by: plugins whose events may let it fit.
        gate: why it is not tried at all, if it is gated.
        gates: what it is found by while it is gated.
        retry_at: end of its backoff.
        woken_by: what brought it back to the active queue last.
        group: the pods with which it waits for an event, if it does.
    """

    pod: PodInfo
    added_at: float
    queued_at: float
    place: Place = Place.ACTIVE
    attempts: int = 0
    refusals: int = 0
    errors: int = 0
    refused_by: frozenset[str] = frozenset()
    gate: Status = SUCCESS
    gates: frozenset[Hashable] = frozenset()
    retry_at: float = 0.0
    message: str = ""
    woken_by: str = "created"
    group: tuple[frozenset[str], Hashable] = (frozenset(), None)

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.uid
