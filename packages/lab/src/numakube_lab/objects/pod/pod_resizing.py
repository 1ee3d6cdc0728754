"""Changing the CPU and memory of a pod in place, through its ``resize`` subresource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, forbidden, invalid
from numakube_lab.objects.checks.kind_rules import keep, keep_metadata
from numakube_lab.objects.pod.pod_resource_totals import compute_qos, is_sidecar
from numakube_lab.objects.pod.pod_spec_rules import MIRROR_POD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube_lab.kinds import Json

_ONLY_CPU_MEMORY: Final = "only cpu and memory resources are mutable"
_RESIZED: Final = ("resources", "resizePolicy")
_LISTS: Final = ("containers", "initContainers")
_POD_LEVEL: Final = (
    "resize of pods with pod-level resources is forbidden when "
    "InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled"
)


def drop_other_changes(new: Json, old: Json) -> None:
    """Keep everything but the resources of containers as it was."""
    spec, before = new["spec"], old["spec"]
    if any(len(spec.get(field) or []) != len(before.get(field) or []) for field in _LISTS):
        return
    merged = dict(before)
    for field in _LISTS:
        if spec.get(field):
            merged[field] = _merge(spec[field], before[field])
    new["spec"] = merged
    keep(new, old, "status")
    keep_metadata(new, old)


def _merge(after: Sequence[Json], before: Sequence[Json]) -> list[Json]:
    if any(one.get("name") != was.get("name") for one, was in zip(after, before, strict=True)):
        # Names that do not match are refused later; nothing may hide that.
        return list(after)
    merged = []
    for one, was in zip(after, before, strict=True):
        container = dict(was)
        keep(container, one, *_RESIZED)
        merged.append(container)
    return merged


def validate_resize(new: Json, old: Json) -> list[FieldError]:
    """Check the resize of a pod that is good by itself."""
    after, before = new["spec"], old["spec"]
    errors: list[FieldError] = []
    if MIRROR_POD in (old["metadata"].get("annotations") or {}):
        return [forbidden("[]", "static pods cannot be resized")]
    if (before.get("os") or {}).get("name") == "windows":
        return [forbidden("[]", "windows pods cannot be resized")]
    qos = (old.get("status") or {}).get("qosClass") or compute_qos(before)
    if compute_qos(after) != qos:
        detail = "Pod QOS Class may not change as a result of resizing"
        errors.append(invalid("spec", qos, detail))
    if not _is_supported(old):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    if any(_has_pod_level(spec) for spec in (after, before)):
        return [*errors, forbidden("[]", _POD_LEVEL)]
    if wrong := _validate_order(after, before):
        return errors + wrong
    errors += _validate_removals(after, before)
    errors += _validate_other_resources(after, before)
    if not errors and _without_resources(after) != _without_resources(before):
        errors.append(forbidden("spec", _ONLY_CPU_MEMORY))
    return errors


def _is_supported(pod: Json) -> bool:
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        if (status.get("state") or {}).get("running") is not None:
            return status.get("resources") is not None
    return True


def _has_pod_level(spec: Json) -> bool:
    requirements = spec.get("resources") or {}
    return bool(requirements.get("requests") or requirements.get("limits"))


def _validate_order(new: Json, old: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in _LISTS:
        after, before = new.get(field) or [], old.get(field) or []
        if len(after) != len(before):
            detail = f"{field} may not be added or removed on resize"
            errors.append(forbidden(f"spec.{field}", detail))
            continue
        errors += [
            forbidden(
                f"spec.{field}[{index}].name", f"{field} may not be renamed or reordered on resize"
            )
            for index, (one, was) in enumerate(zip(after, before, strict=True))
            if one.get("name") != was.get("name")
        ]
    return errors


def _validate_removals(new: Json, old: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in reversed(_LISTS):
        for index, was in enumerate(old.get(field) or []):
            if field == "initContainers" and not is_sidecar(was):
                continue
            after = (new[field][index].get("resources")) or {}
            before = was.get("resources") or {}
            errors += [
                forbidden(
                    f"spec.{field}[{index}].resources.{side}",
                    f"resource {side} cannot be removed",
                )
                for side in ("requests", "limits")
                if not (before.get(side) or {}).keys() <= (after.get(side) or {}).keys()
            ]
    return errors


def _validate_other_resources(new: Json, old: Json) -> list[FieldError]:
    errors = []
    for one, was in _pairs(new, old, "containers"):
        if _with_old_compute(one, was) != was:
            errors.append(forbidden("spec", _ONLY_CPU_MEMORY))
    for one, was in _pairs(new, old, "initContainers"):
        if is_sidecar(one):
            if _with_old_compute(one, was) != was:
                detail = "only cpu and memory resources for sidecar containers are mutable"
                errors.append(forbidden("spec", detail))
        elif one != was:
            detail = "resources for non-sidecar init containers are immutable"
            errors.append(forbidden("spec", detail))
    return errors


def _pairs(new: Json, old: Json, field: str) -> list[tuple[Json, Json]]:
    return list(zip(new.get(field) or [], old.get(field) or [], strict=True))


def _with_old_compute(container: Json, old: Json) -> Json:
    """Return *container* with the CPU and memory of *old*."""
    own, was = container.get("resources") or {}, old.get("resources") or {}
    requirements = {}
    for side in ("limits", "requests"):
        amounts = {k: v for k, v in (own.get(side) or {}).items() if k not in {"cpu", "memory"}}
        before = was.get(side) or {}
        amounts |= {k: before[k] for k in ("cpu", "memory") if k in before}
        if amounts:
            requirements[side] = amounts
    return container | {"resources": requirements}


def _without_resources(spec: Json) -> Json:
    return {field: value for field, value in spec.items() if field not in _LISTS}
