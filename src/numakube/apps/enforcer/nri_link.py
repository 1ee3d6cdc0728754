"""The connection with the container runtime: made, lost, and made again.

Without one, containers are set right after they have started; nothing else depends on it. Runtimes
fail open: they start containers without asking while a plugin is away. So a lost connection is made
again within half a second, and the containers that the runtime tells of then are set right.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final

import structlog

from numakube.errors import RuntimeUnavailable
from numakube.kube.clock import Backoff
from numakube.node.nri.nri_plugin import Session

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from numakube.apps.enforcer.metrics import EnforcerMetrics
    from numakube.apps.enforcer.nri import NriPlugin
    from numakube.kube.clock import Clock

RETRY_SECONDS: Final = 0.5
_LONGEST_SECONDS: Final = 15.0
"""Between sessions that a runtime ends before it has told what runs: each costs it some work."""

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
        self._backoff = Backoff(base=RETRY_SECONDS, cap=_LONGEST_SECONDS, rng=rng)
        self.trouble = "not connected yet"

    async def run(self) -> None:
        """Connect, and connect again, until cancelled."""
        while True:
            session = None
            try:
                session = await self._open()
                await self._take_part(session)
                why = "the runtime has closed the connection"
            except RuntimeUnavailable as error:
                why = str(error)
            self._lost(f"{self._socket}: {why}")
            refused = session is not None and not session.started.is_set()
            await self._clock.sleep(self._backoff.next() if refused else RETRY_SECONDS)

    async def say_farewell(self) -> None:
        """Let the runtime hear once more, in answer to what runs, what containers have."""
        with contextlib.suppress(RuntimeUnavailable):
            session = await self._open()
            task = asyncio.ensure_future(session.run())
            started = asyncio.ensure_future(session.started.wait())
            try:
                await asyncio.wait((task, started), return_when=asyncio.FIRST_COMPLETED)
                await session.answered()
            finally:
                for one in (task, started):
                    one.cancel()
                await asyncio.gather(task, started, return_exceptions=True)

    async def _open(self) -> Session:
        """Return a session; nothing is said in it yet.

        Raises:
            RuntimeUnavailable: nobody answers at the socket.
        """
        try:
            reader, writer = await asyncio.open_unix_connection(self._socket)
        except OSError as error:
            raise RuntimeUnavailable(error.strerror or str(error)) from None
        return Session(reader, writer, self._plugin, name=self._name, index=self._index)

    async def _take_part(self, session: Session) -> None:
        """Be a plugin for as long as the runtime is there."""
        connected = asyncio.ensure_future(self._connected(session))
        try:
            await session.run()
        finally:
            connected.cancel()
            await asyncio.gather(connected, return_exceptions=True)
            self._metrics.nri_connected.set(0)

    async def _connected(self, session: Session) -> None:
        await session.started.wait()
        self._backoff.reset()
        self.trouble = ""
        self._metrics.nri_connected.set(1)
        runtime = self._plugin.runtime
        _log.info(
            "nri_connected",
            runtime=runtime.name,
            version=runtime.version,
            way="containers are set before they start",
        )

    def _lost(self, why: str) -> None:
        if why != self.trouble:
            way = "containers are set right after they have started"
            _log.warning("nri_away", why=why, way=way)
        self.trouble = why
