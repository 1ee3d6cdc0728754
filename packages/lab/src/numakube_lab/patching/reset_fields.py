"""Fields that an endpoint resets whatever the client sends: no manager comes to own them there.

A write to an object leaves its status alone; one to its status leaves the rest alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.patching.field_sets import FieldSet, of_paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube_lab.kinds import GVK

_NONE: Final[FieldSet] = {}
_STATUS: Final = of_paths(("f:status",))
_SPEC: Final = of_paths(("f:spec",))
_METADATA_AND_SPEC: Final = of_paths(("f:metadata",), ("f:spec",))

_WITH_STATUS: Final = frozenset(
    {
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("autoscaling", "HorizontalPodAutoscaler"),
        ("batch", "CronJob"),
        ("batch", "Job"),
        ("", "Namespace"),
        ("", "Node"),
        ("", "PersistentVolume"),
        ("", "PersistentVolumeClaim"),
        ("", "Pod"),
        ("", "ReplicationController"),
        ("", "ResourceQuota"),
        ("", "Service"),
        ("networking.k8s.io", "Ingress"),
        ("policy", "PodDisruptionBudget"),
    }
)

_STATUS_ENDPOINTS: Final[Mapping[tuple[str, str], FieldSet]] = {
    ("apps", "Deployment"): of_paths(("f:spec",), ("f:metadata", "f:labels")),
    ("", "Pod"): of_paths(
        ("f:spec",), ("f:metadata", "f:deletionTimestamp"), ("f:metadata", "f:ownerReferences")
    ),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _METADATA_AND_SPEC,
}


def reset_fields(gvk: GVK, subresource: str = "", *, custom_status: bool = False) -> FieldSet:
    """Return what a write to *subresource* of a kind resets.

    Args:
        gvk: the kind.
        subresource: empty for the object itself.
        custom_status: whether the kind is a custom one with a status subresource.
    """
    key = (gvk.group, gvk.kind)
    if key not in _WITH_STATUS and not custom_status:
        return _NONE
    if subresource == "status":
        return _STATUS_ENDPOINTS.get(key, _SPEC)
    return _NONE if subresource == "scale" else _STATUS
