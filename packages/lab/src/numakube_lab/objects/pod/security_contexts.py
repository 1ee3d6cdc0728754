"""Security contexts of pods and containers.

The lab's server permits privileged containers, as one started with ``--allow-privileged`` does.
Profiles of AppArmor, sysctls and options of Windows are checked by their types alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import (
    FieldError,
    invalid,
    invalids,
    not_supported,
    required,
)
from numakube.values import names
from numakube_lab.objects.pod.volume_sources import validate_descending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube_lab.kinds import Json

_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")


def validate_container_security(context: Json | None, path: str) -> list[FieldError]:
    """Check the security context of a container."""
    if not context:
        return []
    errors = _validate_ids(context, ("runAsUser", "runAsGroup"), path)
    errors += _validate_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    return errors + _validate_escalation(context, path)


def _validate_ids(context: Json, fields: Sequence[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in fields:
        if (number := context.get(field)) is not None:
            errors += invalids(f"{path}.{field}", number, names.user_or_group_id(number))
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
    change = context.get("fsGroupChangePolicy")
    if change is not None and change not in {"Always", "OnRootMismatch"}:
        known = ("Always", "OnRootMismatch")
        errors.append(not_supported(f"{path}.fsGroupChangePolicy", change, known))
    return errors + _validate_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
