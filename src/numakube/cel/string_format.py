"""``"%s is %d".format([...])``: what each clause prints, as cel-go's strings extension version 2.

Floating point numbers are grouped by thousands, as its default locale ``en_US`` does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from numakube.cel.cel_errors import EvaluationError
from numakube.cel.type_conversions import to_string
from numakube.cel.values import CelValue, TypeValue, Uint, type_name
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEFAULT_PRECISION: Final = 6
_PRECISION_DIGITS: Final = 18
_SUPERSCRIPTS: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")


@dataclass(frozen=True, slots=True)
class Clause:
    """A place in a template that an argument is printed at."""

    letter: str
    precision: int | None


def formatted(template: str, args: list[CelValue]) -> str:
    """Return *template* with its clauses replaced by *args*."""
    values = iter(args)
    pieces = template_pieces(template, len(args))
    return "".join(
        piece if isinstance(piece, str) else _printed(piece, next(values)) for piece in pieces
    )


def template_pieces(template: str, count: int) -> Iterator[str | Clause]:
    """Yield the text and the clauses of *template*, for which there are *count* arguments."""
    used = at = 0
    while at < len(template):
        if template[at] != "%":
            end = template.find("%", at)
            yield template[at : end if end >= 0 else None]
            at = end if end >= 0 else len(template)
        elif template.startswith("%%", at):
            yield "%"
            at += 2
        else:
            clause, length = _clause(template[at + 1 :], used, count)
            yield clause
            at += 1 + length
            used += 1


def _clause(rest: str, index: int, count: int) -> tuple[Clause, int]:
    if index >= count:
        raise EvaluationError(f"index {index} out of range")
    if not rest:
        raise EvaluationError("unexpected end of string")
    precision, length = _precision(rest)
    letter = rest[length]
    if letter not in _CLAUSES:
        raise EvaluationError(
            f'could not parse formatting clause: unrecognized formatting clause "{letter}"'
        )
    return Clause(letter, precision), length + 1


def _printed(clause: Clause, value: CelValue) -> str:
    try:
        return _CLAUSES[clause.letter](value, clause.precision)
    except EvaluationError as error:
        raise EvaluationError(f"error during formatting: {error}") from None


def _precision(rest: str) -> tuple[int | None, int]:
    if not rest.startswith("."):
        return None, 0
    digits = rest[1 : len(rest) - len(rest[1:].lstrip("0123456789"))]
    problem = "could not parse formatting clause: error while parsing precision: "
    if 1 + len(digits) >= len(rest):
        raise EvaluationError(f"{problem}could not find end of precision specifier")
    if not digits:
        what = "error while converting precision to integer"
        raise EvaluationError(f'{problem}{what}: strconv.Atoi: parsing "": invalid syntax')
    if len(digits) > _PRECISION_DIGITS:
        what = "error while converting precision to integer"
        raise EvaluationError(
            f"{problem}{what}: strconv.Atoi: parsing {go_quote(digits)}: value out of range"
        )
    return int(digits), 1 + len(digits)


def _text(value: CelValue, precision: int | None = None) -> str:
    match value:
        case list():
            return f"[{', '.join(_quoted(item) for item in value)}]"
        case dict():
            pairs = sorted((_key(key), _quoted(item)) for key, item in value.items())
            return f"{{{', '.join(f'{key}:{item}' for key, item in pairs)}}}"
        case None:
            return "null"
        case TypeValue():
            return value.name
        case bool() | int() | float() | str() | bytes() | datetime() | timedelta():
            return to_string(value)
        case _:
            raise EvaluationError(
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, "
                f"lists, types, durations, and timestamps, was given {type_name(value)}"
            )


def _key(key: CelValue) -> str:
    if isinstance(key, str):
        return go_quote(key)
    return to_string(key)


def _quoted(value: CelValue) -> str:
    match value:
        case str():
            return go_quote(value)
        case bytes():
            return f"b{go_quote(to_string(value))}"
        case float():
            text = f"{value:.6f}" if math.isfinite(value) else to_string(value)
            return text if math.isfinite(value) else go_quote(text)
        case datetime():
            return f"timestamp({go_quote(to_string(value))})"
        case timedelta():
            return f"duration({go_quote(to_string(value))})"
        case None | bool() | int() | list() | dict() | TypeValue():
            return _text(value)
        case _:
            raise EvaluationError(f"no formatting function for {type_name(value)}")


def _is_int(value: CelValue) -> bool:
    return isinstance(value, int | Uint) and not isinstance(value, bool)


def _integer(value: CelValue, precision: int | None) -> str:
    if not _is_int(value):
        raise EvaluationError(
            f"decimal clause can only be used on integers, was given {type_name(value)}"
        )
    return str(int(value))


def _double(value: CelValue, clause: str) -> float:
    if isinstance(value, str) and value in _NOT_FINITE:
        return float(value)
    if not isinstance(value, float):
        raise EvaluationError(
            f"{clause} clause can only be used on doubles, was given {type_name(value)}"
        )
    return value


def _fixed(value: CelValue, precision: int | None) -> str:
    number = _double(value, "fixed-point")
    if not math.isfinite(number):
        return _special(number)
    return f"{number:,.{DEFAULT_PRECISION if precision is None else precision}f}"


def _special(number: float) -> str:
    return "NaN" if math.isnan(number) else ("∞" if number > 0 else "-∞")


def _scientific(value: CelValue, precision: int | None) -> str:
    number = _double(value, "scientific")
    if not math.isfinite(number):
        return _special(number)
    mantissa, _, exponent = f"{number:.6e}".partition("e")
    power = f"{int(exponent):03d}" if int(exponent) < 0 else f"{int(exponent):02d}"
    text = f"{mantissa}\u00d710{power.translate(_SUPERSCRIPTS)}"
    return text.rjust(DEFAULT_PRECISION if precision is None else precision)


def _binary(value: CelValue, precision: int | None) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if not _is_int(value):
        raise EvaluationError(
            f"only integers and bools can be formatted as binary, was given {type_name(value)}"
        )
    return f"{int(value):b}"


def _octal(value: CelValue, precision: int | None) -> str:
    if not _is_int(value):
        raise EvaluationError(
            f"octal clause can only be used on integers, was given {type_name(value)}"
        )
    return f"{int(value):o}"


def _hex(value: CelValue, precision: int | None) -> str:
    if isinstance(value, str):
        return value.encode().hex()
    if isinstance(value, bytes):
        return value.hex()
    if not _is_int(value):
        raise EvaluationError(
            "only integers, byte buffers, and strings can be formatted as hex, was given "
            f"{type_name(value)}"
        )
    return f"{int(value):x}"


_CLAUSES: Final[dict[str, Callable[[Any, int | None], str]]] = {
    "s": _text,
    "d": _integer,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "o": _octal,
    "x": _hex,
    "X": lambda value, precision: _hex(value, precision).upper(),
}
