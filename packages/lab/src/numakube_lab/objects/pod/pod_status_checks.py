"""The status of a pod, which kubelets and schedulers write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    invalids,
    required,
)
from numakube.values import names
from numakube_lab.objects.checks.ip_address_checks import check_address, parse_address
from numakube_lab.objects.checks.node_allocatable_checks import check_pod_resources
from numakube_lab.schema.metadata_checks import immutable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube_lab.kinds import Json

_SYSTEM_CONDITIONS: Final = frozenset({"PodScheduled", "Ready", "Initialized"})
_STATUS_LISTS: Final = (
    ("containerStatuses", "containers"),
    ("initContainerStatuses", "initContainers"),
    ("ephemeralContainerStatuses", ""),
)
_MAPPING_FIELDS: Final = ("containerName", "resourceName", "requestName")
_NOT_NEGATIVE: Final = "must be a non-negative integer"


def keep_observed_generations(status: Json, old: Json) -> None:
    """Keep generations that a client which does not know of them left out."""
    if not status.get("observedGeneration") and old.get("observedGeneration"):
        status["observedGeneration"] = old["observedGeneration"]
    known: dict[str, list[int]] = {}
    for condition in old.get("conditions") or []:
        known.setdefault(condition.get("type", ""), []).append(
            condition.get("observedGeneration") or 0
        )
    for condition in status.get("conditions") or []:
        earlier = known.get(condition.get("type", ""))
        generation = earlier.pop(0) if earlier else 0
        if generation and not condition.get("observedGeneration"):
            condition["observedGeneration"] = generation


def validate_pod_status(new: Json, old: Json) -> list[FieldError]:
    """Check a pod's new status."""
    status, before = new.get("status") or {}, old.get("status") or {}
    errors = _validate_conditions(status.get("conditions") or [], "status.conditions")
    errors += _validate_nominated(new, old)
    if (status.get("observedGeneration") or 0) < 0:
        observed = status["observedGeneration"]
        errors.append(invalid("status.observedGeneration", observed, _NOT_NEGATIVE))
    qos, was = status.get("qosClass") or "", before.get("qosClass") or ""
    errors += immutable(qos, was, "status.qosClass")
    for field, containers in _STATUS_LISTS:
        errors += _validate_transitions(
            status.get(field) or [], before.get(field) or [], (old["spec"], containers), field
        )
    errors += _validate_claim_statuses(status, new["spec"])
    if (extended := status.get("extendedResourceClaimStatus")) is not None:
        errors += _validate_extended(extended, new["spec"], "status.extendedResourceClaimStatus")
    errors += check_pod_resources(status, new["spec"])
    errors += _validate_addresses(status, before, "podIPs")
    return errors + _validate_host_addresses(status, before)


def _validate_conditions(conditions: Sequence[Json], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, condition in enumerate(conditions):
        observed = condition.get("observedGeneration") or 0
        if observed < 0:
            place = f"{path}[{index}].observedGeneration"
            errors.append(invalid(place, observed, _NOT_NEGATIVE))
        kind = condition.get("type") or ""
        if kind not in _SYSTEM_CONDITIONS:
            errors += invalids(f"{path}[{index}].Type", kind, names.qualified_name(kind))
    return errors


def _validate_nominated(new: Json, old: Json) -> list[FieldError]:
    path = "status.nominatedNodeName"
    name = (new.get("status") or {}).get("nominatedNodeName") or ""
    if not name or name == (old.get("status") or {}).get("nominatedNodeName"):
        return []
    errors = invalids(path, name, names.dns_subdomain(name))
    if old["spec"].get("nodeName"):
        errors.append(forbidden(path, "may not be set on pods that are already bound to a node"))
    return errors


def _validate_transitions(
    new: Sequence[Json], old: Sequence[Json], owner: tuple[Json, str], field: str
) -> list[FieldError]:
    """Refuse that a container that has ended runs again although its policy forbids it."""
    spec, containers = owner
    after = {status.get("name"): status for status in reversed(new)}
    errors = []
    for index, status in enumerate(old):
        ended = (status.get("state") or {}).get("terminated")
        now = after.get(status.get("name"))
        if ended is None or now is None or (now.get("state") or {}).get("terminated") is not None:
            continue
        if not containers or not _may_restart(spec, containers, status.get("name"), ended):
            detail = "may not be transitioned to non-terminated state"
            errors.append(forbidden(f"status.{field}[{index}].state", detail))
    return errors


def _may_restart(spec: Json, field: str, name: str | None, ended: Json) -> bool:
    code = ended.get("exitCode") or 0
    for container in spec.get(field) or []:
        if container.get("name") == name:
            if any(_rule_matches(rule, code) for rule in container.get("restartPolicyRules") or []):
                return True
            policy = container.get("restartPolicy") or spec.get("restartPolicy")
            return policy == "Always" or (policy == "OnFailure" and code != 0)
    return False


def _rule_matches(rule: Json, code: int) -> bool:
    codes = rule.get("exitCodes") or {}
    inside = code in (codes.get("values") or [])
    return inside if codes.get("operator") == "In" else not inside


def _validate_claim_statuses(status: Json, spec: Json) -> list[FieldError]:
    known = {claim.get("name") for claim in spec.get("resourceClaims") or []}
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, claim in enumerate(status.get("resourceClaimStatuses") or []):
        place = f"status.resourceClaimStatuses[{index}].name"
        name = claim.get("name") or ""
        if name not in known:
            detail = "must match the name of an entry in `spec.resourceClaims`"
            errors.append(invalid(place, name, detail))
        if name in seen:
            errors.append(duplicate(place, name))
        seen.add(name)
        if (target := claim.get("resourceClaimName")) is not None:
            errors += invalids(place, target, names.dns_subdomain(target))
    return errors


def _validate_extended(extended: Json, spec: Json, path: str) -> list[FieldError]:
    """Check which requests of a claim serve the extended resources of containers."""
    errors: list[FieldError] = []
    mappings = extended.get("requestMappings") or []
    if not mappings:
        detail = "at least one request mapping is required"
        errors.append(required(f"{path}.requestMappings", detail))
    seen: set[tuple[str, ...]] = set()
    for index, mapping in enumerate(mappings):
        errors += _validate_mapping(mapping, spec, path, index)
        whole = tuple(mapping.get(field) or "" for field in _MAPPING_FIELDS)
        if whole in seen:
            place = f"{path}.requestMappings[{index}]"
            errors += [
                duplicate(f"{place}.{field}", value)
                for field, value in zip(_MAPPING_FIELDS, whole, strict=True)
            ]
        seen.add(whole)
    name, place = extended.get("resourceClaimName") or "", f"{path}.resourceClaimName"
    return errors + (
        invalids(place, name, names.dns_subdomain(name)) if name else [required(place)]
    )


def _validate_mapping(mapping: Json, spec: Json, path: str, index: int) -> list[FieldError]:
    containers = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    asked = {one.get("name"): (one.get("resources") or {}).get("requests") for one in containers}
    container, resource, request = (mapping.get(field) or "" for field in _MAPPING_FIELDS)
    place = f"{path}.requestMappings[{index}]"
    errors: list[FieldError] = []
    if container not in asked:
        detail = (
            "must match the name of an entry in spec.initContainers.name or spec.containers.name"
        )
        errors.append(invalid(f"{place}.containerName", container, detail))
    elif resource not in (asked[container] or {}):
        detail = (
            "must match the extended resource name of an entry in "
            "spec.initContainers.resources.requests or spec.containers.resources.requests"
        )
        errors.append(invalid(f"{place}.resourceName", resource, detail))
    # The real server leaves the position out of this path.
    return errors + invalids(f"{path}.requestName", request, names.dns_label(request))


def _validate_addresses(status: Json, old: Json, field: str) -> list[FieldError]:
    path = f"status.{field}"
    listed = [entry.get("ip") or "" for entry in status.get(field) or []]
    known = [entry.get("ip") or "" for entry in old.get(field) or []]
    errors: list[FieldError] = []
    for index, text in enumerate(listed):
        errors += check_address(text, f"{path}[{index}]", known)
    if len(listed) > 1:
        versions = {address.version for text in listed if (address := parse_address(text))}
        if len(versions) != 2 or len(listed) > 2:
            detail = "may specify no more than one IP for each IP family"
            errors.append(invalid(path, status[field], detail))
    return errors


def _validate_host_addresses(status: Json, old: Json) -> list[FieldError]:
    listed = status.get("hostIPs") or []
    if not listed:
        return []
    errors = []
    first = listed[0].get("ip") or ""
    if (status.get("hostIP") or "") != first:
        errors.append(invalid("status.hostIPs[0].ip", first, "must be equal to `hostIP`"))
    return errors + _validate_addresses(status, old, "hostIPs")
