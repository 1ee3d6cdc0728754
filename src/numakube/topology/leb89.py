"""LEB89: small numbers as text that needs no escaping in JSON, YAML or HTML.

The alphabet is printable ASCII without the quotation mark, ampersand, angle brackets and backslash.
Its first 64 symbols end a number, the other 25 are digits that go before it, the highest first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_ALPHABET: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"&<>\\')
_ENDS: Final = 64
_BASE: Final = len(_ALPHABET) - _ENDS
_VALUES: Final = {symbol: value for value, symbol in enumerate(_ALPHABET)}


def write_numbers(numbers: Iterable[int]) -> str:
    """Return *numbers*, none of which may be negative, as text."""
    return "".join(map(_write, numbers))


def read_numbers(text: str) -> list[int] | None:
    """Return the numbers in *text*; ``None`` if it has other symbols or ends inside a number."""
    numbers = []
    high, digits = 0, 0
    for symbol in text:
        value = _VALUES.get(symbol)
        if value is None:
            return None
        if value >= _ENDS:
            high, digits = high * _BASE + value - _ENDS, digits + 1
            continue
        numbers.append(_ENDS + high * _ENDS + value if digits else value)
        high, digits = 0, 0
    return None if digits else numbers


def _write(number: int) -> str:
    if number < _ENDS:
        return _ALPHABET[number]
    high, end = divmod(number - _ENDS, _ENDS)
    text = _ALPHABET[end]
    while True:
        high, digit = divmod(high, _BASE)
        text = _ALPHABET[_ENDS + digit] + text
        if not high:
            return text
