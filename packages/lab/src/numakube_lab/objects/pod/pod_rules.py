"""Pods: what the server sets on them and what may change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.api.field_errors import FieldError, forbidden
from numakube.values import names
from numakube.values.gotext import go_quote
from numakube_lab.objects.checks.ip_address_checks import address_warnings
from numakube_lab.objects.checks.kind_rules import (
    KindRules,
    PartRules,
    json_diff,
    keep,
    keep_metadata,
)
from numakube_lab.objects.pod.container_checks import validate_image_padding
from numakube_lab.objects.pod.pod_annotation_checks import (
    validate_annotation_changes,
    validate_pod_annotations,
    validate_profile_annotations,
)
from numakube_lab.objects.pod.pod_defaults import default_pod
from numakube_lab.objects.pod.pod_placement import merge_label_keys
from numakube_lab.objects.pod.pod_resizing import drop_other_changes, validate_resize
from numakube_lab.objects.pod.pod_resource_totals import compute_qos
from numakube_lab.objects.pod.pod_spec_rules import MIRROR_POD, validate_pod_spec
from numakube_lab.objects.pod.pod_status_checks import (
    keep_observed_generations,
    validate_pod_status,
)
from numakube_lab.objects.pod.pod_updates import validate_pod_update
from numakube_lab.objects.pod.pod_warnings import pod_warnings

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

_GATED: Final = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def _on_create(pod: Json) -> None:
    spec, meta = pod["spec"], pod["metadata"]
    # A class that the client claims stays, as on a real server.
    qos = (pod.get("status") or {}).get("qosClass") or compute_qos(spec)
    status: dict[str, Any] = {"phase": "Pending", "qosClass": qos}
    if spec.get("schedulingGates"):
        status["conditions"] = [_GATED | {"lastTransitionTime": meta.get("creationTimestamp")}]
    pod["status"] = status
    merge_label_keys(spec, meta.get("labels") or {})


def _prepare_status(new: Json, old: Json, now: str) -> None:
    del now
    keep(new, old, "spec")
    keep(new["metadata"], old["metadata"], "ownerReferences")
    new["metadata"].pop("deletionTimestamp", None)
    status, before = new.setdefault("status", {}), old.get("status") or {}
    if not status.get("qosClass"):
        keep(status, before, "qosClass")
    keep_observed_generations(status, before)


def _prepare_ephemeral(new: Json, old: Json, now: str) -> None:
    del now
    asked = new.get("spec") or {}
    new["spec"] = dict(old["spec"])
    keep(new["spec"], asked, "ephemeralContainers")
    keep(new, old, "status")
    keep_metadata(new, old)
    POD.count(new, old)


def _prepare_resize(new: Json, old: Json, now: str) -> None:
    del now
    drop_other_changes(new, old)
    POD.count(new, old)


def _check(pod: Json) -> list[FieldError]:
    spec = pod["spec"]
    errors = validate_pod_annotations(pod)
    errors += validate_pod_spec(spec, "spec", pod_meta=pod["metadata"])
    errors += _check_tokens(spec)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or []):
            errors += validate_image_padding(container, f"spec.{field}[{index}]")
    return errors


def _check_tokens(spec: Json) -> list[FieldError]:
    """Refuse tokens of a service account that the pod does not have."""
    if spec.get("serviceAccountName"):
        return []
    detail = "must not be specified when serviceAccountName is not set"
    return [
        forbidden(f"spec.volumes[{v}].projected.sources[{s}].serviceAccountToken", detail)
        for v, volume in enumerate(spec.get("volumes") or [])
        for s, source in enumerate((volume.get("projected") or {}).get("sources") or [])
        if source.get("serviceAccountToken") is not None
    ]


def _check_create(pod: Json) -> list[FieldError]:
    spec = pod["spec"]
    errors = []
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        detail = "cannot be set until all schedulingGates have been cleared"
        errors.append(forbidden("spec.nodeName", detail))
    return errors + validate_profile_annotations(pod)


def _check_change(new: Json, old: Json) -> list[FieldError]:
    return validate_annotation_changes(new, old) + validate_pod_update(new["spec"], old["spec"])


def _check_status(new: Json, old: Json) -> list[FieldError]:
    return validate_annotation_changes(new, old) + validate_pod_status(new, old)


def _check_ephemeral(new: Json, old: Json) -> list[FieldError]:
    """Check that ephemeral containers are only added."""
    if MIRROR_POD in (old["metadata"].get("annotations") or {}):
        return [forbidden("[]", "static pods do not support ephemeral containers")]
    errors = validate_annotation_changes(new, old)
    path = "spec.ephemeralContainers"
    after = {c.get("name"): c for c in new["spec"].get("ephemeralContainers") or []}
    for container in old["spec"].get("ephemeralContainers") or []:
        name = go_quote(container.get("name") or "")
        now = after.get(container.get("name"))
        if now is None:
            detail = f"existing ephemeral containers {name} may not be removed\n"
            errors.append(forbidden(path, detail))
        elif now != container:
            shown = json_diff(container, now)
            detail = f"existing ephemeral containers {name} may not be changed\n{shown}"
            errors.append(forbidden(path, detail))
    return errors


def _warn(pod: Json, old: Json | None) -> list[str]:
    if old is not None:
        return []
    warnings = []
    if wrong := names.dns_label(pod["metadata"].get("name") or ""):
        warnings.append(
            "metadata.name: this is used in the Pod's hostname, which can result in "
            f"surprising behavior; a DNS label is recommended: [{' '.join(wrong)}]"
        )
    return warnings + pod_warnings(pod["spec"], pod["metadata"], "")


def _warn_status(pod: Json) -> list[str]:
    status = pod.get("status") or {}
    return [
        warning
        for field in ("podIPs", "hostIPs")
        for index, entry in enumerate(status.get(field) or [])
        for warning in address_warnings(entry.get("ip") or "", f"status.{field}[{index}].ip")
    ]


POD: Final = KindRules(
    counted=("spec",),
    parts={
        "status": PartRules(prepare=_prepare_status, check=_check_status, warn=_warn_status),
        "ephemeralcontainers": PartRules(
            prepare=_prepare_ephemeral, check=_check_ephemeral, rechecks=True
        ),
        "resize": PartRules(prepare=_prepare_resize, check=validate_resize, rechecks=True),
    },
    creates_status=True,
    default=default_pod,
    on_create=_on_create,
    check=_check,
    check_create=_check_create,
    check_change=_check_change,
    rechecks_name=True,
    warn=_warn,
)
