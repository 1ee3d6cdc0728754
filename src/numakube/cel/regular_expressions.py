"""Regular expressions of Go, matched by RE2, which has the same syntax and takes linear time.

No pattern makes a match slow, and none becomes big: a compiled pattern takes at most `MAX_BYTES`
with what it remembers of texts, and those that are kept together `CACHED_BYTES`. Errors are told in
Go's words; as in Go they quote the part of the pattern that is at fault. What Go takes and this
refuses is a pattern that needs more memory.
"""

from __future__ import annotations

import re
from typing import Any, Final

import re2

from numakube.cel.bounded_cache import BoundedCache
from numakube.errors import InvalidValue

MAX_BYTES: Final = 1 << 20
CACHED_BYTES: Final = 32 << 20
_USUAL_BYTES: Final = 1 << 17
"""What is enough for nearly every pattern."""
_MAX_DEPTH: Final = 1000
"""How deep Go lets groups be nested."""
_MAX_REPEATS: Final = 100_000
"""The sum of all repetitions in a pattern; far more than fit into `MAX_BYTES`."""

_REPEATS: Final = re.compile(r"\{([0-9]+)(?:,([0-9]*))?\}")
_MAX_COUNT: Final = 1000
_ENDLESS_COUNT: Final = re.compile(r"\{(?:[0-9]+,)?[1-9][0-9]{9,}(?:,[0-9]*)?\}")
"""Counts that are longer than RE2's own integers, so that it takes them for text."""
_TOO_LARGE: Final = "expression too large"
_RE2_TOO_LARGE: Final = b"pattern too large - compile failed"
_MOST_INSTRUCTIONS: Final = MAX_BYTES // 96
"""How many RE2 compiles within `MAX_BYTES` before it gives up: two thirds of a quarter of it."""
_ESCAPED: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\(.)", re.DOTALL)
_GO_WORDS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression: ",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    _RE2_TOO_LARGE.decode(): f"{_TOO_LARGE}: ",
}
"""What RE2 says of a pattern that cannot be used, and what Go says."""


class Pattern:
    """A pattern that finds what Go's would.

    Attributes:
        size: the number of its instructions; a match takes at most so many steps a byte.
        bytes: the memory that it takes at most.
    """

    def __init__(self, text: str) -> None:
        """Compile *text*.

        Raises:
            InvalidValue: Go refuses it, or it needs too much memory.
        """
        _check(text)
        self.bytes = _USUAL_BYTES
        try:
            try:
                self._compiled: Any = _compile(text, _USUAL_BYTES)
            except re2.error as error:
                if not error.args[0].startswith(_RE2_TOO_LARGE):
                    raise
                self.bytes = MAX_BYTES
                self._compiled = _compile(text, MAX_BYTES)
        except re2.error as error:
            raise InvalidValue(_in_go_words(error.args[0])) from None
        self.size = int(self._compiled.programsize)

    def is_in(self, text: str) -> bool:
        """Tell whether a part of *text* matches."""
        return self._compiled.search(text.encode(errors="replace")) is not None

    def first(self, text: str) -> str | None:
        """Return the first part of *text* that matches; None if none does."""
        found = self._compiled.search(text.encode(errors="replace"))
        return None if found is None else str(found.group().decode())

    def all(self, text: str) -> list[str]:
        """Return the parts of *text* that match, one after the other.

        As in Go, nothing is found right behind a match except a match that is not empty.
        """
        parts: list[str] = []
        end = -1
        for found in self._compiled.finditer(text.encode(errors="replace").decode()):
            if found.start() < found.end() or found.start() != end:
                parts.append(found.group())
            end = found.end()
        return parts


_PATTERNS: Final = BoundedCache(Pattern, weigh=lambda _, one: one.bytes, most=CACHED_BYTES)


def compiled(text: str) -> Pattern:
    """Return the pattern that finds what Go's would; raise `InvalidValue` if it cannot be used."""
    return _PATTERNS.get(text)


def compiled_size(text: str) -> int:
    """Return how many instructions the pattern *text* is compiled to; of one that is refused, most.

    It bounds what compiling and matching takes.
    """
    try:
        return compiled(text).size
    except InvalidValue as error:
        return _MOST_INSTRUCTIONS if _TOO_LARGE in str(error) else 1


def repeats_of(text: str) -> int:
    """Return about how often the pattern *text* repeats its parts: what compiling it takes."""
    counts = (most or least for least, most in _REPEATS.findall(text))
    return sum(min(int(count[:9]), _MAX_COUNT) for count in counts)


def _compile(text: str, max_bytes: int) -> Any:  # noqa: ANN401
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = max_bytes
    try:
        return re2.compile(text.encode(errors="replace"), options)
    finally:
        # `compiled` keeps patterns; those that the library keeps besides are not needed.
        re2.purge()


def _check(text: str) -> None:
    """Refuse what Go refuses and RE2 does not, and what is too big to be compiled at all."""
    if any(escape == "C" for escape in _ESCAPED.findall(text)):
        raise _refused("invalid escape sequence", r"\C")
    if text.count("(") > _MAX_DEPTH and _depth(text) > _MAX_DEPTH:
        raise _refused("expression nests too deeply", text)
    if "{" in text and (found := _ENDLESS_COUNT.search(_ESCAPED.sub("", text))):
        raise _refused("invalid repeat count", found.group())
    if repeats_of(text) > _MAX_REPEATS:
        raise _refused(_TOO_LARGE, text)


def _depth(text: str) -> int:
    """Return how deep groups are nested in *text*."""
    depth = deepest = 0
    for char in _ESCAPED.sub("", text):
        depth += (char == "(") - (char == ")")
        deepest = max(deepest, depth)
    return deepest


def _refused(reason: str, part: str) -> InvalidValue:
    return InvalidValue(f"error parsing regexp: {reason}: `{part}`")


def _in_go_words(message: bytes) -> str:
    reason, _, part = message.decode(errors="replace").partition(": ")
    words = _GO_WORDS.get(reason, reason)
    return str(_refused(words.removesuffix(": "), part))
