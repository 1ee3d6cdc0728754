"""Containers of a pod, regular, init and ephemeral ones, and their security contexts.

Privileged containers are permitted, as by a server started with ``--allow-privileged``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.pod.container_environment import (
    PROBES,
    validate_env,
    validate_env_from,
    validate_lifecycle,
    validate_probes,
)
from kube_lab_server.kinds.pod.pod_admission import is_sidecar
from kube_lab_server.kinds.pod.pod_volumes import (
    validate_devices,
    validate_mounts,
    validate_pull_policy,
)
from kube_lab_server.kinds.pod.volume_sources import validate_descending
from numakube.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    invalids,
    not_found,
    not_supported,
    required,
    too_long,
)
from numakube.api.resource_requirements import validate_requirements
from numakube.values import names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kube_lab_server.kind_names import Json


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


_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_RESIZABLE: Final = ("cpu", "memory")
_RESIZE_POLICIES: Final = ("NotRequired", "RestartContainer")
_MAX_RULES: Final = 20
_MAX_EXIT_CODES: Final = 255
_ONLY_SIDECARS: Final = "may not be set for init containers without restartPolicy=Always"
_NOT_EPHEMERAL: Final = "cannot be set for an Ephemeral Container"
# In the order of the fields of the Go type, in which they are reported.
_FORBIDDEN_FOR_EPHEMERAL: Final = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    *PROBES,
    "lifecycle",
)


@dataclass(frozen=True, slots=True)
class PodContext:
    """What the containers of one pod have in common."""

    volumes: Mapping[str, Json]
    claim_names: Collection[str]
    grace_seconds: int | None
    restart_policy: str
    host_users: bool


def validate_containers(containers: Sequence[Json], pod: PodContext, path: str) -> list[FieldError]:
    """Check the regular containers, of which there is at least one."""
    if not containers:
        return [required(path)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        errors += _validate_common(container, pod, place)
        name = container.get("name") or ""
        if name in seen:
            errors.append(duplicate(f"{place}.name", name))
        seen.add(name)
        if (lifecycle := container.get("lifecycle")) is not None:
            errors += validate_lifecycle(lifecycle, pod.grace_seconds, f"{place}.lifecycle")
        errors += validate_probes(container, place)
        errors += _validate_restart(container, place)
    return errors + _validate_host_ports(containers, path)


def validate_init_containers(
    containers: Sequence[Json], regular: Sequence[Json], pod: PodContext, path: str
) -> list[FieldError]:
    """Check the init containers, whose names differ from those of the *regular* ones."""
    errors: list[FieldError] = []
    seen = {container.get("name") or "" for container in regular}
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        errors += _validate_common(container, pod, place)
        errors += _validate_init_restart(container, place)
        name = container.get("name") or ""
        if name in seen:
            errors.append(duplicate(f"{place}.name", name))
        elif name:
            seen.add(name)
        errors += _validate_host_ports([container], path)
        errors += _validate_init_hooks(container, pod, place)
    return errors


def _validate_init_hooks(container: Json, pod: PodContext, path: str) -> list[FieldError]:
    if not is_sidecar(container):
        return [
            forbidden(f"{path}.{field}", _ONLY_SIDECARS)
            for field in ("lifecycle", *PROBES)
            if container.get(field) is not None
        ]
    errors: list[FieldError] = []
    if (lifecycle := container.get("lifecycle")) is not None:
        errors += validate_lifecycle(lifecycle, pod.grace_seconds, f"{path}.lifecycle")
    return errors + validate_probes(container, path)


def validate_ephemeral_containers(
    containers: Sequence[Json], others: Sequence[Json], pod: PodContext, path: str
) -> list[FieldError]:
    """Check the containers that were added to a running pod for debugging."""
    known = {container.get("name") or "" for container in others}
    seen = set(known)
    errors: list[FieldError] = []
    for index, container in enumerate(containers):
        place = f"{path}[{index}]"
        errors += _validate_common(container, pod, place)
        errors += validate_image_padding(container, place)
        name = container.get("name") or ""
        if name in seen:
            errors.append(duplicate(f"{place}.name", name))
        seen.add(name)
        target = container.get("targetContainerName") or ""
        if target and target not in known:
            errors.append(not_found(f"{place}.targetContainerName", target))
        errors += [
            forbidden(f"{place}.{field}", _NOT_EPHEMERAL)
            for field in _FORBIDDEN_FOR_EPHEMERAL
            if container.get(field)
        ]
        for position, mount in enumerate(container.get("volumeMounts") or []):
            errors += [
                forbidden(f"{place}.volumeMounts[{position}].{field}", _NOT_EPHEMERAL)
                for field in ("subPath", "subPathExpr")
                if mount.get(field)
            ]
    return errors


def validate_image_padding(container: Json, path: str) -> list[FieldError]:
    """Refuse white space around the image of a pod's container."""
    image = container.get("image") or ""
    if image.strip() == image:
        return []
    detail = "must not have leading or trailing whitespace"
    return [invalid(f"{path}.image", image, detail)]


def _validate_common(container: Json, pod: PodContext, path: str) -> list[FieldError]:
    name = container.get("name") or ""
    place = f"{path}.name"
    errors = invalids(place, name, names.dns_label(name)) if name else [required(place)]
    if not container.get("image"):
        errors.append(required(f"{path}.image"))
    errors += _validate_message_policy(container, f"{path}.terminationMessagePolicy")
    errors += _validate_ports(container.get("ports") or [], f"{path}.ports")
    errors += validate_env(container.get("env") or [], f"{path}.env")
    errors += validate_env_from(container.get("envFrom") or [], f"{path}.envFrom")
    errors += validate_mounts(container, pod.volumes, f"{path}.volumeMounts")
    errors += validate_devices(container, pod.volumes, f"{path}.volumeDevices")
    policy = container.get("imagePullPolicy") or ""
    errors += validate_pull_policy(policy, f"{path}.imagePullPolicy")
    errors += validate_requirements(
        container.get("resources"), f"{path}.resources", claim_names=pod.claim_names
    )
    errors += _validate_resize(container, pod.restart_policy, f"{path}.resizePolicy")
    return errors + validate_container_security(
        container.get("securityContext"), f"{path}.securityContext", host_users=pod.host_users
    )


def _validate_message_policy(container: Json, path: str) -> list[FieldError]:
    policy = container.get("terminationMessagePolicy") or ""
    if not policy:
        return [required(path)]
    return [] if policy in _MESSAGE_POLICIES else [not_supported(path, policy, _MESSAGE_POLICIES)]


def _validate_ports(ports: Sequence[Json], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        place = f"{path}[{index}]"
        if name := port.get("name"):
            if wrong := names.port_name(name):
                errors += invalids(f"{place}.name", name, wrong)
            elif name in seen:
                errors.append(duplicate(f"{place}.name", name))
            seen.add(name)
        errors += _validate_port_numbers(port, place)
        protocol = port.get("protocol") or ""
        if not protocol:
            errors.append(required(f"{place}.protocol"))
        elif protocol not in _PROTOCOLS:
            errors.append(not_supported(f"{place}.protocol", protocol, _PROTOCOLS))
    return errors


def _validate_port_numbers(port: Json, path: str) -> list[FieldError]:
    number, on_host = port.get("containerPort") or 0, port.get("hostPort") or 0
    place = f"{path}.containerPort"
    errors = invalids(place, number, names.port_number(number)) if number else [required(place)]
    if on_host:
        errors += invalids(f"{path}.hostPort", on_host, names.port_number(on_host))
    return errors


def _validate_host_ports(containers: Sequence[Json], path: str) -> list[FieldError]:
    errors = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or []):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP') or ''}/{port['hostPort']}"
            if key in seen:
                errors.append(duplicate(f"{path}[{index}].ports[{position}].hostPort", key))
            seen.add(key)
    return errors


def _validate_resize(container: Json, pod_policy: str, path: str) -> list[FieldError]:
    errors = []
    seen: set[str] = set()
    for index, rule in enumerate(container.get("resizePolicy") or []):
        resource, policy = rule.get("resourceName") or "", rule.get("restartPolicy") or ""
        if resource in seen:
            errors.append(duplicate(f"{path}[{index}]", resource))
        seen.add(resource)
        for value, known in ((resource, _RESIZABLE), (policy, _RESIZE_POLICIES)):
            if not value:
                errors.append(required(path))
            elif value not in known:
                errors.append(not_supported(path, value, known))
        if pod_policy == "Never" and policy != "NotRequired":
            detail = "must be 'NotRequired' when `restartPolicy` is 'Never'"
            errors.append(invalid(path, policy, detail))
    return errors


def _validate_init_restart(container: Json, path: str) -> list[FieldError]:
    if is_sidecar(container):
        detail = "restartPolicyRules are not allowed for init containers with restart policy Always"
        rules = container.get("restartPolicyRules")
        return [forbidden(f"{path}.restartPolicyRules", detail)] if rules else []
    if container.get("restartPolicy") is None and container.get("restartPolicyRules"):
        detail = "must specify restartPolicy when restart rules are used"
        return [required(f"{path}.restartPolicy", detail)]
    return [] if container.get("restartPolicy") is None else _validate_restart(container, path)


def _validate_restart(container: Json, path: str) -> list[FieldError]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    errors = []
    place = f"{path}.restartPolicy"
    if policy is None:
        if rules:
            detail = "must specify restartPolicy when restart rules are used"
            errors.append(required(place, detail))
    elif policy not in _RESTART_POLICIES:
        errors.append(not_supported(place, policy, _RESTART_POLICIES))
    if len(rules) > _MAX_RULES:
        errors.append(too_long(f"{path}.restartPolicyRules", _MAX_RULES))
    for index, rule in enumerate(rules):
        errors += _validate_restart_rule(rule, f"{path}.restartPolicyRules[{index}]")
    return errors


def _validate_restart_rule(rule: Json, path: str) -> list[FieldError]:
    errors = []
    action = rule.get("action") or ""
    if action != "Restart":
        errors.append(not_supported(f"{path}.action", action, ("Restart",)))
    codes = rule.get("exitCodes")
    if codes is None:
        return [*errors, required(f"{path}.exitCodes", "must be specified")]
    operator = codes.get("operator") or ""
    if operator not in {"In", "NotIn"}:
        errors.append(not_supported(f"{path}.exitCodes.operator", operator, ("In", "NotIn")))
    if len(codes.get("values") or []) > _MAX_EXIT_CODES:
        errors.append(too_long(f"{path}.exitCodes.values", _MAX_EXIT_CODES))
    return errors
