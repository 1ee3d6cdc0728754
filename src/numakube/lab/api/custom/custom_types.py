"""The type of a custom kind, from the schema in its definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.lab.kinds import Problems
from numakube.lab.schema.canonical import canonical_struct, plain
from numakube.lab.schema.decoding import check
from numakube.lab.schema.registry import OBJECT_META

if TYPE_CHECKING:
    from numakube.lab.field_errors import FieldError
    from numakube.lab.kinds import GVK, CustomTypeInfo, Json


class _Schemaless:
    """A custom kind whose objects may be anything."""

    def check(self, obj: Json, *, strict: bool) -> Problems:
        """Check the metadata."""
        problems = check(obj.get("metadata") or {}, OBJECT_META, strict=strict)
        return Problems(problems.fatal, problems.strict)

    def canonical(self, obj: Json) -> Json:
        """Return *obj* as it is printed."""
        result: Json = plain(obj)
        return {**result, "metadata": canonical_struct(OBJECT_META, obj.get("metadata") or {})}

    def prune(self, obj: Json) -> Json:
        """Return *obj*."""
        return obj

    def default(self, obj: Json) -> Json:
        """Return *obj*."""
        return obj

    def validate(self, obj: Json, old: Json | None) -> list[FieldError]:
        """Accept *obj*."""
        del obj, old
        return []


def custom_type(kind: GVK, schema: Json, *, preserve_unknown: bool) -> CustomTypeInfo:
    """Return the type of *kind*."""
    del kind, schema, preserve_unknown
    return _Schemaless()
