"""One thing that is wrong with one field of an object, worded as kube-apiserver words it.

A rejected object is answered with a list of these: each becomes one entry of the ``details.causes``
of the 422 answer, and all of them together make its message. The wording of values follows Go:
strings are quoted, numbers and booleans printed plainly, everything else as compact JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from numakube.values.gotext import go_json, go_number, go_quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class ErrorType(StrEnum):
    """What is wrong; the value is the ``reason`` of a cause."""

    NOT_FOUND = "FieldValueNotFound"
    REQUIRED = "FieldValueRequired"
    DUPLICATE = "FieldValueDuplicate"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TYPE_INVALID = "FieldValueTypeInvalid"


_TITLES: Final = {
    ErrorType.NOT_FOUND: "Not found",
    ErrorType.REQUIRED: "Required value",
    ErrorType.DUPLICATE: "Duplicate value",
    ErrorType.INVALID: "Invalid value",
    ErrorType.NOT_SUPPORTED: "Unsupported value",
    ErrorType.FORBIDDEN: "Forbidden",
    ErrorType.TOO_LONG: "Too long",
    ErrorType.TOO_MANY: "Too many",
    ErrorType.TYPE_INVALID: "Invalid value",
}

_WITHOUT_VALUE: Final = frozenset({ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG})


class _Omit:
    """Type of `OMIT`."""


OMIT: Final = _Omit()
"""The value of an error whose message does not show one."""


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A value that is printed as it stands, such as the dump of a Go struct."""

    text: str


@dataclass(frozen=True, slots=True)
class FieldError:
    """Why the field at path *field* (``spec.containers[0].name``) is refused."""

    type: ErrorType
    field: str
    detail: str = ""
    value: Any = OMIT

    @property
    def body(self) -> str:
        """The message without the field, as in a cause."""
        text = _TITLES[self.type]
        if self.type not in _WITHOUT_VALUE and not isinstance(self.value, _Omit):
            text += f": {format_value(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    def __str__(self) -> str:
        return f"{self.field}: {self.body}"


def required(field: str, detail: str = "") -> FieldError:
    """A value is missing."""
    return FieldError(ErrorType.REQUIRED, field, detail)


def invalid(field: str, value: object, detail: str) -> FieldError:
    """A value is malformed."""
    return FieldError(ErrorType.INVALID, field, detail, value)


def type_invalid(field: str, value: object, detail: str) -> FieldError:
    """A value has not the type that the schema asks for."""
    return FieldError(ErrorType.TYPE_INVALID, field, detail, value)


def forbidden(field: str, detail: str) -> FieldError:
    """A value is well-formed but not permitted here."""
    return FieldError(ErrorType.FORBIDDEN, field, detail)


def duplicate(field: str, value: object) -> FieldError:
    """A value that must be unique appears again."""
    return FieldError(ErrorType.DUPLICATE, field, "", value)


def not_found(field: str, value: object) -> FieldError:
    """A value refers to something that does not exist."""
    return FieldError(ErrorType.NOT_FOUND, field, "", value)


def not_supported(field: str, value: object, supported: Sequence[str]) -> FieldError:
    """A value that an enumeration lacks; *supported* is listed in the order given."""
    known = ", ".join(go_quote(v) for v in supported)
    return FieldError(
        ErrorType.NOT_SUPPORTED, field, f"supported values: {known}" if known else "", value
    )


def too_long(field: str, maximum: int) -> FieldError:
    """A text has more than *maximum* bytes."""
    unit = "byte" if maximum == 1 else "bytes"
    return FieldError(ErrorType.TOO_LONG, field, f"may not be more than {maximum} {unit}")


def too_many(field: str, actual: int, maximum: int) -> FieldError:
    """A list has more than *maximum* items."""
    unit = "item" if maximum == 1 else "items"
    return FieldError(ErrorType.TOO_MANY, field, f"must have at most {maximum} {unit}", actual)


def format_value(value: object) -> str:
    """Return *value* as it is shown in a message."""
    match value:
        case Verbatim(text):
            return text
        case str():
            return go_quote(value)
        case bool():
            return "true" if value else "false"
        case int() | float():
            return go_number(value)
        case _:
            return go_json(value)


def aggregate(errors: Iterable[object]) -> str:
    """Return the texts of *errors* as one message; a text that repeats is shown once."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def invalids(path: str, value: object, details: Iterable[str]) -> list[FieldError]:
    """Return one error for each of *details* of what is wrong with *value*."""
    return [invalid(path, value, detail) for detail in details]
