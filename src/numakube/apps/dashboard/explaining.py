"""Why a pod is where it is: `numakube.insight.explain` on what the dashboard knows.

To explain means to fill a scheduler's parts with the whole cluster, so it is done in a thread, one
pod at a time, and without being asked in small clusters only.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numakube.api.core import Pod
    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.apps.dashboard.source import Source
    from numakube.insight.explain import Explanation
    from numakube.insight.facts import ClusterFacts

UNASKED_NODES: Final = 100
"""In clusters of so many nodes a pod's page explains without being asked."""


class Explainer:
    """Explains pods of one source, and remembers the last explanation."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._one_at_a_time = asyncio.Lock()
        self._last: tuple[Hashable, Explanation] | None = None

    def is_cheap(self) -> bool:
        """Tell whether an explanation takes no time worth speaking of."""
        return len(self._source.nodes) <= UNASKED_NODES

    async def explain(self, pod: Pod) -> Explanation:
        """Return why *pod* is where it is, or nowhere, and what would help."""
        async with self._one_at_a_time:
            key = (pod.metadata.uid, self._source.version)
            if self._last is None or self._last[0] != key:
                source = self._source
                config = source.inside.config if source.inside is not None else None
                found = await asyncio.to_thread(explained, source.facts(), config, pod)
                self._last = (key, found)
            return self._last[1]


def explained(
    facts: ClusterFacts,
    config: KubeSchedulerConfiguration | None,
    pod: Pod,
    *,
    changes: bool = True,
) -> Explanation:
    """Return why *pod* is where it is, or nowhere; *changes* are what would help."""
    # The engine brings all plugins with it; most dashboards are never asked.
    from numakube.insight.engine import engine_of
    from numakube.insight.explain import explain, pod_subject
    from numakube.insight.explain.explaining import Options

    options = Options(changes=changes)
    return explain(facts, engine_of(facts, config), pod_subject(pod), options)
