"""Kubernetes lists into typed objects; one bad object costs only itself."""

from typing import Any, Generic, TypeVar, cast

import msgspec

from numakube.api.codec import BROKEN_JSON, convert
from numakube.api.wire import Wire
from numakube.errors import MalformedObject
from numakube.insight.unreadable import Unreadable

T = TypeVar("T")


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
