"""The inside of the schedulers of a bundle: what they told when it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from numakube.apps.dashboard.scheduler_view import Missed, Moment, Waiting
from numakube.apps.dashboard.timeline_steps import missed_in, moments_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects


T = TypeVar("T")


class Recorded:
    """Lets the dashboard see the documents of schedulers in a bundle.

    Attributes:
        role: who they are.
        config: none; an explanation takes it from the facts.
    """

    config = None

    def __init__(self, facts: ClusterFacts) -> None:
        self.role = "bundle of " + ", ".join(sorted(facts.schedulers))
        self._facts = facts

    def waiting(self) -> list[Waiting]:
        """Return the queues."""
        return [
            Waiting(
                pod=str(entry.get("pod", "")),
                place=str(entry.get("place", "")),
                attempts=_count(entry.get("attempts")),
                retry_in_seconds=_seconds(entry.get("retryInSeconds")),
                gate=str(entry.get("gate") or ""),
                gang=_gang(entry.get("gang")),
            )
            for entry in self._items("queue", "pods")
        ]

    def moments(self, namespace: str, name: str) -> list[Moment]:
        """Return what was done about a pod."""
        key = f"{namespace}/{name}"
        return [
            moment
            for flight in self._items("attempts", "items")
            if flight.get("pod") == key
            for moment in _read(moments_of, flight)
        ]

    def mispredictions(self) -> list[Missed]:
        """Return all mispredictions, newest first."""
        flights = self._items("attempts", "items")
        found = [one for flight in flights for one in _read(missed_in, flight)]
        return sorted(found, key=lambda one: one.at, reverse=True)

    def belief(self, node: str) -> None:
        """Return nothing: beliefs are not in a bundle."""

    def objects(self) -> ClusterObjects:
        """Return what was read of other kinds."""
        return self._facts.objects

    def _items(self, document: str, field: str) -> Iterator[dict[str, Any]]:
        for scheduler in self._facts.schedulers.values():
            found = scheduler.documents.get(document)
            items = found.get(field) if isinstance(found, dict) else None
            for item in items if isinstance(items, list) else ():
                if isinstance(item, dict):
                    yield item


def _read(read: Callable[[dict[str, Any]], Iterator[T]], flight: dict[str, Any]) -> list[T]:
    """Return what a document says; nothing if it is not a recorder's: bundles may be odd."""
    try:
        return list(read(flight))
    except (AttributeError, KeyError, TypeError, ValueError):
        return []


def _gang(value: object) -> dict[str, Any] | None:
    return value if isinstance(value, dict) and "name" in value else None


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
