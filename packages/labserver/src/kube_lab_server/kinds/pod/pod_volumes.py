"""Volumes of pods: their names, their one source each, the files in them, and their mounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.pod import volume_sources as sources
from kube_lab_server.kinds.pod.container_environment import (
    VOLUME_FIELDS,
    validate_field_ref,
    validate_resource_ref,
)
from kube_lab_server.kinds.pod.volume_sources import (
    validate_claim_template,
    validate_descending,
    validate_mode,
    validate_no_backsteps,
    validate_not_reserved,
)
from numakube.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    invalids,
    not_found,
    not_supported,
    required,
)
from numakube.values import names
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kube_lab_server.kind_names import Json
    from kube_lab_server.kinds.pod.volume_sources import SourceCheck

PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE: Final = ("Disabled", "Enabled", "IfPossible")
_UNIQUE: Final = "must be unique"
_FOR_BLOCK_MODE: Final = (
    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
)
_TEN_MINUTES: Final = 600
_SAME_PATH: Final = "conflicting duplicate paths"
# Where kube-apiserver reports a source under another name than that of its field.
_ALIASES: Final = {"gcePersistentDisk": "persistentDisk"}


def validate_volumes(
    volumes: Sequence[Json], pod_name: str, path: str
) -> tuple[dict[str, Json], list[FieldError]]:
    """Return the good volumes by name, and what is wrong with the others."""
    made = {f"{pod_name}-{v.get('name')}" for v in volumes if pod_name and v.get("ephemeral")}
    good: dict[str, Json] = {}
    errors: list[FieldError] = []
    for index, volume in enumerate(volumes):
        place = f"{path}[{index}]"
        name = volume.get("name") or ""
        own = _validate_source(volume, name, pod_name, place)
        own += _validate_name(name, f"{place}.name")
        if name in good:
            own.append(duplicate(f"{place}.name", name))
        if not own:
            good[name] = volume
        errors += own
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""
        if claim in made:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            errors.append(invalid(f"{place}.persistentVolumeClaim.claimName", claim, detail))
    return good, errors


def _validate_name(name: str, path: str) -> list[FieldError]:
    return invalids(path, name, names.dns_label(name)) if name else [required(path)]


def _validate_source(volume: Json, name: str, pod_name: str, path: str) -> list[FieldError]:
    errors = sources.validate_one_source(volume, _POD_SOURCES, path, _ALIASES)
    if volume.get("ephemeral") is not None and pod_name and name:
        claim = f"{pod_name}-{name}"
        wrong = names.dns_subdomain(claim)
        details = [f"PVC name {go_quote(claim)}: {message}" for message in wrong]
        errors += invalids(f"{path}.name", name, details)
    return errors


def validate_pull_policy(policy: str, path: str) -> list[FieldError]:
    """Check when an image is pulled."""
    if not policy:
        return [required(path)]
    return [] if policy in PULL_POLICIES else [not_supported(path, policy, PULL_POLICIES)]


def _validate_ephemeral(source: Json, path: str) -> list[FieldError]:
    place = f"{path}.volumeClaimTemplate"
    template = source.get("volumeClaimTemplate")
    return [required(place)] if template is None else validate_claim_template(template, place)


def _validate_image(source: Json, path: str) -> list[FieldError]:
    errors = [] if source.get("reference") else [required(f"{path}.reference")]
    return errors + validate_pull_policy(source.get("pullPolicy") or "", f"{path}.pullPolicy")


def _validate_downward(source: Json, path: str) -> list[FieldError]:
    errors = validate_mode(source.get("defaultMode"), f"{path}.defaultMode")
    for file in source.get("items") or []:
        errors += _validate_downward_file(file, path)
    return errors


def _validate_downward_file(file: Json, path: str) -> list[FieldError]:
    errors = [] if file.get("path") else [required(f"{path}.path")]
    errors += validate_not_reserved(file.get("path") or "", f"{path}.path")
    field, resource = file.get("fieldRef"), file.get("resourceFieldRef")
    if field is not None:
        errors += validate_field_ref(field, VOLUME_FIELDS, f"{path}.fieldRef")
        if resource is not None:
            detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
            errors.append(invalid(path, "resource", detail))
    elif resource is not None:
        place = f"{path}.resourceFieldRef"
        errors += validate_resource_ref(resource, place, in_volume=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    return errors + validate_mode(file.get("mode"), f"{path}.mode")


def _validate_projected(source: Json, path: str) -> list[FieldError]:
    errors = validate_mode(source.get("defaultMode"), f"{path}.defaultMode")
    seen: set[str] = set()
    for index, projection in enumerate(source.get("sources") or []):
        place = f"{path}.sources[{index}]"
        errors += _validate_projection(projection, place, path, seen)
        if sum(1 for part in projection.values() if part is not None) > 1:
            detail = "may not specify more than 1 volume type per source"
            errors.append(forbidden(place, detail))
    return errors


def _validate_projection(
    projection: Json, path: str, volume_path: str, seen: set[str]
) -> list[FieldError]:
    errors: list[FieldError] = []
    for kind in ("secret", "configMap"):
        if (part := projection.get(kind)) is not None:
            errors += _validate_projected_keys(part, f"{path}.{kind}", volume_path, seen)
    if (part := projection.get("downwardAPI")) is not None:
        for file in part.get("items") or []:
            errors += _validate_downward_file(file, f"{path}.downwardAPI")
            errors += _note_path(file.get("path"), file.get("path"), volume_path, seen)
    if (part := projection.get("serviceAccountToken")) is not None:
        errors += _validate_token(part, f"{path}.serviceAccountToken", volume_path)
    return errors


def _validate_projected_keys(
    part: Json, path: str, volume_path: str, seen: set[str]
) -> list[FieldError]:
    errors = [] if part.get("name") else [required(f"{path}.name")]
    for index, item in enumerate(part.get("items") or []):
        errors += sources.validate_key_to_path(item, f"{path}.items[{index}]")
        errors += _note_path(item.get("path"), part.get("name") or "", volume_path, seen)
    return errors


def _note_path(
    path_text: str | None, shown: str | None, volume_path: str, seen: set[str]
) -> list[FieldError]:
    """Refuse a file that another source has put into the volume."""
    if not path_text:
        return []
    if path_text in seen:
        return [invalid(volume_path, shown, _SAME_PATH)]
    seen.add(path_text)
    return []


def _validate_token(part: Json, path: str, volume_path: str) -> list[FieldError]:
    errors = []
    seconds = part.get("expirationSeconds") or 0
    place = f"{path}.expirationSeconds"
    if seconds < _TEN_MINUTES:
        errors.append(invalid(place, seconds, "may not specify a duration less than 10 minutes"))
    if seconds > 1 << 32:
        detail = "may not specify a duration larger than 2^32 seconds"
        errors.append(invalid(place, seconds, detail))
    file = part.get("path") or ""
    place = f"{volume_path}.path"
    return errors + (validate_not_reserved(file, place) if file else [required(place)])


_legacy = sources.NETWORK_SOURCES
_POD_SOURCES: Final[dict[str, SourceCheck]] = {
    "emptyDir": sources.validate_empty_dir,
    "hostPath": sources.validate_host_path,
    "gitRepo": sources.validate_git_repo,
    "gcePersistentDisk": _legacy["gcePersistentDisk"],
    "awsElasticBlockStore": _legacy["awsElasticBlockStore"],
    "secret": sources.validate_secret,
    "nfs": sources.validate_nfs,
    "iscsi": _legacy["iscsi"],
    "glusterfs": _legacy["glusterfs"],
    "flocker": sources.validate_flocker,
    "persistentVolumeClaim": sources.needs("claimName"),
    "rbd": _legacy["rbd"],
    "cinder": _legacy["cinder"],
    "cephfs": _legacy["cephfs"],
    "quobyte": _legacy["quobyte"],
    "downwardAPI": _validate_downward,
    "fc": sources.validate_fibre_channel,
    "flexVolume": _legacy["flexVolume"],
    "configMap": sources.validate_config_map,
    "azureFile": _legacy["azureFile"],
    "vsphereVolume": _legacy["vsphereVolume"],
    "photonPersistentDisk": _legacy["photonPersistentDisk"],
    "portworxVolume": _legacy["portworxVolume"],
    "azureDisk": _legacy["azureDisk"],
    "storageos": _legacy["storageos"],
    "projected": _validate_projected,
    "scaleIO": _legacy["scaleIO"],
    "csi": sources.validate_inline_csi,
    "ephemeral": _validate_ephemeral,
    "image": _validate_image,
}


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
