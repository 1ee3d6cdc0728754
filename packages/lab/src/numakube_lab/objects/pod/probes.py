"""Probes and lifecycle hooks of containers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.api.field_errors import (
    FieldError,
    forbidden,
    invalid,
    invalids,
    not_supported,
    required,
)
from numakube.values import names

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

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
