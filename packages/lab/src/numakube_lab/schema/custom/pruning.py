"""Pruning and defaulting of custom resources by their structural schema.

What the schema does not specify is dropped, unless it says otherwise; metadata, of the object
itself and of objects embedded in it, is read as ``ObjectMeta`` is.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from numakube_lab.schema.builtin_types import OBJECT_META
from numakube_lab.schema.canonical import canonical_struct, plain
from numakube_lab.schema.go_decoding import check

if TYPE_CHECKING:
    from numakube_lab.schema.custom.structural import Structural
    from numakube_lab.schema.types import JsonValue

_META_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})


def prune(obj: dict[str, Any], schema: Structural) -> tuple[dict[str, Any], list[str]]:
    """Return *obj* without what the schema does not specify, and the paths of what was dropped."""
    walk = _Pruning()
    kept = {name: obj[name] for name in obj if name in _META_FIELDS}
    rest = {name: value for name, value in obj.items() if name not in _META_FIELDS}
    pruned = walk.prune(rest, schema, "")
    return kept | pruned, sorted(walk.dropped)


def prune_value(value: JsonValue, schema: Structural) -> tuple[JsonValue, list[str]]:
    """Prune a value that is no object by itself, such as a default."""
    walk = _Pruning()
    return walk.prune(value, schema, ""), sorted(walk.dropped)


class _Pruning:
    """Remembers what it drops."""

    def __init__(self) -> None:
        self.dropped: list[str] = []

    def prune(
        self, value: JsonValue, schema: Structural | None, path: str, *, keep: bool = False
    ) -> JsonValue:
        """Return *value* with what *schema* knows, and if *keep* also with what it does not."""
        keep = keep or (schema is not None and schema.preserves_unknown)
        if keep and schema is None:
            return value
        if isinstance(value, dict):
            return self._map(value, schema, path, keep=keep)
        if isinstance(value, list):
            items = schema.items if schema else None
            return [
                self.prune(item, items, f"{path}[{i}]", keep=keep) for i, item in enumerate(value)
            ]
        return value

    def _map(
        self, value: dict[str, JsonValue], schema: Structural | None, path: str, *, keep: bool
    ) -> dict[str, JsonValue]:
        kept = {}
        for name, item in value.items():
            step = f"{path}.{name}" if path else name
            if schema is None:
                self.dropped.append(step)
            elif schema.embedded and name in _META_FIELDS:
                kept[name] = item
            elif name in schema.properties:
                kept[name] = self.prune(item, schema.properties[name], step)
            elif schema.additional is not None:
                kept[name] = self.prune(item, schema.additional, step)
            elif keep:
                kept[name] = item
            else:
                self.dropped.append(step)
        return kept


def coerce_embedded(
    value: JsonValue, schema: Structural | None, path: str = ""
) -> tuple[JsonValue, list[str]]:
    """Return *value* with the metadata of embedded objects coerced, and unknown fields in it."""
    unknown: list[str] = []
    return _coerce(value, schema, path, unknown), sorted(unknown)


def _coerce(
    value: JsonValue, schema: Structural | None, path: str, unknown: list[str]
) -> JsonValue:
    if schema is None:
        return value
    if isinstance(value, list):
        return [_coerce(v, schema.items, f"{path}[{i}]", unknown) for i, v in enumerate(value)]
    if not isinstance(value, dict):
        return value
    out = {}
    for name, item in value.items():
        step = f"{path}.{name}" if path else name
        if schema.embedded and name == "metadata" and isinstance(item, dict):
            out[name] = _coerced_metadata(item, step, unknown)
        else:
            out[name] = _coerce(item, _child(schema, name), step, unknown)
    return out


def _child(schema: Structural, name: str) -> Structural | None:
    return schema.properties.get(name) or schema.additional


def _coerced_metadata(item: dict[str, Any], path: str, unknown: list[str]) -> dict[str, Any]:
    problems = check(item, OBJECT_META, strict=True)
    if problems.fatal:
        return item
    prefix = 'unknown field "'
    unknown += [f"{path}.{text.removeprefix(prefix)[:-1]}" for text in problems.strict]
    return canonical_struct(OBJECT_META, item)


def drop_nulls(value: JsonValue, schema: Structural | None) -> JsonValue:
    """Return *value* without nulls that are neither allowed nor replaced by a default."""
    if schema is None:
        return value
    if isinstance(value, list):
        return [drop_nulls(item, schema.items) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: drop_nulls(item, _child(schema, name))
        for name, item in value.items()
        if not _is_doomed_null(item, _child(schema, name))
    }


def _is_doomed_null(item: JsonValue, schema: Structural | None) -> bool:
    return _is_wrong_null(item, schema) and schema is not None and schema.default is None


def _is_wrong_null(item: JsonValue, schema: Structural | None) -> bool:
    return item is None and schema is not None and not schema.nullable


def fill_defaults(value: JsonValue, schema: Structural | None) -> JsonValue:
    """Return *value* with the schema's defaults in the place of nothing and of forbidden nulls."""
    if schema is None:
        return value
    if isinstance(value, list):
        return [fill_defaults(_defaulted(item, schema.items), schema.items) for item in value]
    if not isinstance(value, dict):
        return value
    filled = dict(value)
    for name, child in schema.properties.items():
        missing = name not in filled or _is_wrong_null(filled[name], child)
        if child.default is not None and missing:
            filled[name] = copy.deepcopy(child.default)
    for name, item in filled.items():
        known = schema.properties.get(name)
        if known is not None:
            filled[name] = fill_defaults(item, known)
        elif schema.additional is not None:
            filled[name] = fill_defaults(_defaulted(item, schema.additional), schema.additional)
    return filled


def _defaulted(item: JsonValue, schema: Structural | None) -> JsonValue:
    return copy.deepcopy(schema.default) if schema and _is_wrong_null(item, schema) else item


def canonical_custom(obj: dict[str, Any], known: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return *obj* as the server prints it: metadata as Go writes it, the rest as it stands.

    Parts that it has in common with *known*, an object in that form, are taken over.
    """
    before = known or {}
    out = {
        key: value if value is not None and before.get(key) is value else plain(value)
        for key, value in obj.items()
    }
    if isinstance(metadata := obj.get("metadata"), dict):
        out["metadata"] = canonical_struct(OBJECT_META, metadata, before.get("metadata"))
    return out
