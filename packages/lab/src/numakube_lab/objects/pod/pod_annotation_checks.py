"""Annotations of pods that mean something to the server."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, forbidden, invalid
from numakube.values.gotext import go_quote
from numakube_lab.objects.pod.pod_os import all_containers
from numakube_lab.objects.pod.pod_spec_rules import MIRROR_POD
from numakube_lab.objects.pod.volume_sources import validate_descending

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
SECCOMP_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
SECCOMP_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
APP_ARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_PATH: Final = "metadata.annotations"
# No sign other than a minus, no leading zeros.
_match_cost: Final = re.compile(r"-?(0|[1-9][0-9]*)").fullmatch


def validate_pod_annotations(pod: Json, path: str = _PATH) -> list[FieldError]:
    """Check the values of the annotations that are read; they stand at *path*."""
    annotations = pod["metadata"].get("annotations") or {}
    if not annotations:
        return []
    spec = pod["spec"]
    errors = []
    if MIRROR_POD in annotations and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.append(invalid(f"{path}[{MIRROR_POD}]", annotations[MIRROR_POD], detail))
    cost = annotations.get(DELETION_COST)
    if cost is not None and not _is_cost(cost):
        errors.append(invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer"))
    for key in sorted(annotations):
        if key == SECCOMP_POD or key.startswith(SECCOMP_CONTAINER):
            errors += _validate_seccomp(annotations[key], f"{path}.{key}")
    return errors + _validate_app_armor(annotations, spec, path)


def _is_cost(text: str) -> bool:
    return bool(_match_cost(text)) and text != "-0" and -(2**31) <= int(text) < 2**31


def _validate_seccomp(profile: str, path: str) -> list[FieldError]:
    if profile in {"runtime/default", "docker/default", "unconfined"}:
        return []
    if profile.startswith("localhost/"):
        return validate_descending(profile.removeprefix("localhost/"), path)
    return [invalid(path, profile, "must be a valid seccomp profile")]


def _validate_app_armor(annotations: dict[str, str], spec: Json, path: str) -> list[FieldError]:
    errors = []
    known = {container.get("name") for container, _ in all_containers(spec, "")}
    for key, profile in sorted(annotations.items()):
        if not key.startswith(APP_ARMOR):
            continue
        name = key.removeprefix(APP_ARMOR)
        if name not in known:
            errors.append(invalid(f"{path}[{key}]", name, "container not found"))
        plain = profile in {"", "runtime/default", "unconfined"}
        if not plain and not profile.startswith("localhost/"):
            detail = f"invalid AppArmor profile name: {go_quote(profile)}"
            errors.append(invalid(f"{path}[{key}]", profile, detail))
    return errors


def validate_annotation_changes(new: Json, old: Json) -> list[FieldError]:
    """Refuse changes of annotations that are fixed, then check them all."""
    after = new["metadata"].get("annotations") or {}
    before = old["metadata"].get("annotations") or {}
    errors = []
    for verb, keys in (
        ("remove or update", [k for k, v in before.items() if after.get(k) != v]),
        ("add", [k for k in after if k not in before]),
    ):
        for key in sorted(keys):
            if key.startswith(APP_ARMOR):
                errors.append(forbidden(f"{_PATH}[{key}]", f"may not {verb} AppArmor annotations"))
            if key == MIRROR_POD:
                detail = f"may not {verb} mirror pod annotation"
                errors.append(forbidden(f"{_PATH}[{key}]", detail))
    return errors + validate_pod_annotations(new)


def validate_profile_annotations(pod: Json, path: str = "spec") -> list[FieldError]:
    """Check that profiles in annotations are those in the fields that replaced them."""
    annotations = pod["metadata"].get("annotations") or {}
    if not annotations:
        return []
    spec = pod["spec"]
    errors = _match_profile(annotations.get(SECCOMP_POD), spec, path, "seccompProfile")
    for container, place in all_containers(spec, path):
        text = annotations.get(SECCOMP_CONTAINER + (container.get("name") or ""))
        errors += _match_profile(text, container, place, "seccompProfile")
    if (spec.get("os") or {}).get("name") == "windows":
        return errors
    shared = (spec.get("securityContext") or {}).get("appArmorProfile")
    for container, place in all_containers(spec, path):
        own = (container.get("securityContext") or {}).get("appArmorProfile")
        text = annotations.get(APP_ARMOR + (container.get("name") or ""))
        owner = {"securityContext": {"appArmorProfile": own if own is not None else shared}}
        errors += _match_profile(text, owner, place, "appArmorProfile")
    return errors


def _match_profile(text: str | None, owner: Json, path: str, field: str) -> list[FieldError]:
    profile = (owner.get("securityContext") or {}).get(field)
    if text is None or profile is None:
        return []
    label = "seccomp" if field == "seccompProfile" else "apparmor"
    place = f"{path}.securityContext.{field}"
    differs = forbidden(f"{place}.type", f"{label} type in annotation and field must match")
    kind = profile.get("type")
    if kind == "Unconfined":
        return [] if text == "unconfined" else [differs]
    if kind == "RuntimeDefault":
        known = {"runtime/default"} | ({"docker/default"} if label == "seccomp" else set())
        return [] if text in known else [differs]
    if kind != "Localhost":
        return []
    if not text.startswith("localhost/"):
        return [differs]
    if text.removeprefix("localhost/") == profile.get("localhostProfile"):
        return []
    detail = f"{label} profile in annotation and field must match"
    return [forbidden(f"{place}.localhostProfile", detail)]
