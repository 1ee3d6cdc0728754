"""JSON as the API server reads it: repeated keys are remembered, mistakes worded as Go words them.

A well-formed document is read by the standard library. Only when that fails, a second pass follows
Go's scanner to name the first character that is wrong, because clients see that sentence. Most
documents are as short as they can be; those are read by msgspec, several times as fast.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec

from numakube.errors import InvalidValue

if TYPE_CHECKING:
    from kube_lab_server.schema.types import JsonValue

UNEXPECTED_END: Final = "unexpected end of JSON input"
_SPACE: Final = " \t\r\n"
_HEX_DIGITS: Final = "0123456789abcdefABCDEF"


class MalformedJson(InvalidValue):
    """A text that is no JSON; the message is Go's."""


class RepeatedKeys(dict[str, Any]):
    """An object with a key that occurs more than once: the last value counts, *pairs* has all."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


class FloatText(float):
    """A number that is no integer, with the text it was written as."""

    text: str

    def __new__(cls, text: str) -> FloatText:
        """Read *text*."""
        number = super().__new__(cls, text)
        number.text = text
        return number


def read_json(body: bytes) -> JsonValue:
    """Return the value of *body*; raise `MalformedJson` if there is none."""
    try:
        value: JsonValue = _QUICK.decode(body)
        # A key that is repeated, and a number with another text than its own, would be lost.
        if msgspec.json.encode(value) == body:
            return value
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError):
        pass  # the decoder below knows what to do or to say
    return parse_json(body.decode("utf-8", "replace"))


def parse_json(text: str) -> JsonValue:
    """Return the value of *text*; raise `MalformedJson` if there is none."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        _Scanner(text).fail()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    return plain if len(plain) == len(pairs) else RepeatedKeys(pairs)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_QUICK: Final = msgspec.json.Decoder(float_hook=FloatText)
_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=FloatText, parse_constant=_no_constant
)


class _Scanner:
    """Walks a malformed document up to the character at which Go gives up."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def fail(self) -> NoReturn:
        """Raise the error of the document."""
        self._value()
        self._skip_space()
        if self._at < len(self._text):
            self._refuse("after top-level value")
        raise MalformedJson(UNEXPECTED_END)

    def _peek(self) -> str:
        if self._at >= len(self._text):
            raise MalformedJson(UNEXPECTED_END)
        return self._text[self._at]

    def _skip_space(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in _SPACE:
            self._at += 1

    def _refuse(self, where: str) -> NoReturn:
        raise MalformedJson(f"invalid character {_quote(self._peek())} {where}")

    def _value(self) -> None:
        self._skip_space()
        first = self._peek()
        if first == "{":
            self._object()
        elif first == "[":
            self._array()
        elif first == '"':
            self._string()
        elif first in "-0123456789":
            self._number()
        elif first in "tfn":
            self._word({"t": "true", "f": "false", "n": "null"}[first])
        else:
            self._refuse("looking for beginning of value")

    def _object(self) -> None:
        self._at += 1
        self._skip_space()
        if self._peek() == "}":
            self._at += 1
            return
        while True:
            self._skip_space()
            if self._peek() != '"':
                self._refuse("looking for beginning of object key string")
            self._string()
            self._skip_space()
            if self._peek() != ":":
                self._refuse("after object key")
            self._at += 1
            self._value()
            if self._closes("}", "after object key:value pair"):
                return

    def _array(self) -> None:
        self._at += 1
        self._skip_space()
        if self._peek() == "]":
            self._at += 1
            return
        while True:
            self._value()
            if self._closes("]", "after array element"):
                return

    def _closes(self, end: str, where: str) -> bool:
        self._skip_space()
        found = self._peek()
        if found not in (",", end):
            self._refuse(where)
        self._at += 1
        return found == end

    def _string(self) -> None:
        self._at += 1
        while (char := self._peek()) != '"':
            if char < " ":
                self._refuse("in string literal")
            self._at += 1
            if char == "\\":
                self._escape()
        self._at += 1

    def _escape(self) -> None:
        char = self._peek()
        if char not in 'bfnrt\\/"u':
            self._refuse("in string escape code")
        self._at += 1
        for _ in range(4 if char == "u" else 0):
            if self._peek() not in _HEX_DIGITS:
                self._refuse("in \\u hexadecimal character escape")
            self._at += 1

    def _number(self) -> None:
        if self._peek() == "-":
            self._at += 1
        self._digits("in numeric literal", leading_zero=True)
        if self._at < len(self._text) and self._text[self._at] == ".":
            self._at += 1
            self._digits("after decimal point in numeric literal")
        if self._at < len(self._text) and self._text[self._at] in "eE":
            self._at += 1
            if self._peek() in "+-":
                self._at += 1
            self._digits("in exponent of numeric literal")

    def _digits(self, where: str, *, leading_zero: bool = False) -> None:
        if self._peek() not in "0123456789":
            self._refuse(where)
        if leading_zero and self._peek() == "0":
            self._at += 1
            return
        while self._at < len(self._text) and self._text[self._at] in "0123456789":
            self._at += 1

    def _word(self, word: str) -> None:
        for expected in word:
            if self._peek() != expected:
                self._refuse(f"in literal {word} (expecting {_quote(expected)})")
            self._at += 1


def _quote(char: str) -> str:
    """Quote *char* as Go does in these messages."""
    if char == "'":
        return r"'\''"
    if char == '"':
        return "'\"'"
    if char < " ":
        return repr(char)
    return f"'{json.dumps(char, ensure_ascii=False)[1:-1]}'"
