"""Tables: what ``kubectl get`` prints of objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from numakube.values.gotext import go_json, go_number
from numakube_lab.api.catalogue.json_paths import find
from numakube_lab.objects.tables import Row, human_age, table_columns, table_row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from numakube_lab.kinds import GVK, Json, JsonValue

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

    def __init__(self, kind: GVK) -> None:
        self._kind = kind

    def definitions(self) -> list[Json]:
        """Return the columns."""
        return table_columns(self._kind)

    def row(self, obj: Json, now: datetime) -> Row:
        """Return what is shown of *obj*."""
        return table_row(self._kind, obj, now)


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
