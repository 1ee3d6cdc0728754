"""Discovery: which groups, versions and resources there are, in its old and its aggregated form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.api.catalogue.resources import storage_version_hash
from numakube_lab.api.handling.call import Reply, json_reply
from numakube_lab.api.wire.negotiation import MEDIA_TYPES, parse_accept
from numakube_lab.api.wire.refusals import not_acceptable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube_lab.api.catalogue.resources import Resource, Subresource
    from numakube_lab.api.catalogue.served_resources import Group, Registry, Served
    from numakube_lab.api.handling.call import Call
    from numakube_lab.kinds import GVK, Json

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


def group_versions(group: Group) -> Reply:
    """Answer ``/apis/GROUP``."""
    return json_reply(200, {"kind": "APIGroup", "apiVersion": "v1", **_group(group)})


def group_resources(group: Group, version: str) -> Reply:
    """Answer ``/api/v1`` or ``/apis/GROUP/VERSION``."""
    listed: Json = {"kind": "APIResourceList"}
    if group.name:
        listed["apiVersion"] = "v1"
    listed["groupVersion"] = _group_version(group.name, version)
    listed["resources"] = list(_resources(group.listed(version)))
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


def _group(group: Group) -> Json:
    versions = [
        {"groupVersion": _group_version(group.name, version), "version": version}
        for version in group.versions
    ]
    return {"name": group.name, "versions": versions, "preferredVersion": versions[0]}


def _resources(served: Iterable[Served]) -> Iterator[Json]:
    for entry in served:
        resource = entry.resource
        yield _resource(resource)
        for part in resource.subresources:
            yield _part(resource, part)


def _verbs(resource: Resource) -> list[str]:
    return list(_CUSTOM_VERBS if resource.custom else resource.verbs)


def _resource(resource: Resource) -> Json:
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


def _part(resource: Resource, part: Subresource) -> Json:
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


def _aggregated(found: Iterable[Group]) -> Reply:
    items = [
        {
            "metadata": {"name": group.name} if group.name else {},
            "versions": [
                {
                    "version": version,
                    "resources": [_described(one.resource) for one in group.listed(version)],
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


def _described(resource: Resource) -> Json:
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


def _response_kind(resource: Resource, kind: GVK) -> Json:
    """A built-in kind of the resource's own group and version is named by its kind alone."""
    if not resource.custom and kind[:2] == resource.kind[:2]:
        return {"group": "", "version": "", "kind": kind.kind}
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}
