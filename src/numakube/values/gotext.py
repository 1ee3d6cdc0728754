"""Text as Go writes it, for messages and files that must match those of Kubernetes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from numakube.errors import InvalidValue
from numakube.values.int64 import fits

if TYPE_CHECKING:
    from collections.abc import Mapping

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,4000}")
_ESCAPES: Final = {
    "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v",
    "\\": r"\\", '"': r"\"",
}  # fmt: skip
# Characters that Go's JSON encoder escapes because of HTML and JavaScript.
_JSON_ESCAPES: Final = str.maketrans(
    {char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"},
)


def quote(text: str) -> str:
    """Return *text* as ``%q`` prints it."""
    return f'"{"".join(map(_escape, text))}"'


def quote_list(texts: list[str] | tuple[str, ...]) -> str:
    """Return *texts* as ``%q`` prints a list of strings: ``["a" "b"]``."""
    return f"[{' '.join(map(quote, texts))}]"


def parse_integer(text: str) -> int:
    """Return the number that ``strconv.Atoi`` reads; the error's reason is Go's."""
    if not _INTEGER.fullmatch(text):
        raise _refusal(text, "invalid syntax")
    number = int(text)
    if not fits(number):
        raise _refusal(text, "value out of range")
    return number


def to_json(tree: object) -> str:
    """Return *tree* as Go's JSON encoder writes it: compact, and escaped for HTML."""
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False).translate(_JSON_ESCAPES)


def sorted_by_text(mapping: Mapping[int, object]) -> dict[str, object]:
    """Return *mapping* with its keys as text and in their order as text, as Go writes maps."""
    return dict(sorted((str(key), value) for key, value in mapping.items()))


def _refusal(text: str, problem: str) -> InvalidValue:
    reason = f"strconv.Atoi: parsing {quote(text)}: {problem}"
    return InvalidValue(reason, reason=reason)


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
