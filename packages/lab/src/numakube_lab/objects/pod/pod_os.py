"""The containers of a pod, and what they may not set under its operating system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import (
    FieldError,
    forbidden,
    not_supported,
    required,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube_lab.kinds import Json

CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
_NOT_ON_LINUX: Final = "windows options cannot be set for a linux pod"
_NOT_ON_WINDOWS: Final = "cannot be set for a windows pod"
_LINUX_POD_FIELDS: Final = (
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "hostUsers",
    "hostPID",
    "hostIPC",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "shareProcessNamespace",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
    "securityContext.seLinuxChangePolicy",
)
_LINUX_CONTAINER_FIELDS: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)


def all_containers(spec: Json, path: str) -> Iterator[tuple[Json, str]]:
    """Yield every container of a pod with its path, in the order of kube-apiserver's visits."""
    for field in CONTAINER_LISTS:
        for index, container in enumerate(spec.get(field) or []):
            yield container, f"{path}.{field}[{index}]"


def validate_os(spec: Json, path: str) -> list[FieldError]:
    """Check the operating system of a pod, and that it sets nothing of the other one."""
    system = spec.get("os")
    if system is None:
        return []
    name = system.get("name") or ""
    if not name:
        return [required(f"{path}.os.name")]
    if name == "linux":
        return _validate_linux(spec, path)
    if name == "windows":
        return _validate_windows(spec, path)
    return [not_supported(f"{path}.os", name, ("linux", "windows"))]


def _validate_linux(spec: Json, path: str) -> list[FieldError]:
    owners = [(spec, path), *all_containers(spec, path)]
    return [
        forbidden(f"{place}.securityContext.windowsOptions", _NOT_ON_LINUX)
        for owner, place in owners
        if (owner.get("securityContext") or {}).get("windowsOptions") is not None
    ]


def _validate_windows(spec: Json, path: str) -> list[FieldError]:
    context = spec.get("securityContext") or {}
    errors = []
    for field in _LINUX_POD_FIELDS:
        owner, _, name = field.rpartition(".")
        if (context if owner else spec).get(name):
            errors.append(forbidden(f"{path}.{field}", _NOT_ON_WINDOWS))
    for container, place in all_containers(spec, path):
        own = container.get("securityContext") or {}
        errors += [
            forbidden(f"{place}.securityContext.{field}", _NOT_ON_WINDOWS)
            for field in _LINUX_CONTAINER_FIELDS
            if own.get(field) is not None
        ]
    return errors
