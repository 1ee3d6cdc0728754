"""What the user of a pod or template is warned of, and the annotations that mean something."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.node_checks import DEPRECATED_LABELS, PREFERRED, REQUIRED
from kube_lab_server.kinds.pod.pod_placement import affinity_terms
from kube_lab_server.kinds.pod.pod_spec import MIRROR_POD, all_containers
from kube_lab_server.kinds.pod.volume_sources import validate_descending
from kube_lab_server.kinds.value_checks import address_warnings, remembered
from numakube.api.field_errors import FieldError, forbidden, invalid
from numakube.values.gotext import go_quote
from numakube.values.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kube_lab_server.kind_names import Json


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


_DEPRECATED_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
    "security.alpha.kubernetes.io/unsafe-sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
}
_DEPRECATED_VOLUMES: Final = (
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
)
_NO_SELECTOR: Final = "a null labelSelector results in matching no pod"
_BYTES: Final = ("memory", "ephemeral-storage")


def pod_warnings(spec: Json, meta: Json, path: str) -> list[str]:
    """Return the warnings of a pod (*path* is empty) or of the template at *path*."""
    return _warnings(spec, meta.get("annotations") or {}, path)


@remembered
def _warnings(spec: Json, annotations: dict[str, str], path: str) -> list[str]:
    prefix = f"{path}." if path else ""
    place = f"{prefix}spec"
    warnings = list(_label_warnings(spec, place))
    warnings += list(_spread_warnings(spec, place))
    warnings += [
        f"{prefix}metadata.annotations[{key}]: {text}"
        for key, text in _DEPRECATED_ANNOTATIONS.items()
        if key in annotations
    ]
    warnings += list(_volume_warnings(spec, place))
    warnings += list(_reference_warnings(spec, place))
    warnings += list(_fraction_warnings({"overhead": spec.get("overhead")}, place))
    warnings += list(_profile_warnings(spec, annotations, prefix))
    for container, where in all_containers(spec, place):
        resources = container.get("resources") or {}
        for name in _BYTES:
            sides = {side: _only(resources.get(side), name) for side in ("limits", "requests")}
            warnings += list(_fraction_warnings(sides, f"{where}.resources"))
        warnings += list(_env_warnings(container.get("env") or [], f"{where}.env"))
    warnings += list(_port_warnings(spec, place))
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        rule = "must be >= 0; negative values are invalid and will be treated as 1"
        warnings.append(f"{place}.terminationGracePeriodSeconds: {rule}")
    for part in ("podAffinity", "podAntiAffinity"):
        for where, term in affinity_terms(spec.get("affinity"), part):
            if term.get("labelSelector") is None:
                selector = f"{place}.affinity.{part}.{where}.labelSelector"
                warnings.append(f"{selector}: {_NO_SELECTOR}")
    return warnings + list(_address_warnings(spec, place))


def _label_warnings(spec: Json, path: str) -> Iterator[str]:
    for key in sorted(spec.get("nodeSelector") or {}):
        if text := DEPRECATED_LABELS.get(key):
            yield f"{path}.nodeSelector[{key}]: {text}"
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    place = f"{path}.affinity.nodeAffinity"
    required = affinity.get(REQUIRED) or {}
    for index, term in enumerate(required.get("nodeSelectorTerms") or []):
        yield from _term_warnings(term, f"{place}.{REQUIRED}.nodeSelectorTerms[{index}]")
    for index, weighted in enumerate(affinity.get(PREFERRED) or []):
        term = weighted.get("preference") or {}
        yield from _term_warnings(term, f"{place}.{PREFERRED}[{index}].preference")


def _term_warnings(term: Json, path: str) -> Iterator[str]:
    for index, expression in enumerate(term.get("matchExpressions") or []):
        key = expression.get("key") or ""
        if text := DEPRECATED_LABELS.get(key):
            yield f"{path}.matchExpressions[{index}].key: {key} is {text}"


def _spread_warnings(spec: Json, path: str) -> Iterator[str]:
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or []):
        place = f"{path}.topologySpreadConstraints[{index}]"
        key = constraint.get("topologyKey") or ""
        if text := DEPRECATED_LABELS.get(key):
            yield f"{place}.topologyKey: {key} is {text}"
        if constraint.get("labelSelector") is None:
            yield f"{place}.labelSelector: {_NO_SELECTOR}"


def _volume_warnings(spec: Json, path: str) -> Iterator[str]:
    for index, volume in enumerate(spec.get("volumes") or []):
        for field, text in _DEPRECATED_VOLUMES:
            if volume.get(field) is not None:
                shown = "storageOS" if field == "storageos" else field
                yield f"{path}.volumes[{index}].{shown}: {text}"


def _reference_warnings(spec: Json, path: str) -> Iterator[str]:
    yield from _repeated(spec.get("hostAliases") or [], "ip", f"{path}.hostAliases")
    secrets = spec.get("imagePullSecrets") or []
    yield from _repeated(secrets, "name", f"{path}.imagePullSecrets")
    for index, secret in enumerate(secrets):
        if not secret.get("name"):
            yield f'{path}.imagePullSecrets[{index}].name: invalid empty name ""'


def _repeated(items: Sequence[Json], field: str, path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        value = item.get(field) or ""
        if value in seen:
            yield f"{path}[{index}].{field}: duplicate {field} {go_quote(value)}"
        seen.add(value)


def _only(amounts: Json | None, name: str) -> Json:
    return {name: amounts[name]} if amounts and name in amounts else {}


def _fraction_warnings(sides: Json, path: str) -> Iterator[str]:
    for side, amounts in sides.items():
        for name in _BYTES:
            if (text := (amounts or {}).get(name)) is None:
                continue
            amount = parse_quantity(text)
            if amount.milli_value() % 1000:
                shown = go_quote(str(amount))
                rule = f"fractional byte value {shown} is invalid, must be an integer"
                yield f"{path}.{side}[{name}]: {rule}"


def _profile_warnings(spec: Json, annotations: dict[str, str], prefix: str) -> Iterator[str]:
    if not annotations:
        return
    text = 'non-functional in v1.27+; use the "seccompProfile" field instead'
    if SECCOMP_POD in annotations and not _profile(spec, "seccompProfile"):
        yield f"{prefix}metadata.annotations[{SECCOMP_POD}]: {text}"
    for container, _ in all_containers(spec, ""):
        name = container.get("name") or ""
        key = SECCOMP_CONTAINER + name
        if key in annotations and not _profile(container, "seccompProfile"):
            yield f"{prefix}metadata.annotations[{key}]: {text}"
        key = APP_ARMOR + name
        if key in annotations and not _profile(container, "appArmorProfile"):
            newer = 'deprecated since v1.30; use the "appArmorProfile" field instead'
            yield f"{prefix}metadata.annotations[{key}]: {newer}"


def _profile(owner: Json, field: str) -> object:
    return (owner.get("securityContext") or {}).get(field)


def _env_warnings(variables: Sequence[Json], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        name = variable.get("name") or ""
        value, reference = variable.get("value") or "", f"$({name})"
        replaces = variable.get("valueFrom") is not None or value == reference
        if name in seen and (replaces or reference not in value):
            shown = go_quote(name)
            rule = f"hides previous definition of {shown}, which may be dropped when using apply"
            yield f"{path}[{index}]: {rule}"
        seen.add(name)


def _port_warnings(spec: Json, path: str) -> Iterator[str]:
    listed = [
        (f"{place}.ports[{index}]", port)
        for container, place in all_containers(spec, path)
        for index, port in enumerate(container.get("ports") or [])
    ]
    for position, (place, port) in enumerate(listed):
        for other_place, other in listed[:position]:
            if (port.get("containerPort"), port.get("protocol")) == (
                other.get("containerPort"),
                other.get("protocol"),
            ) and (clash := _port_clash(port, other)):
                yield f"{place}: {clash} port definition with {other_place}"
    names: dict[str, str] = {}
    for place, port in listed:
        if not (name := port.get("name")):
            continue
        first = names.setdefault(name, place)
        if first != place:
            yield (
                f"{place}: duplicate port name {go_quote(name)} with {first}, services and probes "
                f"that select ports by name will use {first}"
            )


def _port_clash(port: Json, other: Json) -> str:
    address, other_address = port.get("hostIP") or "", other.get("hostIP") or ""
    number, other_number = port.get("hostPort") or 0, other.get("hostPort") or 0
    if (address, number) == (other_address, other_number):
        return "duplicate"
    if not number or not other_number:
        return "overlapping"
    ambiguous = number == other_number and bool(address) != bool(other_address)
    return "dangerously ambiguous" if ambiguous else ""


def _address_warnings(spec: Json, path: str) -> Iterator[str]:
    servers = (spec.get("dnsConfig") or {}).get("nameservers") or []
    for index, server in enumerate(servers):
        yield from address_warnings(server, f"{path}.dnsConfig.nameservers[{index}]")
    for index, alias in enumerate(spec.get("hostAliases") or []):
        yield from address_warnings(alias.get("ip") or "", f"{path}.hostAliases[{index}].ip")
