"""Where the data of a volume comes from, the paths of files in it, and claims for storage.

A volume has exactly one source. Those of storage systems that Kubernetes itself no longer
attaches (GCE, AWS, Ceph, ...) are checked for the fields that they require and no further.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from kube_lab_server.kinds.value_checks import validate_label_selector
from kube_lab_server.schema.metadata_checks import validate_annotations, validate_labels
from numakube.api import resource_names as resources
from numakube.api.field_errors import (
    FieldError,
    forbidden,
    invalid,
    invalids,
    not_supported,
    required,
    too_long,
)
from numakube.api.resource_requirements import round_to_milli
from numakube.values import names
from numakube.values.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kube_lab_server.kind_names import Json


SourceCheck: TypeAlias = Callable[["Json", str], list[FieldError]]
ONE_TYPE: Final = "may not specify more than 1 volume type"
NO_TYPE: Final = "must specify a volume type"
_HOST_PATH_TYPES: Final = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_MAX_DRIVER_NAME: Final = 63
_MAX_MODE: Final = 0o777
_MODE_WRONG: Final = "must be a number between 0 and 0777 (octal), both inclusive"


def validate_one_source(
    owner: Json, checks: Mapping[str, SourceCheck], path: str, aliases: Mapping[str, str]
) -> list[FieldError]:
    """Check that *owner* has exactly one source; *checks* are in the order of their check.

    *aliases* holds the paths under which some sources are reported, which differ from their names.
    """
    given = [field for field in checks if owner.get(field) is not None]
    if not given:
        return [required(path, NO_TYPE)]
    first = given[0]
    errors = checks[first](owner[first], f"{path}.{aliases.get(first, first)}")
    return errors + [forbidden(f"{path}.{field}", ONE_TYPE) for field in given[1:]]


def needs(*fields: str) -> SourceCheck:
    """Return a check that a source has the given *fields*."""

    def check(source: Json, path: str) -> list[FieldError]:
        return [required(f"{path}.{field}") for field in fields if not source.get(field)]

    return check


def validate_empty_dir(source: Json, path: str) -> list[FieldError]:
    """Check the size of an empty directory."""
    size = source.get("sizeLimit")
    if size is None or parse_quantity(size).unscaled >= 0:
        return []
    return [forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")]


def validate_host_path(source: Json, path: str) -> list[FieldError]:
    """Check a path of the node."""
    place = source.get("path") or ""
    if not place:
        return [required(f"{path}.path")]
    errors = validate_no_backsteps(place, f"{path}.path")
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        errors.append(not_supported(f"{path}.type", kind, _HOST_PATH_TYPES))
    return errors


def validate_git_repo(source: Json, path: str) -> list[FieldError]:
    """Check a repository to clone."""
    errors = needs("repository")(source, path)
    return errors + validate_descending(source.get("directory") or "", f"{path}.directory")


def validate_local(source: Json, path: str) -> list[FieldError]:
    """Check a disk of the node."""
    place = source.get("path") or ""
    return validate_no_backsteps(place, f"{path}.path") if place else [required(f"{path}.path")]


def validate_nfs(source: Json, path: str) -> list[FieldError]:
    """Check an NFS export."""
    errors = needs("server", "path")(source, path)
    place = source.get("path") or ""
    if not place.startswith("/"):
        errors.append(invalid(f"{path}.path", place, "must be an absolute path"))
    return errors


def validate_secret(source: Json, path: str) -> list[FieldError]:
    """Check a volume with the keys of a Secret."""
    return _validate_keyed(source, "secretName", path)


def validate_config_map(source: Json, path: str) -> list[FieldError]:
    """Check a volume with the keys of a ConfigMap."""
    return _validate_keyed(source, "name", path)


def _validate_keyed(source: Json, name_field: str, path: str) -> list[FieldError]:
    errors = needs(name_field)(source, path)
    errors += validate_mode(source.get("defaultMode"), f"{path}.defaultMode")
    for index, item in enumerate(source.get("items") or []):
        errors += validate_key_to_path(item, f"{path}.items[{index}]")
    return errors


def validate_key_to_path(item: Json, path: str) -> list[FieldError]:
    """Check which file a key becomes."""
    errors = needs("key", "path")(item, path)
    errors += validate_not_reserved(item.get("path") or "", f"{path}.path")
    return errors + validate_mode(item.get("mode"), f"{path}.mode")


def validate_driver_name(name: str, path: str) -> list[FieldError]:
    """Check the name of a CSI driver, in which case does not matter."""
    if not name:
        return [required(path)]
    errors = []
    if len(name.encode()) > _MAX_DRIVER_NAME:
        errors.append(too_long(path, _MAX_DRIVER_NAME))
    return errors + invalids(path, name, names.dns_subdomain(name.lower()))


def validate_inline_csi(source: Json, path: str) -> list[FieldError]:
    """Check a CSI volume that lives as long as its pod."""
    errors = validate_driver_name(source.get("driver") or "", f"{path}.driver")
    if (secret := source.get("nodePublishSecretRef")) is not None:
        if name := secret.get("name"):
            errors += invalids(f"{path}.name", name, names.dns_subdomain(name))
        else:
            errors.append(required(f"{path}.nodePublishSecretRef.name"))
    return errors


def validate_persistent_csi(source: Json, path: str) -> list[FieldError]:
    """Check the CSI volume behind a persistent volume."""
    errors = validate_driver_name(source.get("driver") or "", f"{path}.driver")
    errors += needs("volumeHandle")(source, path)
    for field in (
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ):
        if (secret := source.get(field)) is not None:
            errors += _validate_secret_reference(secret, f"{path}.{field}")
    return errors


def _validate_secret_reference(secret: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field, check in (("name", names.dns_subdomain), ("namespace", names.dns_label)):
        value = secret.get(field) or ""
        place = f"{path}.{field}"
        errors += invalids(place, value, check(value)) if value else [required(place)]
    return errors


NETWORK_SOURCES: Final[dict[str, SourceCheck]] = {
    "gcePersistentDisk": needs("pdName"),
    "awsElasticBlockStore": needs("volumeID"),
    "iscsi": needs("targetPortal", "iqn"),
    "glusterfs": needs("endpoints", "path"),
    "rbd": needs("monitors", "image"),
    "cinder": needs("volumeID"),
    "cephfs": needs("monitors"),
    "quobyte": needs("registry", "volume"),
    "flexVolume": needs("driver"),
    "azureFile": needs("secretName", "shareName"),
    "vsphereVolume": needs("volumePath"),
    "photonPersistentDisk": needs("pdID"),
    "portworxVolume": needs("volumeID"),
    "azureDisk": needs("diskName", "diskURI"),
    "storageos": needs("volumeName"),
    "scaleIO": needs("gateway", "system", "volumeName"),
}


def validate_flocker(source: Json, path: str) -> list[FieldError]:
    """Check a Flocker dataset, which is given by name or by id."""
    given = [source[field] for field in ("datasetName", "datasetUUID") if source.get(field)]
    if len(given) == 1:
        return []
    if not given:
        return [required(path, "one of datasetName and datasetUUID is required")]
    detail = "datasetName and datasetUUID can not be specified simultaneously"
    return [invalid(path, "resource", detail)]


def validate_fibre_channel(source: Json, path: str) -> list[FieldError]:
    """Check a Fibre Channel volume, which is given by world-wide names or ids."""
    targets, ids = source.get("targetWWNs") or [], source.get("wwids") or []
    place = f"{path}.targetWWNs"
    if not targets and not ids:
        return [required(place, "must specify either targetWWNs or wwids, but not both")]
    errors = []
    if targets and ids:
        detail = "targetWWNs and wwids can not be specified simultaneously"
        errors.append(invalid(place, targets, detail))
    if targets and source.get("lun") is None:
        errors.append(required(f"{path}.lun", "lun is required if targetWWNs is specified"))
    return errors


def validate_no_backsteps(path_text: str, path: str) -> list[FieldError]:
    """Refuse ``..`` as a part of a path."""
    if ".." not in path_text.split("/"):
        return []
    return [invalid(path, path_text, "must not contain '..'")]


def validate_descending(path_text: str, path: str) -> list[FieldError]:
    """Check that a path is relative and stays below its start."""
    absolute = path_text.startswith("/")
    errors = [invalid(path, path_text, "must be a relative path")] if absolute else []
    return errors + validate_no_backsteps(path_text, path)


def validate_not_reserved(path_text: str, path: str) -> list[FieldError]:
    """Check a path in a volume whose files starting with ``..`` belong to the kubelet."""
    errors = validate_descending(path_text, path)
    if path_text.startswith("..") and not path_text.startswith("../"):
        errors.append(invalid(path, path_text, "must not start with '..'"))
    return errors


def validate_mode(mode: int | None, path: str) -> list[FieldError]:
    """Check the permission bits of a file."""
    if mode is None or 0 <= mode <= _MAX_MODE:
        return []
    return [invalid(path, mode, _MODE_WRONG)]


ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES: Final = ("Block", "Filesystem")


def validate_access_modes(modes: list[str], path: str) -> list[FieldError]:
    """Check access modes, of which ReadWriteOncePod stands alone."""
    errors = [not_supported(path, mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    known = {mode for mode in modes if mode in ACCESS_MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        errors.append(forbidden(path, detail))
    return errors


def validate_claim_spec(spec: Json, path: str, *, any_value: bool = False) -> list[FieldError]:
    """Check what a claim asks for."""
    modes = spec.get("accessModes") or []
    place = f"{path}.accessModes"
    errors = [] if modes else [required(place, "at least 1 access mode is required")]
    selector = spec.get("selector")
    errors += validate_label_selector(selector, f"{path}.selector", any_value=any_value)
    errors += validate_access_modes(modes, place)
    errors += _validate_size(spec, f"{path}.resources[storage]")
    if name := spec.get("storageClassName"):
        errors += invalids(f"{path}.storageClassName", name, names.dns_subdomain(name))
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported(f"{path}.volumeMode", mode, VOLUME_MODES))
    errors += _validate_data_sources(spec, path)
    if name := spec.get("volumeAttributesClassName"):
        errors += invalids(f"{path}.volumeAttributesClassName", name, names.dns_subdomain(name))
    return errors


def _validate_size(spec: Json, path: str) -> list[FieldError]:
    text = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if text is None:
        return [required(path)]
    amount = parse_quantity(text)
    if amount.unscaled <= 0:
        return [invalid(path, str(amount), names.NOT_POSITIVE)]
    return resources.validate_amount("storage", text, path)


def _validate_data_sources(spec: Json, path: str) -> list[FieldError]:
    source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
    errors: list[FieldError] = []
    if source is not None:
        errors += _validate_data_source(source, f"{path}.dataSource")
    if ref is not None:
        errors += _validate_data_source(ref, f"{path}.dataSourceRef")
        if namespace := ref.get("namespace"):
            place = f"{path}.dataSourceRef.namespace"
            errors += invalids(place, namespace, names.dns_label(namespace))
    if source is None or ref is None:
        return errors
    if ref.get("namespace"):
        detail = "may not be specified when dataSourceRef.namespace is specified"
        errors.append(invalid(path, {}, detail))
    elif any(source.get(field) != ref.get(field) for field in ("apiGroup", "kind", "name")):
        errors.append(invalid(path, {}, "must match dataSourceRef"))
    return errors


def _validate_data_source(source: Json, path: str) -> list[FieldError]:
    errors = [required(f"{path}.{field}") for field in ("name", "kind") if not source.get(field)]
    group, kind = source.get("apiGroup") or "", source.get("kind") or ""
    if group:
        return errors + invalids(f"{path}.apiGroup", group, names.dns_subdomain(group))
    if kind != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(invalid(path, kind, detail))
    return errors


def validate_claim_template(template: Json, path: str) -> list[FieldError]:
    """Check the template of a claim that is made for one pod."""
    meta = template.get("metadata") or {}
    errors = validate_annotations(meta.get("annotations"), f"{path}.metadata.annotations")
    errors += validate_labels(meta.get("labels"), f"{path}.metadata.labels")
    errors += [
        forbidden(f"{path}.metadata.{field}", "cannot be set")
        for field, value in meta.items()
        if value and field not in {"annotations", "labels"}
    ]
    return errors + validate_claim_spec(template.get("spec") or {}, f"{path}.spec")


def default_claim_spec(spec: Json) -> None:
    """Fill in what a claim leaves open."""
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    requirements = spec.get("resources") or {}
    round_to_milli(requirements.get("limits"))
    round_to_milli(requirements.get("requests"))
