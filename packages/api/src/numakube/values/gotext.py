"""Text and 64-bit numbers as Go has them, where they must match those of Kubernetes.

Text is for messages and files. Numbers are decimal amounts with the overflows that Kubernetes lets
happen: ``Quantity.Value()`` and ``MilliValue()`` return an int64 without telling whether it
overflowed, and the wrapped number is what a kubelet or a scheduler then works with. Two forms of
amount exist, as in k8s.io/apimachinery/pkg/api/resource (1.35): *narrow*, an int64 with a decimal
exponent, and *wide*, an integer of any size with a decimal exponent. They overflow in different
ways.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from numakube.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Mapping


INT64_MAX: Final = (1 << 63) - 1
INT64_MIN: Final = -(1 << 63)

# Multiplications that Go spells out return the wrapped product on overflow; others return zero.
_WRAPPING_POWERS: Final = frozenset({1, 2, 3, 6, 9})
# The largest power of ten that Go converts from float64 to int64 exactly.
_MAX_POWER: Final = 18


def wrap(number: int) -> int:
    """Return the low 64 bits of *number* as a signed integer."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def fits(number: int) -> bool:
    """Tell whether *number* is an int64."""
    return INT64_MIN <= number <= INT64_MAX


def ten_to(power: int) -> int:
    """Return ``10**power`` for a power that is not negative."""
    return int(10**power)


def scale_narrow(unscaled: int, power: int) -> int:
    """Return ``unscaled * 10**power`` as the narrow form does: inexact results away from zero."""
    if power < 0:
        return _divide_away_from_zero(unscaled, -power)
    if unscaled == 0 or power > _MAX_POWER:
        return 0
    product = unscaled * ten_to(power)
    if fits(product):
        return product
    return wrap(product) if power in _WRAPPING_POWERS and unscaled != INT64_MIN else 0


def scale_wide(unscaled: int, power: int) -> int:
    """Return ``unscaled * 10**power`` as the wide form does: wrapping, inexact results plus one."""
    if power >= 0:
        # A float64 beyond the int64 range converts to the smallest int64 on amd64.
        factor = ten_to(power) if power <= _MAX_POWER else INT64_MIN
        return wrap(wrap(unscaled) * factor)
    divisor = ten_to(-power)
    if unscaled < INT64_MAX and -power <= _MAX_POWER:
        wrapped = wrap(unscaled)
        quotient = abs(wrapped) // divisor * (1 if wrapped >= 0 else -1)
        return quotient + 1 if quotient * divisor != wrapped else quotient
    quotient, remainder = divmod(unscaled, divisor)
    return wrap(quotient + 1 if remainder else quotient)


def _divide_away_from_zero(unscaled: int, digits: int) -> int:
    if digits > _MAX_POWER + 1:
        return (unscaled > 0) - (unscaled < 0)
    magnitude = -(-abs(unscaled) // ten_to(digits))
    return magnitude if unscaled >= 0 else -magnitude


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
