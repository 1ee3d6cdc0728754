"""Which domains are likely to cost the fewest evictions: those are tried first.

Victims are chosen node by node, by trials that take long, so that only some domains are tried. The
order is by a bound: nodes with free places first, then those on which the least goes. A gang that
is evicted as a whole counts once, with all of its members.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from numakube.scheduling.plugins.pod_gangs import Gang, gang_key, gang_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from numakube.scheduling.arrays import IntArray
    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.pods import PodInfo

    Loss = tuple[int, int, int]
    """The highest priority of those that go, gangs that lose members, and pods."""


class EvictionLosses:
    """What would go from each node for pods of a priority."""

    def __init__(self, cluster: Cluster, priority: int, free: IntArray) -> None:
        self._free = free
        self._units: dict[int, dict[Hashable, int]] = {}
        self._gangs: dict[int, set[Hashable]] = {}
        self._highest: dict[int, int] = {}
        sizes = Counter(
            key
            for node in cluster.nodes()
            for pod in node.pods.values()
            if (key := _whole_gang(pod, cluster)) is not None
        )
        for node in cluster.nodes():
            lower = [pod for pod in node.pods.values() if pod.priority < priority]
            if free[node.row] or not lower:
                continue
            units: dict[Hashable, int] = {}
            for pod in lower:
                key = _whole_gang(pod, cluster)
                units[pod.uid if key is None else key] = 1 if key is None else sizes[key]
            self._units[node.row] = units
            self._gangs[node.row] = {key for pod in lower if (key := gang_key(pod)) is not None}
            self._highest[node.row] = max(pod.priority for pod in lower)

    def of(self, rows: Iterable[int], takes: IntArray, count: int) -> Loss:
        """Return about what goes for *count* pods on nodes at *rows*, which take so many then."""
        order = sorted(rows, key=lambda row: (sum(self._units.get(row, {}).values()), row))
        units: dict[Hashable, int] = {}
        gangs: set[Hashable] = set()
        highest = 0
        for row in order:
            if count <= 0:
                break
            if takes[row] <= 0:
                continue
            count -= int(takes[row])
            units |= self._units.get(row, {})
            gangs |= self._gangs.get(row, set())
            highest = max(highest, self._highest.get(row, highest))
        return highest, len(gangs), sum(units.values())


def _whole_gang(pod: PodInfo, cluster: Cluster) -> Hashable | None:
    """Return the gang of *pod* if it is evicted as a whole."""
    key = gang_key(pod)
    gang = gang_of(pod, cluster.objects) if key is not None else None
    return key if isinstance(gang, Gang) and gang.evicted_together else None
