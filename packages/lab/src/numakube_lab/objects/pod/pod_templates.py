"""Templates of pods, in the controllers that make pods of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from numakube_lab.objects.checks.selector_checks import (
    is_convertible,
    is_empty,
    matches,
    validate_label_selector,
)
from numakube_lab.objects.pod.pod_annotation_checks import (
    validate_pod_annotations,
    validate_profile_annotations,
)
from numakube_lab.objects.pod.pod_spec_rules import validate_pod_spec
from numakube_lab.objects.pod.pod_warnings import pod_warnings
from numakube_lab.schema.metadata_checks import validate_annotations, validate_labels

if TYPE_CHECKING:
    from numakube_lab.kinds import Json


def validate_template(template: Json, path: str) -> list[FieldError]:
    """Check the template of a pod."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    pod = {"metadata": meta, "spec": spec}
    errors = validate_labels(meta.get("labels"), f"{path}.labels")
    errors += validate_annotations(meta.get("annotations"), f"{path}.annotations")
    errors += validate_pod_annotations(pod, f"{path}.annotations")
    errors += validate_pod_spec(spec, f"{path}.spec")
    errors += validate_profile_annotations(pod, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", detail))
    return errors


def validate_selector(selector: Json | None, kind: str, path: str) -> list[FieldError]:
    """Check that a controller of *kind* says which pods are its own."""
    if selector is None:
        return [required(path)]
    errors = validate_label_selector(selector, path)
    if is_empty(selector):
        errors.append(invalid(path, selector, f"empty selector is invalid for {kind}"))
    return errors


def validate_match(selector: Json | None, template: Json, path: str) -> list[FieldError]:
    """Check that pods made of *template* are selected by *selector*."""
    labels = (template.get("metadata") or {}).get("labels")
    if selector is not None and (is_empty(selector) or matches(selector, labels)):
        return []
    detail = "`selector` does not match template `labels`"
    return [invalid(f"{path}.metadata.labels", labels or None, detail)]


def validate_endless(template: Json, kind: str, path: str) -> list[FieldError]:
    """Check that pods of a controller of *kind* are meant to run forever."""
    spec = template.get("spec") or {}
    errors = []
    policy = spec.get("restartPolicy") or ""
    if policy != "Always":
        errors.append(not_supported(f"{path}.spec.restartPolicy", policy, ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {kind} is not Supported"
        errors.append(forbidden(f"{path}.spec.activeDeadlineSeconds", detail))
    return errors


def validate_replicated(spec: Json, path: str) -> list[FieldError]:
    """Check selector and template of a Deployment or ReplicaSet."""
    selector, template = spec.get("selector"), spec.get("template") or {}
    errors = validate_selector(selector, "deployment", f"{path}.selector")
    if not is_convertible(selector):
        return [*errors, invalid(f"{path}.selector", selector, "invalid label selector")]
    place = f"{path}.template"
    errors += validate_match(selector, template, place)
    errors += validate_template(template, place)
    return errors + validate_endless(template, "ReplicaSet", place)


def template_warnings(obj: Json, old: Json | None, path: str) -> list[str]:
    """Return the warnings of the template at *path* of an object that is new or has changed."""
    if old is not None and obj["metadata"].get("generation") == old["metadata"].get("generation"):
        return []
    template = (obj.get("spec") or obj).get("template") or {}
    return pod_warnings(template.get("spec") or {}, template.get("metadata") or {}, path)


def warn_of_template(obj: Json, old: Json | None) -> list[str]:
    """Return the warnings of the template of a controller."""
    return template_warnings(obj, old, "spec.template")
