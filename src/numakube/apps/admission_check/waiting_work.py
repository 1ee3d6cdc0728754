"""Work that waits until it fits, wherever it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.fit_question import PodSet
    from numakube.kube.reflector import Reflector


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Pods that are of use together only.

    Attributes:
        hold: the name under which the scheduler keeps their room.
        pods: what is to fit.
        gang: whether the rules of the pods' group hold.
        priority: work with a higher one is asked about first.
        since: when it came, as a text that sorts by time.
        admitted: whether it was let in already, and its room is kept until its pods have come.
        seconds: how long the room is to be kept from now on.
    """

    hold: str
    pods: tuple[PodSet, ...]
    gang: bool = False
    priority: int = 0
    since: str = ""
    admitted: bool = False
    seconds: float


class Source(Protocol):
    """Where work comes from, and who is told what becomes of it.

    Attributes:
        gives_back: whether room is to be given back once the source has no such work any more;
            else its pods have come by then.
    """

    name: str
    gives_back: bool

    def reflectors(self) -> Iterable[Reflector[Any]]:
        """Return what has to run for the source."""
        ...

    async def work(self) -> list[Work]:
        """Return all work that waits or whose room is kept."""
        ...

    async def admit(self, work: Work) -> None:
        """Let work in: all of it fits, and its room is kept."""
        ...

    async def refuse(self, work: Work, reason: str) -> None:
        """Say why work has to wait, or that the room of admitted work is gone."""
        ...


def next_to_ask(work: Iterable[Work], asked: Mapping[str, float], most: int) -> list[Work]:
    """Return the work to ask about now, in order; *asked* tells when that was done last.

    Room that is kept goes first: a scheduler that has started again has to know of it before it
    gives the room away. Of what waits, *most* have their turn, those that were asked about longest
    ago.
    """
    everything = list(work)
    held = [one for one in everything if one.admitted]
    waiting = [one for one in everything if not one.admitted]
    waiting.sort(key=lambda one: (asked.get(one.hold, 0.0), -one.priority, one.since))
    return held + sorted(waiting[:most], key=lambda one: (-one.priority, one.since))
