"""The connection with the container runtime: made, lost, and made again.

Without one, containers are set right after they have started; nothing else depends on it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from numakube.errors import RuntimeUnavailable
from numakube.kube.backoff import Backoff
from numakube.node.nri.nri_plugin import Session

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from numakube.apps.enforcer.metrics import EnforcerMetrics
    from numakube.apps.enforcer.nri import NriPlugin
    from numakube.kube.clock import Clock

_FIRST_SECONDS: Final = 0.5
_LONGEST_SECONDS: Final = 15.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class NriLink:
    """Keeps a plugin connected.

    Attributes:
        trouble: why the runtime does not ask; the empty text while it does.
    """

    def __init__(
        self,
        plugin: NriPlugin,
        metrics: EnforcerMetrics,
        clock: Clock,
        *,
        socket: Path,
        name: str,
        index: str,
        rng: Random,
    ) -> None:
        self._plugin = plugin
        self._metrics = metrics
        self._clock = clock
        self._socket = socket
        self._name = name
        self._index = index
        self._backoff = Backoff(base=_FIRST_SECONDS, cap=_LONGEST_SECONDS, rng=rng)
        self.trouble = "not connected yet"

    async def run(self) -> None:
        """Connect, and connect again, until cancelled."""
        while True:
            self._lost(await self._session())
            await self._clock.sleep(self._backoff.next())

    async def _session(self) -> str:
        """Be a plugin for as long as the runtime is there; return why it is not any more."""
        try:
            reader, writer = await asyncio.open_unix_connection(self._socket)
        except OSError as error:
            return f"{self._socket}: {error.strerror or error}"
        session = Session(reader, writer, self._plugin, name=self._name, index=self._index)
        beside = [
            asyncio.ensure_future(one)
            for one in (self._plugin.tell(session), self._connected(session))
        ]
        try:
            await session.run()
        except RuntimeUnavailable as error:
            return f"{self._socket}: {error}"
        finally:
            for one in beside:
                one.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            self._metrics.nri_connected.set(0)
        return f"{self._socket}: the runtime has closed the connection"

    async def _connected(self, session: Session) -> None:
        await session.started.wait()
        self._backoff.reset()
        self.trouble = ""
        self._metrics.nri_connected.set(1)
        runtime = self._plugin.runtime
        _log.info(
            "nri_connected",
            runtime=runtime.name if runtime else "",
            version=runtime.version if runtime else "",
            way="containers are set before they start",
        )

    def _lost(self, why: str) -> None:
        if why != self.trouble:
            way = "containers are set right after they have started"
            _log.warning("nri_away", why=why, way=way)
        self.trouble = why
