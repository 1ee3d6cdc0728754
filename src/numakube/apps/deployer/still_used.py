"""Whether what we deployed is used by others than the components that are removed.

Three kinds of objects are shared: a namespace, with everything that is in it; a definition, with
all objects of its kind, of any writer; and what several of our components bring along. They go with
the last who uses them, and never take along what somebody else has made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from numakube.api.codec import Wire
from numakube.api.crds import NRT_CRD, UPDATE_CRD, crd
from numakube.api.meta import Named
from numakube.apps.deployer.apply_and_remove import is_ours
from numakube.apps.deployer.cluster_detection import installations
from numakube.apps.served_topologies import served_topologies
from numakube.errors import ApiError, NotFound
from numakube.kube.catalog import resource_of
from numakube.kube.connection.transport import Request
from numakube.kube.decode import read_answer
from numakube.kube.resource_types import Resource
from numakube.manifests import extender
from numakube.manifests.components import (
    COMPONENTS,
    DEFAULT,
    WITHOUT_REPORTS,
    component_objects,
    objects_of,
)
from numakube.topology.topology_view import Producer, producer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from numakube.api.meta import ObjectMeta
    from numakube.kube.client import Client
    from numakube.kube.resource_types import Document
    from numakube.manifests.components import Choices


# What is in a namespace besides what every namespace has, of any kind that the cluster serves.
#
# A namespace takes everything in it along when it is deleted. So the kinds are not a list of ours:
# the server says which there are, as kube-controller-manager asks it before it empties a namespace.


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


class _UsedKind(Wire, frozen=True):
    name: str = ""
    kind: str = ""
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _Kinds(Wire, frozen=True):
    resources: tuple[_UsedKind, ...] | None = None


class _UsedGroupVersion(Wire, frozen=True):
    group_version: str = ""


class _UsedGroup(Wire, frozen=True):
    versions: tuple[_UsedGroupVersion, ...] = ()


class _UsedGroups(Wire, frozen=True):
    groups: tuple[_UsedGroup, ...] | None = None


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
        found += (_Object(kind.kind, named.metadata) for named in listed.items)
    inside = {(kind.group, kind.kind) for kind in kinds}
    left = sorted(
        f"{one.kind.lower()}/{one.metadata.name}"
        for one in found
        if not _comes_by_itself(one, inside) and not but(one.kind, one.metadata.name)
    )
    return [*dict.fromkeys(left), *unread]


async def _namespaced_kinds(client: Client, unread: list[str]) -> list[Resource[Named]]:
    """Return the kinds whose objects a namespace would take along, each in one version."""
    groups = (await _read(client, "/apis", _UsedGroups)).groups or ()
    versions = ["v1", *(each.group_version for group in groups for each in group.versions)]
    kinds: dict[tuple[str, str], Resource[Named]] = {}
    for version in versions:
        path = f"/apis/{version}" if "/" in version else f"/api/{version}"
        try:
            listed = (await _read(client, path, _Kinds)).resources or ()
        except ApiError as error:
            unread.append(f"{version} cannot be looked at ({error})")
            continue
        group, _, number = version.rpartition("/")
        for kind in listed:
            # What cannot be deleted, such as metrics, is shown there and not kept there.
            if kind.namespaced and "/" not in kind.name and {"list", "delete"} <= {*kind.verbs}:
                kinds.setdefault(
                    (group, kind.name),
                    Resource(
                        group=group,
                        version=number,
                        plural=kind.name,
                        kind=kind.kind,
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
    return read_answer(type_, response.body, str(request))


_TOPOLOGIES: Final = crd(NRT_CRD)["metadata"]["name"]
_UPDATES: Final = crd(UPDATE_CRD)["metadata"]["name"]
_MARKS: Final = ("CustomResourceDefinition", "DaemonSet", "Deployment")
"""Kinds whose objects show that a component is deployed."""
_TOLD: Final = 5
"""Names in one line."""


@dataclass(slots=True, kw_only=True)
class StillUsed:
    """Looks at a cluster for what uses an object that is about to be deleted.

    Attributes:
        going: everything that is removed.
        others: objects of the components that are not asked for, by component.
        everything: whether the whole installation is to go.
    """

    client: Client
    going: Sequence[Document]
    others: Mapping[str, Sequence[Document]]
    everything: bool
    _deployed: list[str] | None = field(default=None, init=False)

    @classmethod
    def besides(cls, removed: Sequence[str], choices: Choices, client: Client) -> StillUsed:
        """Return what looks for users of the components *removed* besides themselves."""
        others = [name for name in COMPONENTS if name not in removed]
        return cls(
            client=client,
            going=objects_of(removed, choices),
            others={name: component_objects(name, choices) for name in others},
            everything=set(DEFAULT) <= set(removed),
        )

    async def __call__(self, document: Document, gone: Sequence[Document]) -> str:
        """Return why *document* has to stay when *gone* are; empty if nothing speaks for it."""
        match document["kind"]:
            case "Namespace":
                return await self._namespace(document["metadata"]["name"], gone)
            case "CustomResourceDefinition":
                return await self._definition(document)
            case _:
                return await self._shared(document)

    async def _namespace(self, name: str, gone: Sequence[Document]) -> str:
        if not self.everything:
            return "`numakube remove` without a component deletes it when nothing is left in it"
        keys = {_key(one) for one in gone}

        def goes(kind: str, each: str) -> bool:
            claims = kind == "Lease" and each.startswith(f"{extender.NAME}.")
            return (kind, name, each) in keys or claims

        left = await contents(self.client, name, but=goes)
        return f"it has {_some(left)}" if left else ""

    async def _definition(self, document: Document) -> str:
        name = document["metadata"]["name"]
        if name in (_TOPOLOGIES, _UPDATES):
            users = await self._users_of_topologies()
            if users:
                return f"used by {_some(users)}"
        if name == _UPDATES:
            return ""
        if name == _TOPOLOGIES:
            left = await self._topologies_of_others()
        else:
            left = await self._objects(document)
        return f"it has {_some(left)}" if left else ""

    async def _users_of_topologies(self) -> list[str]:
        """Return programs that stay and read or write reports; those at rest are woken."""
        gone = {_key(one) for one in self.going}
        found = [
            str(installation)
            for installation in await installations(self.client)
            if installation.key not in gone
        ]
        ours = [other for other in await self._deployed_others() if other not in WITHOUT_REPORTS]
        return found or [f"component {one}" for one in ours]

    async def _topologies_of_others(self) -> list[str]:
        try:
            served = await served_topologies(self.client)
            listed = (await self.client.list(served)).items
        except NotFound:
            return []
        return [
            f"noderesourcetopology/{report.metadata.name} of another exporter"
            for report in listed
            if producer_of(report) is not Producer.NUMAKUBE
        ]

    async def _objects(self, definition: Document) -> list[str]:
        """Return the objects of a kind that only users write."""
        spec: dict[str, Any] = definition["spec"]
        stored = next(version["name"] for version in spec["versions"] if version["storage"])
        kind = Resource(
            group=spec["group"],
            version=stored,
            plural=spec["names"]["plural"],
            kind=spec["names"]["kind"],
            namespaced=spec["scope"] == "Namespaced",
            object_type=Named,
        )
        try:
            listed = (await self.client.list(kind)).items
        except NotFound:
            return []
        return [f"{kind.kind.lower()}/{named.metadata.name}" for named in listed]

    async def _shared(self, document: Document) -> str:
        key = _key(document)
        sharing = [
            component
            for component in await self._deployed_others()
            if any(_key(other) == key for other in self.others[component])
        ]
        return f"used by component {', '.join(sharing)}" if sharing else ""

    async def _deployed_others(self) -> list[str]:
        """Return the other components of ours that the cluster has, by what is theirs alone."""
        if self._deployed is None:
            gone = {_key(one) for one in self.going}
            found = [
                component
                for component, documents in self.others.items()
                if await self._any_live(
                    [document for document in documents if _key(document) not in gone]
                )
            ]
            # Of `api` there may be nothing but what it shares: its kinds may have been there.
            shared = ["api"] if found and "api" in self.others else []
            self._deployed = list(dict.fromkeys([*shared, *found]))
        return self._deployed

    async def _any_live(self, documents: Sequence[Document]) -> bool:
        for document in documents:
            if document["kind"] in _MARKS:
                metadata = document["metadata"]
                try:
                    live = await self.client.get(
                        resource_of(document),
                        metadata["name"],
                        namespace=metadata.get("namespace", ""),
                    )
                except NotFound:
                    continue
                if is_ours(live):
                    return True
        return False


def _key(document: Document) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def _some(names: Sequence[str]) -> str:
    """Return *names* as a list of bearable length."""
    more = len(names) - _TOLD
    told = ", ".join(names[:_TOLD])
    return f"{told} and {more} more" if more > 0 else told
