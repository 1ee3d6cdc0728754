"""Functions of strings and lists."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from numakube_lab.schema.cel.arithmetic import add
from numakube_lab.schema.cel.cel_errors import EvaluationError
from numakube_lab.schema.cel.values import compare, equal, no_overload

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube_lab.schema.cel.values import CelValue


@lru_cache(maxsize=512)
def compiled(text: str) -> re.Pattern[str]:
    """Compile a pattern."""
    try:
        return re.compile(text.replace(r"\z", r"\Z"), re.ASCII)
    except re.error as error:
        raise EvaluationError(f"error parsing regexp: {error}") from None


def require_text(*values: CelValue) -> None:
    """Raise unless all are strings."""
    if not all(isinstance(value, str) for value in values):
        raise no_overload()


def matches(text: CelValue, pattern: CelValue) -> bool:
    """Tell whether *pattern* is found in *text*."""
    require_text(text, pattern)
    return compiled(pattern).search(text) is not None


def index_of(text: CelValue, part: CelValue, start: int = 0) -> int:
    """Where *part* first occurs in a text or a list; -1 if nowhere."""
    if isinstance(text, list):
        return next((i for i, item in enumerate(text) if equal(item, part)), -1)
    require_text(text, part)
    if not 0 <= start <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    return int(text.find(part, start))


def last_index_of(text: CelValue, part: CelValue, end: int | None = None) -> int:
    """Where *part* last occurs in a text or a list; -1 if nowhere."""
    if isinstance(text, list):
        return max((i for i, item in enumerate(text) if equal(item, part)), default=-1)
    require_text(text, part)
    return int(text.rfind(part) if end is None else text.rfind(part, 0, end + len(part)))


def substring(text: CelValue, start: int, end: int | None = None) -> str:
    """The part of *text* from *start* to *end*."""
    require_text(text)
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise EvaluationError(
            f"index out of range: {start if not 0 <= start <= len(text) else stop}"
        )
    return str(text[start:stop])


def char_at(text: CelValue, index: int) -> str:
    """The character at *index*; empty at the end."""
    require_text(text)
    if not 0 <= index <= len(text):
        raise EvaluationError(f"index out of range: {index}")
    return str(text[index : index + 1])


def split_text(text: str, separator: str, limit: int = -1) -> list[str]:
    """Cut *text* at every *separator*, into *limit* parts at most."""
    require_text(text, separator)
    if limit == 0:
        return []
    if not separator:
        return list(text) if limit < 0 else [*text[: limit - 1], text[limit - 1 :]]
    return text.split(separator) if limit < 0 else text.split(separator, limit - 1)


def replace_text(text: str, old: str, new: str, limit: int = -1) -> str:
    """Put *new* for *old*, *limit* times at most."""
    require_text(text, old, new)
    return text.replace(old, new, limit)


def find_match(text: str, pattern: str) -> str:
    """The first part of *text* that matches; empty if none does."""
    require_text(text, pattern)
    found = compiled(pattern).search(text)
    return found.group() if found else ""


def find_matches(text: str, pattern: str, limit: int = -1) -> list[str]:
    """The parts of *text* that match, *limit* at most."""
    require_text(text, pattern)
    found = [match.group() for match in compiled(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


def extreme(items: list[CelValue], sign: int) -> CelValue:
    """The smallest element if *sign* is negative, else the greatest."""
    if not items:
        raise EvaluationError(
            "min called on empty list" if sign < 0 else "max called on empty list"
        )
    best = items[0]
    for item in items[1:]:
        if compare(item, best) == sign:
            best = item
    return best


def total(items: list[CelValue]) -> CelValue:
    """The sum of *items*."""
    total: CelValue = 0 if not items else items[0]
    for item in items[1:]:
        total = add(total, item)
    return total


def on_ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    """Return what changes the ASCII letters of a text."""

    def apply(text: str) -> str:
        require_text(text)
        return "".join(change(char) if char.isascii() else char for char in text)

    return apply


def contains(text: str, part: str) -> bool:
    """Tell whether *part* occurs in *text*."""
    require_text(text, part)
    return part in text


def starts_with(text: str, part: str) -> bool:
    """Tell whether *text* begins with *part*."""
    require_text(text, part)
    return text.startswith(part)


def ends_with(text: str, part: str) -> bool:
    """Tell whether *text* ends with *part*."""
    require_text(text, part)
    return text.endswith(part)


def trim(text: str) -> str:
    """Return *text* without the space around it."""
    require_text(text)
    return text.strip()


def is_sorted(items: list[CelValue]) -> bool:
    """Tell whether no element is followed by a smaller one."""
    return all(compare(one, other) <= 0 for one, other in pairwise(items))
