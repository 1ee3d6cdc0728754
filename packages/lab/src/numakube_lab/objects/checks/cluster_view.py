"""What admission may ask of the other objects in the cluster, and its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.field_errors import FieldError
    from numakube_lab.kinds import Json


class ClusterView(Protocol):
    """Read access to stored objects."""

    def get(self, group: str, kind: str, name: str, namespace: str = "") -> Json | None:
        """Return one object, None if there is none."""
        ...

    def list(self, group: str, kind: str, namespace: str = "") -> Iterable[Json]:
        """Return all objects of a kind, in one namespace if it is given."""
        ...


@dataclass(frozen=True, slots=True)
class Refused:
    """Why admission refuses.

    Attributes:
        reason: the words after ``pods "p" is forbidden:`` of a 403 answer.
        errors: what is wrong with the object; if there is any, the answer is a 422.
    """

    reason: str
    errors: tuple[FieldError, ...] = ()
