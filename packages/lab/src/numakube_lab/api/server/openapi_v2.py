"""The OpenAPI v2 document: only its head, since version 3 says what is served.

kubectl still asks for it before it sends the items of a ``List``, reads nothing but its protobuf
form, and gives up if there is none. What the document does not describe is left to the server,
which checks fields itself.
"""

from __future__ import annotations

from typing import Final

from numakube_lab.api.handling.call import Call, Reply, json_reply
from numakube_lab.api.wire.negotiation import parse_accept

_PROTOBUF_TYPES: Final = (
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)
_SWAGGER: Final = "2.0"
_TITLE: Final = "Kubernetes"
_VERSION: Final = "1.35"


def openapi_v2(call: Call) -> Reply:
    """Answer ``/openapi/v2``."""
    wanted = parse_accept(call.headers.get("Accept"))
    if wanted and wanted[0].type in _PROTOBUF_TYPES:
        return Reply(200, _protobuf(), content_type=_PROTOBUF_TYPES[1])
    info = {"title": _TITLE, "version": _VERSION}
    return json_reply(200, {"swagger": _SWAGGER, "info": info, "paths": {}})


def _protobuf() -> bytes:
    """Return the document as a message: 1 is the version of the form, 2 the info."""
    return _text(1, _SWAGGER) + _sized(2, _text(1, _TITLE) + _text(2, _VERSION))


def _text(number: int, text: str) -> bytes:
    return _sized(number, text.encode())


def _sized(number: int, data: bytes) -> bytes:
    """Return a value whose length stands before it; all lengths here fit into one byte."""
    return bytes((number << 3 | 2, len(data))) + data
