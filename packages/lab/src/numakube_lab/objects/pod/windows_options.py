"""Options of Windows containers, and what pods of one operating system may not set."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

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
    from collections.abc import Iterator

    from numakube_lab.kinds import Json

CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")
_MAX_GMSA_BYTES: Final = 64 * 1024
_MAX_DOMAIN: Final = 256
_MAX_USER: Final = 104
_search_control: Final = re.compile(r"[\x00-\x1f\x7f]").search
_match_netbios: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}').fullmatch
_LABEL: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_match_domain: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*").fullmatch
_search_bad_user: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]').search
_match_dots: Final = re.compile(r"[. ]+").fullmatch
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


def validate_windows_options(options: Json | None, path: str) -> list[FieldError]:
    """Check the options of a Windows container."""
    if not options:
        return []
    errors: list[FieldError] = []
    if (name := options.get("gmsaCredentialSpecName")) is not None:
        errors += invalids(f"{path}.gmsaCredentialSpecName", name, names.dns_subdomain(name))
    if (text := options.get("gmsaCredentialSpec")) is not None:
        errors += invalids(f"{path}.gmsaCredentialSpec", text, _gmsa_problems(text))
    if (user := options.get("runAsUserName")) is not None:
        errors += invalids(f"{path}.runAsUserName", user, _user_problems(user))
    return errors


def _gmsa_problems(text: str) -> list[str]:
    if not text:
        return ["gmsaCredentialSpec cannot be an empty string"]
    too_big = len(text.encode()) > _MAX_GMSA_BYTES
    return ["gmsaCredentialSpec size must be under 64 KiB"] if too_big else []


def _user_problems(text: str) -> list[str]:
    if not text:
        return ["runAsUserName cannot be an empty string"]
    if _search_control(text):
        return ["runAsUserName cannot contain control characters"]
    if text.count("\\") > 1:
        return ["runAsUserName cannot contain more than one backslash"]
    domain, backslash, user = text.rpartition("\\")
    wrong = []
    if len(domain) >= _MAX_DOMAIN:
        wrong.append(f"runAsUserName's Domain length must be under {_MAX_DOMAIN} characters")
    if backslash and not (_match_netbios(domain) or _match_domain(domain)):
        wrong.append("runAsUserName's Domain doesn't match the NetBios nor the DNS format")
    return wrong + _user_part_problems(user)


def _user_part_problems(user: str) -> list[str]:
    wrong = []
    if not user:
        wrong.append("runAsUserName's User cannot be empty")
    elif len(user) > _MAX_USER:
        detail = f"runAsUserName's User length must not be longer than {_MAX_USER} characters"
        wrong.append(detail)
    if _match_dots(user):
        wrong.append("runAsUserName's User cannot contain only periods or spaces")
    if _search_bad_user(user):
        listed = '"/\\:;|=,+*?<>@[]'
        wrong.append(f"runAsUserName's User cannot contain the following characters: {listed}")
    return wrong


def validate_host_process(spec: Json, path: str) -> list[FieldError]:
    """Check that all containers of a pod, or none, are host processes."""
    pod_value = _host_process(spec)
    errors = []
    flags = []
    for container, place in all_containers(spec, path):
        own = _host_process(container)
        if own is not None and pod_value is not None and own != pod_value:
            shown = str(pod_value).lower()
            rule = "pod hostProcess value must be identical if both are specified, was"
            field = f"{place}.securityContext.windowsOptions.hostProcess"
            errors.append(invalid(field, own, f"{rule} {shown}"))
        flags.append(bool(pod_value if own is None else own))
    if not any(flags):
        return errors
    if not all(flags):
        detail = (
            "If pod contains any hostProcess containers then all containers must be "
            "HostProcess containers"
        )
        errors.append(invalid(path, "", detail))
    if not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(f"{path}.hostNetwork", False, detail))
    return errors


def _host_process(owner: Json) -> bool | None:
    options = (owner.get("securityContext") or {}).get("windowsOptions") or {}
    value: bool | None = options.get("hostProcess")
    return value


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
