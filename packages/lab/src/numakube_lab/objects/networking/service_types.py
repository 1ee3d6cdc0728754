"""What follows from the type of a service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

EXPOSED: Final = frozenset({"LoadBalancer", "NodePort"})
"""The types that have a port on every node."""


def is_exposed(spec: Json) -> bool:
    """Tell whether traffic from outside the cluster can reach the service."""
    if spec.get("type") in EXPOSED:
        return True
    return spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs"))


def needs_health_check(spec: Json) -> bool:
    """Tell whether nodes must tell a load balancer whether they have pods of the service."""
    return (spec.get("type"), spec.get("externalTrafficPolicy")) == ("LoadBalancer", "Local")


def drop_unused(service: Json, before: Json) -> None:
    """Drop what the old type of a service needed and the new one cannot have."""
    spec = service["spec"]
    if before.get("type") != "ExternalName" == spec.get("type"):
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field) == before.get(field):
                spec.pop(field, None)
    if before.get("type") in EXPOSED and spec.get("type") not in EXPOSED:
        known = {port.get("nodePort") for port in before.get("ports") or []}
        for port in spec.get("ports") or []:
            if port.get("nodePort") in known:
                port.pop("nodePort", None)
    for needs, field in (
        (needs_health_check, "healthCheckNodePort"),
        (_is_balancer, "allocateLoadBalancerNodePorts"),
        (_is_balancer, "loadBalancerClass"),
        (is_exposed, "externalTrafficPolicy"),
    ):
        if needs(before) and not needs(spec) and spec.get(field) == before.get(field):
            spec.pop(field, None)
    if spec.get("type") != "LoadBalancer":
        service["status"] = (service.get("status") or {}) | {"loadBalancer": {}}


def _is_balancer(spec: Json) -> bool:
    return spec.get("type") == "LoadBalancer"
