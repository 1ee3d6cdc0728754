"""Environment variables, probes and lifecycle hooks of containers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from kube_lab_server.kinds.pod.volume_sources import validate_no_backsteps
from numakube.api.field_errors import (
    FieldError,
    forbidden,
    invalid,
    invalids,
    not_supported,
    required,
)
from numakube.values import names
from numakube.values.quantity import parse_quantity

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kube_lab_server.kind_names import Json


_POD_FIELDS: Final = frozenset(
    {
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
_ENV_FIELDS: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
VOLUME_FIELDS: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_RESOURCE_FIELDS: Final = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGES: Final = ("requests.hugepages-", "limits.hugepages-")
_SIZES: Final = tuple("1" + unit for unit in ("", *"kMGTPE", *(f"{c}i" for c in "KMGTPE")))
_SOURCES_WRONG: Final = (
    "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` "
    "or `fileKeyRef`"
)
_MORE_THAN_ONE: Final = "may not have more than one field specified at a time"


def validate_env(variables: Sequence[Json], path: str) -> list[FieldError]:
    """Check the variables of a container."""
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        place = f"{path}[{index}]"
        if name := variable.get("name"):
            errors += invalids(f"{place}.name", name, names.env_var_name(name))
        else:
            errors.append(required(f"{place}.name"))
        if (source := variable.get("valueFrom")) is not None:
            value = variable.get("value") or ""
            errors += _validate_value_from(source, value, f"{place}.valueFrom")
    return errors


def _validate_value_from(source: Json, value: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if (ref := source.get("fieldRef")) is not None:
        errors += validate_field_ref(ref, _ENV_FIELDS, f"{path}.fieldRef")
    if (ref := source.get("resourceFieldRef")) is not None:
        errors += validate_resource_ref(ref, f"{path}.resourceFieldRef")
    for field in ("configMapKeyRef", "secretKeyRef"):
        if (ref := source.get(field)) is not None:
            errors += _validate_key_ref(ref, f"{path}.{field}")
    if (ref := source.get("fileKeyRef")) is not None:
        errors += _validate_file_ref(ref, f"{path}.fileKeyRef")
    count = sum(1 for ref in source.values() if ref is not None)
    if count == 0:
        errors.append(invalid(path, "", _SOURCES_WRONG))
    elif value:
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        errors.append(invalid(path, "", _MORE_THAN_ONE))
    return errors


def validate_field_ref(ref: Json, allowed: Collection[str], path: str) -> list[FieldError]:
    """Check a reference to one of the *allowed* fields of the pod."""
    version, field = ref.get("apiVersion") or "", ref.get("fieldPath") or ""
    if not version:
        return [required(f"{path}.apiVersion")]
    if not field:
        return [required(f"{path}.fieldPath")]
    base, subscript = _split_subscript(field)
    if wrong := _unknown_field(version, field, base, subscript):
        detail = f"error converting fieldPath: {wrong}"
        return [invalid(f"{path}.fieldPath", field, detail)]
    if subscript is not None:
        key = subscript.lower() if base == "metadata.annotations" else subscript
        return invalids(path, key, names.qualified_name(key))
    base = "spec.nodeName" if base == "spec.host" else base
    return [] if base in allowed else [not_supported(f"{path}.fieldPath", base, tuple(allowed))]


def _split_subscript(field: str) -> tuple[str, str | None]:
    """Split ``metadata.labels['key']`` into the field and the key."""
    base, bracket, rest = field.partition("['")
    if not field.endswith("']") or not bracket or not base:
        return field, None
    return base, rest.removesuffix("']")


def _unknown_field(version: str, field: str, base: str, subscript: str | None) -> str:
    if version != "v1":
        return f"unsupported pod version: {version}"
    if subscript is not None:
        if base in {"metadata.annotations", "metadata.labels"}:
            return ""
        return f"field label does not support subscript: {field}"
    if base in _POD_FIELDS or base == "spec.host":
        return ""
    return f"field label not supported: {field}"


def validate_resource_ref(ref: Json, path: str, *, in_volume: bool = False) -> list[FieldError]:
    """Check a reference to a request or limit of a container."""
    resource = ref.get("resource") or ""
    errors = []
    if in_volume and not ref.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not resource:
        errors.append(required(f"{path}.resource"))
    elif resource not in _RESOURCE_FIELDS and not resource.startswith(_HUGE_PAGES):
        errors.append(not_supported(f"{path}.resource", resource, _RESOURCE_FIELDS))
    return errors + _validate_divisor(resource, ref.get("divisor") or "0", path)


def _validate_divisor(resource: str, text: str, path: str) -> list[FieldError]:
    divisor = parse_quantity(text)
    kind = resource.partition(".")[2]
    if not divisor or not (resource in _RESOURCE_FIELDS or resource.startswith(_HUGE_PAGES)):
        return []
    allowed: Sequence[str] = ("1m", "1") if kind == "cpu" else _SIZES
    if str(divisor) in allowed:
        return []
    listed = "1m and 1" if kind == "cpu" else ", ".join(allowed)
    label = {"ephemeral-storage": "local ephemeral storage"}.get(kind, kind)
    label = "hugepages" if kind.startswith("hugepages-") else label
    detail = f"only divisor's values {listed} are supported with the {label} resource"
    return [invalid(f"{path}.divisor", resource, detail)]


def _validate_key_ref(ref: Json, path: str) -> list[FieldError]:
    name, key = ref.get("name") or "", ref.get("key") or ""
    errors = invalids(f"{path}.name", name, names.dns_subdomain(name))
    if not key:
        return [*errors, required(f"{path}.key")]
    return errors + invalids(f"{path}.key", key, names.config_key(key))


def _validate_file_ref(ref: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if key := ref.get("key"):
        errors += invalids(f"{path}.key", key, names.env_var_name(key))
    else:
        errors.append(required(f"{path}.key"))
    if volume := ref.get("volumeName"):
        errors += invalids(f"{path}.volumeName", volume, names.dns_label(volume))
    else:
        errors.append(required(f"{path}.volumeName"))
    if file := ref.get("path"):
        errors += validate_no_backsteps(file, f"{path}.path")
    else:
        errors.append(required(f"{path}.path"))
    return errors


def validate_env_from(sources: Sequence[Json], path: str) -> list[FieldError]:
    """Check the ConfigMaps and Secrets that give variables."""
    errors: list[FieldError] = []
    for index, source in enumerate(sources):
        place = f"{path}[{index}]"
        if prefix := source.get("prefix"):
            errors += invalids(f"{place}.prefix", prefix, names.env_var_name(prefix))
        refs = [field for field in ("configMapRef", "secretRef") if source.get(field) is not None]
        for field in refs:
            errors += _validate_source_name(source[field].get("name") or "", f"{place}.{field}")
        if not refs:
            detail = "must specify one of: `configMapRef` or `secretRef`"
            errors.append(invalid(path, "", detail))
        elif len(refs) > 1:
            errors.append(invalid(path, "", _MORE_THAN_ONE))
    return errors


def _validate_source_name(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(f"{path}.name")]
    return invalids(f"{path}.name", name, names.dns_subdomain(names.generated_prefix(name)))


PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_SCHEMES: Final = ("HTTP", "HTTPS")
_COUNTS: Final = (
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
)


def validate_probes(container: Json, path: str) -> list[FieldError]:
    """Check the three probes of a container."""
    errors: list[FieldError] = []
    for kind in PROBES:
        if (probe := container.get(kind)) is not None:
            errors += _validate_probe(probe, kind, f"{path}.{kind}")
    return errors


def _validate_probe(probe: Json, kind: str, path: str) -> list[FieldError]:
    errors = _validate_handler(probe, ("exec", "httpGet", "tcpSocket", "grpc"), None, path)
    for field in _COUNTS:
        if (number := probe.get(field) or 0) < 0:
            errors.append(invalid(f"{path}.{field}", number, names.NOT_NEGATIVE))
    grace = probe.get("terminationGracePeriodSeconds")
    place = f"{path}.terminationGracePeriodSeconds"
    if grace is not None and grace <= 0:
        errors.append(invalid(place, grace, "must be greater than 0"))
    if kind == "readinessProbe":
        if grace is not None:
            errors.append(invalid(place, grace, "must not be set for readinessProbes"))
    elif (successes := probe.get("successThreshold") or 0) != 1:
        errors.append(invalid(f"{path}.successThreshold", successes, "must be 1"))
    return errors


def validate_lifecycle(lifecycle: Json, grace: int | None, path: str) -> list[FieldError]:
    """Check hooks, which may not sleep longer than the pod's *grace* period."""
    errors: list[FieldError] = []
    for hook in ("postStart", "preStop"):
        if (handler := lifecycle.get(hook)) is not None:
            kinds = ("exec", "httpGet", "tcpSocket", "sleep")
            errors += _validate_handler(handler, kinds, grace, f"{path}.{hook}")
    return errors


def _validate_handler(
    handler: Json, kinds: tuple[str, ...], grace: int | None, path: str
) -> list[FieldError]:
    given = [kind for kind in kinds if handler.get(kind) is not None]
    if not given:
        return [required(path, "must specify a handler type")]
    first, *more = given
    place = f"{path}.{first}"
    if first == "sleep":
        errors = _validate_sleep(handler[first], grace, place)
    else:
        errors = _ACTIONS[first](handler[first], place)
    return errors + [
        forbidden(f"{path}.{kind}", "may not specify more than 1 handler type") for kind in more
    ]


def _validate_sleep(action: Json, grace: int | None, path: str) -> list[FieldError]:
    seconds = action.get("seconds") or 0
    if grace is None or 0 <= seconds <= grace:
        return []
    detail = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
    return [invalid(path, seconds, detail)]


def _validate_exec(action: Json, path: str) -> list[FieldError]:
    return [] if action.get("command") else [required(f"{path}.command")]


def _validate_http_get(action: Json, path: str) -> list[FieldError]:
    errors = [] if action.get("path") else [required(f"{path}.path")]
    errors += validate_port(action.get("port", 0), f"{path}.port")
    scheme = action.get("scheme") or ""
    if scheme not in _SCHEMES:
        errors.append(not_supported(f"{path}.scheme", scheme, _SCHEMES))
    for header in action.get("httpHeaders") or []:
        name = header.get("name") or ""
        errors += invalids(f"{path}.httpHeaders", name, names.http_header_name(name))
    return errors


def _validate_socket(action: Json, path: str) -> list[FieldError]:
    return validate_port(action.get("port", 0), f"{path}.port")


def validate_port(port: int | str, path: str) -> list[FieldError]:
    """Check a port that is given by number or by name."""
    check = names.port_number(port) if isinstance(port, int) else names.port_name(port)
    return invalids(path, port, check)


_Action: TypeAlias = Callable[["Json", str], list[FieldError]]
_ACTIONS: Final[dict[str, _Action]] = {
    "exec": _validate_exec,
    "httpGet": _validate_http_get,
    "tcpSocket": _validate_socket,
    "grpc": _validate_socket,
}
