"""How objects of a kind are decoded, completed, checked and shown.

The verbs ask a kind's `Rules`; whether those come from built-in code or from a
CustomResourceDefinition is of no concern to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from numakube.api.field_errors import FieldError
    from numakube_lab.kinds import Json, Problems
    from numakube_lab.schema.types import Struct


class Rules(Protocol):
    """What the verbs need to know of a kind. Arguments are never changed."""

    def __hash__(self) -> int:
        """Rules are what they are, whatever they say."""
        ...

    @property
    def root(self) -> Struct:
        """The kind's type: what patches are merged by."""
        ...

    def check(self, obj: Json, *, strict: bool) -> Problems:
        """Tell what is wrong with *obj* as sent, before anything else looks at it."""
        ...

    def complete(self, obj: Json, known: Json | None = None) -> Json:
        """Return *obj* as it is after decoding: unknown fields dropped, defaults filled in.

        Parts that it has in common with *known*, a stored object, are not looked at.
        """
        ...

    def canonical(self, obj: Json, known: Json | None = None) -> Json:
        """Return *obj* as it is stored and shown, with the parts of *known* that it has."""
        ...

    def prepare_create(self, obj: Json) -> Json:
        """Return *obj* with what a creation sets, such as an empty status."""
        ...

    @property
    def checks_metadata(self) -> bool:
        """Whether `validate_create` checks the metadata."""
        ...

    def validate_create(self, obj: Json) -> list[FieldError]:
        """Check a new object."""
        ...

    def prepare_update(self, obj: Json, old: Json, subresource: str) -> Json:
        """Return *obj* with what an update cannot change taken from *old*."""
        ...

    def validate_update(self, obj: Json, old: Json, subresource: str) -> list[FieldError]:
        """Check a changed object."""
        ...

    def warnings(self, obj: Json, old: Json | None, subresource: str = "") -> list[str]:
        """Return what the user is warned of."""
        ...

    def empty(self) -> Json:
        """Return what an object in which nothing is set has next to its metadata."""
        ...
