"""What a request's method and path ask for, before any resource is looked up.

Mirrors kube-apiserver's request info: authorisation is decided on it, so it is made for every path,
known or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERBS: Final = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}

# Subresources of a namespace: any other word after its name is a resource inside it.
_NAMESPACE_PARTS: Final = frozenset({"status", "finalize"})


class RequestInfo(NamedTuple):
    """A request taken apart.

    Attributes:
        verb: what is done (``list``), or the method in lower case for a path beside the resources.
        is_resource: whether the path has the form of a resource's.
        legacy_watch: whether the path has the old form ``/api/v1/watch/...``.
        selected: whether the name comes from a field selector instead of the path.
        rest: what follows the subresource in the path.
    """

    verb: str
    path: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    legacy_watch: bool = False
    selected: bool = False
    rest: tuple[str, ...] = ()


def parse_request(method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
    """Take the request apart."""
    parts = path.strip("/").split("/")
    match parts:
        case ["api", version, *rest] if rest and rest[0]:
            return _resource_request(method, path, query, ("", version, rest))
        case ["apis", group, version, *rest] if rest and rest[0]:
            return _resource_request(method, path, query, (group, version, rest))
    return RequestInfo(verb=method.lower(), path=path)


def _resource_request(
    method: str, path: str, query: Mapping[str, str], parts: tuple[str, str, list[str]]
) -> RequestInfo:
    group, version, rest = parts
    verb = _VERBS.get(method, "")
    legacy_watch = rest[0] == "watch" and len(rest) > 1
    if legacy_watch:
        verb, rest = "watch", rest[1:]
    namespace, rest = _namespace(rest)
    resource, name, subresource = (*rest, "", "", "")[:3]
    selected = not name
    if not name:
        verb = _collection_verb(verb, query)
        name = _selected_name(query) if verb in ("list", "watch", "deletecollection") else ""
    return RequestInfo(
        verb=verb,
        path=path,
        is_resource=True,
        group=group,
        version=version,
        namespace=namespace,
        resource=resource,
        subresource=subresource,
        name=name,
        legacy_watch=legacy_watch,
        selected=selected,
        rest=tuple(rest[3:]),
    )


def _namespace(rest: list[str]) -> tuple[str, list[str]]:
    if rest[0] != "namespaces" or len(rest) == 1:
        return "", rest
    if len(rest) > 2 and rest[2] not in _NAMESPACE_PARTS:
        return rest[1], rest[2:]
    return rest[1], rest


def _collection_verb(verb: str, query: Mapping[str, str]) -> str:
    if verb == "get":
        return "watch" if is_true(query.get("watch")) else "list"
    return "deletecollection" if verb == "delete" else verb


def is_true(value: str | None) -> bool:
    """Tell whether a query parameter is set: anything but ``0``, ``false`` in any case, counts."""
    if value is None:
        return False
    return value.lower() not in ("0", "false")


def _selected_name(query: Mapping[str, str]) -> str:
    """Return the name that a field selector requires: a list of one object needs less rights."""
    for term in query.get("fieldSelector", "").split(","):
        field, mark, value = term.partition("=")
        if mark and field.rstrip("!") == "metadata.name" and not field.endswith("!"):
            return value.removeprefix("=")
    return ""
