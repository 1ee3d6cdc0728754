"""What admission does with objects other than pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.objects.checks.cluster_view import Refused
from numakube_lab.objects.pod.pod_admission import NOT_READY

if TYPE_CHECKING:
    from numakube_lab.kinds import Json
    from numakube_lab.objects.checks.cluster_view import ClusterView

_DEFAULT_STORAGE_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_OLD_DEFAULT_STORAGE_CLASS: Final = "storageclass.beta.kubernetes.io/is-default-class"
_OLD_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_INGRESS_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"
_OLD_INGRESS_CLASS: Final = "kubernetes.io/ingress.class"


def add_not_ready_taint(node: Json, view: ClusterView) -> Refused | None:
    """Keep pods off a node until its life cycle says that it is ready."""
    del view
    spec = node.setdefault("spec", {})
    taints = spec.get("taints") or []
    if not any((t.get("key"), t.get("effect")) == (NOT_READY, "NoSchedule") for t in taints):
        spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
    return None


def protect_volume(volume: Json, view: ClusterView) -> Refused | None:
    """Let a persistent volume be deleted only when nothing uses it."""
    del view
    _add_finalizer(volume, "kubernetes.io/pv-protection")
    return None


def protect_claim(claim: Json, view: ClusterView) -> Refused | None:
    """Let a claim be deleted only when no pod uses it."""
    del view
    _add_finalizer(claim, "kubernetes.io/pvc-protection")
    return None


def _add_finalizer(obj: Json, name: str) -> None:
    finalizers = obj["metadata"].get("finalizers") or []
    if name not in finalizers:
        obj["metadata"]["finalizers"] = [*finalizers, name]


def set_storage_class(claim: Json, view: ClusterView) -> Refused | None:
    """Give a claim that names no class the newest default class."""
    annotations = claim["metadata"].get("annotations") or {}
    spec = claim.get("spec") or {}
    if spec.get("storageClassName") is not None or _OLD_STORAGE_CLASS in annotations:
        return None
    marks = (_DEFAULT_STORAGE_CLASS, _OLD_DEFAULT_STORAGE_CLASS)
    defaults = [
        found
        for found in view.list("storage.k8s.io", "StorageClass")
        if any(_annotation(found, mark) == "true" for mark in marks)
    ]
    if defaults:
        claim["spec"]["storageClassName"] = _newest(defaults)
    return None


def _annotation(obj: Json, key: str) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(key, ""))


def _newest(found: list[Json]) -> str:
    """Return the name of the newest object, the first by name of equally new ones."""
    by_name = sorted(found, key=lambda obj: str(obj["metadata"]["name"]))
    newest = max(by_name, key=lambda obj: str(obj["metadata"].get("creationTimestamp") or ""))
    return str(newest["metadata"]["name"])


def set_ingress_class(ingress: Json, view: ClusterView) -> Refused | None:
    """Give an ingress that names no class the default class."""
    spec = ingress.get("spec") or {}
    if spec.get("ingressClassName") is not None or _annotation(ingress, _OLD_INGRESS_CLASS):
        return None
    defaults = [
        found
        for found in view.list("networking.k8s.io", "IngressClass")
        if _annotation(found, _DEFAULT_INGRESS_CLASS) == "true"
    ]
    if defaults:
        ingress.setdefault("spec", {})["ingressClassName"] = _newest(defaults)
    return None


def check_priority_class(found: Json, view: ClusterView) -> Refused | None:
    """Refuse a second default class."""
    if not found.get("globalDefault"):
        return None
    own = found["metadata"].get("name")
    for other in view.list("scheduling.k8s.io", "PriorityClass"):
        name = other["metadata"]["name"]
        if other.get("globalDefault") and name != own:
            rule = "is already marked as default. Only one default can exist"
            return Refused(f"PriorityClass {name} {rule}")
    return None
