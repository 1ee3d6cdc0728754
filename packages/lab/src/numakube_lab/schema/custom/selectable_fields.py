"""Fields that objects of a custom kind can be selected by: whether they can."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from numakube.api.field_errors import FieldError, duplicate, invalid, required, too_many
from numakube_lab.schema.custom.structural import Structural, read_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MAX_FIELDS: Final = 8
_PART: Final = re.compile(r"[.\[\]]|[^.\[\]]+")


def check_selectable_fields(
    fields: list[dict[str, Any]], schema: Mapping[str, Any], path: str
) -> Iterator[FieldError]:
    """Yield why *fields*, given by their ``jsonPath``, cannot be selected by."""
    structural = read_schema(schema)
    seen: set[str] = set()
    for index, field in enumerate(fields):
        place, json_path = f"{path}[{index}].jsonPath", str(field.get("jsonPath") or "")
        if not json_path:
            yield required(place)
            continue
        found = _find(json_path, structural)
        if isinstance(found, str):
            yield invalid(place, json_path, f"is an invalid path: {found}")
            continue
        yield from _check_field(json_path, found, place)
        if json_path in seen:
            yield duplicate(place, json_path)
        seen.add(json_path)
    if len(seen) > _MAX_FIELDS:
        yield too_many(path, len(seen), _MAX_FIELDS)


def _check_field(json_path: str, schema: Structural, place: str) -> Iterator[FieldError]:
    if json_path.split(".")[1] == "metadata":
        yield invalid(place, json_path, "must not point to fields in metadata")
    if schema.type not in ("string", "boolean", "integer"):
        detail = (
            "must point to a field of type string, boolean or integer. "
            "Enum string fields and strings with formats are allowed."
        )
        yield invalid(place, json_path, detail)


def _find(json_path: str, schema: Structural) -> Structural | str:
    """Return what *json_path* leads to, or why it leads nowhere."""
    parts = iter(_PART.findall(json_path))
    here = schema
    for part in parts:
        if part == "[":
            return "array notation is not allowed"
        if part != ".":
            return f"expected [ or . but got: {part}"
        name = next(parts, None)
        if name is None:
            return "unexpected end of JSON path"
        child = here.properties.get(name) if here.properties else here.additional
        if child is None:
            return "does not refer to a valid field"
        here = child
    return here
