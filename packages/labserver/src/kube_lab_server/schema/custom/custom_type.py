"""The type of a custom kind in one of its versions, made from its definition.

Pruning and defaulting of custom resources by their structural schema. What the schema does not
specify is dropped, unless it says otherwise; metadata, of the object itself and of objects
embedded in it, is read as ``ObjectMeta`` is.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from msgspec.json import encode

from kube_lab_server.kind_names import Json, Problems
from kube_lab_server.schema.builtin_types import OBJECT_META
from kube_lab_server.schema.canonical import canonical_struct, plain
from kube_lab_server.schema.custom.cel_rules import RuleBook
from kube_lab_server.schema.custom.structural import (
    check_embedded,
    check_lists,
    read_schema,
    struct_of,
)
from kube_lab_server.schema.custom.value_validation import UNKNOWN, validate_value
from kube_lab_server.schema.go_decoding import check, repetitions
from numakube.api.field_errors import ErrorType, FieldError, invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube_lab_server.kind_names import GVK
    from kube_lab_server.schema.custom.structural import Structural
    from kube_lab_server.schema.types import JsonValue, Struct


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


# With errors of these types the values are too broken for rules to be applied to them.
_BLOCKING: Final = frozenset(
    {
        ErrorType.NOT_SUPPORTED,
        ErrorType.REQUIRED,
        ErrorType.TOO_LONG,
        ErrorType.TOO_MANY,
        ErrorType.TYPE_INVALID,
    }
)
_MAX_REMEMBERED: Final = 64
_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


@dataclass(frozen=True, eq=False)
class CustomType:
    """A `TypeInfo` that also prunes, defaults and validates by its schema."""

    gvk: GVK
    schema: Structural
    _valid: dict[bytes, None] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, gvk: GVK, source: Mapping[str, Any]) -> CustomType:
        """Make the type of *gvk* from its ``openAPIV3Schema``."""
        return cls(gvk, read_schema(source))

    @cached_property
    def root(self) -> Struct:
        """The type for server-side apply."""
        return struct_of(self.schema, name=self.gvk.kind, metadata=OBJECT_META)

    @cached_property
    def _rules(self) -> RuleBook:
        return RuleBook(self.schema)

    def check(self, obj: Json, *, strict: bool) -> Problems:
        """Tell what is wrong with *obj* as sent by a client; unknown fields only if *strict*."""
        found = check(obj.get("metadata"), OBJECT_META, strict=strict)
        if found.fatal or not strict:
            return Problems(found.fatal)
        pruned, unknown = prune(obj, self.schema)
        unknown += coerce_embedded(pruned, self.schema)[1]
        own = tuple(text.replace(' "', ' "metadata.', 1) for text in found.strict)
        own = tuple(text for text in own if text.startswith("unknown"))
        return Problems(
            strict=(
                *repetitions(obj),
                *own,
                *(f'unknown field "{path}"' for path in unknown),
            )
        )

    def canonical(self, obj: Json, known: Json | None = None) -> Json:
        """Return *obj*, which `check` found decodable, as the server prints it."""
        return canonical_custom(obj, known)

    def prune(self, obj: Json) -> Json:
        """Return *obj* without what the schema does not specify, nor nulls that it forbids."""
        pruned = drop_nulls(prune(obj, self.schema)[0], self.schema)
        coerced, _ = coerce_embedded(pruned, self.schema)
        return canonical_custom(coerced)

    def default(self, obj: Json) -> Json:
        """Return *obj* with the defaults of the schema filled in."""
        filled: Json = fill_defaults(obj, self.schema)
        return filled

    def validate(self, obj: Json, old: Json | None) -> list[FieldError]:
        """Check *obj* against the schema and its rules; *old* is what an update replaces."""
        content = self._content(obj)
        if content in self._valid:
            return []
        before = UNKNOWN if old is None else old
        errors = validate_value(self.schema.source, obj, old=before)
        errors += check_embedded(obj, self.schema)
        errors = self._with_rules(errors, obj, old)
        if content and old is None and not errors:
            self._remember(content)
        return errors

    def _content(self, obj: Json) -> bytes:
        """Return all that decides whether *obj* is valid, if that is only what it contains."""
        if self.schema.has_rules or not self._is_metadata_free:
            return b""
        return encode({key: value for key, value in obj.items() if key != "metadata"})

    @cached_property
    def _is_metadata_free(self) -> bool:
        """Whether the schema says nothing of metadata, as most do."""
        said = (self.schema.source.get("properties") or {}).get("metadata") or {}
        return not said.keys() - {"type", "description"}

    def _remember(self, content: bytes) -> None:
        """Keep a few contents that are valid: reports of equal nodes differ in their names only."""
        if len(self._valid) >= _MAX_REMEMBERED:
            self._valid.clear()
        self._valid[content] = None

    def validate_status(self, obj: Json, old: Json) -> list[FieldError]:
        """Check *obj*, of which only the status was changed; messages name fields from there."""
        status = self.schema.properties.get("status")
        errors: list[FieldError] = []
        if status is not None and "status" in obj:
            before = old.get("status", UNKNOWN)
            errors = [
                replace(error, field=f"status.{error.field}" if error.field else "status")
                for error in validate_value(status.source, obj["status"], old=before)
            ]
        return self._with_rules(errors, obj, old)

    def _with_rules(
        self, errors: list[FieldError], obj: Json, old: Json | None
    ) -> list[FieldError]:
        errors += check_lists(obj, self.schema)
        if not self.schema.has_rules:
            return errors
        if any(error.type in _BLOCKING for error in errors):
            return [*errors, invalid("<nil>", None, _NOT_CHECKED)]
        return errors + self._rules.apply(obj, old)
