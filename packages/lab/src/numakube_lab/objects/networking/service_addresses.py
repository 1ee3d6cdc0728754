"""The cluster addresses of a service, which come one for each IP family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, duplicate, invalid, not_supported, required
from numakube_lab.objects.checks.ip_address_checks import check_address, parse_address

if TYPE_CHECKING:
    from numakube_lab.kinds import Json


FAMILIES: Final = ("IPv4", "IPv6")
POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
_IPS: Final = "spec.clusterIPs"
_FIXED: Final = "may not change once set"


def is_headless(spec: Json) -> bool:
    """Tell whether the service has no address of its own."""
    return (spec.get("clusterIPs") or []) == ["None"]


def family_of(text: str) -> str:
    """Return the IP family of an address."""
    address = parse_address(text)
    return f"IPv{address.version}" if address else ""


def check_cluster_addresses(spec: Json, known: list[str] | None = None) -> list[FieldError]:
    """Check addresses, families and policy against each other."""
    if spec.get("type") == "ExternalName":
        return []
    addresses = spec.get("clusterIPs") or []
    errors = _check_first(spec.get("clusterIP") or "", addresses)
    errors += _check_families(spec)
    wrong = _check_syntax(addresses, known or [])
    errors += wrong
    if len(addresses) > 2:
        errors.append(invalid(_IPS, addresses, "may only hold up to 2 values"))
    if wrong:
        return errors
    if len(addresses) > 1 and len(set(map(family_of, addresses))) < 2:
        detail = "may specify no more than one IP for each IP family"
        errors.append(invalid(_IPS, addresses, detail))
    if is_headless(spec):
        return errors
    families = zip(addresses, spec.get("ipFamilies") or [], strict=False)
    for index, (text, family) in enumerate(families):
        if family in FAMILIES and family_of(text) != family:
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid(f"{_IPS}[{index}]", text, detail))
    return errors


def _check_first(first: str, addresses: list[str]) -> list[FieldError]:
    if not first:
        detail = "must be empty when `clusterIP` is not specified"
        return [invalid(_IPS, addresses, detail)] if addresses else []
    if not addresses:
        return [required(_IPS)]
    if addresses[0] == first:
        return []
    return [invalid(_IPS, addresses, "first value must match `clusterIP`")]


def _check_families(spec: Json) -> list[FieldError]:
    errors = []
    families = spec.get("ipFamilies") or []
    for index, family in enumerate(families):
        path = f"spec.ipFamilies[{index}]"
        if family not in FAMILIES:
            errors.append(not_supported(path, family, FAMILIES))
        if family in families[:index]:
            errors.append(duplicate(path, family))
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in POLICIES:
        errors.append(not_supported("spec.ipFamilyPolicy", policy, POLICIES))
    return errors


def _check_syntax(addresses: list[str], known: list[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, text in enumerate(addresses):
        if index == 0 and text == "None":
            if len(addresses) > 1:
                detail = "'None' must be the first and only value"
                errors.append(invalid(_IPS, addresses, detail))
            continue
        errors += check_address(text, f"{_IPS}[{index}]", known)
    return errors


def check_address_changes(new: Json, old: Json) -> list[FieldError]:
    """Check that the first address and family stay; a second one may come and go."""
    if "ExternalName" in {new.get("type"), old.get("type")}:
        return []
    headless, was_headless = is_headless(new), is_headless(old)
    errors: list[FieldError] = []
    if not (headless and was_headless):
        errors += _check_moves(new, old)
    if not headless and not was_headless:
        errors += _check_family_moves(new, old)
    return errors


def _check_moves(new: Json, old: Json) -> list[FieldError]:
    after, before = new.get("clusterIPs") or [], old.get("clusterIPs") or []
    if len(after) == len(before):
        return [
            invalid(f"{_IPS}[{index}]", after, _FIXED)
            for index, text in enumerate(before)
            if text != after[index]
        ]
    errors = []
    if before and not after:
        errors.append(invalid(f"{_IPS}[0]", None, "primary clusterIP can not be unset"))
    if before and after and after[0] != before[0]:
        errors.append(invalid(f"{_IPS}[0]", after, _FIXED))
    if len(before) > len(after) == 1 and new.get("ipFamilyPolicy") != "SingleStack":
        detail = "must be set to 'SingleStack' when releasing the secondary clusterIP"
        errors.append(invalid("spec.ipFamilyPolicy", new.get("ipFamilyPolicy"), detail))
    return errors


def _check_family_moves(new: Json, old: Json) -> list[FieldError]:
    after, before = new.get("ipFamilies") or [], old.get("ipFamilies") or []
    path = "spec.ipFamilies[0]"
    if len(after) == len(before):
        changed = sum(1 for one, was in zip(after, before, strict=True) if one != was)
        return [invalid(path, after, _FIXED)] * changed
    errors = []
    addresses = new.get("clusterIPs") or None
    if len(before) > len(after) and not addresses:
        errors.append(invalid(path, after or None, "primary ipFamily can not be unset"))
    if after and before and after[0] != before[0]:
        errors.append(invalid(path, addresses, _FIXED))
    if len(before) > len(after) == 1 and new.get("ipFamilyPolicy") != "SingleStack":
        detail = "must be set to 'SingleStack' when releasing the secondary ipFamily"
        errors.append(invalid("spec.ipFamilyPolicy", new.get("ipFamilyPolicy"), detail))
    return errors


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
