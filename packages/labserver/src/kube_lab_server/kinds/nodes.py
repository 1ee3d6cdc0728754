"""Nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.kind_rules import KindAdmission, KindRules, PartRules, keep_spec
from kube_lab_server.kinds.node_checks import validate_taints
from kube_lab_server.kinds.pod.pod_admission import NOT_READY
from kube_lab_server.kinds.table_columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Column,
    Table,
    age_of,
    condition_status,
    name_of,
    wide,
)
from kube_lab_server.kinds.value_checks import check_network, network_warnings, parse_network
from numakube.api.field_errors import FieldError, duplicate, forbidden, invalid
from numakube.api.resource_names import validate_amount
from numakube.api.resource_requirements import round_to_milli

if TYPE_CHECKING:
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue
    from kube_lab_server.kinds.kind_rules import AdmissionRefused, ClusterView


_ROLE_PREFIX: Final = "node-role.kubernetes.io/"


_ROLE: Final = "kubernetes.io/role"


_INFO: Final = ("osImage", "kernelVersion", "containerRuntimeVersion")


def _node(obj: Json, now: datetime) -> list[JsonValue]:
    status = obj.get("status") or {}
    info = status.get("nodeInfo") or {}
    return [
        name_of(obj),
        _node_state(obj),
        _roles(obj["metadata"].get("labels") or {}),
        age_of(obj, now),
        info.get("kubeletVersion") or "",
        *(_address(status, kind) for kind in ("InternalIP", "ExternalIP")),
        *(info.get(field) or UNKNOWN for field in _INFO),
    ]


def _node_state(obj: Json) -> str:
    ready = condition_status(obj, "Ready")
    state = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    return state + (",SchedulingDisabled" if (obj.get("spec") or {}).get("unschedulable") else "")


def _roles(labels: Json) -> str:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get(_ROLE) or "")
    return ",".join(sorted(roles - {""})) or NONE


def _address(status: Json, kind: str) -> str:
    addresses = status.get("addresses") or []
    return next((item.get("address") or "" for item in addresses if item.get("type") == kind), NONE)


NODE_TABLE: Final = Table(
    (
        NAME,
        Column("Status", "Whether the node is ready and takes pods."),
        Column("Roles", "Roles of the node in the cluster."),
        AGE,
        Column("Version", "Version of the kubelet."),
        wide("Internal-IP", "First address within the cluster."),
        wide("External-IP", "First address that is reachable from outside."),
        wide("OS-Image", "Operating system of the node."),
        wide("Kernel-Version", "Version of the kernel."),
        wide("Container-Runtime", "Container runtime and its version."),
    ),
    _node,
)


_FIXED: Final = 'node updates may not change {} except from "" to valid'


def _default(node: Json) -> None:
    status = node.setdefault("status", {})
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
    round_to_milli(status.get("capacity"))
    round_to_milli(status.get("allocatable"))
    spec = node.setdefault("spec", {})
    first, listed = spec.get("podCIDR"), spec.get("podCIDRs") or []
    if first and (not listed or listed[0] != first):
        spec["podCIDRs"] = [first]
    elif listed and listed[0] and not first:
        spec["podCIDR"] = listed[0]


def _check(node: Json) -> list[FieldError]:
    spec = node.get("spec") or {}
    errors = validate_taints(spec.get("taints") or [], "metadata.taints")
    return errors + _check_resources(node) + _check_networks(spec.get("podCIDRs") or [])


def _check_resources(node: Json) -> list[FieldError]:
    status = node.get("status") or {}
    errors: list[FieldError] = []
    for field in ("capacity", "allocatable"):
        for name, text in sorted((status.get(field) or {}).items()):
            errors += validate_amount(name, text, f"status.{field}.{name}")
    return errors


def _check_networks(networks: list[str]) -> list[FieldError]:
    path = "spec.podCIDRs"
    errors: list[FieldError] = []
    for index, text in enumerate(networks):
        errors += check_network(text, f"{path}[{index}]")
    if len(networks) > 1:
        versions = {parsed[0].version for text in networks if (parsed := parse_network(text))}
        if len(versions) != 2 or len(networks) > 2:
            detail = "may specify no more than one CIDR for each IP family"
            errors.append(invalid(path, networks, detail))
    return errors


def _check_change(new: Json, old: Json) -> list[FieldError]:
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    errors = _check_resources(new)
    errors += _check_addresses(new)
    networks = before.get("podCIDRs") or []
    if networks and networks != (spec.get("podCIDRs") or []):
        errors.append(forbidden("spec.podCIDRs", _FIXED.format("podCIDR")))
    provider = before.get("providerID") or ""
    if provider and provider != spec.get("providerID"):
        errors.append(forbidden("spec.providerID", _FIXED.format("providerID")))
    errors += validate_taints(spec.get("taints") or [], "metadata.taints")
    if (spec.get("externalID") or "") != (before.get("externalID") or ""):
        errors.append(forbidden("spec.externalID", "may not be updated"))
    return errors


def _check_addresses(node: Json) -> list[FieldError]:
    addresses = (node.get("status") or {}).get("addresses") or []
    return [
        duplicate(f"status.addresses[{index}]", address)
        for index, address in enumerate(addresses)
        if address in addresses[:index]
    ]


def _warn(node: Json, old: Json | None) -> list[str]:
    del old
    spec = node.get("spec") or {}
    warnings = []
    if spec.get("configSource") is not None:
        warnings.append("spec.configSource: the feature is removed")
    if spec.get("externalID"):
        rule = "this field is deprecated, and is unused by Kubernetes"
        warnings.append(f"spec.externalID: {rule}")
    for index, text in enumerate(spec.get("podCIDRs") or []):
        warnings += network_warnings(text, f"spec.podCIDRs[{index}]")
    return warnings


def _on_create(node: Json) -> None:
    """Drop what features that were removed or are off would use."""
    (node.get("spec") or {}).pop("configSource", None)
    for field in ("config", "declaredFeatures"):
        (node.get("status") or {}).pop(field, None)


def _on_update(new: Json, old: Json) -> None:
    if not (old.get("spec") or {}).get("configSource"):
        (new.get("spec") or {}).pop("configSource", None)


def _prepare_status(new: Json, old: Json, now: str) -> None:
    keep_spec(new, old, now)
    for field in ("config", "declaredFeatures"):
        if not (old.get("status") or {}).get(field):
            (new.get("status") or {}).pop(field, None)


def add_not_ready_taint(node: Json, view: ClusterView) -> AdmissionRefused | None:
    """Keep pods off a node until its life cycle says that it is ready."""
    del view
    spec = node.setdefault("spec", {})
    taints = spec.get("taints") or []
    if not any((t.get("key"), t.get("effect")) == (NOT_READY, "NoSchedule") for t in taints):
        spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
    return None


NODE: Final = KindRules(
    table=NODE_TABLE,
    admission=KindAdmission(create=(add_not_ready_taint,)),
    namespaced=False,
    parts={"status": PartRules(prepare=_prepare_status, check=_check_change)},
    creates_status=True,
    default=_default,
    on_create=_on_create,
    on_update=_on_update,
    check=_check,
    check_change=_check_change,
    whole_first=True,
    rechecks_name=True,
    warn=_warn,
)
