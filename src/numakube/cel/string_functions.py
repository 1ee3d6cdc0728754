"""Functions of strings: standard ones, cel-go's extension (version 2), and Kubernetes' regex."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.cel.cel_errors import EvaluationError
from numakube.cel.regular_expressions import compiled
from numakube.cel.values import no_overload
from numakube.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.cel.values import CelValue


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
