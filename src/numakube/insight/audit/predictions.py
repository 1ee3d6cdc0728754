"""What schedulers expected of pods, from the documents of their flight recorders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numakube.insight.pod_timeline import use_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.insight.facts import ClusterFacts


def predictions_in(facts: ClusterFacts) -> dict[str, str]:
    """Return what each pod was last expected to get, by uid; documents may be odd."""
    found: dict[str, str] = {}
    for scheduler in facts.schedulers.values():
        document = scheduler.documents.get("attempts")
        for flight in _listed(document, "items"):
            for attempt in _listed(flight, "attempts"):
                for event in _listed(attempt, "events"):
                    predicted = event.get("predicted")
                    if event.get("event") == "reserved" and isinstance(predicted, dict):
                        found[str(flight.get("uid", ""))] = use_text(predicted)
    return found


def _listed(document: object, field: str) -> Iterator[dict[str, Any]]:
    items = document.get(field) if isinstance(document, dict) else None
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict):
            yield item
