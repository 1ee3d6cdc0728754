"""Every built-in kind and its type.

Field names, Go types and merge behaviour follow Kubernetes 1.35. Types that the lab does not serve
are left out; so are the descriptions of fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from kube_lab_server.kind_names import GVK, Json, Problems
from kube_lab_server.schema.canonical import canonical_struct
from kube_lab_server.schema.go_decoding import check
from kube_lab_server.schema.groups import (
    access_types,
    core_cluster_types,
    core_pod_types,
    device_types,
    meta_types,
    server_types,
    small_group_types,
    storage_types,
    workload_types,
)
from kube_lab_server.schema.types import Catalogue, Package, Struct, build

if TYPE_CHECKING:
    from collections.abc import Mapping


def _package(name: str, group: str, *tables: str, place: str = "io.k8s.api") -> Package:
    return Package(name, group, tables, f"{place}.{name}")


_APIMACHINERY: Final = "io.k8s.apimachinery.pkg.apis"
_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis"
_AGGREGATOR: Final = "io.k8s.kube-aggregator.pkg.apis"
_CORE: Final = (
    core_pod_types.PODS,
    core_pod_types.CONTAINERS,
    storage_types.CORE_VOLUMES,
    core_cluster_types.TABLE,
)
_ADMISSION: Final = (server_types.ADMISSION, server_types.ADMISSION_POLICIES)

PACKAGES: Final = (
    _package("meta.v1", "meta.k8s.io", meta_types.TABLE, place=_APIMACHINERY),
    _package("core.v1", "", *_CORE),
    _package("apps.v1", "apps", workload_types.APPS),
    _package("batch.v1", "batch", workload_types.BATCH),
    _package("policy.v1", "policy", small_group_types.POLICY),
    _package("coordination.v1", "coordination.k8s.io", small_group_types.COORDINATION),
    _package("scheduling.v1", "scheduling.k8s.io", small_group_types.SCHEDULING),
    _package("node.v1", "node.k8s.io", small_group_types.NODE),
    _package("discovery.v1", "discovery.k8s.io", small_group_types.DISCOVERY),
    _package("events.v1", "events.k8s.io", small_group_types.EVENTS),
    _package("rbac.v1", "rbac.authorization.k8s.io", access_types.RBAC),
    _package("authentication.v1", "authentication.k8s.io", access_types.AUTHENTICATION),
    _package("authorization.v1", "authorization.k8s.io", access_types.AUTHORIZATION),
    _package("networking.v1", "networking.k8s.io", small_group_types.NETWORKING),
    _package("storage.v1", "storage.k8s.io", storage_types.STORAGE),
    _package("autoscaling.v1", "autoscaling", workload_types.V1),
    _package("autoscaling.v2", "autoscaling", workload_types.V2),
    _package("admissionregistration.v1", "admissionregistration.k8s.io", *_ADMISSION),
    _package(
        "apiextensions.v1", "apiextensions.k8s.io", server_types.APIEXTENSIONS, place=_EXTENSIONS
    ),
    _package("resource.v1", "resource.k8s.io", device_types.TABLE),
    _package("flowcontrol.v1", "flowcontrol.apiserver.k8s.io", server_types.FLOW_CONTROL),
    _package("certificates.v1", "certificates.k8s.io", server_types.CERTIFICATES),
    _package(
        "apiregistration.v1",
        "apiregistration.k8s.io",
        server_types.API_REGISTRATION,
        place=_AGGREGATOR,
    ),
)


@dataclass(frozen=True, slots=True, eq=False)
class BuiltinTypeInfo:
    """The type of a built-in kind: a `kube_lab_server.kind_names.TypeInfo`."""

    gvk: GVK
    root: Struct

    def check(self, obj: Json, *, strict: bool) -> Problems:
        """Tell what is wrong with *obj* as sent by a client; unknown fields only if *strict*."""
        return check(obj, self.root, strict=strict)

    def canonical(self, obj: Json, known: Json | None = None) -> Json:
        """Return *obj*, which `check` found decodable, as the server prints it."""
        return canonical_struct(self.root, obj, known)


CATALOGUE: Final[Catalogue] = build(PACKAGES)

BUILTIN: Final[Mapping[GVK, BuiltinTypeInfo]] = MappingProxyType(
    {
        gvk: BuiltinTypeInfo(gvk, struct)
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
