"""Which resources a server has: for controllers that look after objects of every kind."""

from typing import Final, TypeVar

from numakube.api.codec import Wire
from numakube.kube.client import Client
from numakube.kube.connection.transport import Request
from numakube.kube.decode import codec_of
from numakube.kube.resource_types import Resource
from numakube_lab.controllers.types.cluster_types import Metadata

T = TypeVar("T")

_NEEDED: Final = frozenset({"delete", "list", "watch"})
# Events are many, own nothing and go by themselves; the real collector leaves them out too.
_IGNORED: Final = frozenset({("", "events"), ("events.k8s.io", "events")})


class _GroupVersion(Wire, frozen=True):
    group_version: str = ""


class _Group(Wire, frozen=True):
    name: str = ""
    preferred_version: _GroupVersion = _GroupVersion()


class _Groups(Wire, frozen=True):
    groups: tuple[_Group, ...] = ()


class _ApiResource(Wire, frozen=True):
    name: str = ""
    kind: str = ""
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _ApiResources(Wire, frozen=True):
    resources: tuple[_ApiResource, ...] = ()


async def collectable_resources(client: Client) -> list[Resource[Metadata]]:
    """Return the resources whose objects can be listed, watched and deleted."""
    groups = await _read(client, "/apis", _Groups)
    versions = ["v1", *(group.preferred_version.group_version for group in groups.groups)]
    found: list[Resource[Metadata]] = []
    for group_version in versions:
        root = "/apis" if "/" in group_version else "/api"
        listed = await _read(client, f"{root}/{group_version}", _ApiResources)
        group, _, version = group_version.rpartition("/")
        found += [
            _resource(group, version, each)
            for each in listed.resources
            if set(each.verbs) >= _NEEDED and (group, each.name) not in _IGNORED
        ]
    return found


def _resource(group: str, version: str, listed: _ApiResource) -> Resource[Metadata]:
    return Resource(
        group=group,
        version=version,
        plural=listed.name,
        kind=listed.kind,
        namespaced=listed.namespaced,
        object_type=Metadata,
    )


async def _read(client: Client, path: str, type_: type[T]) -> T:
    response = await client.request(Request(method="GET", path=path))
    return codec_of(type_).one(response.body, kind=path)
