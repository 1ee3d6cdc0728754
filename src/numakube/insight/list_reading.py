"""Kubernetes lists into typed objects, and what of them could not be read, and why.

One bad object costs only itself: answers say what they do not rest on.
"""

from collections.abc import Iterable
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from numakube.api.codec import BROKEN_JSON, Wire, convert
from numakube.errors import MalformedObject

T = TypeVar("T")
_REFUSED: Final = "not allowed (403): "
ROLE: Final = "numakube-view"
"""The ClusterRole with what tools read, which is part of ``view`` (see `manifests.rbac_rules`)."""


class Unreadable(Wire, frozen=True, kw_only=False):
    """One thing that could not be read.

    Attributes:
        what: a file of `Collected`, or an object in one.
        why: a sentence for people.
    """

    what: str
    why: str

    @property
    def right(self) -> str:
        """The right that is missing, such as ``list services``; empty if it is no matter of it."""
        return self.why.removeprefix(_REFUSED) if self.why.startswith(_REFUSED) else ""


class _Items(Wire, Generic[T], frozen=True):
    items: tuple[T, ...] | None = None


def read_list(
    type_: type[T], content: bytes | None, name: str
) -> tuple[tuple[T, ...], tuple[Unreadable, ...]]:
    """Return the objects in the list *content*, and what could not be read of it."""
    if content is None:
        return (), ()
    try:
        whole = cast("type[_Items[T]]", _Items[type_])  # type: ignore[valid-type]
        return msgspec.json.decode(content, type=whole).items or (), ()
    except msgspec.ValidationError:
        return _one_by_one(type_, content, name)
    except BROKEN_JSON as error:
        return (), (Unreadable(name, f"not JSON: {error}"),)


def read_object(
    type_: type[T], content: bytes | None, name: str
) -> tuple[T | None, tuple[Unreadable, ...]]:
    """Return the object in *content*, and what could not be read of it."""
    if content is None:
        return None, ()
    try:
        return convert(type_, msgspec.json.decode(content), name), ()
    except MalformedObject as error:
        return None, (Unreadable(name, error.detail),)
    except BROKEN_JSON as error:
        return None, (Unreadable(name, f"not JSON: {error}"),)


def refused(right: str) -> str:
    """Return why something could not be read for lack of a *right*, such as ``list services``."""
    return f"{_REFUSED}{right}"


def rights_text(lacking: Iterable[Unreadable]) -> str:
    """Return the rights that are missing, those of one verb together."""
    verbs: dict[str, list[str]] = {}
    for unreadable in lacking:
        verb, _, resource = unreadable.right.partition(" ")
        verbs.setdefault(verb, []).append(resource)
    return "; ".join(f"{verb} {', '.join(dict.fromkeys(names))}" for verb, names in verbs.items())


def _one_by_one(
    type_: type[T], content: bytes, name: str
) -> tuple[tuple[T, ...], tuple[Unreadable, ...]]:
    good: list[T] = []
    bad: list[Unreadable] = []
    try:
        trees = msgspec.json.decode(content, type=_Items[dict[str, Any]]).items or ()
    except BROKEN_JSON as error:
        return (), (Unreadable(name, str(error)),)
    for tree in trees:
        subject = _subject(name, tree)
        try:
            good.append(convert(type_, tree, subject))
        except MalformedObject as error:
            where = f"{error.path}: " if error.path else ""
            bad.append(Unreadable(subject, f"{where}{error.detail}"))
    return tuple(good), tuple(bad)


def _subject(name: str, tree: dict[str, Any]) -> str:
    meta = tree.get("metadata")
    if not isinstance(meta, dict):
        return name
    words = (meta.get("namespace"), meta.get("name"))
    return f"{name} {'/'.join(str(word) for word in words if word)}".strip()
