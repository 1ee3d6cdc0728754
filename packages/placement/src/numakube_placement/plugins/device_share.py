"""Koordinator's plugin DeviceShare, in name: NodeNUMAResource gives devices as well.

Devices and CPUs of a pod are chosen together here, by one plugin. Configuration files that name
both load as they are. What they say of this one has no effect, which the process logs; what asks
for something else than is done is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.errors import ConfigError
from numakube.scheduling.framework.plugins import (
    BOOKED,
    Booking,
    Filter,
    PreBind,
    PreFilter,
    PreFilterResult,
    PreScore,
    Reserve,
    VectorScore,
)
from numakube.scheduling.framework.status import SKIP, SUCCESS
from numakube.scheduling.snapshot.zone_belief import NOTHING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.arrays import IntArray, Rows
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.registry import Handle
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges

NAME: Final = "DeviceShare"
_NOTE: Final = "DeviceShare does nothing here: NodeNUMAResource gives devices together with CPUs"


_REFUSED: Final = {
    "disableDeviceNUMATopologyAlignment": "devices are aligned with CPUs here; leave it out",
    "gpuShareUnsupportedModels": "parts of every GPU are given out here; leave it out, and keep "
    "pods that ask for parts off such nodes",
}
"""Fields that would change where pods go."""


class DeviceShare(PreFilter, Filter, PreScore, VectorScore, Reserve, PreBind):
    """Takes part everywhere and does nothing."""

    name = NAME

    def __init__(self, args: Mapping[str, object]) -> None:
        """Prepare.

        Raises:
            ConfigError: they ask for something that is not done.
        """
        if problems := [f"{name}: {why}" for name, why in _REFUSED.items() if args.get(name)]:
            raise ConfigError(f"DeviceShareArgs: {', '.join(problems)}")
        ignored = ", ".join(sorted(args.keys() - {"apiVersion", "kind"}))
        self.notes = (f"{_NOTE}; its {ignored} has no effect" if ignored else _NOTE,)
        """What the process should log about the settings."""

    @classmethod
    def make(cls, args: Mapping[str, object], handle: Handle) -> DeviceShare:
        """Make the plugin."""
        return cls(args)

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Have nothing to do."""
        return PreFilterResult(SKIP)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Have nothing against it."""
        return SUCCESS

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Have nothing to do."""
        return SKIP

    def score_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> IntArray:
        """Rate all nodes the same."""
        return np.zeros(len(rows), dtype=np.int64)

    def reserve(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Booking:
        """Book nothing."""
        return BOOKED

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """Have nothing to undo."""
        return NOTHING

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Have nothing to do."""
        return SKIP
