"""The kinds of `numakube.scheduling.framework.cluster_events` as the API server serves them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from numakube.api.workloads import Namespace
from numakube.kube.catalog import served
from numakube.kube.resource_types import Resource
from numakube.scheduling.framework.cluster_events import (
    OBJECT_KINDS,
    POD_GROUP_KINDS,
    ObjectKind,
)

if TYPE_CHECKING:
    from numakube.api.pod_groups import PodGroup
    from numakube.api.resource_claims import ResourceClaim
    from numakube.api.storage_objects import PersistentVolume, PersistentVolumeClaim
    from numakube.kube.client import Client

T = TypeVar("T")


def _resource(kind: ObjectKind) -> Resource[Any]:
    return Resource(
        group=kind.group,
        version=kind.version,
        plural=kind.plural,
        kind=kind.kind or kind.object_type.__name__,
        namespaced=kind.namespaced,
        object_type=kind.object_type,
    )


RESOURCES: Final = {kind.field: _resource(kind) for kind in (*OBJECT_KINDS, *POD_GROUP_KINDS)}
"""By the field of `ClusterObjects` that holds the objects."""

_VERSIONS: Final = {
    (kind.group, kind.plural): kind.versions
    for kind in (*OBJECT_KINDS, *POD_GROUP_KINDS)
    if kind.versions
}


async def located(client: Client, resource: Resource[T]) -> Resource[T]:
    """Return *resource* in a version that the server has.

    Raises:
        NotFound: the server has none of those that are read.
    """
    versions = _VERSIONS.get((resource.group, resource.plural))
    return resource if versions is None else await served(client, resource, versions)


CLAIMS: Final[Resource[PersistentVolumeClaim]] = RESOURCES["claims"]
VOLUMES: Final[Resource[PersistentVolume]] = RESOURCES["volumes"]
POD_GROUPS: Final[Resource[PodGroup]] = RESOURCES["pod_groups"]
RESOURCE_CLAIMS: Final[Resource[ResourceClaim]] = RESOURCES["resource_claims"]
DEVICES: Final = RESOURCES["devices"]
NAMESPACES: Final = Resource(
    version="v1", plural="namespaces", kind="Namespace", namespaced=False, object_type=Namespace
)
