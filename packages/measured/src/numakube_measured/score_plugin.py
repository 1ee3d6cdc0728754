"""MeasuredRoom: a score that keeps pods off zones which are fuller than the kubelet's books say.

Profiles name it, with a weight; no profile does by default, and nothing is ever filtered by a
measurement. The kubelet decides in which of the zones with room by its books a pod comes to lie, so
the score is the mean over these: a zone counts in full while programs can have ``enough`` of its
memory, and nothing when it is used up. A node that is not measured gets half: it is neither avoided
nor preferred.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numakube.errors import ConfigError
from numakube.scheduling.framework import MAX_NODE_SCORE, Score
from numakube.values.resources import MEMORY
from numakube_measured.measurement import ANNOTATION, Unmeasured, read_measurement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.nrt import NodeResourceTopology
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

_ENOUGH = 0.2


class MeasuredRoom(Score):
    """Rates nodes by what is measured of the zones that a pod may come to lie in."""

    name = "MeasuredRoom"

    def __init__(self, enough: float = _ENOUGH) -> None:
        """Rate by the share of a zone's memory that is *enough* to be left."""
        self._enough = enough
        # By node: the text of its measurement, and the shares of its zones in it.
        self._known: dict[str, tuple[str, Mapping[int, float]]] = {}

    @classmethod
    def make(cls, args: Mapping[str, Any], handle: object) -> MeasuredRoom:
        """Return the plugin that a profile asks for.

        Raises:
            ConfigError: its argument makes no sense.
        """
        del handle
        enough = args.get("enough", _ENOUGH)
        if isinstance(enough, bool) or not isinstance(enough, int | float) or not 0 < enough <= 1:
            raise ConfigError(f"MeasuredRoom: enough is {enough!r}, not a share above 0 up to 1")
        return cls(float(enough))

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate *node* for *pod*."""
        del state
        belief = node.numa
        topology = None if belief is None else belief.topology
        if belief is None or topology is None:
            return MAX_NODE_SCORE // 2
        measured = {} if topology.why_old else self._shares(node.name, belief.nrt)
        wanted = pod.requests.get(MEMORY, 0)
        shares = [
            min(1.0, measured[zone.id] / self._enough)
            for zone, free in zip(topology.zones, belief.available, strict=True)
            if zone.id in measured and free.get(MEMORY, 0) >= wanted
        ]
        if not shares:
            return MAX_NODE_SCORE // 2
        return round(MAX_NODE_SCORE * sum(shares) / len(shares))

    def _shares(self, node: str, report: NodeResourceTopology) -> Mapping[int, float]:
        """Return what is left of each zone as measured; the text is read when it is another one."""
        text = report.metadata.annotations.get(ANNOTATION, "")
        known, shares = self._known.get(node, ("", {}))
        if text != known:
            measurement = read_measurement(report)
            zones = () if isinstance(measurement, Unmeasured) else measurement.zones
            shares = {
                zone.id: zone.available_share for zone in zones if zone.available_share is not None
            }
            self._known[node] = text, shares
        return shares
