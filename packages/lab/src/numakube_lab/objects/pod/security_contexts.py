"""Security contexts of pods and containers.

The lab's server permits privileged containers, as one started with ``--allow-privileged`` does.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import (
    FieldError,
    duplicate,
    invalid,
    invalids,
    not_supported,
    required,
    too_long,
)
from numakube.values import names
from numakube_lab.objects.pod.volume_sources import validate_descending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube_lab.kinds import Json

_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_MAX_PROFILE_BYTES: Final = 4095
_SYSCTL: Final = r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_match_sysctl: Final = re.compile(_SYSCTL).fullmatch
_SYSCTL_WRONG: Final = (
    f"must have at most {names.MAX_SUBDOMAIN} characters and match regex ^{_SYSCTL}$"
)
_NET_SYSCTLS: Final = ("net.",)
_IPC_SYSCTLS: Final = ("kernel.shm", "kernel.msg", "fs.mqueue.")
_POD_CHOICES: Final = (
    ("supplementalGroupsPolicy", ("Merge", "Strict")),
    ("seLinuxChangePolicy", ("MountOption", "Recursive")),
)


def validate_container_security(
    context: Json | None, path: str, *, host_users: bool
) -> list[FieldError]:
    """Check the security context of a container."""
    if not context:
        return []
    errors = _validate_ids(context, ("runAsUser", "runAsGroup"), path)
    mount = context.get("procMount")
    errors += _validate_proc_mount(mount, f"{path}.procMount", host_users=host_users)
    errors += _validate_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    errors += _validate_escalation(context, path)
    return errors + _validate_app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def _validate_ids(context: Json, fields: Sequence[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in fields:
        if (number := context.get(field)) is not None:
            errors += invalids(f"{path}.{field}", number, names.user_or_group_id(number))
    return errors


def _validate_proc_mount(kind: str | None, path: str, *, host_users: bool) -> list[FieldError]:
    if kind is None:
        return []
    known = ("Default", "Unmasked")
    errors = [] if kind in known else [not_supported(path, kind, known)]
    if host_users and kind == "Unmasked":
        errors.append(invalid(path, kind, "`hostUsers` must be false to use `Unmasked`"))
    return errors


def _validate_escalation(context: Json, path: str) -> list[FieldError]:
    if context.get("allowPrivilegeEscalation") is not False:
        return []
    errors = []
    rule = "cannot set `allowPrivilegeEscalation` to false and"
    if context.get("privileged"):
        errors.append(invalid(path, context, f"{rule} `privileged` to true"))
    added = (context.get("capabilities") or {}).get("add") or []
    detail = f"{rule} `capabilities.Add` CAP_SYS_ADMIN"
    return errors + [invalid(path, context, detail)] * added.count("CAP_SYS_ADMIN")


def _validate_seccomp(profile: Json | None, path: str) -> list[FieldError]:
    if profile is None:
        return []
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    errors = []
    if not kind:
        detail = "type is required when seccompProfile is set"
        errors.append(required(f"{path}.type", detail))
    elif kind not in _PROFILES:
        errors.append(not_supported(f"{path}.type", kind, _PROFILES))
    place = f"{path}.localhostProfile"
    if kind != "Localhost":
        if local is not None:
            detail = "can only be set when seccomp type is Localhost"
            errors.append(invalid(place, profile, detail))
    elif local is None:
        errors.append(required(place, "must be set when seccomp type is Localhost"))
    else:
        errors += validate_descending(local, place)
    return errors


def _validate_app_armor(profile: Json | None, path: str) -> list[FieldError]:
    if profile is None:
        return []
    kind, local = profile.get("type") or "", profile.get("localhostProfile")
    if kind == "Localhost":
        return _validate_app_armor_name(local, f"{path}.localhostProfile")
    if kind in {"RuntimeDefault", "Unconfined"}:
        if local is None:
            return []
        detail = "can only be set when AppArmor type is Localhost"
        return [invalid(f"{path}.localhostProfile", local, detail)]
    if not kind:
        return [required(f"{path}.type", "type is required when appArmorProfile is set")]
    return [not_supported(f"{path}.type", kind, _PROFILES)]


def _validate_app_armor_name(name: str | None, path: str) -> list[FieldError]:
    missing = required(path, "must be set when AppArmor type is Localhost")
    if name is None:
        return [missing]
    errors = []
    if name.strip() != name:
        errors.append(invalid(path, name, "must not be padded with whitespace"))
    elif not name:
        errors.append(missing)
    if len(name.encode()) > _MAX_PROFILE_BYTES:
        errors.append(too_long(path, _MAX_PROFILE_BYTES))
    return errors


def validate_pod_security(spec: Json, path: str) -> list[FieldError]:
    """Check the security context of a pod with *spec*, which stands at *path*."""
    context = spec.get("securityContext") or {}
    errors = _validate_ids(context, ("fsGroup", "runAsUser", "runAsGroup"), path)
    for index, group in enumerate(context.get("supplementalGroups") or []):
        place = f"{path}.supplementalGroups[{index}]"
        errors += invalids(place, group, names.user_or_group_id(group))
    if spec.get("hostPID") and spec.get("shareProcessNamespace"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        errors.append(invalid(f"{path}.shareProcessNamespace", True, detail))
    errors += _validate_sysctls(context.get("sysctls") or [], spec, f"{path}.sysctls")
    change = context.get("fsGroupChangePolicy")
    if change is not None and change not in {"Always", "OnRootMismatch"}:
        known = ("Always", "OnRootMismatch")
        errors.append(not_supported(f"{path}.fsGroupChangePolicy", change, known))
    errors += _validate_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    errors += _validate_app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile")
    for field, known in _POD_CHOICES:
        if (choice := context.get(field)) is not None and choice not in known:
            errors.append(not_supported(f"{path}.{field}", choice, known))
    return errors


def _validate_sysctls(sysctls: Sequence[Json], spec: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        place = f"{path}[{index}].name"
        name = sysctl.get("name") or ""
        if not name:
            errors.append(required(place))
        elif len(name) > names.MAX_SUBDOMAIN or not _match_sysctl(name):
            errors.append(invalid(place, name, _SYSCTL_WRONG))
        elif name in seen:
            errors.append(duplicate(place, name))
        errors += _validate_host_sysctl(name, spec, place)
        seen.add(name)
    return errors


def _validate_host_sysctl(name: str, spec: Json, path: str) -> list[FieldError]:
    """Refuse a sysctl of a namespace that the pod shares with its node."""
    dotted = name.replace("/", ".")
    if spec.get("hostNetwork") and dotted.startswith(_NET_SYSCTLS):
        return [invalid(path, name, "may not be specified when 'hostNetwork' is true")]
    shared = dotted == "kernel.sem" or dotted.startswith(_IPC_SYSCTLS)
    if spec.get("hostIPC") and shared:
        return [invalid(path, name, "may not be specified when 'hostIPC' is true")]
    return []
