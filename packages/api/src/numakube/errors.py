"""The exceptions that packages of numakube raise to each other, and the root of all others.

    NumakubeError
    ├── InvalidValue        a text that is not a quantity, cpuset, mask or resource name
    ├── MalformedObject     an object or file whose shape is wrong; names the object and the field
    ├── CorruptCheckpoint   a kubelet state file whose checksum or content cannot be trusted
    ├── ConfigError         a configuration that cannot be used
    │   ├── KubeletStartError   one that the kubelet itself would refuse to start with
    │   ├── CredentialError     credentials for the API server are missing
    │   └── MissingDefinition   a kind of object that the cluster does not know yet
    ├── KubeletUnavailable  no usable answer on one of the kubelet's sockets
    │   └── KubeletNotReady     it answers, but has not loaded all of its state yet
    ├── RuntimeUnavailable  no usable answer on the container runtime's socket
    ├── ClusterUnreachable  no answer from the API server; says whether the request was sent
    │   └── UntrustedServer     its certificate, or ours, was not accepted
    ├── ApiError            the API server refused a request; one class for each usual reason:
    │                       BadRequest, Unauthorized, Forbidden, NotFound, MethodNotAllowed,
    │                       NotAcceptable, AlreadyExists, Conflict, Expired, RequestTooLarge,
    │                       UnsupportedMediaType, Invalid, TooManyRequests, InternalError,
    │                       ServerTimeout, ServiceUnavailable
    └── LeadershipLost      a lease could not be renewed in time; another may lead now

What only one package raises, such as `DevicePluginError` or the lab's `PatchError`, is defined
there and derives from one of these, so that a caller can always catch `NumakubeError`.

An expected outcome (a pod that does not fit) is never an exception: it is a value with a reason.
Each message says what is wrong, where, and where possible what to do about it.
"""

from dataclasses import dataclass


class NumakubeError(Exception):
    """Root of the tree: catching it catches everything that is not a bug."""


class InvalidValue(NumakubeError, ValueError):
    """A text could not be parsed as the value it should be.

    Attributes:
        reason: what Kubernetes itself says about the text, for messages that must match its own;
            empty if it says nothing.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class MalformedObject(NumakubeError):
    """An object does not have the shape it must have.

    Attributes:
        subject: what was being read, such as ``Pod default/web`` or a file's name.
        path: the offending field, such as ``spec.containers[0].name``; empty if not known.
    """

    def __init__(self, subject: str, detail: str, *, path: str = "") -> None:
        super().__init__(f"{subject}: {path}: {detail}" if path else f"{subject}: {detail}")
        self.subject = subject
        self.path = path
        self.detail = detail


class CorruptCheckpoint(NumakubeError):
    """A kubelet state file cannot be trusted."""


class ConfigError(NumakubeError):
    """A configuration cannot be used."""


class KubeletStartError(ConfigError):
    """The kubelet would refuse to start with this configuration, with exactly this text."""


class KubeletUnavailable(NumakubeError):
    """The kubelet gave no usable answer on one of its sockets."""


class KubeletNotReady(KubeletUnavailable):
    """The kubelet has just started, and what it answers is not true yet."""


class KubeletWillNotStart(KubeletUnavailable):
    """The kubelet is away, and its state files will probably keep it from starting."""


class RuntimeUnavailable(NumakubeError):
    """The container runtime did not answer, or not with something that makes sense."""


class CredentialError(ConfigError):
    """Credentials for the API server are missing: an exec plugin failed, a token expired."""


class MissingDefinition(ConfigError):
    """The cluster lacks the CustomResourceDefinition of objects that are to be written."""


class ClusterUnreachable(NumakubeError):
    """The API server gave no answer.

    Attributes:
        sent: the request may have reached the server, so it may have been carried out.
        refused: no program listens at the address, as when the server restarts.
    """

    def __init__(self, message: str, *, sent: bool = False, refused: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        self.refused = refused


class UntrustedServer(ClusterUnreachable):
    """The TLS handshake failed: the server's certificate or ours was not accepted."""


@dataclass(frozen=True, slots=True)
class ApiCause:
    """One of several things wrong with a request, such as one invalid field."""

    field: str = ""
    reason: str = ""
    message: str = ""


class ApiError(NumakubeError):
    """The API server refused a request and said why, in a ``Status`` object.

    Attributes:
        code: the HTTP status.
        reason: the machine-readable reason, such as ``NotFound``; empty if the server gave none.
        message: the server's own words.
        request: what was asked, such as ``GET /api/v1/nodes/n1``.
        causes: the single faults, mostly of an ``Invalid`` object.
        retry_after: seconds after which the server wants to be asked again; None if not said.
    """

    def __init__(
        self,
        message: str,
        *,
        code: int,
        reason: str = "",
        request: str = "",
        causes: tuple[ApiCause, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        where = f"{request}: " if request else ""
        super().__init__(f"{where}{message} ({code}{f' {reason}' if reason else ''})")
        self.code = code
        self.reason = reason
        self.message = message
        self.request = request
        self.causes = causes
        self.retry_after = retry_after


class BadRequest(ApiError):
    """400: the request makes no sense to the server."""


class Unauthorized(ApiError):
    """401: the server does not know who is asking."""


class Forbidden(ApiError):
    """403: the asker is known and may not do this."""


class NotFound(ApiError):
    """404: no such object, or no such kind of object."""


class MethodNotAllowed(ApiError):
    """405: this kind of object cannot be handled in this way."""


class NotAcceptable(ApiError):
    """406: the server cannot answer in the asked format."""


class AlreadyExists(ApiError):
    """409 on creating: the name is taken."""


class Conflict(ApiError):
    """409: the object changed meanwhile, or others own fields that an apply wants to set."""


class Expired(ApiError):
    """410: the resource version or the continuation of a list is too old; list again."""


class RequestTooLarge(ApiError):
    """413: the request's body is too big."""


class UnsupportedMediaType(ApiError):
    """415: the server does not read this format, or does not know this kind of patch."""


class Invalid(ApiError):
    """422: the object breaks the rules of its kind; see ``causes``."""


class TooManyRequests(ApiError):
    """429: the server is busy, or a disruption budget forbids an eviction for now."""


class InternalError(ApiError):
    """500: the server failed; what became of the request is not known."""


class ServerTimeout(ApiError):
    """500 or 504: the server could not finish in time."""


class ServiceUnavailable(ApiError):
    """503: the server cannot serve this at the moment."""


class LeadershipLost(NumakubeError):
    """The lease could not be renewed in time, so that another may lead now."""
