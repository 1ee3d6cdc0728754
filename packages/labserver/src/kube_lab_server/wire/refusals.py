"""A request that is refused, and the ``Status`` object that says so.

Handlers raise `RequestRefusal`; the server answers with its status. The functions here make the
refusals that a kube-apiserver knows, with its reasons, codes and messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.field_errors import aggregate
from numakube.errors import NumakubeError
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kube_lab_server.kind_names import Json
    from numakube.api.field_errors import FieldError


class RequestRefusal(NumakubeError):
    """The request is answered with a failure.

    Attributes:
        code: the HTTP status.
        status: the Status object.
        headers: further headers of the answer.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: Json | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.headers = headers or {}
        self.status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
        }
        if reason:
            self.status["reason"] = reason
        if details is not None:
            self.status["details"] = details
        self.status["code"] = code


def qualified(group: str, resource: str) -> str:
    """Return a resource as messages name it: ``deployments.apps``."""
    return f"{resource}.{group}" if group else resource


def target(group: str, kind: str, name: str = "") -> Json:
    """Return the ``details`` that name what a request was about."""
    details: Json = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    return details


def bad_request(message: str) -> RequestRefusal:
    """The request makes no sense."""
    return RequestRefusal(400, "BadRequest", message)


def unauthorized() -> RequestRefusal:
    """The server does not know the sender."""
    return RequestRefusal(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, resource: str, name: str, why: str) -> RequestRefusal:
    """The request is understood but not permitted."""
    subject = qualified(group, resource)
    quoted = f" {go_quote(name)}" if name else ""
    message = f"{subject}{quoted} is forbidden: {why}" if subject else f"forbidden: {why}"
    return RequestRefusal(403, "Forbidden", message, target(group, resource, name))


def not_found(group: str, resource: str, name: str) -> RequestRefusal:
    """The object does not exist."""
    message = f"{qualified(group, resource)} {go_quote(name)} not found"
    return RequestRefusal(404, "NotFound", message, target(group, resource, name))


def no_such_resource() -> RequestRefusal:
    """The server knows the group and version but not the resource."""
    message = "the server could not find the requested resource"
    return RequestRefusal(404, "NotFound", message, {})


def method_not_allowed() -> RequestRefusal:
    """The resource has no such operation."""
    message = "the server does not allow this method on the requested resource"
    return RequestRefusal(405, "MethodNotAllowed", message, {})


def not_supported_on(group: str, resource: str, action: str) -> RequestRefusal:
    """The resource exists but an operation on it is not supported."""
    message = (
        f"{action} is not supported on resources of kind {go_quote(qualified(group, resource))}"
    )
    return RequestRefusal(405, "MethodNotAllowed", message, target(group, resource))


def not_acceptable(message: str, details: Json | None = None) -> RequestRefusal:
    """The server cannot produce what the client accepts."""
    return RequestRefusal(406, "NotAcceptable", message, details)


def already_exists(group: str, resource: str, name: str) -> RequestRefusal:
    """An object of that name exists."""
    message = f"{qualified(group, resource)} {go_quote(name)} already exists"
    return RequestRefusal(409, "AlreadyExists", message, target(group, resource, name))


def conflict(group: str, resource: str, name: str, why: str) -> RequestRefusal:
    """The object is not in the state that the request supposes."""
    subject = f"{qualified(group, resource)} {go_quote(name)}"
    message = f"Operation cannot be fulfilled on {subject}: {why}"
    return RequestRefusal(409, "Conflict", message, target(group, resource, name))


def expired(message: str, metadata: Json | None = None) -> RequestRefusal:
    """The asked-for version is no longer known."""
    refusal = RequestRefusal(410, "Expired", message)
    refusal.status["metadata"] = metadata or {}
    return refusal


def unsupported_media_type(message: str, details: Json | None = None) -> RequestRefusal:
    """The server cannot read what the client sent."""
    return RequestRefusal(415, "UnsupportedMediaType", message, details)


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> RequestRefusal:
    """The object's fields are not acceptable."""
    causes = [{"reason": e.type.value, "message": e.body, "field": e.field} for e in errors]
    message = f"{qualified(group, kind)} {go_quote(name)} is invalid: {aggregate(errors)}"
    return RequestRefusal(422, "Invalid", message, {**target(group, kind, name), "causes": causes})


def too_large_body(limit: int) -> RequestRefusal:
    """The request's body is larger than the server reads."""
    message = f"Request entity is too large: limit is {limit}"
    return RequestRefusal(413, "RequestEntityTooLarge", message)


def misdirected(host: str) -> RequestRefusal:
    """The request is for another machine."""
    return RequestRefusal(421, "MisdirectedRequest", f"this is localhost; {host} is not")


def failed(message: str, reason: str = "") -> RequestRefusal:
    """Something went wrong inside the server."""
    return RequestRefusal(500, reason, message)


def internal_error(why: str) -> RequestRefusal:
    """Something is wrong that the client cannot do anything about."""
    message = f"Internal error occurred: {why}"
    return RequestRefusal(500, "InternalError", message, {"causes": [{"message": why}]})


def injected(code: int) -> RequestRefusal:
    """A failure that was ordered."""
    reasons = {
        401: "Unauthorized",
        403: "Forbidden",
        404: "NotFound",
        409: "Conflict",
        410: "Expired",
        429: "TooManyRequests",
        500: "InternalError",
        503: "ServiceUnavailable",
        504: "Timeout",
    }
    return RequestRefusal(code, reasons.get(code, ""), "this failure was injected by the lab")
