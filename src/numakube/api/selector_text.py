"""Label selectors in their text form, parsed and matched as kube-apiserver does.

The parser keeps the real one's oddities, since its messages reach users: an empty value list is one
empty value, ``in`` is also a fine label value, ``a>=1`` fails at ``=``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.api.field_errors import FieldError, aggregate, invalid
from numakube.errors import InvalidValue
from numakube.values.names import label_value, qualified_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_OPERATORS: Final = ("=", "==", "!=", "in", "notin", ">", "<")
_LISTED_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"
_LEXEME: Final = re.compile(r"\s*(?:(==|!=|[=!(),<>])|([^=!(),<>\s]+))")
_INTEGER: Final = re.compile(r"[+-]?\d+")

END: Final = ""


class _Malformed(Exception):
    """The text is not a selector."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on a label."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether an object with *labels* fulfils this."""
        value = labels.get(self.key)
        match self.operator:
            case "=" | "==" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case _:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        if value is None or not _INTEGER.fullmatch(value):
            return False
        bound = int(self.values[0])
        return int(value) > bound if self.operator == ">" else int(value) < bound


LabelSelector: TypeAlias = tuple[Requirement, ...]


def matches(selector: LabelSelector, labels: Mapping[str, str] | None) -> bool:
    """Tell whether an object with *labels* fulfils every requirement."""
    return all(requirement.matches(labels or {}) for requirement in selector)


def parse_label_selector(text: str) -> LabelSelector:
    """Parse the value of a ``labelSelector`` parameter, or of kubectl's ``-l``.

    Raises:
        InvalidValue: with kube-apiserver's message.
    """
    try:
        return tuple(_Parser(text).requirements())
    except _Malformed as error:
        raise InvalidValue(str(error)) from None


def selector_text(selector: LabelSelector) -> str:
    """Return a selector as it is written in a query parameter."""
    return ",".join(_requirement_text(requirement) for requirement in selector)


def _requirement_text(requirement: Requirement) -> str:
    match requirement.operator:
        case "exists":
            return requirement.key
        case "!":
            return f"!{requirement.key}"
        case "in" | "notin":
            return f"{requirement.key} {requirement.operator} ({','.join(requirement.values)})"
        case _:
            return f"{requirement.key}{requirement.operator}{requirement.values[0]}"


class _Parser:
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
            return Requirement(key, "!" if negated else "exists")
        operator = self._take()
        if operator not in _OPERATORS:
            raise _Malformed(f"found '{operator}', expected: {_LISTED_OPERATORS}")
        values = self._values() if operator in ("in", "notin") else self._exact_value()
        return Requirement(key, operator, tuple(sorted(values)))

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
    for index, value in enumerate(requirement.values):
        if requirement.operator in "<>" and not _INTEGER.fullmatch(value):
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            yield invalid(f"values[{index}]", value, detail)
        if problems := label_value(value):
            where = f"values[{index}][{requirement.key}]"
            yield invalid(where, value, "; ".join(problems))
