"""Which measurements are worth a write to the API. Pure.

Every reader of reports is told of a write, so there is one only if an answer that somebody was
given would be another one now: a pod came or went, a share of memory changed by more than a few
points, interrupts moved, a zone filled up. And never more than one a minute. A measurement that was
published therefore holds, within these bounds, until the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from numakube_measured.measurement import MeasuredPod, MeasuredZone, Measurement

LEAST_SECONDS: Final = 60.0
"""Between two writes of one node."""
WHOLE_SECONDS: Final = 1800.0
"""After which small changes are written too."""
POINTS: Final = 0.05
"""A change of a share that matters."""
_DISTURBED: Final = 0.05
_MIB_THAT_MATTER: Final = 64


@dataclass(slots=True)
class News:
    """Decides what is published.

    Attributes:
        published: what was published last.
    """

    published: Measurement | None = None
    _at: float = 0.0

    def take(self, measurement: Measurement, at: float) -> bool:
        """Tell whether *measurement* is to be published, and if so remember it.

        Args:
            measurement: the latest one.
            at: when it was taken, by a clock that never goes back.
        """
        if self.published is not None:
            age = at - self._at
            if age < LEAST_SECONDS:
                return False
            if not differs(self.published, measurement) and (
                age < WHOLE_SECONDS or _same(self.published, measurement)
            ):
                return False
        self.published, self._at = measurement, at
        return True


def differs(old: Measurement, new: Measurement) -> bool:
    """Tell whether somebody who knows *old* would be told something else by *new*."""
    if old.settings != new.settings or old.untold != new.untold:
        return True
    old_zones, new_zones = ({zone.id: zone for zone in one.zones} for one in (old, new))
    if old_zones.keys() != new_zones.keys():
        return True
    if any(_zone_differs(old_zones[number], zone) for number, zone in new_zones.items()):
        return True
    # Which of the pods without a place are among the largest is no news.
    old_pods, new_pods = ({pod.uid: pod for pod in one.pods if pod.zones} for one in (old, new))
    return old_pods.keys() != new_pods.keys() or any(
        _pod_differs(old_pods[key], pod) for key, pod in new_pods.items()
    )


def _same(old: Measurement, new: Measurement) -> bool:
    return (old.zones, old.pods) == (new.zones, new.pods)


def _zone_differs(old: MeasuredZone, new: MeasuredZone) -> bool:
    if _far_apart(old.available_share, new.available_share):
        return True
    before, now = old.traffic_mi_per_second, new.traffic_mi_per_second
    if before is None or now is None:
        return (before is None) != (now is None)
    # Traffic goes up and down all the time: only whether there is much of it matters.
    return max(before, now) > 2 * min(before, now) + 1024


def _pod_differs(old: MeasuredPod, new: MeasuredPod) -> bool:
    return (
        (old.zones, old.cpu_zones, old.confined) != (new.zones, new.cpu_zones, new.confined)
        or _memory_moved(old, new)
        or old.is_spilled != new.is_spilled
        or _far_apart(old.near_threads, new.near_threads, least=0.2)
        or {one.device: one.zones for one in old.far_interrupts}
        != {one.device: one.zones for one in new.far_interrupts}
        or any(
            _is_disturbed(getattr(old, name)) != _is_disturbed(getattr(new, name))
            for name in ("throttled", "stolen", "others", "memory_pressure")
        )
    )


def _memory_moved(old: MeasuredPod, new: MeasuredPod) -> bool:
    """Tell whether the memory of a pod is divided otherwise, small pods aside."""
    totals = [sum(pod.memory_mi.values()) for pod in (old, new)]
    if max(totals) < _MIB_THAT_MATTER:
        return False
    if not all(totals):
        return True
    return any(
        abs(old.memory_mi.get(zone, 0) / totals[0] - new.memory_mi.get(zone, 0) / totals[1])
        >= POINTS
        for zone in old.memory_mi.keys() | new.memory_mi.keys()
    )


def _is_disturbed(share: float | None) -> bool:
    return share is not None and share >= _DISTURBED


def _far_apart(old: float | None, new: float | None, *, least: float = POINTS) -> bool:
    if old is None or new is None:
        return (old is None) != (new is None)
    return abs(old - new) >= least
