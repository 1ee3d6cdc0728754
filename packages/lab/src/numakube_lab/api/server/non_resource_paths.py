"""Answer requests for paths beside the resources: discovery, OpenAPI, health, version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.api.handling.call import Call, Reply, json_reply, text_reply
from numakube_lab.api.server import discovery
from numakube_lab.api.wire.negotiation import parse_accept
from numakube_lab.api.wire.refusals import method_not_allowed, no_such_resource

if TYPE_CHECKING:
    from numakube_lab.api.catalogue.served_resources import Registry
    from numakube_lab.api.handling.server_state import State


NOT_FOUND_TEXT: Final = "404 page not found\n"

VERSION: Final = {
    "major": "1",
    "minor": "35",
    "gitVersion": "v1.35.7+numakube",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
"""The version that the server behaves like."""


# These come from parts of the real server that do not look at the method.
_ANY_METHOD: Final = ("apis", "healthz", "livez", "readyz")


def answer_path(state: State, call: Call) -> Reply:
    """Answer a request for a path beside the resources."""
    path = call.info.path
    parts = path.strip("/").split("/")
    if path.endswith("/") and parts[0] in _ANY_METHOD[1:]:
        return text_reply(404, NOT_FOUND_TEXT)
    found = _discovered(state, call, parts) or _document(state, call, parts)
    if found is None:
        group = {"api": "", "apis": "".join(parts[1:2])}.get(parts[0])
        if group is not None and state.registry.is_builtin(group):
            raise no_such_resource()
        return text_reply(404, NOT_FOUND_TEXT)
    if call.method not in ("GET", "HEAD") and parts[0] not in _ANY_METHOD:
        raise method_not_allowed()
    return found


def _document(state: State, call: Call, parts: list[str]) -> Reply | None:
    match parts:
        case [""]:
            return index(state.registry)
        case ["healthz" | "livez" | "readyz" as endpoint, *check]:
            return health(call, endpoint, "/".join(check))
        case ["version"]:
            return json_reply(200, VERSION)
        case ["openapi", "v2"]:
            return openapi_v2(call)
        case ["openapi", "v3"]:
            return json_reply(200, state.openapi.index(state.registry))
        case ["openapi", "v3", *name]:
            document = state.openapi.document(state.registry, "/".join(name))
            return json_reply(200, document) if document else None
        case _:
            return None


def _discovered(state: State, call: Call, parts: list[str]) -> Reply | None:
    registry = state.registry
    match parts:
        case ["api"]:
            return discovery.core_versions(registry, call, state.address)
        case ["apis"]:
            return discovery.groups(registry, call)
        case ["apis", group] if known := registry.group(group):
            return discovery.group_versions(known)
        case ["api", version]:
            return _resources(state, "", version)
        case ["apis", group, version]:
            return _resources(state, group, version)
        case _:
            return None


def _resources(state: State, group: str, version: str) -> Reply | None:
    known = state.registry.group(group)
    if known is None or version not in known.versions:
        return None
    return discovery.group_resources(known, version)


_COMMON: Final = ("ping", "log", "etcd")
_CHECKS: Final = {
    "healthz": _COMMON,
    "livez": _COMMON,
    "readyz": (*_COMMON, "etcd-readiness", "informer-sync", "shutdown"),
}
"""What each endpoint looks at: a server that answers at all passes all of it."""


def health(call: Call, endpoint: str, check: str) -> Reply | None:
    """Answer a health endpoint, or one of its checks; None if there is no such check."""
    checks = _CHECKS.get(endpoint)
    if checks is None or (check and check not in checks):
        return None
    if check or "verbose" not in call.query:
        return text_reply(200, "ok")
    lines = "".join(f"[+]{name} ok\n" for name in checks)
    return text_reply(200, f"{lines}{endpoint} check passed\n")


def index(registry: Registry) -> Reply:
    """Answer ``/``: the paths that there are."""
    paths = ["/api", "/api/v1", "/apis", "/apis/", "/openapi/v3", "/openapi/v3/", "/version"]
    for group in registry.groups():
        paths.append(f"/apis/{group.name}")
        paths += [f"/apis/{group.name}/{version}" for version in group.versions]
    for endpoint, checks in _CHECKS.items():
        paths += [f"/{endpoint}", *(f"/{endpoint}/{check}" for check in checks)]
    return json_reply(200, {"paths": sorted(paths)})


_PROTOBUF_TYPES: Final = (
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)
_SWAGGER: Final = "2.0"
_TITLE: Final = "Kubernetes"
_VERSION: Final = "1.35"


def openapi_v2(call: Call) -> Reply:
    """Answer ``/openapi/v2``: only the head of the document, since version 3 says what is served.

    kubectl asks for it before it sends the items of a ``List``, reads its protobuf form alone, and
    gives up if there is none. What the document does not describe it leaves to the server.
    """
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
