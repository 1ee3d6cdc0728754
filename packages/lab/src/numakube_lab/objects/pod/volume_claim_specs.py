"""The specification of a claim for storage, in a claim itself and in templates of claims."""

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
from numakube.values.quantity import parse_quantity
from numakube_lab.objects.checks.selector_checks import validate_label_selector
from numakube_lab.schema.metadata_checks import validate_annotations, validate_labels

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

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
