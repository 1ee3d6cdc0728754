"""What a process that decides on pods knows besides the API server's objects.

A scheduler or extender offers an `Inside` to the dashboard that it serves; a bundle has what they
told when it was made. Pages of a dashboard without one say so, and show what can be told from the
objects alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.zone_belief import NumaBelief


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A pod in the queue.

    Attributes:
        place: which part of the queue it is in.
        retry_in_seconds: how long it backs off yet.
        gate: why it must not be tried yet, if so.
        gang: the gang that it waits with, as ``/debug/queue`` tells of it.
    """

    pod: str
    place: str
    attempts: int
    retry_in_seconds: float = 0.0
    gate: str = ""
    gang: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One step on a pod's way.

    Attributes:
        at: when, as RFC 3339.
        what: the step in a word or two.
        detail: what came of it.
        good: ``False`` for a setback.
    """

    at: str
    what: str
    detail: str = ""
    good: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A prediction that did not come true."""

    at: str
    node: str
    pod: str
    severity: str
    predicted: str
    reported: str


class Inside(Protocol):
    """What such a process lets the dashboard see."""

    @property
    def role(self) -> str:
        """What the process is, such as ``scheduler``."""
        ...

    def waiting(self) -> Sequence[Waiting]:
        """Return the queue; empty if there is none."""
        ...

    def moments(self, namespace: str, name: str) -> Sequence[Moment]:
        """Return what was done about a pod, as far as it is remembered, oldest first."""
        ...

    def mispredictions(self) -> Sequence[Missed]:
        """Return the latest predictions that did not come true, newest first."""
        ...

    def belief(self, node: str) -> NumaBelief | None:
        """Return what is believed of a node, reservations included."""
        ...

    def objects(self) -> ClusterObjects | None:
        """Return volumes, services and the like, which decisions depend on; a copy."""
        ...

    @property
    def config(self) -> KubeSchedulerConfiguration | None:
        """The configuration that decisions are made by, if it is a scheduler's."""
        ...
