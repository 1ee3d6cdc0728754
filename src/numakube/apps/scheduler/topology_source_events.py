"""Events about a scheduler that has no NodeResourceTopologies at all, and when it has them.

They are about the scheduler's Lease, as the events of leader election are, and only the leader
tells. A definition that is missing, or rights that are, leave every node without data; what is
done about pods then is what the argument ``missingData`` says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.meta import ObjectReference

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.apps.cluster_mirror import Mirror
    from numakube.kube.clock import Clock
    from numakube.kube.event_recorder import EventRecorder
    from numakube.kube.resource_types import ObjectKey

MISSING: Final = "TopologySourceMissing"
FOUND: Final = "TopologySourceFound"
REPEAT_SECONDS: Final = 600.0
"""How often trouble that lasts is told again; events are kept for an hour."""
_LOOK_SECONDS: Final = 0.5


class TopologySourceEvents:
    """Tells of trouble with the source of all reports."""

    def __init__(
        self,
        mirror: Mirror,
        clock: Clock,
        recorder: EventRecorder,
        *,
        lease: ObjectKey,
        leads: Callable[[], bool],
    ) -> None:
        self._mirror = mirror
        self._clock = clock
        self._recorder = recorder
        self._leads = leads
        self._about = ObjectReference(
            api_version="coordination.k8s.io/v1",
            kind="Lease",
            namespace=lease.namespace,
            name=lease.name,
        )
        self._told = ""
        self._told_at = 0.0

    async def run(self) -> None:
        """Look and tell until cancelled."""
        while True:
            if self._leads():
                self._look()
            await self._clock.sleep(_LOOK_SECONDS)

    def _look(self) -> None:
        trouble, now = self._mirror.topology_trouble(), self._clock.monotonic()
        if trouble and (trouble != self._told or now - self._told_at >= REPEAT_SECONDS):
            text = f"no NodeResourceTopology can be read, every node counts as unknown: {trouble}"
            self._recorder.warning(self._about, MISSING, text, action="Scheduling")
            self._told_at = now
        elif self._told and not trouble:
            text = "NodeResourceTopologies are read"
            self._recorder.normal(self._about, FOUND, text, action="Scheduling")
        self._told = trouble
