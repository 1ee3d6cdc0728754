"""What is in a namespace besides what every namespace has, of any kind that the cluster serves.

A namespace takes everything in it along when it is deleted. So the kinds are not a list of ours:
the server says which there are, as kube-controller-manager asks it before it empties a namespace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from numakube.api.codec import Wire
from numakube.api.meta import Named
from numakube.errors import ApiError, MalformedObject, NotFound
from numakube.kube.connection.transport import Request
from numakube.kube.decode import UNREADABLE
from numakube.kube.resource_types import Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from numakube.api.meta import ObjectMeta
    from numakube.kube.client import Client

T = TypeVar("T")

_OF_THE_CLUSTER: Final = frozenset(
    {
        ("ServiceAccount", "default"),
        ("ConfigMap", "kube-root-ca.crt"),
        # What OpenShift adds.
        ("ServiceAccount", "builder"),
        ("ServiceAccount", "deployer"),
        ("ConfigMap", "openshift-service-ca.crt"),
        ("RoleBinding", "system:deployers"),
        ("RoleBinding", "system:image-builders"),
        ("RoleBinding", "system:image-pullers"),
    }
)
"""What controllers put into every namespace, by kind and name."""
_TOKEN_OF: Final = (
    "kubernetes.io/service-account.name",
    "openshift.io/internal-registry-auth-token.service-account",
)
_OLM_COPY: Final = "olm.copiedFrom"


class _Kind(Wire, frozen=True):
    name: str = ""
    kind: str = ""
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _Kinds(Wire, frozen=True):
    resources: tuple[_Kind, ...] | None = None


class _GroupVersion(Wire, frozen=True):
    group_version: str = ""


class _Group(Wire, frozen=True):
    versions: tuple[_GroupVersion, ...] = ()


class _Groups(Wire, frozen=True):
    groups: tuple[_Group, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Object:
    kind: str
    metadata: ObjectMeta


async def contents(client: Client, namespace: str, *, but: Callable[[str, str], bool]) -> list[str]:
    """Return what would be lost with *namespace*, as kubectl names objects.

    Objects that vanish with an owner in the namespace are not told beside it. A kind that cannot be
    listed is told as such: nobody knows what it has there.

    Args:
        client: the API server.
        namespace: where to look.
        but: tells kinds and names that do not count.
    """
    found: list[_Object] = []
    unread: list[str] = []
    kinds = await _namespaced_kinds(client, unread)
    for kind in kinds:
        try:
            listed = await client.list(kind, namespace=namespace)
        except NotFound:
            continue  # It is not served any more.
        except ApiError as error:
            unread.append(f"{kind} cannot be listed ({error})")
            continue
        found += (_Object(kind.kind, one.metadata) for one in listed.items)
    inside = {(kind.group, kind.kind) for kind in kinds}
    left = sorted(
        f"{one.kind.lower()}/{one.metadata.name}"
        for one in found
        if not _comes_by_itself(one, inside) and not but(one.kind, one.metadata.name)
    )
    return [*dict.fromkeys(left), *unread]


async def _namespaced_kinds(client: Client, unread: list[str]) -> list[Resource[Named]]:
    """Return the kinds whose objects a namespace would take along, each in one version."""
    groups = (await _read(client, "/apis", _Groups)).groups or ()
    versions = ["v1", *(each.group_version for one in groups for each in one.versions)]
    kinds: dict[tuple[str, str], Resource[Named]] = {}
    for version in versions:
        path = f"/apis/{version}" if "/" in version else f"/api/{version}"
        try:
            listed = (await _read(client, path, _Kinds)).resources or ()
        except ApiError as error:
            unread.append(f"{version} cannot be looked at ({error})")
            continue
        group, _, number = version.rpartition("/")
        for one in listed:
            # What cannot be deleted, such as metrics, is shown there and not kept there.
            if one.namespaced and "/" not in one.name and {"list", "delete"} <= {*one.verbs}:
                kinds.setdefault(
                    (group, one.name),
                    Resource(
                        group=group,
                        version=number,
                        plural=one.name,
                        kind=one.kind,
                        namespaced=True,
                        object_type=Named,
                    ),
                )
    return list(kinds.values())


def _comes_by_itself(one: _Object, inside: Collection[tuple[str, str]]) -> bool:
    """Tell whether nobody has to have made *one*: controllers did, or it goes with its owner."""
    metadata = one.metadata
    tokens = (metadata.annotations.get(name) for name in _TOKEN_OF)
    return (
        one.kind in ("Event", "Endpoints")
        or (one.kind, metadata.name) in _OF_THE_CLUSTER
        or metadata.deletion_timestamp is not None
        or _OLM_COPY in metadata.labels
        or (one.kind == "Secret" and any(tokens))
        or any(
            (owner.api_version.rpartition("/")[0], owner.kind) in inside
            for owner in metadata.owner_references
        )
    )


async def _read(client: Client, path: str, type_: type[T]) -> T:
    request = Request(method="GET", path=path)
    response = await client.request(request)
    try:
        return msgspec.json.decode(response.body, type=type_)
    except UNREADABLE as error:
        raise MalformedObject(str(request), f"not readable: {error}") from None
