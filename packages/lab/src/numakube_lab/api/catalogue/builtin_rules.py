"""Rules of built-in kinds: their types from the schema, their behaviour from the objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube_lab import objects

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.api.field_errors import FieldError
    from numakube_lab.kinds import GVK, Json, Problems
    from numakube_lab.schema.builtin_types import TypeInfo
    from numakube_lab.schema.types import Struct


class BuiltinRules:
    """Rules of a built-in kind; *now* gives the time as metadata shows it."""

    def __init__(self, kind: GVK, info: TypeInfo, now: Callable[[], str]) -> None:
        self.kind = kind
        self._info = info
        self._now = now
        blank = info.canonical({})
        self._empty = {
            k: v for k, v in blank.items() if k not in ("kind", "apiVersion", "metadata")
        }

    @property
    def root(self) -> Struct:
        """The kind's type."""
        return self._info.root

    def check(self, obj: Json, *, strict: bool) -> Problems:
        """Tell what is wrong with *obj* as sent."""
        return self._info.check(obj, strict=strict)

    def complete(self, obj: Json, known: Json | None = None) -> Json:
        """Return *obj* as it is after decoding; what it has of *known* is as it should be."""
        return objects.default(self.kind, self._info.canonical(obj, known))

    def canonical(self, obj: Json, known: Json | None = None) -> Json:
        """Return *obj* as it is stored and shown, with the parts of *known* that it has."""
        return self._info.canonical(obj, known)

    def prepare_create(self, obj: Json) -> Json:
        """Return *obj* with what a creation sets."""
        return objects.prepare_create(self.kind, obj)

    @property
    def checks_metadata(self) -> bool:
        """Whether `validate_create` checks the metadata."""
        return objects.checks_metadata(self.kind)

    def validate_create(self, obj: Json) -> list[FieldError]:
        """Check a new object."""
        return objects.validate_create(self.kind, obj)

    def prepare_update(self, obj: Json, old: Json, subresource: str) -> Json:
        """Return *obj* with what an update cannot change taken from *old*."""
        return objects.prepare_update(self.kind, obj, old, subresource=subresource, now=self._now())

    def validate_update(self, obj: Json, old: Json, subresource: str) -> list[FieldError]:
        """Check a changed object."""
        return objects.validate_update(self.kind, obj, old, subresource=subresource)

    def warnings(self, obj: Json, old: Json | None, subresource: str = "") -> list[str]:
        """Return what the user is warned of."""
        return objects.warnings(self.kind, obj, old, subresource=subresource)

    def empty(self) -> Json:
        """Return what an object in which nothing is set has next to its metadata."""
        return self._empty
