"""What the user of a service is warned of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.objects.checks.ip_address_checks import address_warnings, network_warnings

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

OLD_TOPOLOGY: Final = "service.kubernetes.io/topology-aware-hints"
TOPOLOGY: Final = "service.kubernetes.io/topology-mode"


def service_warnings(service: Json, old: Json | None) -> list[str]:
    """Return the warnings of a service."""
    del old
    spec = service["spec"]
    warnings = []
    if OLD_TOPOLOGY in (service["metadata"].get("annotations") or {}):
        rule = f"please use {TOPOLOGY} instead"
        warnings.append(f"annotation {OLD_TOPOLOGY} is deprecated, {rule}")
    if spec.get("clusterIP") not in {None, "", "None"}:
        for index, text in enumerate(spec.get("clusterIPs") or []):
            warnings += address_warnings(text, f"spec.clusterIPs[{index}]")
    if spec.get("type") == "ClusterIP" and spec.get("clusterIP") == "None":
        ignored = [field for field in ("loadBalancerIP", "externalIPs") if spec.get(field)]
        ignored += ["SessionAffinity"] if spec.get("sessionAffinity") != "None" else []
        warnings += [f"spec.{field} is ignored for headless services" for field in ignored]
    return warnings + _warn_of_addresses(spec) + _warn_of_type(spec)


def _warn_of_addresses(spec: Json) -> list[str]:
    warnings = []
    for index, text in enumerate(spec.get("externalIPs") or []):
        warnings += address_warnings(text, f"spec.externalIPs[{index}]")
    if text := spec.get("loadBalancerIP"):
        warnings += address_warnings(text, "spec.loadBalancerIP")
    for index, text in enumerate(spec.get("loadBalancerSourceRanges") or []):
        warnings += network_warnings(text, f"spec.loadBalancerSourceRanges[{index}]")
    return warnings


def _warn_of_type(spec: Json) -> list[str]:
    external = spec.get("type") == "ExternalName"
    warnings = []
    if external and spec.get("externalIPs"):
        warnings.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if not external and spec.get("externalName"):
        warnings.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        rule = '"PreferClose" is deprecated; use "PreferSameZone"'
        warnings.append(f"spec.trafficDistribution: {rule}")
    return warnings


def warn_of_balancer(obj: Json) -> list[str]:
    """Warn of odd addresses of a load balancer in a status."""
    entries = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    return [
        warning
        for index, entry in enumerate(entries)
        if entry.get("ip")
        for warning in address_warnings(entry["ip"], f"status.loadBalancer.ingress[{index}]")
    ]
