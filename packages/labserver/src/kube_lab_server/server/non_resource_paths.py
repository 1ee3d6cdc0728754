"""Paths that serve no resource: discovery in both of its forms, health, version, OpenAPI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.catalogue.resources import storage_version_hash
from kube_lab_server.handling.call import Call, Reply, json_reply, text_reply
from kube_lab_server.wire.negotiation import MEDIA_TYPES, parse_accept
from kube_lab_server.wire.refusals import method_not_allowed, no_such_resource, not_acceptable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kube_lab_server.catalogue.resources import Subresource, VersionedResource
    from kube_lab_server.catalogue.served_resources import ApiGroup, Registry, Served
    from kube_lab_server.handling.call import ServerState
    from kube_lab_server.kind_names import GVK, Json


_AGGREGATED_GROUP: Final = "apidiscovery.k8s.io"
_AGGREGATED_KIND: Final = "APIGroupDiscoveryList"
AGGREGATED_TYPE: Final = f"application/json;g={_AGGREGATED_GROUP};v=v2;as={_AGGREGATED_KIND}"

# Real servers list the verbs of custom resources in this order.
_CUSTOM_VERBS: Final = (
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
)


def core_versions(registry: Registry, call: Call, address: str) -> Reply:
    """Answer ``/api``."""
    core = registry.group("")
    if core is not None and wants_aggregated(call):
        return _aggregated([core])
    listed: Json = {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }
    return json_reply(200, listed)


def groups(registry: Registry, call: Call) -> Reply:
    """Answer ``/apis``."""
    if wants_aggregated(call):
        return _aggregated(registry.groups())
    listed = [_group(group) for group in registry.groups()]
    return json_reply(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed})


def group_versions(group: ApiGroup) -> Reply:
    """Answer ``/apis/GROUP``."""
    return json_reply(200, {"kind": "APIGroup", "apiVersion": "v1", **_group(group)})


def group_resources(group: ApiGroup, version: str) -> Reply:
    """Answer ``/api/v1`` or ``/apis/GROUP/VERSION``."""
    listed: Json = {"kind": "APIResourceList"}
    if group.name:
        listed["apiVersion"] = "v1"
    listed["groupVersion"] = _group_version(group.name, version)
    listed["resources"] = list(_listed_resources(group.listed(version)))
    return json_reply(200, listed)


def wants_aggregated(call: Call) -> bool:
    """Tell whether the client prefers the aggregated form; refuse unknown forms."""
    clauses = parse_accept(call.headers.get("Accept"))
    for clause in clauses:
        wanted = clause.params.get("as")
        if wanted is None:
            return False
        asked = (clause.params.get("g"), clause.params.get("v"), wanted)
        if asked == (_AGGREGATED_GROUP, "v2", _AGGREGATED_KIND):
            return True
    if clauses:
        known = ", ".join(MEDIA_TYPES)
        raise not_acceptable(f"only the following media types are accepted: {known}")
    return False


def _group_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


def _group(group: ApiGroup) -> Json:
    versions = [
        {"groupVersion": _group_version(group.name, version), "version": version}
        for version in group.versions
    ]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def _listed_resources(served: Iterable[Served]) -> Iterator[Json]:
    for entry in served:
        resource = entry.resource
        yield _resource(resource)
        for part in resource.subresources:
            yield _part(resource, part)


def _verbs(resource: VersionedResource) -> list[str]:
    return list(_CUSTOM_VERBS if resource.custom else resource.verbs)


def _resource(resource: VersionedResource) -> Json:
    listed: Json = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind.kind,
        "verbs": _verbs(resource),
    }
    if resource.short_names:
        listed["shortNames"] = list(resource.short_names)
    if resource.categories:
        listed["categories"] = list(resource.categories)
    if "list" in resource.verbs and "create" in resource.verbs:
        listed["storageVersionHash"] = storage_version_hash(resource.stored_as)
    return listed


def _part(resource: VersionedResource, part: Subresource) -> Json:
    listed: Json = {
        "name": f"{resource.plural}/{part.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": part.kind.kind,
        "verbs": list(part.verbs),
    }
    if part.kind[:2] != resource.kind[:2]:
        listed["group"], listed["version"] = part.kind.group, part.kind.version
    return listed


def _aggregated(found: Iterable[ApiGroup]) -> Reply:
    items = [
        {
            "metadata": {"name": group.name} if group.name else {},
            "versions": [
                {
                    "version": version,
                    "resources": [_described(served.resource) for served in group.listed(version)],
                    "freshness": "Current",
                }
                for version in group.versions
            ],
        }
        for group in found
    ]
    listed: Json = {
        "kind": _AGGREGATED_KIND,
        "apiVersion": f"{_AGGREGATED_GROUP}/v2",
        "metadata": {},
        "items": items,
    }
    reply = json_reply(200, listed)
    reply.content_type = AGGREGATED_TYPE
    return reply


def _described(resource: VersionedResource) -> Json:
    described: Json = {
        "resource": resource.plural,
        "responseKind": _response_kind(resource, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": _verbs(resource),
    }
    if resource.short_names:
        described["shortNames"] = list(resource.short_names)
    if resource.categories:
        described["categories"] = list(resource.categories)
    if resource.subresources:
        described["subresources"] = [
            {
                "subresource": part.name,
                "responseKind": _response_kind(resource, part.kind),
                "verbs": list(part.verbs),
            }
            for part in resource.subresources
        ]
    return described


def _response_kind(resource: VersionedResource, kind: GVK) -> Json:
    """A built-in kind of the resource's own group and version is named by its kind alone."""
    if not resource.custom and kind[:2] == resource.kind[:2]:
        return {"group": "", "version": "", "kind": kind.kind}
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


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


def answer_path(state: ServerState, call: Call) -> Reply:
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


def _document(state: ServerState, call: Call, parts: list[str]) -> Reply | None:
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


def _discovered(state: ServerState, call: Call, parts: list[str]) -> Reply | None:
    registry = state.registry
    match parts:
        case ["api"]:
            return core_versions(registry, call, state.address)
        case ["apis"]:
            return groups(registry, call)
        case ["apis", group] if known := registry.group(group):
            return group_versions(known)
        case ["api", version]:
            return _resources(state, "", version)
        case ["apis", group, version]:
            return _resources(state, group, version)
        case _:
            return None


def _resources(state: ServerState, group: str, version: str) -> Reply | None:
    known = state.registry.group(group)
    if known is None or version not in known.versions:
        return None
    return group_resources(known, version)


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
