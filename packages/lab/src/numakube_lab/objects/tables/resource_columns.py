"""The tables of services, ingresses, storage, devices, role bindings and disruption budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.objects.tables.age_texts import human_age
from numakube_lab.objects.tables.table_columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    Table,
    age_of,
    flag,
    format_labels,
    format_selector,
    name_of,
    number,
    shown_some,
    wide,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from numakube_lab.kinds import Json, JsonValue


def _role_binding(obj: Json, now: datetime) -> list[JsonValue]:
    role, subjects = obj["roleRef"], obj.get("subjects") or []
    return [
        name_of(obj),
        f"{role.get('kind') or ''}/{role.get('name') or ''}",
        age_of(obj, now),
        *(_subjects(subjects, kind) for kind in ("User", "Group")),
        _accounts(subjects),
    ]


def _subjects(subjects: list[Json], kind: str) -> str:
    return ", ".join(subject["name"] for subject in subjects if subject["kind"] == kind)


def _accounts(subjects: list[Json]) -> str:
    return ", ".join(
        f"{subject.get('namespace') or ''}/{subject['name']}"
        for subject in subjects
        if subject["kind"] == "ServiceAccount"
    )


ROLE_BINDING: Final = Table(
    (
        NAME,
        Column("Role", "Role that is granted."),
        AGE,
        wide("Users", "Users who get the role."),
        wide("Groups", "Groups that get the role."),
        wide("ServiceAccounts", "Service accounts that get the role."),
    ),
    _role_binding,
)


def _resource_claim(obj: Json, now: datetime) -> list[JsonValue]:
    status = obj.get("status") or {}
    deleted = bool(obj["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if status.get("allocation") is not None:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not deleted:
        states.append("pending")
    return [name_of(obj), ",".join(states), age_of(obj, now)]


RESOURCE_CLAIM: Final = Table(
    (NAME, Column("State", "Whether devices were allocated and for pods."), AGE), _resource_claim
)


def _resource_slice(obj: Json, now: datetime) -> list[JsonValue]:
    spec = obj.get("spec") or {}
    return [
        name_of(obj),
        spec.get("nodeName") or "",
        spec.get("driver") or "",
        (spec.get("pool") or {}).get("name") or "",
        age_of(obj, now),
    ]


RESOURCE_SLICE: Final = Table(
    (
        NAME,
        Column("Node", "Node that has the devices."),
        Column("Driver", "Driver of the devices."),
        Column("Pool", "Pool that the devices belong to."),
        AGE,
    ),
    _resource_slice,
)


def _device_taint_rule(obj: Json, now: datetime) -> list[JsonValue]:
    taint = (obj.get("spec") or {}).get("taint") or {}
    told = [taint.get(field) or "" for field in ("key", "value", "effect")]
    added = human_age(taint["timeAdded"], now) if taint.get("timeAdded") else ""
    return [name_of(obj), *told, added, age_of(obj, now)]


DEVICE_TAINT_RULE: Final = Table(
    (
        NAME,
        Column("Key", "Key of the taint."),
        Column("Value", "Value of the taint."),
        Column("Effect", "What the taint does to claims that do not tolerate it."),
        Column("TimeAdded", "When the taint got its effect."),
        AGE,
    ),
    _device_taint_rule,
)


def _budget(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    bounds = [spec.get(field) for field in ("minAvailable", "maxUnavailable")]
    return [
        name_of(obj),
        *("N/A" if bound is None else str(bound) for bound in bounds),
        status.get("disruptionsAllowed") or 0,
        age_of(obj, now),
    ]


DISRUPTION_BUDGET: Final = Table(
    (
        NAME,
        Column("Min Available", "How many pods must stay available."),
        Column("Max Unavailable", "How many pods may be unavailable."),
        number("Allowed Disruptions", "How many pods may be disrupted now."),
        AGE,
    ),
    _budget,
)


def _service(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return [
        name_of(obj),
        spec.get("type") or "",
        next(iter(spec.get("clusterIPs") or []), NONE),
        _external_addresses(spec, status),
        ",".join(map(_service_port, spec.get("ports") or [])) or NONE,
        age_of(obj, now),
        format_labels(spec.get("selector")),
    ]


def _external_addresses(spec: Json, status: Json) -> str:
    own = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(own) or NONE
        case "LoadBalancer":
            return ",".join(filter(None, (_balancer_addresses(status), *own))) or "<pending>"
        case "ExternalName":
            return spec.get("externalName") or ""
        case _:
            return "<unknown>"


def _balancer_addresses(status: Json) -> str:
    entries = (status.get("loadBalancer") or {}).get("ingress") or []
    found = {entry.get("ip") or entry.get("hostname") or "" for entry in entries}
    return ",".join(sorted(found - {""}))


def _service_port(port: Json) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node_port}/{port.get('protocol') or ''}"


SERVICE: Final = Table(
    (
        NAME,
        Column("Type", "How the service is reached."),
        Column("Cluster-IP", "Address within the cluster."),
        Column("External-IP", "Addresses that are reachable from outside."),
        Column("Port(s)", "Ports, with the ports on nodes after a colon."),
        AGE,
        wide("Selector", "Labels of the pods behind the service."),
    ),
    _service,
)


def _endpoints(obj: Json, now: datetime) -> list[JsonValue]:
    subsets = obj.get("subsets") or []
    found = [text for subset in subsets for text in _subset_addresses(subset)]
    shown = shown_some(found, len(found)) if subsets else NONE
    return [name_of(obj), shown, age_of(obj, now)]


def _subset_addresses(subset: Json) -> list[str]:
    addresses = [item.get("ip") or "" for item in subset.get("addresses") or []]
    ports = subset.get("ports") or []
    if not ports:
        return addresses
    return [_with_port(address, port["port"]) for port in ports for address in addresses]


def _with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


ENDPOINTS: Final = Table(
    (NAME, Column("Endpoints", "Addresses and ports behind the service."), AGE), _endpoints
)


def _endpoint_slice(obj: Json, now: datetime) -> list[JsonValue]:
    ports = [_slice_port(port) for port in obj.get("ports") or []]
    endpoints = obj.get("endpoints") or []
    addresses = [text for endpoint in endpoints for text in endpoint.get("addresses") or []]
    return [
        name_of(obj),
        obj.get("addressType") or "",
        shown_some(ports, len(ports)) or UNSET,
        shown_some(addresses, len(addresses)) or UNSET,
        age_of(obj, now),
    ]


def _slice_port(port: Json) -> str:
    if port.get("port") is not None:
        return str(port["port"])
    return "*" if port.get("name") is None else str(port["name"])


ENDPOINT_SLICE: Final = Table(
    (
        NAME,
        Column("AddressType", "What kind of addresses there are."),
        Column("Ports", "Ports of the endpoints."),
        Column("Endpoints", "Addresses of the endpoints."),
        AGE,
    ),
    _endpoint_slice,
)


def _ingress(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    name = spec.get("ingressClassName")
    return [
        name_of(obj),
        NONE if name is None else name,
        _hosts(spec.get("rules") or []),
        _balancer_addresses(status),
        "80, 443" if spec.get("tls") else "80",
        age_of(obj, now),
    ]


def _hosts(rules: list[Json], limit: int = 3) -> str:
    """Return the first hosts, and how many rules follow the one with the last of them."""
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    if not hosts:
        return "*"
    positions = [index for index, rule in enumerate(rules) if rule.get("host")]
    more = len(hosts) >= limit and positions[limit - 1] < len(rules) - 1
    text = ",".join(hosts[:limit])
    return f"{text} + {len(rules) - limit} more..." if more else text


INGRESS: Final = Table(
    (
        NAME,
        Column("Class", "Class that tells which controller serves the ingress."),
        Column("Hosts", "Hosts that the rules are for."),
        Column("Address", "Addresses of the load balancer."),
        Column("Ports", "Ports that are open."),
        AGE,
    ),
    _ingress,
)


def _network_policy(obj: Json, now: datetime) -> list[JsonValue]:
    selector = (obj.get("spec") or {}).get("podSelector")
    return [name_of(obj), format_selector(selector), age_of(obj, now)]


NETWORK_POLICY: Final = Table(
    (NAME, Column("Pod-Selector", "Labels of the pods that the policy is for."), AGE),
    _network_policy,
)


_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_ANNOTATIONS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _shown_modes(modes: Sequence[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _class_of(obj: Json, spec: Json) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    if _CLASS_ANNOTATION in annotations:
        return str(annotations[_CLASS_ANNOTATION])
    return spec.get("storageClassName") or ""


def _phase(obj: Json) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return (obj.get("status") or {}).get("phase") or ""


def _or_unset(value: str | None) -> str:
    return UNSET if value is None else value


def _volume(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    claim = spec.get("claimRef")
    shown_claim = f"{claim.get('namespace') or ''}/{claim.get('name') or ''}" if claim else ""
    return [
        name_of(obj),
        (spec.get("capacity") or {}).get("storage") or "0",
        _shown_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy") or "",
        _phase(obj),
        shown_claim,
        _class_of(obj, spec),
        _or_unset(spec.get("volumeAttributesClassName")),
        status.get("reason") or "",
        age_of(obj, now),
        _or_unset(spec.get("volumeMode")),
    ]


PERSISTENT_VOLUME: Final = Table(
    (
        NAME,
        Column("Capacity", "Size of the volume."),
        Column("Access Modes", "Ways in which the volume can be mounted."),
        Column("Reclaim Policy", "What becomes of the volume after its claim."),
        Column("Status", "Whether the volume is free, bound or done with."),
        Column("Claim", "Claim that the volume is bound to."),
        Column("StorageClass", "Class of the volume."),
        Column("VolumeAttributesClass", "Class of the volume's attributes."),
        Column("Reason", "Why the volume failed, in one word."),
        AGE,
        wide("VolumeMode", "Whether there is a filesystem on the volume."),
    ),
    _volume,
)


def _claim(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    bound = bool(spec.get("volumeName"))
    return [
        name_of(obj),
        _phase(obj),
        spec.get("volumeName") or "",
        ((status.get("capacity") or {}).get("storage") or "0") if bound else "",
        _shown_modes(status.get("accessModes")) if bound else "",
        _class_of(obj, spec),
        _or_unset(spec.get("volumeAttributesClassName")),
        age_of(obj, now),
        _or_unset(spec.get("volumeMode")),
    ]


PERSISTENT_VOLUME_CLAIM: Final = Table(
    (
        NAME,
        Column("Status", "Whether the claim is bound."),
        Column("Volume", "Volume that the claim is bound to."),
        Column("Capacity", "Size of the volume."),
        Column("Access Modes", "Ways in which the volume can be mounted."),
        Column("StorageClass", "Class of the volume."),
        Column("VolumeAttributesClass", "Class of the volume's attributes."),
        AGE,
        wide("VolumeMode", "Whether there is a filesystem on the volume."),
    ),
    _claim,
)


def _storage_class(obj: Json, now: datetime) -> list[JsonValue]:
    annotations = obj["metadata"].get("annotations") or {}
    is_default = any(annotations.get(key) == "true" for key in _DEFAULT_ANNOTATIONS)
    return [
        name_of(obj) + (" (default)" if is_default else ""),
        obj.get("provisioner") or "",
        obj.get("reclaimPolicy") or "Delete",
        obj.get("volumeBindingMode") or "Immediate",
        bool(obj.get("allowVolumeExpansion")),
        age_of(obj, now),
    ]


STORAGE_CLASS: Final = Table(
    (
        NAME,
        Column("Provisioner", "Who makes the volumes."),
        Column("ReclaimPolicy", "What becomes of a volume after its claim."),
        Column("VolumeBindingMode", "When volumes are bound to claims."),
        Column("AllowVolumeExpansion", "Whether volumes can grow."),
        AGE,
    ),
    _storage_class,
)


def _csi_node(obj: Json, now: datetime) -> list[JsonValue]:
    return [name_of(obj), len((obj.get("spec") or {}).get("drivers") or []), age_of(obj, now)]


CSI_NODE: Final = Table(
    (NAME, number("Drivers", "How many drivers there are on the node."), AGE), _csi_node
)


def _csi_driver(obj: Json, now: datetime) -> list[JsonValue]:
    spec = obj.get("spec") or {}
    attach, tokens = spec.get("attachRequired"), spec.get("tokenRequests")
    audiences = ",".join(request.get("audience") or "" for request in tokens or [])
    return [
        name_of(obj),
        attach is None or bool(attach),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        UNSET if tokens is None else audiences,
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or []) or NONE,
        age_of(obj, now),
    ]


CSI_DRIVER: Final = Table(
    (
        NAME,
        flag("AttachRequired", "Whether volumes have to be attached to nodes."),
        flag("PodInfoOnMount", "Whether the driver is told of the pod."),
        flag("StorageCapacity", "Whether the driver tells how much space is left."),
        Column("TokenRequests", "For whom the driver gets tokens of service accounts."),
        flag("RequiresRepublish", "Whether the driver is called again and again."),
        Column("Modes", "Which kinds of volumes there are."),
        AGE,
    ),
    _csi_driver,
)
