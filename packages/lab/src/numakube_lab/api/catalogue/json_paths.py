"""The JSON paths of printer columns: the subset of kubectl's that definitions may use.

A path is a chain of ``.name``, ``['name']``, ``[index]``, ``[start:end]``, ``[*]`` and
``[?(@.name=="value")]``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube_lab.kinds import JsonValue

_STEP: Final = re.compile(
    r"""
    \.(?P<name>(?:\\.|[^.\[\\])+)
    | \[(?P<quote>['"])(?P<key>.*?)(?P=quote)\]
    | \[(?P<index>-?\d+)\]
    | \[(?P<start>-?\d*):(?P<end>-?\d*)\]
    | (?P<all>\[\*\]|\.\*)
    | \[\?\(\s*@(?P<path>[^=!<>]*?)\s*(?:(?P<operator>==|!=|<=|>=|<|>)\s*(?P<value>.*?))?\s*\)\]
    """,
    re.VERBOSE,
)

Step: TypeAlias = Callable[["JsonValue"], "Iterator[JsonValue]"]


class MalformedPath(InvalidValue):
    """The text is not a path."""


@lru_cache(maxsize=1024)
def parse_path(text: str) -> tuple[Step, ...]:
    """Parse a path such as ``.spec.items[0].name``."""
    steps: list[Step] = []
    position = 0
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            raise MalformedPath(f"cannot understand {text[position:]!r}")
        steps.append(_step(found))
        position = found.end()
    return tuple(steps)


def find(path: str, document: JsonValue) -> list[JsonValue]:
    """Return the values that *path* names in *document*."""
    values: Iterable[JsonValue] = [document]
    for step in parse_path(path):
        values = [result for value in values for result in step(value)]
    return list(values)


def _step(found: re.Match[str]) -> Step:
    if found["all"]:
        return _members
    if found["name"] is not None:
        return _member(re.sub(r"\\(.)", r"\1", found["name"]))
    if found["key"] is not None:
        return _member(found["key"])
    if found["index"] is not None:
        return _element(int(found["index"]))
    if found["start"] is not None:
        return _slice(found["start"], found["end"])
    return _filter(found["path"], found["operator"], found["value"])


def _members(value: JsonValue) -> Iterator[JsonValue]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict):
        yield from value.values()


def _member(name: str) -> Step:
    def step(value: JsonValue) -> Iterator[JsonValue]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _element(index: int) -> Step:
    def step(value: JsonValue) -> Iterator[JsonValue]:
        if isinstance(value, list) and -len(value) <= index < len(value):
            yield value[index]

    return step


def _slice(start: str, end: str) -> Step:
    bounds = slice(int(start) if start else None, int(end) if end else None)

    def step(value: JsonValue) -> Iterator[JsonValue]:
        if isinstance(value, list):
            yield from value[bounds]

    return step


def _filter(path: str, operator: str | None, text: str | None) -> Step:
    wanted = _literal(text or "")

    def step(value: JsonValue) -> Iterator[JsonValue]:
        for item in value if isinstance(value, list) else ():
            results = find(path, item)
            if results and (operator is None or _compare(results[0], operator, wanted)):
                yield item

    return step


def _literal(text: str) -> JsonValue:
    if text[:1] in ("'", '"') and text[-1:] == text[:1]:
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text


def _compare(value: JsonValue, operator: str, wanted: JsonValue) -> bool:
    if operator in ("==", "!="):
        return bool(value == wanted) == (operator == "==")
    try:
        less, equal = value < wanted, value == wanted
    except TypeError:
        return False
    return bool(
        {"<": less, "<=": less or equal, ">": not (less or equal), ">=": not less}[operator]
    )
