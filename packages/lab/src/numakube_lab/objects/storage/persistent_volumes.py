"""PersistentVolumes and PersistentVolumeClaims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api import resource_names as resources
from numakube.api.field_errors import (
    FieldError,
    forbidden,
    invalid,
    invalids,
    not_supported,
    required,
)
from numakube.api.resource_requirements import round_to_milli
from numakube.values import names
from numakube.values.quantity import Quantity, parse_quantity
from numakube_lab.objects.checks.kind_rules import KindRules, PartRules, json_diff, keep
from numakube_lab.objects.checks.node_selectors import validate_node_selector
from numakube_lab.objects.pod import volume_sources as sources
from numakube_lab.objects.pod.volume_claim_specs import (
    VOLUME_MODES,
    default_claim_spec,
    validate_access_modes,
    validate_claim_spec,
)
from numakube_lab.schema.metadata_checks import immutable

if TYPE_CHECKING:
    from numakube_lab.kinds import Json
    from numakube_lab.objects.pod.volume_sources import SourceCheck

_RECLAIM: Final = ("Delete", "Recycle", "Retain")
_SOURCES: Final[dict[str, SourceCheck]] = {
    "hostPath": sources.validate_host_path,
    "gcePersistentDisk": sources.by_type,
    "awsElasticBlockStore": sources.by_type,
    "glusterfs": sources.by_type,
    "flocker": sources.by_type,
    "nfs": sources.validate_nfs,
    "rbd": sources.by_type,
    "quobyte": sources.by_type,
    "cephfs": sources.by_type,
    "iscsi": sources.by_type,
    "cinder": sources.by_type,
    "fc": sources.by_type,
    "flexVolume": sources.by_type,
    "azureFile": sources.by_type,
    "vsphereVolume": sources.by_type,
    "photonPersistentDisk": sources.by_type,
    "portworxVolume": sources.by_type,
    "azureDisk": sources.by_type,
    "scaleIO": sources.by_type,
    "local": sources.validate_local,
    "storageos": sources.by_type,
    "csi": sources.validate_persistent_csi,
}


def _default_volume(volume: Json) -> None:
    spec = volume.setdefault("spec", {})
    spec["persistentVolumeReclaimPolicy"] = spec.get("persistentVolumeReclaimPolicy") or "Retain"
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    round_to_milli(spec.get("capacity"))
    if (path := spec.get("hostPath")) is not None and path.get("type") is None:
        path["type"] = ""
    status = volume.setdefault("status", {})
    status["phase"] = status.get("phase") or "Pending"


def _on_volume_create(volume: Json) -> None:
    created = volume["metadata"].get("creationTimestamp")
    volume["status"] = {"phase": "Pending", "lastPhaseTransitionTime": created}


def _prepare_volume_status(new: Json, old: Json, now: str) -> None:
    keep(new, old, "spec")
    status, before = new.setdefault("status", {}), old.get("status") or {}
    stamp, was = status.get("lastPhaseTransitionTime"), before.get("lastPhaseTransitionTime")
    if status.get("phase") == before.get("phase"):
        if stamp is None:
            keep(status, before, "lastPhaseTransitionTime")
    elif stamp is None or stamp == was:
        status["lastPhaseTransitionTime"] = now


def _check_volume(volume: Json) -> list[FieldError]:
    spec = volume.get("spec") or {}
    modes = spec.get("accessModes") or []
    errors = [] if modes else [required("spec.accessModes")]
    errors += validate_access_modes(modes, "spec.accessModes")
    errors += _check_capacity(spec.get("capacity") or {}, "spec.capacity")
    policy = spec.get("persistentVolumeReclaimPolicy") or ""
    if policy and policy not in _RECLAIM:
        errors.append(not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM))
    affinity = spec.get("nodeAffinity")
    errors += _check_node_affinity(affinity, "spec.nodeAffinity")
    errors += sources.validate_one_source(spec, _SOURCES, "spec")
    if spec.get("local") is not None and affinity is None:
        errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    return errors + _check_volume_class(spec)


def _check_capacity(capacity: dict[str, str], path: str) -> list[FieldError]:
    errors = [] if capacity else [required(path)]
    if capacity.keys() != {"storage"} and (len(capacity) > 1 or "storage" not in capacity):
        errors.append(not_supported(path, capacity or None, ("storage",)))
    for name, text in sorted(capacity.items()):
        amount = parse_quantity(text)
        if amount.value() < 0:
            detail = "must be a valid resource quantity"
            errors.append(invalid(f"{path}[{name}]", amount.value(), detail))
        if amount.unscaled <= 0:
            errors.append(invalid(f"{path}[{name}]", str(amount), names.NOT_POSITIVE))
    return errors


def _check_node_affinity(affinity: Json | None, path: str) -> list[FieldError]:
    if affinity is None:
        return []
    wanted = affinity.get("required")
    if wanted is None:
        return [required(f"{path}.required", "must specify required node constraints")]
    return validate_node_selector(wanted, f"{path}.required")


def _check_volume_class(spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    if name := spec.get("storageClassName"):
        errors += invalids("spec.storageClassName", name, names.dns_subdomain(name))
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported("spec.volumeMode", mode, VOLUME_MODES))
    return errors


def _check_volume_change(new: Json, old: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    after, before = ({k: v for k, v in obj["spec"].items() if k in _SOURCES} for obj in (new, old))
    if after != before:
        shown = json_diff(before, after)
        detail = f"spec.persistentvolumesource is immutable after creation\n{shown}"
        errors.append(forbidden("spec.persistentvolumesource", detail))
    mode, old_mode = new["spec"].get("volumeMode"), old["spec"].get("volumeMode")
    errors += immutable(mode, old_mode, "volumeMode")
    affinity, was_affinity = new["spec"].get("nodeAffinity"), old["spec"].get("nodeAffinity")
    if was_affinity is not None and affinity != was_affinity:
        detail = f"{names.IMMUTABLE}, except for updating from beta label to GA"
        errors.append(invalid("nodeAffinity", affinity, detail))
    return errors


PERSISTENT_VOLUME: Final = KindRules(
    namespaced=False,
    own_metadata_change=False,
    parts={"status": PartRules(prepare=_prepare_volume_status)},
    creates_status=True,
    default=_default_volume,
    on_create=_on_volume_create,
    check=_check_volume,
    check_change=_check_volume_change,
    rechecks_name=True,
    rechecks_twice=True,
)


def _default_claim(claim: Json) -> None:
    default_claim_spec(claim.setdefault("spec", {}))
    status = claim.setdefault("status", {})
    status["phase"] = status.get("phase") or "Pending"
    round_to_milli(status.get("capacity"))
    round_to_milli(status.get("allocatedResources"))


def _on_claim_create(claim: Json) -> None:
    claim["status"] = {"phase": "Pending"}


def _check_claim(claim: Json) -> list[FieldError]:
    return validate_claim_spec(claim.get("spec") or {}, "spec")


def _check_claim_change(new: Json, old: Json) -> list[FieldError]:
    after, before = dict(new["spec"]), dict(old["spec"])
    bound = (new.get("status") or {}).get("phase") == "Bound"
    if not before.get("volumeName"):
        keep(before, after, "volumeName")
    errors: list[FieldError] = []
    if after.get("storageClassName") is not None and before.get("storageClassName") is None:
        after.pop("storageClassName")
    if bound:
        after["resources"] = _with_old_size(after, before)
        keep(after, before, "volumeAttributesClassName")
    if after != before:
        shown = json_diff(before, after)
        rule = (
            "spec is immutable after creation except resources.requests and "
            "volumeAttributesClassName for bound claims"
        )
        errors.append(forbidden("spec", f"{rule}\n{shown}"))
    errors += _check_shrinking(new, old)
    mode, old_mode = new["spec"].get("volumeMode"), old["spec"].get("volumeMode")
    return errors + immutable(mode, old_mode, "volumeMode")


def _with_old_size(spec: Json, before: Json) -> Json:
    requirements = dict(spec.get("resources") or {})
    requests = dict(requirements.get("requests") or {})
    keep(requests, (before.get("resources") or {}).get("requests") or {}, "storage")
    return requirements | {"requests": requests}


def _size(claim: Json) -> Quantity:
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return parse_quantity(requests.get("storage", "0"))


def _check_shrinking(new: Json, old: Json) -> list[FieldError]:
    after, before = _size(new), _size(old)
    real = ((old.get("status") or {}).get("capacity") or {}).get("storage", "0")
    if after >= before or after > parse_quantity(real):
        return []
    detail = "field can not be less than status.capacity"
    return [forbidden("spec.resources.requests.storage", detail)]


def _check_claim_status(new: Json, old: Json) -> list[FieldError]:
    del old
    errors: list[FieldError] = []
    if not (new.get("spec") or {}).get("accessModes"):
        errors.append(required("Spec.accessModes"))
    status = new.get("status") or {}
    for name, text in sorted((status.get("capacity") or {}).items()):
        amount = parse_quantity(text)
        if amount.value() < 0:
            detail = "must be a valid resource quantity"
            errors.append(invalid(f"status.capacity[{name}]", amount.value(), detail))
    for name, text in sorted((status.get("allocatedResources") or {}).items()):
        path = f"status.allocatedResources[{name}]"
        errors += resources.validate_amount("storage", text, path)
    return errors


PERSISTENT_VOLUME_CLAIM: Final = KindRules(
    parts={"status": PartRules(check=_check_claim_status)},
    creates_status=True,
    default=_default_claim,
    on_create=_on_claim_create,
    check=_check_claim,
    check_change=_check_claim_change,
    rechecks_name=True,
)
