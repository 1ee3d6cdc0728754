"""Asks the scheduler that leads whether work fits, and has it keep the room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.codec import decode, encode
from numakube.api.fit_question import PATH, Fit, FitQuestion, Hold
from numakube.apps.debug_client import reach_schedulers
from numakube.errors import BadRequest, ConfigError, NumakubeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.apps.admission_check.waiting_work import Work
    from numakube.apps.debug_client import Reached
    from numakube.kube.client import Client

_KNOWN_SECONDS: Final = 300.0
"""A token for a scheduler lasts twice as long."""


class Asker:
    """Knows which scheduler leads; looks again after a failure."""

    def __init__(
        self,
        client: Client,
        *,
        url: str = "",
        selector: str = "",
        authority: str = "",
        token: Callable[[], str] = str,
    ) -> None:
        self._client = client
        self._urls = (url,) if url else ()
        self._selector = selector
        self._authority = authority
        self._token = token
        self._leader: Reached | None = None
        self._known_since = 0.0

    async def reason_against(self, work: Work) -> str:
        """Have room kept for all pods of *work*; return why that cannot be, or the empty text.

        Raises:
            NumakubeError: no scheduler answers.
        """
        question = FitQuestion(
            pod_sets=work.pods, gang=work.gang, hold=Hold(name=work.hold, seconds=work.seconds)
        )
        try:
            answer = await self._ask(question)
        except BadRequest as error:
            return str(error)
        if answer.fits >= answer.wanted:
            return ""
        reason = answer.refused[0].reason if answer.refused else "no reason"
        if work.gang and not answer.fits:
            return reason
        return f"{answer.fits} of {answer.wanted} pods fit: {reason}"

    async def release(self, hold: str) -> None:
        """Give back what is kept under that name; raises as `reason_against` does."""
        await self._ask(FitQuestion(hold=Hold(name=hold, seconds=0)))

    async def aclose(self) -> None:
        """Close what was opened."""
        if self._leader is not None:
            await self._leader.aclose()
            self._leader = None

    async def _ask(self, question: FitQuestion) -> Fit:
        leader = await self._the_leader()
        try:
            return decode(Fit, await leader.send("POST", PATH, encode(question)), "Fit")
        except BadRequest:
            raise
        except NumakubeError:
            await self.aclose()
            raise

    async def _the_leader(self) -> Reached:
        now = self._client.clock.monotonic()
        if self._leader is not None and now - self._known_since < _KNOWN_SECONDS:
            return self._leader
        await self.aclose()
        found = await reach_schedulers(
            self._client,
            urls=self._urls,
            selector=self._selector,
            authority=self._authority,
            token=self._token(),
        )
        leaders = [one for one in found if one.leads and one.kind == "scheduler"]
        for one in found:
            if one not in leaders[:1]:
                await one.aclose()
        if not leaders:
            troubles = [f"{one.name}: {one.trouble}" for one in found if one.trouble]
            raise ConfigError(troubles[0] if troubles else "no scheduler of numakube leads")
        self._leader, self._known_since = leaders[0], now
        return leaders[0]
