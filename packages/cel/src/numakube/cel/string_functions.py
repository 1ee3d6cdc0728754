"""Functions of strings: standard ones, cel-go's extension (version 2), patterns, ``format``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import re2

from numakube.cel.bounded_cache import BoundedCache
from numakube.cel.cel_errors import EvaluationError
from numakube.cel.values import CelValue, TypeValue, Uint, no_overload, to_string, type_name
from numakube.errors import InvalidValue
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# Regular expressions of Go, matched by RE2, which has the same syntax and takes linear time.
#
# No pattern makes a match slow, and none becomes big: a compiled pattern takes at most `MAX_BYTES`
# with what it remembers of texts, and those that are kept together `CACHED_BYTES`. Errors are told
# in Go's words; as in Go they quote the part of the pattern that is at fault. What Go takes and
# this refuses is a pattern that needs more memory.


MAX_BYTES: Final = 1 << 20
CACHED_BYTES: Final = 32 << 20
_USUAL_BYTES: Final = 1 << 17
"""What is enough for nearly every pattern."""
_MAX_DEPTH: Final = 1000
"""How deep Go lets groups be nested."""
_MAX_REPEATS: Final = 100_000
"""The sum of all repetitions in a pattern; far more than fit into `MAX_BYTES`."""

_REPEATS: Final = re.compile(r"\{([0-9]+)(?:,([0-9]*))?\}")
_MAX_COUNT: Final = 1000
_ENDLESS_COUNT: Final = re.compile(r"\{(?:[0-9]+,)?[1-9][0-9]{9,}(?:,[0-9]*)?\}")
"""Counts that are longer than RE2's own integers, so that it takes them for text."""
_TOO_LARGE: Final = "expression too large"
_RE2_TOO_LARGE: Final = b"pattern too large - compile failed"
_MOST_INSTRUCTIONS: Final = MAX_BYTES // 96
"""How many RE2 compiles within `MAX_BYTES` before it gives up: two thirds of a quarter of it."""
_ESCAPED: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\(.)", re.DOTALL)
_GO_WORDS: Final = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression: ",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    _RE2_TOO_LARGE.decode(): f"{_TOO_LARGE}: ",
}
"""What RE2 says of a pattern that cannot be used, and what Go says."""


class Pattern:
    """A pattern that finds what Go's would.

    Attributes:
        size: the number of its instructions; a match takes at most so many steps a byte.
        bytes: the memory that it takes at most.
    """

    def __init__(self, text: str) -> None:
        """Compile *text*.

        Raises:
            InvalidValue: Go refuses it, or it needs too much memory.
        """
        _check(text)
        self.bytes = _USUAL_BYTES
        try:
            try:
                self._compiled: Any = _compile(text, _USUAL_BYTES)
            except re2.error as error:
                if not error.args[0].startswith(_RE2_TOO_LARGE):
                    raise
                self.bytes = MAX_BYTES
                self._compiled = _compile(text, MAX_BYTES)
        except re2.error as error:
            raise InvalidValue(_in_go_words(error.args[0])) from None
        self.size = int(self._compiled.programsize)

    def is_in(self, text: str) -> bool:
        """Tell whether a part of *text* matches."""
        return self._compiled.search(text.encode(errors="replace")) is not None

    def first(self, text: str) -> str | None:
        """Return the first part of *text* that matches; None if none does."""
        found = self._compiled.search(text.encode(errors="replace"))
        return None if found is None else str(found.group().decode())

    def all(self, text: str) -> list[str]:
        """Return the parts of *text* that match, one after the other.

        As in Go, nothing is found right behind a match except a match that is not empty.
        """
        parts: list[str] = []
        end = -1
        for found in self._compiled.finditer(text.encode(errors="replace").decode()):
            if found.start() < found.end() or found.start() != end:
                parts.append(found.group())
            end = found.end()
        return parts


_PATTERNS: Final = BoundedCache(Pattern, weigh=lambda _, one: one.bytes, most=CACHED_BYTES)


def compiled(text: str) -> Pattern:
    """Return the pattern that finds what Go's would; raise `InvalidValue` if it cannot be used."""
    return _PATTERNS.get(text)


def compiled_size(text: str) -> int:
    """Return how many instructions the pattern *text* is compiled to; of one that is refused, most.

    It bounds what compiling and matching takes.
    """
    try:
        return compiled(text).size
    except InvalidValue as error:
        return _MOST_INSTRUCTIONS if _TOO_LARGE in str(error) else 1


def repeats_of(text: str) -> int:
    """Return about how often the pattern *text* repeats its parts: what compiling it takes."""
    counts = (most or least for least, most in _REPEATS.findall(text))
    return sum(min(int(count[:9]), _MAX_COUNT) for count in counts)


def _compile(text: str, max_bytes: int) -> Any:  # noqa: ANN401
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = max_bytes
    try:
        return re2.compile(text.encode(errors="replace"), options)
    finally:
        # `compiled` keeps patterns; those that the library keeps besides are not needed.
        re2.purge()


def _check(text: str) -> None:
    """Refuse what Go refuses and RE2 does not, and what is too big to be compiled at all."""
    if any(escape == "C" for escape in _ESCAPED.findall(text)):
        raise _refused("invalid escape sequence", r"\C")
    if text.count("(") > _MAX_DEPTH and _depth(text) > _MAX_DEPTH:
        raise _refused("expression nests too deeply", text)
    if "{" in text and (found := _ENDLESS_COUNT.search(_ESCAPED.sub("", text))):
        raise _refused("invalid repeat count", found.group())
    if repeats_of(text) > _MAX_REPEATS:
        raise _refused(_TOO_LARGE, text)


def _depth(text: str) -> int:
    """Return how deep groups are nested in *text*."""
    depth = deepest = 0
    for char in _ESCAPED.sub("", text):
        depth += (char == "(") - (char == ")")
        deepest = max(deepest, depth)
    return deepest


def _refused(reason: str, part: str) -> InvalidValue:
    return InvalidValue(f"error parsing regexp: {reason}: `{part}`")


def _in_go_words(message: bytes) -> str:
    reason, _, part = message.decode(errors="replace").partition(": ")
    words = _GO_WORDS.get(reason, reason)
    return str(_refused(words.removesuffix(": "), part))


def _both_texts(one: CelValue, other: CelValue) -> None:
    if not (isinstance(one, str) and isinstance(other, str)):
        raise no_overload()


def contains(text: CelValue, part: CelValue) -> bool:
    """Tell whether *part* occurs in *text*."""
    _both_texts(text, part)
    return part in text


def starts_with(text: CelValue, part: CelValue) -> bool:
    """Tell whether *text* begins with *part*."""
    _both_texts(text, part)
    return bool(text.startswith(part))


def ends_with(text: CelValue, part: CelValue) -> bool:
    """Tell whether *text* ends with *part*."""
    _both_texts(text, part)
    return bool(text.endswith(part))


def matches(text: CelValue, pattern: CelValue) -> bool:
    """Tell whether *pattern* is found in *text*."""
    _both_texts(text, pattern)
    try:
        return compiled(pattern).is_in(text)
    except InvalidValue as error:
        raise EvaluationError(str(error)) from None


def find_match(text: str, pattern: str) -> str:
    """The first part of *text* that matches; empty if none does."""
    try:
        return compiled(pattern).first(text) or ""
    except InvalidValue as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def find_matches(text: str, pattern: str, limit: int = -1) -> list[str]:
    """The parts of *text* that match, *limit* at most."""
    try:
        found = compiled(pattern).all(text)
    except InvalidValue as error:
        raise EvaluationError(f"Illegal regex: {error}") from None
    return found if limit < 0 else found[:limit]


def _in_range(index: int, length: int) -> int:
    if not 0 <= index <= length:
        raise EvaluationError(f"index out of range: {index}")
    return index


def index_of(text: str, part: str, start: int = 0) -> int:
    """Where *part* first occurs from *start* on; -1 if nowhere."""
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    if not part:
        return min(start, len(text))
    return text.find(part, start)


def last_index_of(text: str, part: str, end: int | None = None) -> int:
    """Where *part* last occurs, beginning at *end* at the latest; -1 if nowhere."""
    if end is None:
        return text.rfind(part)
    if end < 0:
        raise EvaluationError(f"index out of range: {end}")
    if not part:
        return min(end, len(text))
    return -1 if end >= len(text) else text.rfind(part, 0, end + len(part))


def substring(text: str, start: int, end: int | None = None) -> str:
    """The part of *text* from *start* to *end*."""
    if end is None:
        return text[_in_range(start, len(text)) :]
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    return text[_in_range(start, len(text)) : _in_range(end, len(text))]


def char_at(text: str, index: int) -> str:
    """The character at *index*; empty at the end."""
    index = _in_range(index, len(text))
    return text[index : index + 1]


def split_text(text: str, separator: str, limit: int = -1) -> list[str]:
    """Cut *text* at every *separator*, into *limit* parts at most."""
    if limit == 0:
        return []
    if not separator:
        rest = [] if limit < 0 or limit > len(text) else [text[limit - 1 :]]
        return [*(text[: limit - 1] if rest else text), *rest]
    return text.split(separator) if limit < 0 else text.split(separator, limit - 1)


def replace_text(text: str, old: str, new: str, limit: int = -1) -> str:
    """Put *new* for *old*, *limit* times at most."""
    return text.replace(old, new, max(limit, -1))


def joined(items: list[CelValue], separator: str = "") -> str:
    """The strings of *items* with *separator* between them."""
    for item in items:
        if not isinstance(item, str):
            raise EvaluationError(f"join: invalid input: {item}")
    return separator.join(items)


def on_ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    """Return what changes the ASCII letters of a text."""

    def apply(text: str) -> str:
        return "".join(change(char) if char.isascii() else char for char in text)

    return apply


def trim(text: str) -> str:
    """Return *text* without the space around it."""
    return text.strip()


_QUOTED = str.maketrans(
    {
        "\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t",
        "\v": r"\v", "\\": r"\\", '"': r"\"",
    }
)  # fmt: skip


def quoted(text: str) -> str:
    """Return *text* in quotes, with escapes for control characters."""
    return f'"{text.translate(_QUOTED)}"'


# ``"%s is %d".format([...])``: what each clause prints, as cel-go's strings extension version 2.
#
# Floating point numbers are grouped by thousands, as its default locale ``en_US`` does.


DEFAULT_PRECISION: Final = 6
_PRECISION_DIGITS: Final = 18
_SUPERSCRIPTS: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")


@dataclass(frozen=True, slots=True)
class PrintedArgument:
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


def template_pieces(template: str, count: int) -> Iterator[str | PrintedArgument]:
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


def _clause(rest: str, index: int, count: int) -> tuple[PrintedArgument, int]:
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
    return PrintedArgument(letter, precision), length + 1


def _printed(clause: PrintedArgument, value: CelValue) -> str:
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
