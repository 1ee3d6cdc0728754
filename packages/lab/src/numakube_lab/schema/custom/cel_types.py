"""What an expression sees of a custom resource: types and values by its schema.

Fields whose names are no identifiers, or words of the language, are seen under an escaped name:
``a-b`` as ``a__dash__b``, ``namespace`` as ``__namespace__``.
"""

from __future__ import annotations

import re
from base64 import b64decode
from typing import TYPE_CHECKING, Final

from numakube.cel.cel_errors import EvaluationError
from numakube.cel.lexer import RESERVED
from numakube.cel.type_conversions import parse_duration
from numakube.cel.value_types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    CelType,
    ObjectType,
    list_of,
    map_of,
)
from numakube.cel.values import CelValue, parse_timestamp
from numakube_lab.schema.custom.structural import Structural

if TYPE_CHECKING:
    from numakube_lab.schema.types import JsonValue

_WORDS: Final = RESERVED | {"true", "false", "null", "in"}
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES: Final = (
    ("__", "__underscores__"),
    (".", "__dot__"),
    ("-", "__dash__"),
    ("/", "__slash__"),
)
_STRING_FORMATS: Final = {
    "byte": BYTES,
    "date": TIMESTAMP,
    "date-time": TIMESTAMP,
    "datetime": TIMESTAMP,
    "duration": DURATION,
}
_TEXT: Final = Structural({"type": "string"}, type="string")
_METADATA: Final = Structural({}, type="object", properties={"name": _TEXT, "generateName": _TEXT})
_META_PROPERTIES: Final = {"apiVersion": _TEXT, "kind": _TEXT, "metadata": _METADATA}


def escaped(name: str) -> str | None:
    """Return the name under which the field is seen; None if there is none."""
    if name in _WORDS:
        return f"__{name}__"
    for text, replacement in _ESCAPES:
        name = name.replace(text, replacement)
    return name if _IDENTIFIER.fullmatch(name) else None


def as_object(schema: Structural) -> Structural:
    """Return *schema* with kind and metadata, as a whole object has them."""
    metadata = schema.properties.get("metadata")
    known = metadata.properties if metadata is not None else {}
    own = {name: known[name] for name in ("name", "generateName") if name in known}
    merged = Structural(_METADATA.source, type="object", properties={**_METADATA.properties, **own})
    return Structural(
        source=schema.source,
        type=schema.type,
        properties={**_META_PROPERTIES, **schema.properties, "metadata": merged},
        additional=schema.additional,
        rules=schema.rules,
    )


def type_of(schema: Structural) -> CelType:
    """Return the type of values of *schema*."""
    if schema.int_or_string:
        return DYN
    if schema.embedded:
        schema = as_object(schema)
    match schema.type:
        case "object":
            return _object_type(schema)
        case "array":
            return list_of(type_of(schema.items) if schema.items is not None else DYN)
        case "string":
            return _STRING_FORMATS.get(str(schema.source.get("format")), STRING)
        case "integer":
            return INT
        case "number":
            return DOUBLE
        case "boolean":
            return BOOL
        case _:
            return DYN


def _object_type(schema: Structural) -> CelType:
    if schema.additional is not None and not schema.properties:
        return map_of(STRING, type_of(schema.additional))
    fields = {
        name: type_of(child)
        for key, child in schema.properties.items()
        if (name := escaped(key)) is not None
    }
    return ObjectType("object", fields=fields)


def value_of(value: JsonValue, schema: Structural | None) -> CelValue:
    """Return *value* as an expression sees it."""
    if schema is None or value is None or schema.int_or_string:
        return value
    if schema.embedded:
        schema = as_object(schema)
    match value:
        case dict():
            return _object_value(value, schema)
        case list():
            return [value_of(item, schema.items) for item in value]
        case str():
            return _text_value(value, schema)
        case int() | float() if not isinstance(value, bool):
            return float(value) if schema.type == "number" else int(value)
        case _:
            return value


def _object_value(value: dict[str, JsonValue], schema: Structural) -> dict[str, CelValue]:
    if schema.additional is not None and not schema.properties:
        return {key: value_of(item, schema.additional) for key, item in value.items()}
    seen = {}
    for key, item in value.items():
        name = escaped(key)
        if name is not None and key in schema.properties:
            seen[name] = value_of(item, schema.properties[key])
    return seen


def _text_value(text: str, schema: Structural) -> CelValue:
    kind = (
        _STRING_FORMATS.get(str(schema.source.get("format"))) if schema.type == "string" else None
    )
    try:
        if kind is TIMESTAMP:
            return parse_timestamp(text if "T" in text else f"{text}T00:00:00Z")
        if kind is DURATION:
            return parse_duration(text)
        return b64decode(text, validate=True) if kind is BYTES else text
    except (EvaluationError, ValueError):
        # Not of its format: the schema itself complains about that.
        return text
