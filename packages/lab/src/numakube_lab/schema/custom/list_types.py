"""Invariants of custom resources beyond their values: lists with keys, sets, embedded objects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from numakube.api.field_errors import FieldError, duplicate, invalid, required
from numakube.values.names import dns_1035_label, path_segment
from numakube_lab.schema.builtin_types import OBJECT_META
from numakube_lab.schema.decoding import check
from numakube_lab.schema.metadata_checks import validate_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube_lab.schema.custom.structural import Structural
    from numakube_lab.schema.types import JsonValue


def _children(
    value: JsonValue, schema: Structural, path: str
) -> Iterator[tuple[JsonValue, Structural, str]]:
    """Yield what is below *value* with its schema and path, as far as the schema knows it."""
    if isinstance(value, list) and schema.items is not None:
        for index, item in enumerate(value):
            yield item, schema.items, f"{path}[{index}]"
    elif isinstance(value, dict):
        for name, item in value.items():
            if name in schema.properties:
                yield item, schema.properties[name], f"{path}.{name}" if path else name
            elif schema.additional is not None:
                yield item, schema.additional, f"{path}[{name}]"


def check_lists(value: JsonValue, schema: Structural, path: str = "") -> list[FieldError]:
    """Return the elements of sets and keyed lists that repeat others."""
    errors: list[FieldError] = []
    if isinstance(value, list) and schema.list_type == "set":
        errors += [duplicate(f"{path}[{index}]", value[index]) for index in _repeated(value)]
    elif isinstance(value, list) and schema.list_type == "map":
        errors += _keyed(value, schema, path)
    for child in _children(value, schema, path):
        errors += check_lists(*child)
    return errors


def _keyed(value: list[JsonValue], schema: Structural, path: str) -> Iterator[FieldError]:
    for index, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            text = "must be an object for an array of list-type map"
            yield invalid(f"{path}[{index}]", item, text)
            return
    keys = [
        {k: item[k] for k in schema.list_keys if k in item} for item in (i or {} for i in value)
    ]
    for index in _repeated(keys):
        yield duplicate(f"{path}[{index}]", keys[index])


def _repeated(value: list[Any]) -> Iterator[int]:
    """Yield where each element that occurs again does so for the first time."""
    seen: dict[str, int] = {}
    for index, item in enumerate(value):
        text = json.dumps(item, sort_keys=True)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            yield index


def check_embedded(value: JsonValue, schema: Structural, path: str = "") -> list[FieldError]:
    """Return what is wrong with kind and metadata of embedded objects."""
    errors: list[FieldError] = []
    if schema.embedded and isinstance(value, dict):
        errors += _object(value, f"{path}." if path else "")
    for child in _children(value, schema, path):
        errors += check_embedded(*child)
    return errors


def _object(value: dict[str, JsonValue], prefix: str) -> Iterator[FieldError]:
    for name in ("apiVersion", "kind"):
        if name not in value:
            yield required(f"{prefix}{name}")
        elif not isinstance(value[name], str):
            yield invalid(f"{prefix}{name}", value[name], "must be a string")
        elif not value[name]:
            yield invalid(f"{prefix}{name}", "", "must not be empty")
        else:
            yield from _type_name(name, value[name], f"{prefix}{name}")
    if "metadata" in value:
        yield from _metadata(value["metadata"], f"{prefix}metadata")


def _type_name(name: str, text: str, path: str) -> Iterator[FieldError]:
    if name == "apiVersion":
        if text.count("/") > 1:
            yield invalid(path, text, f"unexpected GroupVersion string: {text}")
    elif problems := dns_1035_label(text.lower()):
        detail = "may have mixed case, but should otherwise match: " + ",".join(problems)
        yield invalid(path, text, detail)


def _metadata(metadata: JsonValue, path: str) -> Iterator[FieldError]:
    if not isinstance(metadata, dict):
        return
    problems = check(metadata, OBJECT_META, strict=False)
    if problems.fatal:
        yield invalid(path, metadata, problems.fatal)
        return
    named = {"name": "fakename"} | {k: v for k, v in metadata.items() if v}
    namespaced = bool(named.get("namespace"))
    yield from validate_metadata(named, namespaced=namespaced, name=path_segment, path=path)
