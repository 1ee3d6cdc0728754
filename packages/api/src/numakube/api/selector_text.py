"""Label selectors in their text form, parsed and written as kube-apiserver does.

The parser keeps the real one's oddities, since its messages reach users: an empty value list is one
empty value, ``in`` is also a fine label value, ``a>=1`` fails at ``=``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, aggregate, invalid
from numakube.api.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    GREATER,
    IN,
    LESS,
    NOT_IN,
    Requirement,
    Selector,
    as_int64,
)
from numakube.errors import InvalidValue
from numakube.values.names import label_value, qualified_name

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPERATORS: Final = {
    "=": "=", "==": "==", "!=": "!=", "in": IN, "notin": NOT_IN, ">": GREATER, "<": LESS,
}  # fmt: skip
_WRITTEN: Final = {operator: text for text, operator in _OPERATORS.items()}
_LISTED_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"
_LEXEME: Final = re.compile(r"\s*(?:(==|!=|[=!(),<>])|([^=!(),<>\s]+))")

END: Final = ""


class _Malformed(Exception):
    """The text is not a selector."""


def parse_label_selector(text: str) -> Selector:
    """Parse the value of a ``labelSelector`` parameter, or of kubectl's ``-l``.

    Raises:
        InvalidValue: with kube-apiserver's message.
    """
    try:
        return Selector(tuple(_SelectorParser(text).requirements()))
    except _Malformed as error:
        raise InvalidValue(str(error)) from None


def selector_text(selector: Selector) -> str:
    """Return a selector as it is written in a query parameter."""
    return ",".join(map(_requirement_text, selector.requirements or ()))


def _requirement_text(requirement: Requirement) -> str:
    key, values = requirement.key, ",".join(sorted(requirement.values))
    match requirement.operator:
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case "In" | "NotIn" as operator:
            return f"{key} {_WRITTEN[operator]} ({values})"
        case operator:
            return f"{key}{_WRITTEN[operator]}{values}"


class _SelectorParser:
    def __init__(self, text: str) -> None:
        self._lexemes: list[str] = [symbol or word for symbol, word in _LEXEME.findall(text)] + [
            END
        ]
        self._position = 0

    def requirements(self) -> Iterator[Requirement]:
        while (lexeme := self._peek()) != END:
            if not (_is_word(lexeme) or lexeme == "!"):
                raise _Malformed(f"found '{lexeme}', expected: !, identifier, or 'end of string'")
            yield self._requirement()
            self._separator()

    def _separator(self) -> None:
        lexeme = self._take()
        if lexeme not in (END, ","):
            raise _Malformed(f"found '{lexeme}', expected: ',' or 'end of string'")
        if lexeme == "," and not (_is_word(following := self._peek()) or following == "!"):
            raise _Malformed(f"found '{following}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        try:
            requirement = self._condition()
        except _Malformed as error:
            raise _Malformed(f"unable to parse requirement: {error}") from None
        errors = list(_check(requirement))
        if errors:
            raise _Malformed(f"unable to parse requirement: {aggregate(errors)}")
        return requirement

    def _condition(self) -> Requirement:
        negated = self._peek() == "!"
        if negated:
            self._take()
        key = self._take()
        if not _is_word(key):
            raise _Malformed(f"found '{key}', expected: identifier")
        if problems := qualified_name(key):
            raise _Malformed(str(invalid("<nil>", key, "; ".join(problems))))
        if self._peek() in (END, ","):
            return Requirement(key, DOES_NOT_EXIST if negated else EXISTS)
        operator = self._take()
        if operator not in _OPERATORS:
            raise _Malformed(f"found '{operator}', expected: {_LISTED_OPERATORS}")
        values = self._values() if operator in ("in", "notin") else self._exact_value()
        return Requirement(key, _OPERATORS[operator], frozenset(values))

    def _values(self) -> set[str]:
        if (lexeme := self._take()) != "(":
            raise _Malformed(f"found '{lexeme}' expected: '('")
        first = self._peek()
        if first == ")":
            self._take()
            return {""}
        if not (_is_word(first) or first == ","):
            raise _Malformed(f"found '{first}', expected: ',', ')' or identifier")
        values = self._identifiers()
        if self._take() != ")":
            raise _Malformed(f"found '{first}', expected: ')'")
        return values

    def _identifiers(self) -> set[str]:
        values: set[str] = set()
        while True:
            lexeme = self._take()
            following = self._peek()
            if _is_word(lexeme):
                values.add(lexeme)
                if following == ")":
                    return values
                if following != ",":
                    raise _Malformed(f"found '{following}', expected: ',' or ')'")
            elif lexeme == ",":
                if not values or following in (")", ","):
                    values.add("")
                if following == ")":
                    return values
            else:
                raise _Malformed(f"found '{lexeme}', expected: ',', or identifier")

    def _exact_value(self) -> set[str]:
        if self._peek() in (END, ","):
            return {""}
        lexeme = self._take()
        if not _is_word(lexeme):
            raise _Malformed(f"found '{lexeme}', expected: identifier")
        return {lexeme}

    def _peek(self) -> str:
        return self._lexemes[self._position]

    def _take(self) -> str:
        lexeme = self._lexemes[self._position]
        if lexeme != END:
            self._position += 1
        return lexeme


def _is_word(lexeme: str) -> bool:
    return lexeme != END and lexeme[0] not in "=!(),<>"


def _check(requirement: Requirement) -> Iterator[FieldError]:
    for index, value in enumerate(sorted(requirement.values)):
        if requirement.operator in (GREATER, LESS) and as_int64(value) is None:
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            yield invalid(f"values[{index}]", value, detail)
        if problems := label_value(value):
            where = f"values[{index}][{requirement.key}]"
            yield invalid(where, value, "; ".join(problems))
