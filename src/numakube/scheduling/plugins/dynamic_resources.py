"""DynamicResources: pods with resource claims are left to kube-scheduler.

Allocating devices for claims needs the structured allocator of kube-scheduler. Instead of placing
such a pod without its devices we refuse it and say what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.scheduling.framework.events import EventKind
from numakube.scheduling.framework.plugins import PreFilter, PreFilterResult
from numakube.scheduling.framework.status import SKIP, unresolvable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.framework.state import CycleState
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.pods import PodInfo

NOT_HANDLED: Final = unresolvable(
    "pod has resource claims (dynamic resource allocation), which this scheduler does not handle: "
    "give it to kube-scheduler with the numakube extender, which does"
)


class DynamicResources(PreFilter):
    """Refuses pods with resource claims."""

    name = "DynamicResources"
    wakes_on = EventKind.UNSCHEDULED_POD_UPDATED

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> DynamicResources:
        """Return the plugin; it takes no notice of arguments."""
        return cls()

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Refuse the pod if it has a claim."""
        if pod.pod.spec.resource_claims:
            return PreFilterResult(NOT_HANDLED)
        return PreFilterResult(SKIP)
