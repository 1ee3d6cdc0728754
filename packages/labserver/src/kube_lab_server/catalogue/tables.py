"""Tables: what ``kubectl get`` prints of objects.

The JSON paths of printer columns: the subset of kubectl's that definitions may use. A path is a
chain of ``.name``, ``['name']``, ``[index]``, ``[start:end]``, ``[*]`` and
``[?(@.name=="value")]``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from kube_lab_server.kinds.table_columns import Row, Table, human_age
from numakube.errors import InvalidValue
from numakube.values.gotext import go_json, go_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


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


NAME_DESCRIPTION: Final = (
    "Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically."
)
CREATED_DESCRIPTION: Final = (
    "CreationTimestamp is a timestamp representing the server time when this object was created."
)


class Columns(Protocol):
    """What is shown of objects of a kind."""

    def definitions(self) -> list[Json]:
        """Return the columns."""
        ...

    def row(self, obj: Json, now: datetime) -> Row:
        """Return what is shown of *obj*."""
        ...


def definition(
    name: str,
    kind: str = "string",
    *,
    form: str = "",
    description: str = "",
    priority: int = 0,
) -> Json:
    """Return the definition of a column."""
    return {
        "name": name,
        "type": kind,
        "format": form,
        "description": description,
        "priority": priority,
    }


_NAME: Final = definition("Name", form="name", description=NAME_DESCRIPTION)


class BuiltinColumns:
    """Columns of a built-in kind."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def definitions(self) -> list[Json]:
        """Return the columns."""
        return [column._asdict() for column in self._table.columns]

    def row(self, obj: Json, now: datetime) -> Row:
        """Return what is shown of *obj*."""
        return Row(self._table.cells(obj, now), self._table.conditions(obj))


class CustomColumns:
    """Columns that a CustomResourceDefinition describes; without any, the age."""

    def __init__(self, columns: Sequence[Json]) -> None:
        self._columns = columns or (
            {
                "name": "Age",
                "type": "date",
                "jsonPath": ".metadata.creationTimestamp",
                "description": CREATED_DESCRIPTION,
            },
        )

    def definitions(self) -> list[Json]:
        """Return the columns."""
        described = [
            definition(
                column["name"],
                column["type"],
                form=column.get("format", ""),
                description=column.get("description", ""),
                priority=column.get("priority", 0),
            )
            for column in self._columns
        ]
        return [_NAME, *described]

    def row(self, obj: Json, now: datetime) -> Row:
        """Return what is shown of *obj*."""
        cells = [_custom_cell(column, obj, now) for column in self._columns]
        return Row([obj["metadata"]["name"], *cells])


def _custom_cell(column: Json, obj: Json, now: datetime) -> JsonValue:
    values = find(column["jsonPath"], obj)
    if not values or values[0] is None:
        return None
    value = values[0]
    match column["type"]:
        case "string":
            return _printed(value)
        case "integer":
            return int(value) if _is_number(value) else None
        case "number":
            return float(value) if _is_number(value) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return human_age(value, now) if isinstance(value, str) else "<invalid>"
        case _:
            return None


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _printed(value: JsonValue) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return go_number(value)
        case _:
            return go_json(value)
