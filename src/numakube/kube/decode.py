"""Turn answers of the API server into typed objects: fast, and never all lost for one bad object.

A list is decoded in one go with the cyclic garbage collector off: mass allocation would otherwise
start it again and again, for objects that are trees and cannot form cycles. If that fails, the
objects are decoded one by one, a ``null`` meaning what it means to Go, and those whose shape is
wrong are named in `Listing.malformed`. A process that holds big lists for long may call
`gc.freeze()` once it has started up.
"""

import contextlib
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec

from numakube.api.codec import BROKEN_JSON, Wire, convert
from numakube.api.meta import ListMeta
from numakube.errors import MalformedObject
from numakube.kube.connection.transport import Body
from numakube.kube.resource_types import ObjectKey

T = TypeVar("T")

UNREADABLE = BROKEN_JSON
"""What decoding raises for input that is not JSON, or not of the right shape, or too deep."""


class _Page(Wire, Generic[T], frozen=True):
    metadata: ListMeta | None = None
    items: tuple[T, ...] | None = None


class _Name(Wire, frozen=True):
    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = None


class _Named(Wire, frozen=True):
    metadata: _Name | None = None


@dataclass(frozen=True, slots=True)
class Malformed:
    """An object that could not be decoded, and what is known of it nevertheless."""

    key: ObjectKey
    error: MalformedObject
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """The objects of a list, or of a page of it.

    Attributes:
        items: the objects.
        resource_version: the state of the server that the list shows; a watch can start there.
        next_page: what to ask the rest with; empty if there is none.
        malformed: the objects that could not be decoded.
    """

    items: tuple[T, ...]
    resource_version: str = ""
    next_page: str = ""
    malformed: tuple[Malformed, ...] = ()


class Codec(Generic[T]):
    """Decodes objects and lists of one type."""

    def __init__(self, type_: type[T]) -> None:
        page = _Page[type_]  # type: ignore[valid-type]
        self._type = type_
        self._object: msgspec.json.Decoder[T] = msgspec.json.Decoder(type_)
        self._page = cast("msgspec.json.Decoder[_Page[T]]", msgspec.json.Decoder(page))

    def one(self, body: Body, *, kind: str) -> T:
        """Return the object in *body*; *kind* names it in an error."""
        found = self.one_or_malformed(body, kind=kind)
        if isinstance(found, Malformed):
            raise found.error
        return found

    def one_or_malformed(self, body: Body | msgspec.Raw, *, kind: str) -> T | Malformed:
        """Return the object in *body*, or what is known of it if it cannot be decoded."""
        try:
            return self._object.decode(body)
        except msgspec.ValidationError:
            return self._leniently(body, kind=kind)
        except UNREADABLE as exc:
            return Malformed(ObjectKey("", ""), MalformedObject(kind, f"not readable: {exc}"))

    def page(self, body: Body, *, kind: str) -> Listing[T]:
        """Return the objects of the list in *body*."""
        with gc_paused():
            try:
                page = self._page.decode(body)
            except msgspec.ValidationError:
                return self._page_one_by_one(body, kind=kind)
            except UNREADABLE as exc:
                raise MalformedObject(f"list of {kind}", f"not readable: {exc}") from exc
            return _listing(page.metadata, page.items or (), ())

    def _page_one_by_one(self, body: Body, *, kind: str) -> Listing[T]:
        try:
            page = _raw_pages.decode(body)
        except UNREADABLE as exc:
            raise MalformedObject(f"list of {kind}", str(exc)) from exc
        good: list[T] = []
        bad: list[Malformed] = []
        for item in page.items or ():
            found = self.one_or_malformed(item, kind=kind)
            if isinstance(found, Malformed):
                bad.append(found)
            else:
                good.append(found)
        return _listing(page.metadata, tuple(good), tuple(bad))

    def _leniently(self, body: Body | msgspec.Raw, *, kind: str) -> T | Malformed:
        """Decode once more, with nulls left out and errors that name the field."""
        name = _name_in(body)
        key = ObjectKey(name.namespace or "", name.name or "")
        try:
            return convert(self._type, msgspec.json.decode(body), f"{kind} {key}")
        except MalformedObject as exc:
            # Kept as a value: its traceback would keep this frame, and with it the whole answer.
            exc.__context__ = None
            return Malformed(key, exc.with_traceback(None), name.resource_version or "")


_codecs: dict[type, Codec[Any]] = {}


def codec_of(type_: type[T]) -> Codec[T]:
    """Return the codec for *type_*; they are costly to make and shared."""
    codec: Codec[T] | None = _codecs.get(type_)
    if codec is None:
        codec = _codecs[type_] = Codec(type_)
    return codec


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Keep the cyclic garbage collector off for a while; the body must not await."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _name_in(body: Body | msgspec.Raw) -> _Name:
    try:
        return _names.decode(body).metadata or _Name()
    except UNREADABLE:
        return _Name()


def _listing(
    metadata: ListMeta | None, items: tuple[T, ...], bad: tuple[Malformed, ...]
) -> Listing[T]:
    about = metadata or ListMeta()
    return Listing(items, about.resource_version, about.continue_, bad)


_raw_pages = msgspec.json.Decoder(_Page[msgspec.Raw])
_names = msgspec.json.Decoder(_Named)
