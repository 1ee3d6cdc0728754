"""The plugins of one scheduler name, by extension point and in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from numakube.errors import ConfigError
from numakube.scheduling.framework import plugins as points

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.scheduling.framework.plugins import Plugin

P = TypeVar("P", bound="Plugin")

POINTS: Mapping[str, tuple[type[Plugin], ...]] = {
    "preEnqueue": (points.PreEnqueue,),
    "queueSort": (points.QueueSort,),
    "preFilter": (points.PreFilter,),
    "filter": (points.Filter, points.VectorFilter),
    "postFilter": (points.PostFilter,),
    "preScore": (points.PreScore,),
    "score": (points.Score, points.VectorScore),
    "confirm": (points.Confirm,),
    "reserve": (points.Reserve,),
    "permit": (points.Permit,),
    "preBind": (points.PreBind,),
    "bind": (points.Bind,),
    "postBind": (points.PostBind,),
}
"""Extension points as a KubeSchedulerConfiguration names them; ``confirm`` is ours."""


@dataclass(frozen=True, slots=True)
class Profile:
    """What pods with one ``schedulerName`` are scheduled by.

    Attributes:
        points: instances by extension point, in the order in which they are asked.
        weights: factor of each scoring plugin's normalised scores.
    """

    scheduler_name: str
    points: Mapping[str, tuple[Plugin, ...]]
    weights: Mapping[str, int] = field(default_factory=dict)

    def at(self, kind: type[P]) -> tuple[P, ...]:
        """Return the plugins at the extension point of class *kind*."""
        name = next(name for name, kinds in POINTS.items() if kind in kinds)
        return tuple(one for one in self.points.get(name, ()) if isinstance(one, kind))

    def plugins(self) -> dict[str, Plugin]:
        """Return every plugin by name."""
        return {one.name: one for members in self.points.values() for one in members}


def profile_of(
    scheduler_name: str, plugins: Iterable[Plugin], weights: Mapping[str, int] | None = None
) -> Profile:
    """Return a profile in which each plugin takes part wherever it can, in the given order."""
    members = tuple(plugins)
    by_point = {
        name: tuple(one for one in members if isinstance(one, kinds))
        for name, kinds in POINTS.items()
    }
    if len(by_point["queueSort"]) > 1:
        names = ", ".join(one.name for one in by_point["queueSort"])
        raise ConfigError(f"profile {scheduler_name}: only one plugin can sort the queue: {names}")
    return Profile(scheduler_name, by_point, weights or {})
