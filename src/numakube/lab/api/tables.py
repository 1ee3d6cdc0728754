"""Tables: what ``kubectl get`` prints of objects."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from numakube.lab.api.json_paths import find
from numakube.lab.field_errors import format_number, go_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.lab.kinds import Json, JsonValue

NAME_DESCRIPTION: Final = (
    "Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically."
)
CREATED_DESCRIPTION: Final = (
    "CreationTimestamp is a timestamp representing the server time when this object was created."
)

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_YEAR: Final = 365 * _DAY


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of an object, and conditions such as "this job is done"."""

    cells: list[JsonValue]
    conditions: tuple[Json, ...] = ()


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


class PlainColumns:
    """Name and time of creation: what is shown of kinds without columns of their own."""

    def definitions(self) -> list[Json]:
        """Return the columns."""
        created = definition("Created At", "date", description=CREATED_DESCRIPTION)
        return [_NAME, created]

    def row(self, obj: Json, now: datetime) -> Row:
        """Return what is shown of *obj*."""
        del now
        metadata = obj["metadata"]
        return Row([metadata["name"], metadata.get("creationTimestamp") or "<unknown>"])


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
            return format_number(value)
        case _:
            return go_json(value)


def human_age(moment: str, now: datetime) -> str:
    """Return how long ago a timestamp is, as kubectl shows it."""
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return "<invalid>"
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return human_duration(int((now - then).total_seconds()))


def human_duration(seconds: int) -> str:
    """Return a duration with the two units that matter."""
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    if seconds < 2 * _MINUTE:
        return f"{seconds}s"
    if seconds < 10 * _MINUTE:
        return _two(seconds, _MINUTE, "m", 1, "s")
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two(seconds, _HOUR, "h", _MINUTE, "m")
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _two(seconds, _DAY, "d", _HOUR, "h")
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _two(seconds, _YEAR, "y", _DAY, "d")
    return f"{seconds // _YEAR}y"


def _two(seconds: int, large: int, mark: str, small: int, small_mark: str) -> str:
    rest = seconds % large // small
    return f"{seconds // large}{mark}{rest}{small_mark}" if rest else f"{seconds // large}{mark}"
