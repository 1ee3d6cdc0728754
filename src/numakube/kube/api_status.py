"""The ``Status`` object with which the API server refuses, and the exception each one becomes.

The reason decides, and where it is missing or unknown the HTTP status, as in client-go. Proxies in
between answer without a ``Status``: then the beginning of what they said is the message.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec

from numakube import errors
from numakube.api.codec import BROKEN_JSON
from numakube.errors import ApiCause, ApiError
from numakube.kube.connection.transport import Body

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


class Status(msgspec.Struct, frozen=True, gc=False):
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
_decoder = msgspec.json.Decoder(Status)


def error_from_answer(
    code: int, headers: Mapping[str, str], body: Body, *, request: str = ""
) -> ApiError:
    """Return the exception for an answer with an HTTP status of 400 or more."""
    status = _status_in(body)
    if status is None:
        text = body[:_QUOTED].decode(errors="replace").strip()
        if text.startswith("<"):
            title = _TITLE.search(text)
            called = f" ({title[1].strip()})" if title else ""
            text = f"the answer is a web page{called}: of no Kubernetes API server, or of a proxy"
        status = Status(message=text or "the answer has no body")
    return error_from_status(
        status, request=request, code=code, retry_after=retry_after_seconds(headers)
    )


def error_from_status(
    status: Status, *, request: str = "", code: int | None = None, retry_after: float | None = None
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


def _status_in(body: Body) -> Status | None:
    try:
        status = _decoder.decode(body)
    except BROKEN_JSON:
        return None
    return status if status.kind == "Status" else None
