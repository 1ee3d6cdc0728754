"""Every built-in kind and its type.

Field names, Go types and merge behaviour follow Kubernetes 1.35. Types that the lab does not serve
are left out; so are the descriptions of fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube_lab.kinds import GVK, Json, Problems
from numakube_lab.schema.canonical import canonical_struct
from numakube_lab.schema.decoding import check
from numakube_lab.schema.groups import (
    access,
    apps,
    autoscaling,
    batch,
    core_cluster,
    core_containers,
    core_pod,
    core_volumes,
    devices,
    extension,
    meta,
    networking,
    server,
    storage,
    workloads,
)
from numakube_lab.schema.type_tables import Catalogue, Package, build
from numakube_lab.schema.types import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

_API: Final = "io.k8s.api"

PACKAGES: Final = (
    Package("meta.v1", "meta.k8s.io", (meta.TABLE,), "io.k8s.apimachinery.pkg.apis.meta.v1"),
    Package(
        "core.v1",
        "",
        (core_pod.TABLE, core_containers.TABLE, core_volumes.TABLE, core_cluster.TABLE),
        f"{_API}.core.v1",
    ),
    Package("apps.v1", "apps", (apps.TABLE,), f"{_API}.apps.v1"),
    Package("batch.v1", "batch", (batch.TABLE,), f"{_API}.batch.v1"),
    Package("policy.v1", "policy", (workloads.POLICY,), f"{_API}.policy.v1"),
    Package(
        "coordination.v1",
        "coordination.k8s.io",
        (workloads.COORDINATION,),
        f"{_API}.coordination.v1",
    ),
    Package("scheduling.v1", "scheduling.k8s.io", (workloads.SCHEDULING,), f"{_API}.scheduling.v1"),
    Package("node.v1", "node.k8s.io", (workloads.NODE,), f"{_API}.node.v1"),
    Package("discovery.v1", "discovery.k8s.io", (workloads.DISCOVERY,), f"{_API}.discovery.v1"),
    Package("events.v1", "events.k8s.io", (workloads.EVENTS,), f"{_API}.events.v1"),
    Package("rbac.v1", "rbac.authorization.k8s.io", (access.RBAC,), f"{_API}.rbac.v1"),
    Package(
        "authentication.v1",
        "authentication.k8s.io",
        (access.AUTHENTICATION,),
        f"{_API}.authentication.v1",
    ),
    Package(
        "authorization.v1",
        "authorization.k8s.io",
        (access.AUTHORIZATION,),
        f"{_API}.authorization.v1",
    ),
    Package("networking.v1", "networking.k8s.io", (networking.TABLE,), f"{_API}.networking.v1"),
    Package("storage.v1", "storage.k8s.io", (storage.TABLE,), f"{_API}.storage.v1"),
    Package("autoscaling.v1", "autoscaling", (autoscaling.V1,), f"{_API}.autoscaling.v1"),
    Package("autoscaling.v2", "autoscaling", (autoscaling.V2,), f"{_API}.autoscaling.v2"),
    Package(
        "admissionregistration.v1",
        "admissionregistration.k8s.io",
        (extension.ADMISSION, server.ADMISSION_POLICIES),
        f"{_API}.admissionregistration.v1",
    ),
    Package(
        "apiextensions.v1",
        "apiextensions.k8s.io",
        (extension.APIEXTENSIONS,),
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
    ),
    Package("resource.v1", "resource.k8s.io", (devices.TABLE,), f"{_API}.resource.v1"),
    Package(
        "flowcontrol.v1",
        "flowcontrol.apiserver.k8s.io",
        (server.FLOW_CONTROL,),
        f"{_API}.flowcontrol.v1",
    ),
    Package(
        "certificates.v1",
        "certificates.k8s.io",
        (server.CERTIFICATES,),
        f"{_API}.certificates.v1",
    ),
    Package(
        "apiregistration.v1",
        "apiregistration.k8s.io",
        (server.API_REGISTRATION,),
        "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class TypeInfo:
    """The type of a built-in kind: a `numakube_lab.kinds.TypeInfo`."""

    gvk: GVK
    root: Struct

    def check(self, obj: Json, *, strict: bool) -> Problems:
        """Tell what is wrong with *obj* as sent by a client; unknown fields only if *strict*."""
        return check(obj, self.root, strict=strict)

    def canonical(self, obj: Json, known: Json | None = None) -> Json:
        """Return *obj*, which `check` found decodable, as the server prints it."""
        return canonical_struct(self.root, obj, known)


CATALOGUE: Final[Catalogue] = build(PACKAGES)

BUILTIN: Final[Mapping[GVK, TypeInfo]] = MappingProxyType(
    {
        gvk: TypeInfo(gvk, struct)
        for package, struct in CATALOGUE.resources
        for gvk in (GVK(package.group, package.version, struct.name),)
    }
)


def struct(package: str, name: str) -> Struct:
    """Return the struct *name* of *package*, such as ``PodTemplateSpec`` of ``core.v1``."""
    found = CATALOGUE.types[package, name]
    assert isinstance(found, Struct), f"{package}.{name} is no struct"  # noqa: S101
    return found


OBJECT_META: Final = struct("meta.v1", "ObjectMeta")
