"""Kinds that are served in another form than the one they are stored in.

Versions of custom kinds, and of nearly all built-in ones, differ in name only. Two built-in kinds
differ in their fields: events of ``events.k8s.io`` and autoscalers of ``autoscaling/v1``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.kind_names import GVK
from kube_lab_server.schema.builtin_types import BUILTIN

if TYPE_CHECKING:
    from kube_lab_server.catalogue.resources import VersionedResource
    from kube_lab_server.kind_names import Json

# Field of an Event of events.k8s.io to the field of a core Event.
_EVENT_FIELDS: Final = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_FORMS: Final = {
    GVK("events.k8s.io", "v1", "Event"): "event",
    GVK("autoscaling", "v1", "HorizontalPodAutoscaler"): "autoscaler",
}
_CORE_EVENT_FIELDS: Final = {core: new for new, core in _EVENT_FIELDS.items()}


def is_converted(resource: VersionedResource) -> bool:
    """Tell whether objects of *resource* are stored in another form."""
    return _form(resource) is not None


def _form(resource: VersionedResource) -> str | None:
    return _FORMS.get(resource.kind)


def from_stored(resource: VersionedResource, obj: Json) -> Json:
    """Return a stored object as one of *resource*'s kind and version."""
    match _form(resource):
        case "event":
            return _renamed(obj, _CORE_EVENT_FIELDS, resource.kind.api_version)
        case "autoscaler":
            return _autoscaler_v1(obj)
        case _:
            return obj


def to_stored(resource: VersionedResource, obj: Json) -> Json:
    """Return an object of *resource*'s kind and version as it is stored."""
    match _form(resource):
        case "event":
            return _renamed(obj, _EVENT_FIELDS, "v1")
        case "autoscaler":
            return _autoscaler_v2(obj)
        case _:
            return obj


def _renamed(obj: Json, names: dict[str, str], api_version: str) -> Json:
    renamed = {names.get(key, key): value for key, value in obj.items()}
    # All but the series is written the same in both versions.
    alike = {key: value for key, value in renamed.items() if key != "series"}
    return _canonical({**renamed, "apiVersion": api_version}, alike)


def _canonical(obj: Json, known: Json | None = None) -> Json:
    return BUILTIN[GVK.of(obj)].canonical(obj, known)


def _autoscaler_v1(obj: Json) -> Json:
    """Express the CPU target in its own field; other metrics are left to version 2."""
    spec = dict(obj.get("spec") or {})
    for metric in spec.pop("metrics", ()):
        resource = metric.get("resource") or {}
        target = resource.get("target") or {}
        if resource.get("name") == "cpu" and "averageUtilization" in target:
            spec["targetCPUUtilizationPercentage"] = target["averageUtilization"]
    spec.pop("behavior", None)
    status = dict(obj.get("status") or {})
    for metric in status.pop("currentMetrics", None) or ():
        current = (metric.get("resource") or {}).get("current") or {}
        if "averageUtilization" in current:
            status["currentCPUUtilizationPercentage"] = current["averageUtilization"]
    status.pop("conditions", None)
    status.setdefault("currentReplicas", 0)
    return _canonical({**obj, "apiVersion": "autoscaling/v1", "spec": spec, "status": status})


def _autoscaler_v2(obj: Json) -> Json:
    spec = dict(obj.get("spec") or {})
    percentage = spec.pop("targetCPUUtilizationPercentage", None)
    if percentage is not None:
        spec["metrics"] = [
            {
                "type": "Resource",
                "resource": {
                    "name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": percentage},
                },
            }
        ]
    status = dict(obj.get("status") or {})
    status.pop("currentCPUUtilizationPercentage", None)
    status.setdefault("currentMetrics", None)
    return _canonical({**obj, "apiVersion": "autoscaling/v2", "spec": spec, "status": status})
