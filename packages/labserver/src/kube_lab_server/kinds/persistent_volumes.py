"""PersistentVolumes and PersistentVolumeClaims."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.kind_rules import (
    KindAdmission,
    KindRules,
    PartRules,
    annotation_of,
    json_diff,
    keep,
    newest_of,
)
from kube_lab_server.kinds.limit_ranges import check_claim_limits
from kube_lab_server.kinds.node_checks import validate_node_selector
from kube_lab_server.kinds.pod import volume_sources as sources
from kube_lab_server.kinds.pod.pod_defaults import default_network_source
from kube_lab_server.kinds.pod.volume_sources import (
    VOLUME_MODES,
    default_claim_spec,
    validate_access_modes,
    validate_claim_spec,
)
from kube_lab_server.kinds.table_columns import (
    AGE,
    NAME,
    UNSET,
    Column,
    Table,
    age_of,
    name_of,
    wide,
)
from kube_lab_server.schema.metadata_checks import immutable
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

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue
    from kube_lab_server.kinds.kind_rules import AdmissionRefused, ClusterView
    from kube_lab_server.kinds.pod.volume_sources import SourceCheck


_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"


def _shown_modes(modes: Sequence[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _class_of(obj: Json, spec: Json) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    if _CLASS_ANNOTATION in annotations:
        return str(annotations[_CLASS_ANNOTATION])
    return spec.get("storageClassName") or ""


def _phase(obj: Json) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return (obj.get("status") or {}).get("phase") or ""


def _or_unset(value: str | None) -> str:
    return UNSET if value is None else value


def _volume(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    claim = spec.get("claimRef")
    shown_claim = f"{claim.get('namespace') or ''}/{claim.get('name') or ''}" if claim else ""
    return [
        name_of(obj),
        (spec.get("capacity") or {}).get("storage") or "0",
        _shown_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        _phase(obj),
        shown_claim,
        _class_of(obj, spec),
        _or_unset(spec.get("volumeAttributesClassName")),
        status.get("reason") or "",
        age_of(obj, now),
        _or_unset(spec.get("volumeMode")),
    ]


PERSISTENT_VOLUME_TABLE: Final = Table(
    (
        NAME,
        Column("Capacity", "Size of the volume."),
        Column("Access Modes", "Ways in which the volume can be mounted."),
        Column("Reclaim Policy", "What becomes of the volume after its claim."),
        Column("Status", "Whether the volume is free, bound or done with."),
        Column("Claim", "Claim that the volume is bound to."),
        Column("StorageClass", "Class of the volume."),
        Column("VolumeAttributesClass", "Class of the volume's attributes."),
        Column("Reason", "Why the volume failed, in one word."),
        AGE,
        wide("VolumeMode", "Whether there is a filesystem on the volume."),
    ),
    _volume,
)


def _claim(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    bound = bool(spec.get("volumeName"))
    return [
        name_of(obj),
        _phase(obj),
        spec.get("volumeName") or "",
        ((status.get("capacity") or {}).get("storage") or "0") if bound else "",
        _shown_modes(status.get("accessModes")) if bound else "",
        _class_of(obj, spec),
        _or_unset(spec.get("volumeAttributesClassName")),
        age_of(obj, now),
        _or_unset(spec.get("volumeMode")),
    ]


PERSISTENT_VOLUME_CLAIM_TABLE: Final = Table(
    (
        NAME,
        Column("Status", "Whether the claim is bound."),
        Column("Volume", "Volume that the claim is bound to."),
        Column("Capacity", "Size of the volume."),
        Column("Access Modes", "Ways in which the volume can be mounted."),
        Column("StorageClass", "Class of the volume."),
        Column("VolumeAttributesClass", "Class of the volume's attributes."),
        AGE,
        wide("VolumeMode", "Whether there is a filesystem on the volume."),
    ),
    _claim,
)


_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_RECLAIM: Final = ("Delete", "Recycle", "Retain")
_legacy = sources.NETWORK_SOURCES
_SOURCES: Final[dict[str, SourceCheck]] = {
    "hostPath": sources.validate_host_path,
    "gcePersistentDisk": _legacy["gcePersistentDisk"],
    "awsElasticBlockStore": _legacy["awsElasticBlockStore"],
    "glusterfs": _legacy["glusterfs"],
    "flocker": sources.validate_flocker,
    "nfs": sources.validate_nfs,
    "rbd": _legacy["rbd"],
    "quobyte": _legacy["quobyte"],
    "cephfs": _legacy["cephfs"],
    "iscsi": _legacy["iscsi"],
    "cinder": _legacy["cinder"],
    "fc": sources.validate_fibre_channel,
    "flexVolume": _legacy["flexVolume"],
    "azureFile": _legacy["azureFile"],
    "vsphereVolume": _legacy["vsphereVolume"],
    "photonPersistentDisk": _legacy["photonPersistentDisk"],
    "portworxVolume": _legacy["portworxVolume"],
    "azureDisk": _legacy["azureDisk"],
    "scaleIO": _legacy["scaleIO"],
    "local": sources.validate_local,
    "storageos": _legacy["storageos"],
    "csi": sources.validate_persistent_csi,
}
_ALIASES: Final = {"gcePersistentDisk": "persistentDisk"}


def _default_volume(volume: Json) -> None:
    spec = volume.setdefault("spec", {})
    spec["persistentVolumeReclaimPolicy"] = spec.get("persistentVolumeReclaimPolicy") or "Retain"
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    round_to_milli(spec.get("capacity"))
    if (path := spec.get("hostPath")) is not None and path.get("type") is None:
        path["type"] = ""
    default_network_source(spec)
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
    errors += sources.validate_one_source(spec, _SOURCES, "spec", _ALIASES)
    if spec.get("local") is not None and affinity is None:
        errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
    root = posixpath.normpath((spec.get("hostPath") or {}).get("path") or ".") == "/"
    if root and policy == "Recycle":
        detail = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden("spec.persistentVolumeReclaimPolicy", detail))
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
    attributes = spec.get("volumeAttributesClassName")
    if attributes is not None:
        path = "spec.volumeAttributesClassName"
        if attributes:
            errors += invalids(path, attributes, names.dns_subdomain(attributes))
        else:
            errors.append(required(path, "an empty string is disallowed"))
        if spec.get("csi") is None:
            detail = "has to be specified when using volumeAttributesClassName"
            errors.append(required("spec.csi", detail))
    return errors


def _check_volume_change(new: Json, old: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    after, before = ({k: v for k, v in obj["spec"].items() if k in _SOURCES} for obj in (new, old))
    driver, was = after.get("csi") or {}, before.get("csi") or {}
    if was and "controllerExpandSecretRef" in driver and "controllerExpandSecretRef" not in was:
        trimmed = {k: v for k, v in driver.items() if k != "controllerExpandSecretRef"}
        after = after | {"csi": trimmed}
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


def _warn_of_class(obj: Json) -> list[str]:
    if _OLD_CLASS not in (obj["metadata"].get("annotations") or {}):
        return []
    rule = 'deprecated since v1.8; use "storageClassName" attribute instead'
    return [f"metadata.annotations[{_OLD_CLASS}]: {rule}"]


def _warn_volume(volume: Json, old: Json | None) -> list[str]:
    del old
    return _warn_of_class(volume)


_DEFAULT_STORAGE_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_OLD_DEFAULT_STORAGE_CLASS: Final = "storageclass.beta.kubernetes.io/is-default-class"
_OLD_STORAGE_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


def protect_volume(volume: Json, view: ClusterView) -> AdmissionRefused | None:
    """Let a persistent volume be deleted only when nothing uses it."""
    del view
    _add_finalizer(volume, "kubernetes.io/pv-protection")
    return None


def protect_claim(claim: Json, view: ClusterView) -> AdmissionRefused | None:
    """Let a claim be deleted only when no pod uses it."""
    del view
    _add_finalizer(claim, "kubernetes.io/pvc-protection")
    return None


def _add_finalizer(obj: Json, name: str) -> None:
    finalizers = obj["metadata"].get("finalizers") or []
    if name not in finalizers:
        obj["metadata"]["finalizers"] = [*finalizers, name]


def set_storage_class(claim: Json, view: ClusterView) -> AdmissionRefused | None:
    """Give a claim that names no class the newest default class."""
    annotations = claim["metadata"].get("annotations") or {}
    spec = claim.get("spec") or {}
    if spec.get("storageClassName") is not None or _OLD_STORAGE_CLASS in annotations:
        return None
    marks = (_DEFAULT_STORAGE_CLASS, _OLD_DEFAULT_STORAGE_CLASS)
    defaults = [
        found
        for found in view.list("storage.k8s.io", "StorageClass")
        if any(annotation_of(found, mark) == "true" for mark in marks)
    ]
    if defaults:
        claim["spec"]["storageClassName"] = newest_of(defaults)
    return None


PERSISTENT_VOLUME: Final = KindRules(
    table=PERSISTENT_VOLUME_TABLE,
    admission=KindAdmission(create=(protect_volume,)),
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
    warn=_warn_volume,
)


def _default_claim(claim: Json) -> None:
    default_claim_spec(claim.setdefault("spec", {}))
    status = claim.setdefault("status", {})
    status["phase"] = status.get("phase") or "Pending"
    round_to_milli(status.get("capacity"))
    round_to_milli(status.get("allocatedResources"))


def _on_claim_create(claim: Json) -> None:
    claim["status"] = {"phase": "Pending"}
    _match_sources(claim["spec"], None)


def _on_claim_update(new: Json, old: Json) -> None:
    _match_sources(new["spec"], old["spec"])


def _match_sources(spec: Json, old: Json | None) -> None:
    """Keep the older and the newer field for a claim's content in step."""
    source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
    in_use = old is not None and (old.get("dataSource") or old.get("dataSourceRef"))
    if source is not None and ref is None and not in_use and not _is_known_source(source):
        # Anything else was ignored before the newer field came, and still is.
        del spec["dataSource"]
    elif source is not None and ref is None:
        spec["dataSourceRef"] = {k: source[k] for k in ("apiGroup", "kind", "name") if k in source}
    elif ref is not None and source is None and not ref.get("namespace"):
        spec["dataSource"] = {k: ref[k] for k in ("apiGroup", "kind", "name") if k in ref}


def _is_known_source(source: Json) -> bool:
    known = {("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot")}
    return (source.get("apiGroup") or "", source.get("kind")) in known


def _check_claim(claim: Json) -> list[FieldError]:
    return validate_claim_spec(claim.get("spec") or {}, "spec")


def _check_claim_change(new: Json, old: Json) -> list[FieldError]:
    after, before = dict(new["spec"]), dict(old["spec"])
    bound = (new.get("status") or {}).get("phase") == "Bound"
    if not before.get("volumeName"):
        keep(before, after, "volumeName")
    errors = _check_class_annotation(new, old)
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


def _check_class_annotation(new: Json, old: Json) -> list[FieldError]:
    after, before = (
        (obj["metadata"].get("annotations") or {}).get(_OLD_CLASS, "") for obj in (new, old)
    )
    named = new["spec"].get("storageClassName")
    if before and old["spec"].get("storageClassName") is None and named == before:
        return []
    return immutable(after, before, f"metadata.annotations.{_OLD_CLASS}")


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


def _warn_claim(claim: Json, old: Json | None) -> list[str]:
    del old
    warnings = _warn_of_class(claim)
    requirements = (claim.get("spec") or {}).get("resources") or {}
    for side in ("requests", "limits"):
        text = (requirements.get(side) or {}).get("storage")
        if text is not None and (amount := parse_quantity(text)).milli_value() % 1000:
            rule = f'fractional byte value "{amount}" is invalid, must be an integer'
            warnings.append(f"spec.resources.{side}[storage]: {rule}")
    return warnings


PERSISTENT_VOLUME_CLAIM: Final = KindRules(
    table=PERSISTENT_VOLUME_CLAIM_TABLE,
    admission=KindAdmission(
        create=(set_storage_class, protect_claim),
        check_create=(check_claim_limits,),
        check_update={"": check_claim_limits},
    ),
    parts={"status": PartRules(check=_check_claim_status)},
    creates_status=True,
    default=_default_claim,
    on_create=_on_claim_create,
    on_update=_on_claim_update,
    check=_check_claim,
    check_change=_check_claim_change,
    rechecks_name=True,
    warn=_warn_claim,
)
