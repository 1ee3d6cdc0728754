"""What a cache expected a pod to get, and what it got."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from numakube.values.resources import is_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.values.resources import Amounts

ZoneUse: TypeAlias = "Mapping[tuple[int, ...], Amounts]"
"""What a pod holds exclusively, by NUMA node; memory and devices of several nodes by all of them.

Places where it holds nothing are missing.
"""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The pod is not admitted, in the kubelet's words."""

    reason: str
    message: str = ""


def came_true(predicted: ZoneUse | Refusal, reported: ZoneUse, *, has_init: bool) -> bool:
    """Tell whether a pod holds what was predicted.

    What finished init containers hold of memory is given back when the next container starts, which
    may be before the first report that names the pod.
    """
    if isinstance(predicted, Refusal) or not has_init:
        return predicted == reported
    expected, got = _flat(predicted), _flat(reported)
    return all(
        got.get(place, 0) == amount or (is_memory(place[1]) and got.get(place, 0) < amount)
        for place, amount in (dict.fromkeys(got, 0) | expected).items()
    )


def _flat(use: ZoneUse) -> dict[tuple[tuple[int, ...], str], int]:
    return {(zones, name): size for zones in use for name, size in use[zones].items()}


class Severity(StrEnum):
    """How wrong a prediction was."""

    VERDICT = "verdict"
    """Admitted instead of refused, or the other way round."""
    ZONES = "zones"
    """Admitted, but on other zones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misprediction:
    """A prediction that did not come true, with both sides.

    Attributes:
        pod: ``namespace/name``.
        predicted: what the model said when the pod was on its way.
        reported: what the node said, or the pod's own status if it was refused.
    """

    node: str
    pod: str
    uid: str
    predicted: ZoneUse | Refusal
    reported: ZoneUse | Refusal

    @property
    def severity(self) -> Severity:
        """How wrong it was."""
        refused = isinstance(self.predicted, Refusal), isinstance(self.reported, Refusal)
        return Severity.VERDICT if any(refused) else Severity.ZONES
