"""What could not be read, and why: answers say what they rest on."""

from numakube.api.wire import Wire


class Unreadable(Wire, frozen=True, kw_only=False):
    """One thing that could not be read.

    Attributes:
        what: a file of `Collected`, or an object in one.
        why: a sentence for people.
    """

    what: str
    why: str
