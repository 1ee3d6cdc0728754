"""The tables of services, ingresses and other kinds that connect pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.objects.checks.selector_checks import format_labels, format_selector
from numakube_lab.objects.tables.table_columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    Table,
    age_of,
    name_of,
    shown_some,
    wide,
)

if TYPE_CHECKING:
    from datetime import datetime

    from numakube_lab.kinds import Json, JsonValue


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
