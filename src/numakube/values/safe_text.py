"""Foreign texts made fit to be shown: on a terminal, in a log, in an event.

Names, reasons and annotations are written by any user who may write the object. A terminal takes
escape sequences for commands, a reader of logs takes a line break for the next event, and a person
takes text whose direction is reversed for what it looks like. So all that leaves the program passes
here.
"""

from __future__ import annotations

import re
from typing import Final

from numakube.values.size_limits import MAX_REASON

_REPLACEMENT: Final = "\ufffd"
_SECRET: Final = re.compile(
    r"\b(?P<scheme>Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{6,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*",
    re.IGNORECASE,
)
"""What a header ``Authorization`` holds, and a JSON Web Token wherever it stands."""


def printable(text: str) -> str:
    """Return *text* as one line without anything that is not seen as it is.

    Control characters, line breaks, marks of direction and halves of surrogate pairs are replaced.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else _REPLACEMENT for one in text)


def printable_lines(text: str) -> str:
    """Return *text* with its lines, each of them `printable`."""
    return "\n".join(map(printable, text.splitlines()))


def quoted(text: str) -> str:
    """Return *text* fit to be quoted in a reason: printable and not too long."""
    if len(text) > MAX_REASON:
        text = f"{text[: MAX_REASON - 3]}..."
    return printable(text)


def without_secrets(text: str) -> str:
    """Return *text* without tokens and passwords of requests."""
    return _SECRET.sub(lambda found: f"{found['scheme'] or 'token'} ***", text)


def reason_of(error: BaseException) -> str:
    """Return what went wrong in one line, for those who cannot read a traceback."""
    return quoted(without_secrets(f"{type(error).__name__}: {error}"))
