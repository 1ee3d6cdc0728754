"""Objects as they will be once our own changes are through.

Between the decision for a pod and the API server's answer the volumes chosen for it must not be
chosen again. An assumed object stands in for the known one until the API server has told of a newer
version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from numakube.api.meta import ObjectMeta


class _HasMeta(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=_HasMeta)


class Assumed(Generic[T]):
    """Assumed objects of one kind by key."""

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}

    def latest(self, known: T) -> T:
        """Return what *known* is assumed to be."""
        key = known.metadata.key
        assumed = self._objects.get(key)
        if assumed is None:
            return known
        if _version(known) > _version(assumed):
            del self._objects[key]
            return known
        return assumed

    def assume(self, changed: T) -> None:
        """Take *changed* for what the object will be."""
        self._objects[changed.metadata.key] = changed

    def restore(self, changed: T) -> None:
        """Forget an assumption."""
        self._objects.pop(changed.metadata.key, None)


def _version(one: _HasMeta) -> int:
    text = one.metadata.resource_version
    return int(text) if text.isdecimal() else 0
