"""The type of a custom kind in one of its versions, made from its definition."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from msgspec.json import encode

from numakube.api.field_errors import ErrorType, FieldError, invalid
from numakube_lab.kinds import Json, Problems
from numakube_lab.schema.builtin_types import OBJECT_META
from numakube_lab.schema.custom.cel_rules import RuleBook
from numakube_lab.schema.custom.correlation import UNKNOWN
from numakube_lab.schema.custom.list_types import check_embedded, check_lists
from numakube_lab.schema.custom.pruning import (
    canonical_custom,
    coerce_embedded,
    drop_nulls,
    fill_defaults,
    prune,
)
from numakube_lab.schema.custom.structural import read_schema, struct_of
from numakube_lab.schema.custom.value_validation import validate_value
from numakube_lab.schema.go_decoding import check, repetitions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube_lab.kinds import GVK
    from numakube_lab.schema.custom.structural import Structural
    from numakube_lab.schema.types import Struct

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
    """A `numakube_lab.kinds.TypeInfo` that also prunes, defaults and validates by its schema."""

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
