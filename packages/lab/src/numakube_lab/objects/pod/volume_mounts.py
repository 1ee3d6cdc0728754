"""How containers mount volumes: as directories or as block devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from numakube_lab.objects.checks.file_paths import validate_descending, validate_no_backsteps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube_lab.kinds import Json

_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")
_UNIQUE: Final = "must be unique"
_FOR_BLOCK_MODE: Final = (
    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
)


def validate_mounts(container: Json, volumes: Mapping[str, Json], path: str) -> list[FieldError]:
    """Check the mounts of a container against the good volumes of its pod."""
    devices = _paths_by_name(container, "volumeDevices", "devicePath")
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or []):
        place = f"{path}[{index}]"
        name, target = mount.get("name") or "", mount.get("mountPath") or ""
        if not name:
            errors.append(required(f"{place}.name"))
        if name not in volumes:
            errors.append(not_found(f"{place}.name", name))
        if not target:
            errors.append(required(f"{place}.mountPath"))
        if target in seen:
            errors.append(invalid(f"{place}.mountPath", target, _UNIQUE))
        seen.add(target)
        errors += _validate_apart(name, target, "volumeDevices", devices, (place, "mountPath"))
        errors += _validate_sub_paths(mount, place, path)
        errors += _validate_propagation(mount.get("mountPropagation"), container, path)
        errors += _validate_recursive(mount, f"{path}.recursiveReadOnly")
    return errors


def _paths_by_name(container: Json, field: str, path_field: str) -> dict[str, str]:
    listed = container.get(field) or []
    return {item.get("name") or "": item.get(path_field) or "" for item in listed}


def _validate_apart(
    name: str, target: str, other: str, taken: Mapping[str, str], place: tuple[str, str]
) -> list[FieldError]:
    """Refuse a volume or path that *other*, the other kind of mount, uses as well."""
    path, path_field = place
    errors = []
    if name in taken:
        errors.append(invalid(f"{path}.name", name, f"must not already exist in {other}"))
    if target in taken.values():
        detail = f"must not already exist as a path in {other}"
        errors.append(invalid(f"{path}.{path_field}", target, detail))
    return errors


def _validate_sub_paths(mount: Json, place: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    plain, expression = mount.get("subPath") or "", mount.get("subPathExpr") or ""
    if plain:
        errors += validate_descending(plain, f"{path}.subPath")
    if expression:
        if plain:
            detail = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(f"{place}.subPathExpr", expression, detail))
        errors += validate_descending(expression, f"{path}.subPathExpr")
    return errors


def _validate_propagation(mode: str | None, container: Json, path: str) -> list[FieldError]:
    if mode is None:
        return []
    place = f"{path}.mountPropagation"
    errors = [] if mode in _PROPAGATIONS else [not_supported(place, mode, _PROPAGATIONS)]
    privileged = (container.get("securityContext") or {}).get("privileged")
    if mode == "Bidirectional" and not privileged:
        rule = "Bidirectional mount propagation is available only to privileged containers"
        errors.append(forbidden(place, rule))
    return errors


def _validate_recursive(mount: Json, path: str) -> list[FieldError]:
    mode = mount.get("recursiveReadOnly")
    if mode is None or mode == "Disabled":
        return []
    if mode not in _RECURSIVE:
        return [not_supported(path, mode, _RECURSIVE)]
    errors = []
    if not mount.get("readOnly"):
        errors.append(forbidden(path, "may only be specified when readOnly is true"))
    if mount.get("mountPropagation") not in {None, "None"}:
        detail = "may only be specified when mountPropagation is None or not specified"
        errors.append(forbidden(path, detail))
    return errors


def validate_devices(container: Json, volumes: Mapping[str, Json], path: str) -> list[FieldError]:
    """Check the block devices of a container against the good volumes of its pod."""
    mounts = _paths_by_name(container, "volumeMounts", "mountPath")
    errors: list[FieldError] = []
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.get("volumeDevices") or []):
        place = f"{path}[{index}]"
        name, target = device.get("name") or "", device.get("devicePath") or ""
        errors += _validate_device_name(name, names, volumes, f"{place}.name")
        errors += _validate_device_path(target, paths, f"{place}.devicePath")
        errors += _validate_apart(name, target, "volumeMounts", mounts, (place, "devicePath"))
    return errors


def _validate_device_name(
    name: str, seen: set[str], volumes: Mapping[str, Json], path: str
) -> list[FieldError]:
    errors = [] if name else [required(path)]
    if name in seen:
        errors.append(invalid(path, name, _UNIQUE))
    if name:
        seen.add(name)
    volume = volumes.get(name)
    if volume is None:
        errors.append(not_found(path, name))
    elif volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None:
        errors.append(invalid(path, name, _FOR_BLOCK_MODE))
    return errors


def _validate_device_path(target: str, seen: set[str], path: str) -> list[FieldError]:
    errors = [] if target else [required(path)]
    if target in seen:
        errors.append(invalid(path, target, _UNIQUE))
    if target and validate_no_backsteps(target, path):
        errors.append(invalid(path, target, "can not contain backsteps ('..')"))
    else:
        seen.add(target)
    return errors
