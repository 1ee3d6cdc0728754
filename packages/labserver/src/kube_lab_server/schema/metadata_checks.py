"""What every object's ``metadata`` must look like, on creation and on update.

Built-in kinds check it twice on update, once for all kinds alike and once with the kind's own
rules; the answer of a real server shows such an error twice, and so does ours.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from numakube.api.field_errors import (
    FieldError,
    Verbatim,
    forbidden,
    invalid,
    invalids,
    required,
    too_long,
)
from numakube.values import names
from numakube.values.gotext import go_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kube_lab_server.kind_names import Json
    from numakube.values.names import TextCheck


MAX_ANNOTATION_BYTES: Final = 256 * 1024
MAX_MANAGER_BYTES: Final = 128
MAX_SUBRESOURCE_BYTES: Final = 256
ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_PLAIN_FINALIZERS: Final = frozenset({"kubernetes", ORPHAN, FOREGROUND})


def validate_labels(labels: Mapping[str, str] | None, path: str) -> list[FieldError]:
    """Check the keys and values of labels; the path is that of all of them."""
    errors: list[FieldError] = []
    for key, value in sorted((labels or {}).items()):
        errors += invalids(path, key, names.qualified_name(key))
        errors += invalids(path, value, names.label_value(value))
    return errors


def validate_annotations(annotations: Mapping[str, str] | None, path: str) -> list[FieldError]:
    """Check the keys of annotations, in which case does not matter, and their size."""
    errors: list[FieldError] = []
    size = 0
    for key, value in sorted((annotations or {}).items()):
        errors += invalids(path, key, names.qualified_name(key.lower()))
        size += len(key.encode()) + len(value.encode("utf-8", "surrogatepass"))
    if size > MAX_ANNOTATION_BYTES:
        errors.append(too_long(path, MAX_ANNOTATION_BYTES))
    return errors


def validate_metadata(
    meta: Json,
    *,
    namespaced: bool,
    name: TextCheck,
    path: str = "metadata",
    old: Mapping[str, Any] = _NOTHING,
) -> list[FieldError]:
    """Check the metadata of an object of a kind whose names must pass *name*.

    The very parts of *old*, which is stored, were checked when they came.
    """
    errors = _validate_name(meta, name, path)
    return errors + _validate_common(meta, old, namespaced=namespaced, path=path)


def _validate_name(meta: Json, name: TextCheck, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if prefix := meta.get("generateName"):
        stand_in = names.generated_prefix(prefix)
        errors += invalids(f"{path}.generateName", prefix, name(stand_in))
    if own := meta.get("name"):
        errors += invalids(f"{path}.name", own, name(own))
    else:
        errors.append(required(f"{path}.name", "name or generateName is required"))
    return errors


def _validate_common(
    meta: Json, old: Mapping[str, Any], *, namespaced: bool, path: str
) -> list[FieldError]:
    errors = _validate_namespace(meta.get("namespace"), namespaced=namespaced, path=path)
    generation = meta.get("generation") or 0
    if generation < 0:
        errors.append(invalid(f"{path}.generation", generation, names.NOT_NEGATIVE))
    errors += _validate_labels_and_owners(meta, old, path)
    errors += _validate_finalizers(meta.get("finalizers") or [], f"{path}.finalizers")
    return errors + _validate_managed_fields(meta, old, f"{path}.managedFields")


def _validate_labels_and_owners(meta: Json, old: Mapping[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if labels := _new(meta, old, "labels"):
        errors += validate_labels(labels, f"{path}.labels")
    if annotations := _new(meta, old, "annotations"):
        errors += validate_annotations(annotations, f"{path}.annotations")
    if owners := _new(meta, old, "ownerReferences"):
        errors += _validate_owners(owners, f"{path}.ownerReferences")
    return errors


def _new(meta: Json, old: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - a part of any type
    """Return a part of *meta* that is not the very part of *old*."""
    part = meta.get(name)
    return None if part is old.get(name) else part


def _validate_namespace(value: str | None, *, namespaced: bool, path: str) -> list[FieldError]:
    if not namespaced:
        return [forbidden(f"{path}.namespace", "not allowed on this type")] if value else []
    if not value:
        return [required(f"{path}.namespace")]
    return invalids(f"{path}.namespace", value, names.dns_label(value))


def _validate_owners(owners: Sequence[Json], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    controller = ""
    for owner in owners:
        errors += _validate_owner(owner, path)
        if not owner.get("controller"):
            continue
        current = f"{owner.get('kind', '')}/{owner.get('name', '')}"
        if controller:
            detail = (
                "Only one reference can have Controller set to true. "
                f'Found "true" in references for {controller} and {current}'
            )
            shown = Verbatim(go_json(owners, struct=True))
            errors.append(invalid(path, shown, detail))
        controller = controller or current
    return errors


def _validate_owner(owner: Json, path: str) -> list[FieldError]:
    version = owner.get("apiVersion") or ""
    errors = []
    if not version.rpartition("/")[2]:
        errors.append(invalid(f"{path}.apiVersion", version, "version must not be empty"))
    errors += [
        invalid(f"{path}.{key}", "", "must not be empty")
        for key in ("kind", "name", "uid")
        if not owner.get(key)
    ]
    if (version, owner.get("kind")) == ("v1", "Event"):
        errors.append(invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
    return errors


def _validate_finalizers(finalizers: Sequence[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for finalizer in finalizers:
        errors += invalids(path, finalizer, names.qualified_name(finalizer))
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        detail = f"finalizer {ORPHAN} and {FOREGROUND} cannot be both set"
        errors.append(invalid(path, finalizers, detail))
    return errors


def validate_own_finalizers(meta: Json, path: str = "metadata") -> list[FieldError]:
    """Check that finalizers are well-known or have a prefix, as most built-in kinds want."""
    errors: list[FieldError] = []
    for index, finalizer in enumerate(meta.get("finalizers") or []):
        errors += validate_finalizer_name(finalizer, f"{path}.finalizers[{index}]")
    return errors


def validate_finalizer_name(finalizer: str, path: str) -> list[FieldError]:
    """Check one finalizer of a built-in kind."""
    if "/" in finalizer or finalizer in _PLAIN_FINALIZERS:
        return []
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return [invalid(path, finalizer, detail)]


def _validate_managed_fields(meta: Json, old: Mapping[str, Any], path: str) -> list[FieldError]:
    entries = _new(meta, old, "managedFields")
    if not entries:
        return []
    errors: list[FieldError] = []
    checked = {id(entry) for entry in old.get("managedFields") or ()}
    for index, entry in enumerate(entries):
        if id(entry) not in checked:
            errors += _validate_entry(entry, f"{path}[{index}]")
    return errors


def _validate_entry(entry: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operation = entry.get("operation") or ""
    if operation not in {"Apply", "Update"}:
        errors.append(invalid(f"{path}.operation", operation, "must be `Apply` or `Update`"))
    fields_type = entry.get("fieldsType") or ""
    if fields_type not in {"", "FieldsV1"}:
        errors.append(invalid(f"{path}.fieldsType", fields_type, "must be `FieldsV1`"))
    errors += validate_field_manager(entry.get("manager") or "", f"{path}.manager")
    if len((entry.get("subresource") or "").encode()) > MAX_SUBRESOURCE_BYTES:
        errors.append(too_long(f"{path}.subresource", MAX_SUBRESOURCE_BYTES))
    return errors


def validate_field_manager(manager: str, path: str) -> list[FieldError]:
    """Check the name of a field manager."""
    if len(manager) <= MAX_MANAGER_BYTES and manager.isascii() and manager.isprintable():
        return []
    errors = []
    if len(manager.encode("utf-8", "surrogatepass")) > MAX_MANAGER_BYTES:
        errors.append(too_long(path, MAX_MANAGER_BYTES))
    position = 0
    for character in manager:
        if not character.isprintable():
            detail = f"invalid character U+{ord(character):04X} (at position {position})"
            errors.append(invalid(path, manager, detail))
        position += len(character.encode("utf-8", "surrogatepass"))
    return errors


def validate_metadata_update(new: Json, old: Json, path: str = "metadata") -> list[FieldError]:
    """Check the metadata that is to replace that of *old*."""
    errors = []
    if old.get("deletionTimestamp") is not None:
        errors += _validate_no_new_finalizers(new, old, path)
    if not new.get("resourceVersion"):
        detail = "must be specified for an update"
        errors.append(invalid(f"{path}.resourceVersion", "", detail))
    generation = new.get("generation") or 0
    if generation < (old.get("generation") or 0):
        errors.append(invalid(f"{path}.generation", generation, "must not be decremented"))
    for key, empty in _FIXED_FIELDS:
        value = new.get(key, empty)
        if value != old.get(key, empty):
            errors.append(invalid(f"{path}.{key}", value, names.IMMUTABLE))
    errors += _validate_labels_and_owners(new, old, path)
    return errors + _validate_managed_fields(new, old, f"{path}.managedFields")


_FIXED_FIELDS: Final[tuple[tuple[str, Any], ...]] = (
    ("name", ""),
    ("namespace", ""),
    ("uid", ""),
    ("creationTimestamp", None),
    ("deletionTimestamp", None),
    ("deletionGracePeriodSeconds", None),
)


def _validate_no_new_finalizers(new: Json, old: Json, path: str) -> list[FieldError]:
    extra = sorted(set(new.get("finalizers") or []) - set(old.get("finalizers") or []))
    if not extra:
        return []
    listed = ", ".join(f'"{finalizer}"' for finalizer in extra)
    detail = (
        "no new finalizers can be added if the object is being deleted, "
        f"found new finalizers []string{{{listed}}}"
    )
    return [forbidden(f"{path}.finalizers", detail)]


def immutable(new: object, old: object, path: str) -> list[FieldError]:
    """Refuse a change of a field that stays as it was created."""
    return [] if new == old else [invalid(path, new, names.IMMUTABLE)]


def validate_any_create(meta: Json, *, namespaced: bool, checked: bool = False) -> list[FieldError]:
    """Check what holds for the metadata of all kinds, custom ones included, on creation.

    All but the name is as it should be if it was *checked* as that of a built-in kind.
    """
    if checked:
        return _validate_name(meta, names.path_segment, "metadata")
    return validate_metadata(meta, namespaced=namespaced, name=names.path_segment)


def validate_any_update(new: Json, old: Json, *, namespaced: bool) -> list[FieldError]:
    """Check what holds for the metadata of all kinds, custom ones included, on update."""
    errors = validate_metadata(new, namespaced=namespaced, name=names.path_segment, old=old)
    return errors + validate_metadata_update(new, old)
