"""Why a pod is where it is, and what would fit: the scheduler's parts on what the dashboard knows.

Both mean to fill a scheduler's parts with the whole cluster, so it is done in a thread, one
question at a time, and without being asked in small clusters only.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.errors import InvalidValue
from numakube.insight.usage.largest_pod import parse_shape, pod_of
from numakube.insight.usage.named_resources import in_full

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from numakube.api.pod import Pod
    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.insight import ClusterFacts
    from numakube.insight.explain import Explanation
    from numakube.values.resources import Amounts
    from numakube_pages.page_source import Source

UNASKED_NODES: Final = 100
"""In clusters of so many nodes a pod's page explains without being asked."""
_LONGEST_SHAPE: Final = 200
LONGEST_SECONDS: Final = 20.0
"""Counting ends after so long: a process that schedules has other things to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How many pods of a shape the scheduler would place.

    Attributes:
        shape: as it was typed.
        problem: why there is no answer; empty if there is one.
        nodes: by node; full ones are missing.
        why: what the scheduler says if none fits.
        complete: whether all of them were tried; if not, there is room for at least so many.
        version: of the source when it was asked.
        at: when that was, by the source's clock.
        seconds: how long it took.
    """

    shape: str
    problem: str = ""
    nodes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    why: str = ""
    complete: bool = True
    version: int = 0
    at: float = 0.0
    seconds: float = 0.0

    @property
    def total(self) -> int:
        """How many fit in the whole cluster."""
        return sum(self.nodes.values())


class Explainer:
    """Answers questions about one source, and remembers the last answers."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._one_at_a_time = asyncio.Lock()
        self._last: tuple[Hashable, Explanation] | None = None
        self._room: Room | None = None

    def is_cheap(self) -> bool:
        """Tell whether an explanation takes no time worth speaking of."""
        return len(self._source.nodes) <= UNASKED_NODES

    async def explain(self, pod: Pod) -> Explanation:
        """Return why *pod* is where it is, or nowhere, and what would help."""
        async with self._one_at_a_time:
            key = (pod.metadata.uid, self._source.version)
            if self._last is None or self._last[0] != key:
                # The engine brings all plugins with it; most dashboards are never asked.
                from numakube.insight.explain import explained

                source = self._source
                config = source.inside.config if source.inside is not None else None
                found = await asyncio.to_thread(explained, source.facts(), config, pod)
                self._last = (key, found)
            return self._last[1]

    async def room_for(self, shape: str, *, keep: bool = False) -> Room:
        """Return how many more pods of *shape* fit, by node, as ``kubectl numa top --shape`` does.

        *keep*: in a large cluster the last answer will do, even if something has changed since.
        """
        if len(shape) > _LONGEST_SHAPE:
            return Room(shape=shape, problem="this is too long for a shape")
        try:
            amounts = parse_shape(shape)
        except InvalidValue as error:
            return Room(shape=shape, problem=str(error))
        async with self._one_at_a_time:
            known = self._room
            if known is None or known.shape != shape or self._is_past(known, keep=keep):
                known = self._room = await self._asked(shape, amounts)
            return known

    def _is_past(self, room: Room, *, keep: bool) -> bool:
        kept = keep and not self.is_cheap()
        return room.version != self._source.version and not kept

    async def _asked(self, shape: str, amounts: Amounts) -> Room:
        source, start = self._source, self._source.clock.monotonic()
        version, facts = source.version, source.facts()
        config = source.inside.config if source.inside is not None else None
        try:
            amounts = in_full(amounts, facts)
        except InvalidValue as error:
            return Room(shape=shape, problem=str(error), version=version, at=start)
        ends = start + LONGEST_SECONDS
        nodes, why = await asyncio.to_thread(
            _room_in, facts, amounts, config, lambda: source.clock.monotonic() < ends
        )
        end = source.clock.monotonic()
        return Room(
            shape=shape,
            nodes=nodes,
            why=why,
            complete=end < ends,
            version=version,
            at=end,
            seconds=end - start,
        )


def _room_in(
    facts: ClusterFacts,
    shape: Amounts,
    config: KubeSchedulerConfiguration | None,
    may_go_on: Callable[[], bool],
) -> tuple[Mapping[str, int], str]:
    """Return how many fit by node, and why none does if none does."""
    from numakube.insight import engine_of
    from numakube.insight.explain.workload_explanation import room_in
    from numakube.insight.how_many_fit import place

    pod = pod_of(shape)
    room = room_in(facts, pod, config, may_go_on=may_go_on)
    return room, "" if room else place(engine_of(facts, config), [pod]).reason
