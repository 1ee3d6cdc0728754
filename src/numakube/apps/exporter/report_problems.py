"""What a report could not tell, as values: a scan never fails because one fact is odd."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Trouble(StrEnum):
    """Kinds of problems; the texts are labels of a metric and stay as they are."""

    NO_ZONES = "no-zones"
    NO_DISTANCES = "no-distances"
    NO_MEMORY_SIZE = "no-memory-size"
    NO_HUGEPAGES = "no-hugepages"
    NO_CPU_DETAILS = "no-cpu-details"
    UNKNOWN_CPU = "unknown-cpu"
    UNKNOWN_ZONE = "unknown-zone"
    OVER_CAPACITY = "over-capacity"
    OVER_ALLOCATABLE = "over-allocatable"
    UNPLACED_CONTAINER = "unplaced-container"
    BAD_CHECKPOINT = "bad-checkpoint"
    NO_EXACT_DATA = "no-exact-data"
    NO_POLICY = "no-policy"
    ODD_ANNOTATION = "odd-annotation"


@dataclass(frozen=True, slots=True)
class Problem:
    """One fact that is missing or contradicts others, with what was done about it."""

    kind: Trouble
    detail: str

    def __str__(self) -> str:
        return self.detail
