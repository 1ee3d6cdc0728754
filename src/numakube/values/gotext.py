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


def go_quote(text: str) -> str:
    """Return *text* as ``%q`` prints it."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_escape, text))}"'


def go_quote_list(texts: list[str] | tuple[str, ...]) -> str:
    """Return *texts* as ``%q`` prints a list of strings: ``["a" "b"]``."""
    return f"[{' '.join(map(go_quote, texts))}]"


def parse_integer(text: str) -> int:
    """Return the number that ``strconv.Atoi`` reads; the error's reason is Go's."""
    if not _INTEGER.fullmatch(text):
        raise _refusal(text, "invalid syntax")
    number = int(text)
    if not fits(number):
        raise _refusal(text, "value out of range")
    return number


def go_json(tree: object, *, struct: bool = False) -> str:
    """Return *tree* as Go's JSON encoder writes it: compact, and escaped for HTML.

    The keys of a map are sorted, the fields of a *struct* are not.
    """
    text = json.dumps(tree, separators=(",", ":"), sort_keys=not struct, ensure_ascii=False)
    return text.translate(_JSON_ESCAPES)


def go_text(value: object) -> str:
    """Return *value* as ``%v`` prints it: ``map[image:x:1 name:a]``, ``[1 2]``, ``<nil>``."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case dict():
            return f"map[{' '.join(f'{k}:{go_text(value[k])}' for k in sorted(value))}]"
        case list():
            return f"[{' '.join(map(go_text, value))}]"
        case int() | float():
            return go_number(value)
        case _:
            return str(value)


def go_number(number: float) -> str:
    """Return *number* as ``%v`` prints it.

    It is the shortest text; exponents begin at 1e+21 and have at least two digits.
    """
    if isinstance(number, int) or (number.is_integer() and abs(number) < 1e21):
        return str(int(number))
    mantissa, e, exponent = repr(number).partition("e")
    return f"{mantissa}e{exponent[0]}{exponent[1:]:0>2}" if e else mantissa


def sorted_by_text(mapping: Mapping[int, object]) -> dict[str, object]:
    """Return *mapping* with its keys as text and in their order as text, as Go writes maps."""
    return dict(sorted((str(key), value) for key, value in mapping.items()))


def _refusal(text: str, problem: str) -> InvalidValue:
    reason = f"strconv.Atoi: parsing {go_quote(text)}: {problem}"
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
