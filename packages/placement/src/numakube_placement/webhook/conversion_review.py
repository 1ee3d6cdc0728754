"""The answer to one ConversionReview (apiextensions.k8s.io/v1): a pure function of the request.

API servers ask when an object is read or written in another version than it is stored in. All
objects of a request are converted, or none: the caller then sees why.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from numakube.api.codec import Wire, always, decode, encode
from numakube.errors import MalformedObject
from numakube.topology import convert_version

API_VERSION: Final = "apiextensions.k8s.io/v1"
KIND: Final = "ConversionReview"


class ConversionRequest(Wire, frozen=True):
    """Which objects to convert, and to which version."""

    uid: str
    desired_api_version: str = msgspec.field(default="", name="desiredAPIVersion")
    objects: tuple[dict[str, Any], ...] = ()


class ConversionResult(Wire, frozen=True):
    """Whether it worked; ``message`` says why not."""

    status: str = always("Success")
    message: str = ""


class ConversionResponse(Wire, frozen=True):
    """The objects in the order of the request."""

    uid: str
    result: ConversionResult
    converted_objects: tuple[dict[str, Any], ...] = ()


class ConversionReview(Wire, frozen=True):
    """A question, or the answer to it."""

    request: ConversionRequest | None = None
    response: ConversionResponse | None = None
    api_version: str = always(API_VERSION)
    kind: str = always(KIND)


def read_conversion(body: bytes) -> ConversionRequest:
    """Return the question in *body*.

    Raises:
        MalformedObject: there is none.
    """
    review = decode(ConversionReview, body, KIND)
    if review.api_version != API_VERSION or review.kind != KIND:
        found = f"{review.api_version} {review.kind}"
        raise MalformedObject(KIND, f"{found} is not {API_VERSION} {KIND}", path="apiVersion")
    if review.request is None:
        raise MalformedObject(KIND, "is required", path="request")
    return review.request


def write_conversion(response: ConversionResponse) -> bytes:
    """Return the answer as it goes back."""
    return encode(ConversionReview(response=response))


def convert_all(request: ConversionRequest) -> ConversionResponse:
    """Return the answer to *request*."""
    try:
        converted = tuple(
            convert_version(tree, request.desired_api_version) for tree in request.objects
        )
    except MalformedObject as error:
        return ConversionResponse(
            uid=request.uid, result=ConversionResult(status="Failed", message=str(error))
        )
    return ConversionResponse(
        uid=request.uid, result=ConversionResult(), converted_objects=converted
    )
