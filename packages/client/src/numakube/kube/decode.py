"""Turn answers of the API server into typed objects, or into the exception that a refusal is.

Decoding is fast, and never is all lost for one bad object. A list is decoded in one go with the
cyclic garbage collector off: mass allocation would otherwise start it again and again, for objects
that are trees and cannot form cycles. If that fails, the objects are decoded one by one, a ``null``
meaning what it means to Go, and those whose shape is wrong are named in `Listing.malformed`. A
process that holds big lists for long may call `gc.freeze()` once it has started up.
"""

import contextlib
import gc
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Generic, TypeVar, cast

import msgspec

from numakube import errors
from numakube.api.codec import BROKEN_JSON, Wire, convert
from numakube.api.meta import ListMeta
from numakube.errors import ApiCause, ApiError, MalformedObject
from numakube.kube.connection.transport import Body
from numakube.kube.resource_types import ObjectKey

# The ``Status`` object with which the API server refuses, and the exception each one becomes.
#
# The reason decides, and where it is missing or unknown the HTTP status, as in client-go. Proxies
# in between answer without a ``Status``: then the beginning of what they said is the message.


_QUOTED = 300


class StatusCause(msgspec.Struct, frozen=True, gc=False):
    """One fault of a refused object."""

    reason: str | None = None
    message: str | None = None
    field: str | None = None


class StatusDetails(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a refusal is about."""

    name: str | None = None
    group: str | None = None
    kind: str | None = None
    causes: tuple[StatusCause, ...] | None = None
    retry_after_seconds: int | None = None


class ServerStatus(msgspec.Struct, frozen=True, gc=False):
    """The outcome of a request that gives no object."""

    kind: str | None = None
    status: str | None = None
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: StatusDetails | None = None


_BY_REASON: Mapping[str, type[ApiError]] = {
    "BadRequest": errors.BadRequest,
    "Unauthorized": errors.Unauthorized,
    "Forbidden": errors.Forbidden,
    "NotFound": errors.NotFound,
    "MethodNotAllowed": errors.MethodNotAllowed,
    "NotAcceptable": errors.NotAcceptable,
    "AlreadyExists": errors.AlreadyExists,
    "Conflict": errors.Conflict,
    "Expired": errors.Expired,
    "Gone": errors.Expired,
    "RequestEntityTooLarge": errors.RequestTooLarge,
    "UnsupportedMediaType": errors.UnsupportedMediaType,
    "Invalid": errors.Invalid,
    "TooManyRequests": errors.TooManyRequests,
    "InternalError": errors.InternalError,
    "ServerTimeout": errors.ServerTimeout,
    "Timeout": errors.ServerTimeout,
    "ServiceUnavailable": errors.ServiceUnavailable,
}

_BY_CODE: Mapping[int, type[ApiError]] = {
    400: errors.BadRequest,
    401: errors.Unauthorized,
    403: errors.Forbidden,
    404: errors.NotFound,
    405: errors.MethodNotAllowed,
    406: errors.NotAcceptable,
    409: errors.Conflict,
    410: errors.Expired,
    413: errors.RequestTooLarge,
    415: errors.UnsupportedMediaType,
    422: errors.Invalid,
    429: errors.TooManyRequests,
    500: errors.InternalError,
    503: errors.ServiceUnavailable,
    504: errors.ServerTimeout,
}

_TITLE: Final = re.compile(r"<title>([^<]*)</title>", re.IGNORECASE)
_decoder = msgspec.json.Decoder(ServerStatus)


def error_from_answer(
    code: int, headers: Mapping[str, str], body: Body, *, request: str = ""
) -> ApiError:
    """Return the exception for an answer with an HTTP status of 400 or more."""
    status = _status_in(body)
    if status is None:
        text = body[:_QUOTED].decode(errors="replace").strip()
        status = ServerStatus(message=_web_page(text) or text or "the answer has no body")
    return error_from_status(
        status, request=request, code=code, retry_after=retry_after_seconds(headers)
    )


def unreadable_answer(subject: str, body: Body | msgspec.Raw, error: Exception) -> MalformedObject:
    """Return the exception for an answer that promises *subject* and cannot be decoded.

    A proxy that wants a login, or a server of something else, answers with a page and status 200.
    """
    text = bytes(memoryview(body)[:_QUOTED]).decode(errors="replace").strip()
    return MalformedObject(subject, _web_page(text) or f"not readable: {error}")


def error_from_status(
    status: ServerStatus,
    *,
    request: str = "",
    code: int | None = None,
    retry_after: float | None = None,
) -> ApiError:
    """Return the exception for *status*; *code* and *retry_after* are what HTTP itself said."""
    real_code = code or status.code or 500
    reason = status.reason or ""
    kind = _BY_REASON.get(reason) or _BY_CODE.get(real_code) or ApiError
    details = status.details or StatusDetails()
    if retry_after is None and details.retry_after_seconds:
        retry_after = float(details.retry_after_seconds)
    return kind(
        status.message or "the server gave no message",
        code=real_code,
        reason=reason,
        request=request,
        causes=tuple(
            ApiCause(each.field or "", each.reason or "", each.message or "")
            for each in details.causes or ()
        ),
        retry_after=retry_after,
    )


def _web_page(text: str) -> str:
    """Return what to say instead of *text* if that is the beginning of a web page."""
    if not text.startswith("<"):
        return ""
    title = _TITLE.search(text)
    called = f" ({title[1].strip()})" if title else ""
    return f"the answer is a web page{called}: of no Kubernetes API server, or of a proxy"


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return what ``Retry-After`` says: seconds, or a date as proxies send it."""
    text = headers.get("Retry-After")
    if not text:
        return None
    if text.strip().isdecimal():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
        sent = parsedate_to_datetime(headers["Date"])
    except (ValueError, KeyError):
        return None
    return max(0.0, (_aware(moment) - _aware(sent)).total_seconds())


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _status_in(body: Body) -> ServerStatus | None:
    try:
        status = _decoder.decode(body)
    except BROKEN_JSON:
        return None
    return status if status.kind == "Status" else None


T = TypeVar("T")

UNREADABLE = BROKEN_JSON
"""What decoding raises for input that is not JSON, or not of the right shape, or too deep."""


class _ListPage(Wire, Generic[T], frozen=True):
    metadata: ListMeta | None = None
    items: tuple[T, ...] | None = None


class _Name(Wire, frozen=True):
    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = None


class _NamedObject(Wire, frozen=True):
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
        page = _ListPage[type_]  # type: ignore[valid-type]
        self._type = type_
        self._object: msgspec.json.Decoder[T] = msgspec.json.Decoder(type_)
        self._page = cast("msgspec.json.Decoder[_ListPage[T]]", msgspec.json.Decoder(page))

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
            return Malformed(ObjectKey("", ""), unreadable_answer(kind, body, exc))

    def page(self, body: Body, *, kind: str) -> Listing[T]:
        """Return the objects of the list in *body*."""
        with gc_paused():
            try:
                page = self._page.decode(body)
            except msgspec.ValidationError:
                return self._page_one_by_one(body, kind=kind)
            except UNREADABLE as exc:
                raise unreadable_answer(f"list of {kind}", body, exc) from exc
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


def read_answer(type_: type[T], body: Body, subject: str) -> T:
    """Return what an answer holds that is no object of the API; *subject* names it in an error."""
    try:
        return msgspec.json.decode(body, type=type_)
    except UNREADABLE as exc:
        raise unreadable_answer(subject, body, exc) from None


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


_raw_pages = msgspec.json.Decoder(_ListPage[msgspec.Raw])
_names = msgspec.json.Decoder(_NamedObject)
