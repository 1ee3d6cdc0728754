"""Renew the leases of many nodes from one task, evenly spread over time.

A real kubelet renews every 10 s a lease of 40 s, and writes its status every five minutes if
nothing happens. Here the interval is stretched up to 20 s for many nodes, which halves the load of
a lab that idles and is still far from the lease's end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from numakube.errors import NumakubeError
from numakube_lab.nodes.kubelet import KubeletState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.kube.clock import Clock
    from numakube_lab.nodes.kubelet import LabKubelet

TICK_SECONDS: Final = 1.0
STATUS_SECONDS: Final = 300.0
_SHORTEST: Final = 10.0
_LONGEST: Final = 20.0
# The number of nodes from which on the interval is the longest.
_MANY: Final = 1000

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def interval_for(nodes: int) -> float:
    """Return the seconds between two renewals of one lease in a lab of so many nodes."""
    return _SHORTEST + (_LONGEST - _SHORTEST) * min(1.0, nodes / _MANY)


class Heartbeats:
    """The heartbeats of all nodes of a lab."""

    def __init__(self, kubelets: Mapping[str, LabKubelet], *, clock: Clock) -> None:
        self._kubelets = kubelets
        self._clock = clock
        self._renewed: dict[str, float] = {}
        self._reported: dict[str, float] = {}

    def registered(self, name: str) -> None:
        """Take note that a node has just written its lease and status; spread what follows."""
        now = self._clock.monotonic()
        interval = interval_for(len(self._kubelets))
        early = (len(self._renewed) * 0.618034 % 1.0) * interval
        self._renewed[name] = now - early
        self._reported[name] = now

    def forget(self, name: str) -> None:
        """Drop a node."""
        self._renewed.pop(name, None)
        self._reported.pop(name, None)

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            await self._clock.sleep(TICK_SECONDS)
            await self.beat()

    async def beat(self) -> None:
        """Renew what is due."""
        now = self._clock.monotonic()
        interval = interval_for(len(self._renewed))
        for name, renewed in list(self._renewed.items()):
            kubelet = self._kubelets.get(name)
            if now - renewed < interval or kubelet is None:
                continue
            if kubelet.state is KubeletState.RUNNING:
                self._renewed[name] = now
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
