"""Renew the leases of many nodes from one task, evenly spread over time.

A real kubelet renews every 10 s a lease of 40 s, and writes its status every five minutes if
nothing happens. Here the interval is stretched up to 20 s for many nodes, which halves the load of
a lab that idles and is still far from the lease's end. With more than 2,000 nodes the leases are
longer too, so that a lab never renews more than a hundred a second; as with a kubelet whose
``nodeLeaseDurationSeconds`` is larger, it takes longer until a silent node is noticed.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

import structlog

from numakube.errors import NumakubeError
from numakube_lab.nodes.lab_kubelet import KubeletState
from numakube_lab.nodes.node_documents import LEASE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.kube import Clock
    from numakube_lab.nodes.lab_kubelet import LabKubelet

TICK_SECONDS: Final = 1.0
STATUS_SECONDS: Final = 300.0
_SHORTEST: Final = 10.0
_LONGEST: Final = 20.0
# The number of nodes from which on the interval is the longest for leases of 40 s.
_MANY: Final = 1000
_RENEWALS_PER_SECOND: Final = 100

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def interval_for(nodes: int) -> float:
    """Return the seconds between two renewals of one lease in a lab of so many nodes."""
    usual = _SHORTEST + (_LONGEST - _SHORTEST) * min(1.0, nodes / _MANY)
    return max(usual, nodes / _RENEWALS_PER_SECOND)


def lease_seconds_for(nodes: int) -> int:
    """Return how long a lease lasts in a lab of so many nodes: at least two intervals."""
    return max(LEASE_SECONDS, ceil(2 * interval_for(nodes)))


class Heartbeats:
    """The heartbeats of all nodes of a lab."""

    def __init__(self, kubelets: Mapping[str, LabKubelet], *, clock: Clock) -> None:
        self._kubelets = kubelets
        self._clock = clock
        self._due: dict[str, float] = {}
        self._reported: dict[str, float] = {}

    def registered(self, name: str) -> None:
        """Take note that a node has just written its lease and status; spread what follows."""
        now = self._clock.monotonic()
        interval = self._kubelets[name].reporter.lease_seconds / 2
        # Not at once: a lab that is still starting thousands of nodes has enough to do.
        self._due[name] = now + (0.5 + len(self._due) * 0.618034 % 1.0) * interval
        self._reported[name] = now

    def forget(self, name: str) -> None:
        """Drop a node."""
        self._due.pop(name, None)
        self._reported.pop(name, None)

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            await self._clock.sleep(TICK_SECONDS)
            await self.beat()

    async def beat(self) -> None:
        """Renew what is due."""
        now = self._clock.monotonic()
        interval, lasting = interval_for(len(self._due)), lease_seconds_for(len(self._due))
        for name in [name for name, due in self._due.items() if due <= now]:
            kubelet = self._kubelets.get(name)
            if kubelet is not None and kubelet.state is KubeletState.RUNNING:
                self._due[name] = now + interval
                kubelet.reporter.lease_seconds = max(lasting, kubelet.reporter.lease_seconds)
                await self._beat_of(kubelet)

    async def _beat_of(self, kubelet: LabKubelet) -> None:
        now = self._clock.monotonic()
        try:
            await kubelet.reporter.renew()
            if now - self._reported[kubelet.name] >= STATUS_SECONDS:
                self._reported[kubelet.name] = now
                await kubelet.reporter.beat()
        except NumakubeError as error:
            _log.warning("heartbeat_failed", node=kubelet.name, error=str(error))
