"""Answer requests for paths that are no resource's: discovery, OpenAPI, health, version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.api.handling.call import Reply, json_reply, text_reply
from numakube_lab.api.server import discovery
from numakube_lab.api.server.health import health, index
from numakube_lab.api.server.openapi_v2 import openapi_v2
from numakube_lab.api.wire.refusals import method_not_allowed, no_such_resource

if TYPE_CHECKING:
    from numakube_lab.api.handling.call import Call
    from numakube_lab.api.handling.state import State

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
    """Answer a request for a path that is no resource's."""
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
            return state.openapi.index(state.registry)
        case ["openapi", "v3", *name]:
            return state.openapi.document(state.registry, "/".join(name))
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
