"""Times of objects against the time at which they were read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.errors import InvalidValue
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from datetime import datetime

    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts


def time_of(text: str | None) -> datetime | None:
    """Return the time that *text* names; ``None`` if it names none."""
    try:
        return parse_time(text) if text else None
    except InvalidValue:
        return None


def age_seconds(facts: ClusterFacts, text: str | None) -> float | None:
    """Return how long before the reading *text* was; ``None`` if either is not known."""
    then, now = time_of(text), time_of(facts.taken_at)
    return None if then is None or now is None else (now - then).total_seconds()


def pod_age(facts: ClusterFacts, pod: Pod) -> float | None:
    """Return for how long a pod has existed."""
    return age_seconds(facts, pod.metadata.creation_timestamp)
