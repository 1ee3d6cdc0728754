"""The tables of services, ingresses and other kinds that connect pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.objects.checks.selector_checks import format_labels, format_selector
from numakube_lab.objects.tables.table_columns import (
    AGE,
    NAME,
    NONE,
    Column,
    Table,
    age_of,
    name_of,
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


def _network_policy(obj: Json, now: datetime) -> list[JsonValue]:
    selector = (obj.get("spec") or {}).get("podSelector")
    return [name_of(obj), format_selector(selector), age_of(obj, now)]


NETWORK_POLICY: Final = Table(
    (NAME, Column("Pod-Selector", "Labels of the pods that the policy is for."), AGE),
    _network_policy,
)
