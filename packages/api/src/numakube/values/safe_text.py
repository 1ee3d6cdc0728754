"""Foreign texts: how much of them is read, and how they are made fit to be shown."""

from __future__ import annotations

import re
from typing import Final

from numakube.errors import InvalidValue

# How much of what others say is read, in one place.
#
# A user who can write an object can write a large one, a deep one, or a small one that unfolds to a
# large one. Every decoder stops here and says so in a sentence that names the object; the object
# then counts as one that cannot be read. No honest object comes near any of these.


MAX_DEPTH: Final = 100
"""Lists and maps inside each other; the deepest Kubernetes object, a CRD's schema, has some 40."""

MAX_VALUES: Final = 1_000_000
"""Values of one document, its anchors written out; the largest API objects have ten thousand."""

MAX_DIGITS: Final = 400
"""Of a number; the largest float has 309, and Python refuses more than 4,300."""

MAX_TEXT: Final = 1 << 20
"""Characters of an annotation or a deflated text: Kubernetes allows 256 KiB of annotations."""

MAX_RATIO: Final = 100
"""How many times longer a deflated text may become; exact data of real machines gets tenfold."""

MAX_DEVICES: Final = 1 << 14
"""Of a node's exact data, all resources together: more would fill the memory of who reads it."""

MAX_RESOURCES: Final = 512
"""Kinds of devices of a node."""

MAX_PODS: Final = 1 << 12
"""Pods that exact data names; kubelets take 110, or a few hundred where told to."""

MAX_SHARED: Final = 1 << 14
"""Bytes of a part that objects may have in common, such as labels or containers."""

MAX_REASON: Final = 300
"""Characters of a foreign text that a reason, an event or a line of a log quotes."""


def limited(what: str, count: int, most: int) -> int:
    """Return *count*; raise `InvalidValue` if there are more than *most* of *what*."""
    if count > most:
        raise InvalidValue(f"more than {most} {what}")
    return count


# What is shown: on a terminal, in a log, in an event.
#
# Names, reasons and annotations are written by any user who may write the object. A terminal takes
# escape sequences for commands, a reader of logs takes a line break for the next event, and a
# person takes text whose direction is reversed for what it looks like. So all that leaves the
# program passes here.


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
