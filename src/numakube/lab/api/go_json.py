"""Read JSON as Go's decoder does: its error messages, and which fields a text names twice."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.lab.kinds import Json, JsonValue

_SPACE: Final = " \t\r\n"
_LITERALS: Final = {"t": "true", "f": "false", "n": "null"}
_ESCAPES: Final = '"\\/bfnrtu'
_HEX: Final = "0123456789abcdefABCDEF"


class MalformedJson(ValueError):
    """A text is not JSON; the message is Go's."""


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON text that was read.

    Attributes:
        duplicates: paths of fields that appear again, in the order of their appearance.
    """

    value: JsonValue
    duplicates: tuple[str, ...] = ()


def read_json(text: bytes) -> Document:
    """Read *text*; of a repeated field the last value counts."""
    repeated = False

    def pairs(items: list[tuple[str, JsonValue]]) -> Json:
        nonlocal repeated
        result = dict(items)
        repeated = repeated or len(result) != len(items)
        return result

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise MalformedJson(describe_error(text.decode("utf-8", "replace"))) from None
    return Document(value, tuple(_duplicates(text)) if repeated else ())


def _refuse_constant(name: str) -> JsonValue:
    raise ValueError(name)


def _duplicates(text: bytes) -> Iterator[str]:
    """Yield the paths of repeated fields, outer ones as they are met."""
    yield from _repeated("", json.loads(text, object_pairs_hook=_Pairs))


class _Pairs(list[tuple[str, "JsonValue"]]):
    """An object's members in order, repeated ones too."""


def _repeated(path: str, value: JsonValue) -> Iterator[str]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, item in value:
            where = f"{path}.{name}" if path else name
            if name in seen:
                yield where
            seen.add(name)
            yield from _repeated(where, item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _repeated(f"{path}[{index}]", item)


def describe_error(text: str) -> str:
    """Return what Go says of *text*, which is not JSON."""
    try:
        _Scanner(text).document()
    except MalformedJson as error:
        return str(error)
    return "unexpected end of JSON input"


class _Scanner:
    """Walks through a text until the first character that Go's scanner refuses."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def document(self) -> None:
        self._value("looking for beginning of value")
        self._skip_space()
        if self._at < len(self._text):
            self._refuse("after top-level value")

    def _value(self, context: str) -> None:
        self._skip_space()
        character = self._peek()
        match character:
            case "{":
                self._object()
            case "[":
                self._array()
            case '"':
                self._string()
            case "t" | "f" | "n":
                self._literal(_LITERALS[character])
            case _ if character == "-" or character.isdigit():
                self._number()
            case _:
                self._refuse(context)

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
            self._value("looking for beginning of value")
            self._skip_space()
            if self._peek() == "}":
                self._at += 1
                return
            if self._peek() != ",":
                self._refuse("after object key:value pair")
            self._at += 1

    def _array(self) -> None:
        self._at += 1
        self._skip_space()
        if self._peek() == "]":
            self._at += 1
            return
        while True:
            self._value("looking for beginning of value")
            self._skip_space()
            if self._peek() == "]":
                self._at += 1
                return
            if self._peek() != ",":
                self._refuse("after array element")
            self._at += 1

    def _string(self) -> None:
        self._at += 1
        while (character := self._peek()) != '"':
            if character < " ":
                self._refuse("in string literal")
            self._at += 1
            if character == "\\":
                self._escape()
        self._at += 1

    def _escape(self) -> None:
        if self._peek() not in _ESCAPES:
            self._refuse("in string escape code")
        digits = 4 if self._peek() == "u" else 0
        self._at += 1
        for _ in range(digits):
            if self._peek() not in _HEX:
                self._refuse("in \\u hexadecimal character escape")
            self._at += 1

    def _literal(self, word: str) -> None:
        self._at += 1
        for expected in word[1:]:
            if self._peek() != expected:
                self._refuse(f"in literal {word} (expecting '{expected}')")
            self._at += 1

    def _number(self) -> None:
        if self._peek() == "-":
            self._at += 1
            self._digit("in numeric literal")
        if self._peek_or_end() == "0":
            self._at += 1
        else:
            self._digits()
        if self._peek_or_end() == ".":
            self._at += 1
            self._digit("after decimal point in numeric literal")
            self._digits()
        if self._peek_or_end() in ("e", "E"):
            self._at += 1
            if self._peek() in "+-":
                self._at += 1
            self._digit("in exponent of numeric literal")
            self._digits()

    def _digit(self, context: str) -> None:
        if not self._peek().isdigit():
            self._refuse(context)

    def _digits(self) -> None:
        while self._peek_or_end().isdigit():
            self._at += 1

    def _skip_space(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in _SPACE:
            self._at += 1

    def _peek_or_end(self) -> str:
        return self._text[self._at] if self._at < len(self._text) else ""

    def _peek(self) -> str:
        if self._at >= len(self._text):
            raise MalformedJson("unexpected end of JSON input")
        return self._text[self._at]

    def _refuse(self, context: str) -> None:
        self._peek()
        raise MalformedJson(f"invalid character {quote_character(self._text[self._at])} {context}")


def quote_character(character: str) -> str:
    """Return *character* in single quotes as Go's scanner shows it."""
    if character == "'":
        return r"'\''"
    if character == '"':
        return "'\"'"
    if character.isprintable():
        return f"'{character}'"
    return f"'{character.encode('unicode_escape').decode()}'"
