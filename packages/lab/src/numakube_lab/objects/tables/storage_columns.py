"""The tables of volumes, claims and what describes storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.objects.tables.table_columns import (
    AGE,
    NAME,
    UNSET,
    Column,
    Table,
    age_of,
    name_of,
    wide,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from numakube_lab.kinds import Json, JsonValue

_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _shown_modes(modes: Sequence[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _class_of(obj: Json, spec: Json) -> str:
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


PERSISTENT_VOLUME: Final = Table(
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


PERSISTENT_VOLUME_CLAIM: Final = Table(
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


def _storage_class(obj: Json, now: datetime) -> list[JsonValue]:
    annotations = obj["metadata"].get("annotations") or {}
    is_default = any(annotations.get(key) == "true" for key in _DEFAULT_ANNOTATIONS)
    return [
        name_of(obj) + (" (default)" if is_default else ""),
        obj.get("provisioner") or "",
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age_of(obj, now),
    ]


STORAGE_CLASS: Final = Table(
    (
        NAME,
        Column("Provisioner", "Who makes the volumes."),
        Column("ReclaimPolicy", "What becomes of a volume after its claim."),
        Column("VolumeBindingMode", "When volumes are bound to claims."),
        Column("AllowVolumeExpansion", "Whether volumes can grow."),
        AGE,
    ),
    _storage_class,
)
