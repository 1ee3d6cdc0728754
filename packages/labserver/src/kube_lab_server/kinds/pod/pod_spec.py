"""The specification of a pod, in a pod itself and in the templates of its controllers.

A pod that names its operating system may not set what the other one has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from kube_lab_server.kinds.node_checks import validate_tolerations
from kube_lab_server.kinds.pod.containers import (
    PodContext,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
    validate_pod_security,
)
from kube_lab_server.kinds.pod.pod_admission import amounts_of, sum_containers
from kube_lab_server.kinds.pod.pod_placement import validate_affinity, validate_spread
from kube_lab_server.kinds.pod.pod_volumes import validate_volumes
from kube_lab_server.kinds.value_checks import check_address, remembered
from kube_lab_server.schema.metadata_checks import validate_labels
from numakube.api import resource_names as resources
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
from numakube.values.resources import is_hugepages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kube_lab_server.kind_names import Json


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


RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
MIRROR_POD: Final = "kubernetes.io/config.mirror"
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MAX_INT32: Final = 2**31 - 1
_MAX_NAMESERVERS: Final = 3
_MAX_SEARCHES: Final = 32
_MAX_SEARCH_CHARACTERS: Final = 2048
_MAX_HOSTNAME: Final = 64


def validate_pod_spec(spec: Json, path: str, *, pod_meta: Json | None = None) -> list[FieldError]:
    """Check *spec*; *pod_meta* is the metadata if it is that of a pod and not of a template."""
    errors: list[FieldError] = []
    if spec.get("terminationGracePeriodSeconds") is None:
        errors.append(required(f"{path}.terminationGracePeriodSeconds"))
    pod_name = (pod_meta or {}).get("name") or ""
    volumes, wrong = validate_volumes(spec.get("volumes") or [], pod_name, f"{path}.volumes")
    errors += wrong
    errors += _validate_claims(spec.get("resourceClaims") or [], pod_meta, f"{path}.resourceClaims")
    return errors + _validate_rest(spec, volumes, path, "template" if pod_meta is None else "pod")


@remembered
def _validate_rest(
    spec: Json, volumes: dict[str, Json], path: str, of: Literal["pod", "template"]
) -> list[FieldError]:
    """Check what does not depend on the metadata."""
    errors = _validate_all_containers(spec, volumes, path)
    errors += _validate_pod_resources(spec, path)
    errors += _validate_host_network(spec, f"{path}.containers", is_pod=of == "pod")
    errors += _validate_choice(spec, "restartPolicy", RESTART_POLICIES, path)
    errors += _validate_choice(spec, "dnsPolicy", _DNS_POLICIES, path)
    errors += validate_labels(spec.get("nodeSelector"), f"{path}.nodeSelector")
    errors += validate_pod_security(spec, f"{path}.securityContext")
    errors += validate_affinity(spec.get("affinity"), f"{path}.affinity")
    errors += _validate_dns(spec, f"{path}.dnsConfig")
    errors += _validate_gates(spec, path)
    errors += validate_spread(
        spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints"
    )
    errors += _validate_host_users(spec, path)
    errors += _validate_hostname_override(spec, f"{path}.hostnameOverride")
    errors += _validate_names(spec, path)
    if (overhead := spec.get("overhead")) is not None:
        errors += validate_requirements({"limits": overhead}, f"{path}.overhead")
    errors += validate_os(spec, path)
    return errors + _validate_file_references(spec, path)


def _validate_all_containers(spec: Json, volumes: dict[str, Json], path: str) -> list[FieldError]:
    claims = [c["name"] for c in spec.get("resourceClaims") or [] if c.get("name")]
    pod = PodContext(
        volumes=volumes,
        claim_names=claims,
        grace_seconds=spec.get("terminationGracePeriodSeconds"),
        restart_policy=spec.get("restartPolicy") or "",
        host_users=spec.get("hostUsers") is not False,
    )
    regular, init = spec.get("containers") or [], spec.get("initContainers") or []
    errors = validate_containers(regular, pod, f"{path}.containers")
    errors += validate_init_containers(init, regular, pod, f"{path}.initContainers")
    ephemeral = spec.get("ephemeralContainers") or []
    return errors + validate_ephemeral_containers(
        ephemeral, [*regular, *init], pod, f"{path}.ephemeralContainers"
    )


def _validate_claims(claims: Sequence[Json], pod_meta: Json | None, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    static = MIRROR_POD in ((pod_meta or {}).get("annotations") or {})
    for index, claim in enumerate(claims):
        if static:
            errors.append(forbidden("[]", "static pods do not support resource claims"))
            continue
        errors += _validate_claim(claim, seen, f"{path}[{index}]")
    return errors


def _validate_claim(claim: Json, seen: set[str], path: str) -> list[FieldError]:
    name = claim.get("name") or ""
    errors: list[FieldError] = []
    if not name:
        errors.append(required(f"{path}.name"))
    elif name in seen:
        errors.append(duplicate(f"{path}.name", name))
    else:
        errors += invalids(f"{path}.name", name, names.dns_label(name))
        seen.add(name)
    given = [
        f for f in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(f) is not None
    ]
    if len(given) > 1:
        detail = (
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        )
        errors.append(invalid(path, claim, detail))
    if not given:
        detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        errors.append(invalid(path, claim, detail))
    for field in given:
        errors += invalids(f"{path}.{field}", claim[field], names.dns_subdomain(claim[field]))
    return errors


def _validate_pod_resources(spec: Json, path: str) -> list[FieldError]:
    requirements = spec.get("resources")
    if requirements is None:
        return []
    place = f"{path}.resources"
    if (spec.get("os") or {}).get("name") == "windows":
        return [forbidden(place, "may not be set for a windows pod")]
    errors = []
    if requirements.get("claims") is not None:
        detail = "claims may not be set for Resources at pod-level"
        errors.append(forbidden(f"{place}.claims", detail))
    rule = resources.validate_pod_resource_name
    errors += validate_requirements(requirements, place, name_rule=rule)
    return errors + _validate_consistency(spec, place)


def _validate_consistency(spec: Json, path: str) -> list[FieldError]:
    """Check that what the pod asks for covers what its containers ask for."""
    requests, limits = amounts_of(spec, "requests"), amounts_of(spec, "limits")
    errors = []
    for name, total in sorted(sum_containers(spec, "requests").items()):
        if name in requests and total > requests[name]:
            detail = f"must be greater than or equal to aggregate container requests of {total}"
            errors.append(invalid(f"{path}.requests[{name}]", str(requests[name]), detail))
    for name, total in sorted(sum_containers(spec, "limits").items()):
        if is_hugepages(name) and name in limits and total > limits[name]:
            detail = f"must be greater than or equal to aggregate container limits of {total}"
            errors.append(invalid(f"{path}.limits[{name}]", str(limits[name]), detail))
    for index, container in enumerate(spec.get("containers") or []):
        for name, limit in sorted(amounts_of(container, "limits").items()):
            if name in limits and limit > limits[name]:
                place = f"{path}.containers[{index}][{name}].limits"
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                errors.append(invalid(place, str(limit), detail))
    return errors


def _validate_host_network(spec: Json, path: str, *, is_pod: bool) -> list[FieldError]:
    if not spec.get("hostNetwork"):
        return []
    errors = []
    for index, container in enumerate(spec.get("containers") or []):
        for position, port in enumerate(container.get("ports") or []):
            on_host = port.get("hostPort") or 0
            if (is_pod or on_host) and on_host != (port.get("containerPort") or 0):
                place = f"{path}[{index}].ports[{position}].hostPort"
                detail = "must match `containerPort` when `hostNetwork` is true"
                errors.append(invalid(place, on_host, detail))
    return errors


def _validate_choice(spec: Json, field: str, known: Sequence[str], path: str) -> list[FieldError]:
    value = spec.get(field) or ""
    if not value:
        return [required(f"{path}.{field}")]
    return [] if value in known else [not_supported(f"{path}.{field}", value, known)]


def _validate_dns(spec: Json, path: str) -> list[FieldError]:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [required(path, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [required(f"{path}.nameservers", detail)]
    if config is None:
        return []
    errors = _validate_nameservers(config.get("nameservers") or [], f"{path}.nameservers")
    errors += _validate_searches(config.get("searches") or [], f"{path}.searches")
    return errors + [
        required(f"{path}.options[{index}]", "must not be empty")
        for index, option in enumerate(config.get("options") or [])
        if not option.get("name")
    ]


def _validate_nameservers(servers: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(servers) > _MAX_NAMESERVERS:
        detail = f"must not have more than {_MAX_NAMESERVERS} nameservers"
        errors.append(invalid(path, servers, detail))
    for index, server in enumerate(servers):
        errors += check_address(server, f"{path}[{index}]")
    return errors


def _validate_searches(searches: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(searches) > _MAX_SEARCHES:
        detail = f"must not have more than {_MAX_SEARCHES} search paths"
        errors.append(invalid(path, searches, detail))
    if len(" ".join(searches)) > _MAX_SEARCH_CHARACTERS:
        limit = f"{_MAX_SEARCH_CHARACTERS} characters (including spaces) in the search list"
        errors.append(invalid(path, searches, f"must not have more than {limit}"))
    for index, search in enumerate(searches):
        if search != ".":
            text = search.removesuffix(".")
            wrong = names.dns_subdomain_with_underscore(text)
            errors += invalids(f"{path}[{index}]", text, wrong)
    return errors


def _validate_gates(spec: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, gate in enumerate(spec.get("readinessGates") or []):
        kind = gate.get("conditionType") or ""
        place = f"{path}.readinessGates[{index}].conditionType"
        errors += invalids(place, kind, names.qualified_name(kind))
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or []):
        name = gate.get("name") or ""
        place = f"{path}.schedulingGates[{index}]"
        errors += invalids(place, name, names.qualified_name(name))
        if name in seen:
            errors.append(duplicate(place, name))
        seen.add(name)
    return errors


def _validate_host_users(spec: Json, path: str) -> list[FieldError]:
    if spec.get("hostUsers") is not False:
        return []
    rule = "when `hostUsers` is false"
    fields = (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC"))
    errors = [forbidden(f"{path}.{shown}", rule) for field, shown in fields if spec.get(field)]
    return errors + [
        forbidden(f"{place}.volumeDevices", rule)
        for container, place in all_containers(spec, path)
        if container.get("volumeDevices")
    ]


def _validate_hostname_override(spec: Json, path: str) -> list[FieldError]:
    name = spec.get("hostnameOverride")
    if name is None:
        return []
    errors = [
        forbidden(path, f"may not be specified when {field} is true")
        for field in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(field)
    ]
    if len(name.encode()) > _MAX_HOSTNAME:
        errors.append(too_long(path, _MAX_HOSTNAME))
    return errors + invalids(path, name, names.dns_subdomain(name))


_NAMED: Final = (
    ("serviceAccountName", names.dns_subdomain),
    ("nodeName", names.dns_subdomain),
)
_HOST_NAMED: Final = (("hostname", names.dns_label), ("subdomain", names.dns_label))
_CLASSED: Final = (
    ("priorityClassName", names.dns_subdomain),
    ("runtimeClassName", names.dns_subdomain),
)


def _validate_names(spec: Json, path: str) -> list[FieldError]:
    errors = _validate_texts(spec, _NAMED, path)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        detail = names.range_message(1, _MAX_INT32)
        errors.append(invalid(f"{path}.activeDeadlineSeconds", deadline, detail))
    errors += _validate_texts(spec, _HOST_NAMED, path)
    errors += validate_tolerations(spec.get("tolerations") or [], f"{path}.tolerations")
    for index, alias in enumerate(spec.get("hostAliases") or []):
        place = f"{path}.hostAliases[{index}]"
        errors += check_address(alias.get("ip") or "", f"{place}.ip")
        for position, host in enumerate(alias.get("hostnames") or []):
            wrong = names.dns_subdomain(host)
            errors += invalids(f"{place}.hostnames[{position}]", host, wrong)
    errors += _validate_texts(spec, _CLASSED, path)
    if spec.get("preemptionPolicy") is not None:
        errors += _validate_choice(spec, "preemptionPolicy", PREEMPTION_POLICIES, path)
    return errors


def _validate_texts(
    spec: Json, checks: Sequence[tuple[str, names.TextCheck]], path: str
) -> list[FieldError]:
    errors: list[FieldError] = []
    for field, check in checks:
        if text := spec.get(field):
            errors += invalids(f"{path}.{field}", text, check(text))
    return errors


def _validate_file_references(spec: Json, path: str) -> list[FieldError]:
    """Check that variables that are read from a file name a volume that can hold it."""
    volumes = {volume.get("name"): volume for volume in spec.get("volumes") or []}
    errors = []
    for container, place in all_containers(spec, path):
        for index, variable in enumerate(container.get("env") or []):
            ref = (variable.get("valueFrom") or {}).get("fileKeyRef")
            if ref is None:
                continue
            name = ref.get("volumeName") or ""
            field = f"{place}.env[{index}].valueFrom.fileKeyRef.volumeName"
            if name not in volumes:
                errors.append(not_found(field, name))
            elif volumes[name].get("emptyDir") is None:
                detail = "referenced volume must be of type emptyDir"
                errors.append(invalid(field, name, detail))
    return errors
