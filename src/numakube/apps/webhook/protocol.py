"""AdmissionReviews (admission.k8s.io/v1), as far as they matter."""

from typing import Any, Final

from numakube.api.codec import decode, encode
from numakube.api.wire import Wire, always
from numakube.errors import MalformedObject

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"


class AdmissionRequest(Wire, frozen=True):
    """What is to be done with an object; ``old_object`` is what it has been."""

    uid: str
    operation: str = ""
    sub_resource: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None


class Cause(Wire, frozen=True):
    """What is wrong with one field."""

    field: str = ""
    message: str = ""
    reason: str = always("FieldValueInvalid")


class Details(Wire, frozen=True):
    """Everything that is wrong, and with what."""

    kind: str = ""
    name: str = ""
    causes: tuple[Cause, ...] = ()


class Status(Wire, frozen=True):
    """Why an object is refused."""

    message: str
    reason: str = always("Invalid")
    code: int = 0
    details: Details = Details()


class AdmissionResponse(Wire, frozen=True):
    """The answer; warnings are shown to whoever has sent the object."""

    uid: str
    allowed: bool
    status: Status | None = None
    warnings: tuple[str, ...] = ()


class AdmissionReview(Wire, frozen=True):
    """A question, or the answer to it."""

    request: AdmissionRequest | None = None
    response: AdmissionResponse | None = None
    api_version: str = always(API_VERSION)
    kind: str = always(KIND)


def read_review(body: bytes) -> AdmissionRequest:
    """Return the question in *body*.

    Raises:
        MalformedObject: there is none.
    """
    review = decode(AdmissionReview, body, KIND)
    if review.api_version != API_VERSION or review.kind != KIND:
        found = f"{review.api_version} {review.kind}"
        raise MalformedObject(KIND, f"{found} is not {API_VERSION} {KIND}", path="apiVersion")
    if review.request is None:
        raise MalformedObject(KIND, "is required", path="request")
    return review.request


def write_review(response: AdmissionResponse) -> bytes:
    """Return the answer as it goes back."""
    return encode(AdmissionReview(response=response))
