"""The status of a pod, which kubelets and schedulers write, and its ``resize`` subresource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.kind_rules import keep, keep_metadata
from kube_lab_server.kinds.node_checks import check_pod_resources
from kube_lab_server.kinds.pod.pod_admission import compute_qos, is_sidecar
from kube_lab_server.kinds.pod.pod_spec import MIRROR_POD
from kube_lab_server.kinds.value_checks import check_address, parse_address
from kube_lab_server.schema.metadata_checks import immutable
from numakube.api.field_errors import FieldError, duplicate, forbidden, invalid, invalids, required
from numakube.values import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube_lab_server.kind_names import Json


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
    asked = {
        container.get("name"): (container.get("resources") or {}).get("requests")
        for container in containers
    }
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


_ONLY_CPU_MEMORY: Final = "only cpu and memory resources are mutable"
_RESIZED: Final = ("resources", "resizePolicy")
_LISTS: Final = ("containers", "initContainers")
_POD_LEVEL: Final = (
    "resize of pods with pod-level resources is forbidden when "
    "InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled"
)


def drop_other_changes(new: Json, old: Json) -> None:
    """Keep everything but the resources of containers as it was."""
    spec, before = new["spec"], old["spec"]
    if any(len(spec.get(field) or []) != len(before.get(field) or []) for field in _LISTS):
        return
    merged = dict(before)
    for field in _LISTS:
        if spec.get(field):
            merged[field] = _merge(spec[field], before[field])
    new["spec"] = merged
    keep(new, old, "status")
    keep_metadata(new, old)


def _merge(after: Sequence[Json], before: Sequence[Json]) -> list[Json]:
    if any(one.get("name") != was.get("name") for one, was in zip(after, before, strict=True)):
        # Names that do not match are refused later; nothing may hide that.
        return list(after)
    merged = []
    for one, was in zip(after, before, strict=True):
        container = dict(was)
        keep(container, one, *_RESIZED)
        merged.append(container)
    return merged


def validate_resize(new: Json, old: Json) -> list[FieldError]:
    """Check the resize of a pod that is good by itself."""
    after, before = new["spec"], old["spec"]
    errors: list[FieldError] = []
    if MIRROR_POD in (old["metadata"].get("annotations") or {}):
        return [forbidden("[]", "static pods cannot be resized")]
    if (before.get("os") or {}).get("name") == "windows":
        return [forbidden("[]", "windows pods cannot be resized")]
    qos = (old.get("status") or {}).get("qosClass") or compute_qos(before)
    if compute_qos(after) != qos:
        detail = "Pod QOS Class may not change as a result of resizing"
        errors.append(invalid("spec", qos, detail))
    if not _is_supported(old):
        errors.append(forbidden("spec", "Pod running on node without support for resize"))
    if any(_has_pod_level(spec) for spec in (after, before)):
        return [*errors, forbidden("[]", _POD_LEVEL)]
    if wrong := _validate_order(after, before):
        return errors + wrong
    errors += _validate_removals(after, before)
    errors += _validate_other_resources(after, before)
    if not errors and _without_resources(after) != _without_resources(before):
        errors.append(forbidden("spec", _ONLY_CPU_MEMORY))
    return errors


def _is_supported(pod: Json) -> bool:
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        if (status.get("state") or {}).get("running") is not None:
            return status.get("resources") is not None
    return True


def _has_pod_level(spec: Json) -> bool:
    requirements = spec.get("resources") or {}
    return bool(requirements.get("requests") or requirements.get("limits"))


def _validate_order(new: Json, old: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in _LISTS:
        after, before = new.get(field) or [], old.get(field) or []
        if len(after) != len(before):
            detail = f"{field} may not be added or removed on resize"
            errors.append(forbidden(f"spec.{field}", detail))
            continue
        errors += [
            forbidden(
                f"spec.{field}[{index}].name", f"{field} may not be renamed or reordered on resize"
            )
            for index, (one, was) in enumerate(zip(after, before, strict=True))
            if one.get("name") != was.get("name")
        ]
    return errors


def _validate_removals(new: Json, old: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in reversed(_LISTS):
        for index, was in enumerate(old.get(field) or []):
            if field == "initContainers" and not is_sidecar(was):
                continue
            after = (new[field][index].get("resources")) or {}
            before = was.get("resources") or {}
            errors += [
                forbidden(
                    f"spec.{field}[{index}].resources.{side}",
                    f"resource {side} cannot be removed",
                )
                for side in ("requests", "limits")
                if not (before.get(side) or {}).keys() <= (after.get(side) or {}).keys()
            ]
    return errors


def _validate_other_resources(new: Json, old: Json) -> list[FieldError]:
    errors = []
    for one, was in _pairs(new, old, "containers"):
        if _with_old_compute(one, was) != was:
            errors.append(forbidden("spec", _ONLY_CPU_MEMORY))
    for one, was in _pairs(new, old, "initContainers"):
        if is_sidecar(one):
            if _with_old_compute(one, was) != was:
                detail = "only cpu and memory resources for sidecar containers are mutable"
                errors.append(forbidden("spec", detail))
        elif one != was:
            detail = "resources for non-sidecar init containers are immutable"
            errors.append(forbidden("spec", detail))
    return errors


def _pairs(new: Json, old: Json, field: str) -> list[tuple[Json, Json]]:
    return list(zip(new.get(field) or [], old.get(field) or [], strict=True))


def _with_old_compute(container: Json, old: Json) -> Json:
    """Return *container* with the CPU and memory of *old*."""
    own, was = container.get("resources") or {}, old.get("resources") or {}
    requirements = {}
    for side in ("limits", "requests"):
        amounts = {k: v for k, v in (own.get(side) or {}).items() if k not in {"cpu", "memory"}}
        before = was.get(side) or {}
        amounts |= {k: before[k] for k in ("cpu", "memory") if k in before}
        if amounts:
            requirements[side] = amounts
    return container | {"resources": requirements}


def _without_resources(spec: Json) -> Json:
    return {field: value for field, value in spec.items() if field not in _LISTS}
