"""What could not be read, and why: answers say what they rest on."""

from collections.abc import Iterable
from typing import Final

from numakube.api.wire import Wire

_REFUSED: Final = "not allowed (403): "
ROLE: Final = "numakube-view"
"""The ClusterRole with what tools read, which is part of ``view`` (see `manifests.readers`)."""


class Unreadable(Wire, frozen=True, kw_only=False):
    """One thing that could not be read.

    Attributes:
        what: a file of `Collected`, or an object in one.
        why: a sentence for people.
    """

    what: str
    why: str

    @property
    def right(self) -> str:
        """The right that is missing, such as ``list services``; empty if it is no matter of it."""
        return self.why.removeprefix(_REFUSED) if self.why.startswith(_REFUSED) else ""


def refused(right: str) -> str:
    """Return why something could not be read for lack of a *right*, such as ``list services``."""
    return f"{_REFUSED}{right}"


def rights_text(lacking: Iterable[Unreadable]) -> str:
    """Return the rights that are missing, those of one verb together."""
    verbs: dict[str, list[str]] = {}
    for one in lacking:
        verb, _, resource = one.right.partition(" ")
        verbs.setdefault(verb, []).append(resource)
    return "; ".join(f"{verb} {', '.join(dict.fromkeys(names))}" for verb, names in verbs.items())
