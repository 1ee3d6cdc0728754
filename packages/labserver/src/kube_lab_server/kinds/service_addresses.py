"""The cluster addresses and node ports of services: their checks, and how they are given.

Nothing is booked: what is free follows from the services that exist, so that nothing can leak.
The ranges are the defaults of kube-apiserver, 10.0.0.0/24 and 30000-32767, IPv4 only. The lowest
address of the range belongs to the API server itself.
"""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.kind_rules import AdmissionRefused, keep
from kube_lab_server.kinds.value_checks import check_address, parse_address
from numakube.api.field_errors import FieldError, duplicate, invalid, not_supported, required

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_lab_server.kind_names import Json
    from kube_lab_server.kinds.kind_rules import ClusterView


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


RANGE: Final = IPv4Network("10.0.0.0/24")
PORTS: Final = range(30000, 32768)
_DUAL: Final = ("IPv4", "IPv6")
_POLICY: Final = "spec.ipFamilyPolicy"


def allocate_new(service: Json, view: ClusterView) -> AdmissionRefused | None:
    """Give a new service what it needs."""
    spec = service["spec"]
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    errors = _settle_families(spec, None) or _allocate_address(spec, view)
    errors = errors or _allocate_ports(spec, {}, view)
    return AdmissionRefused("", tuple(errors)) if errors else None


def allocate_changed(service: Json, old: Json, view: ClusterView) -> AdmissionRefused | None:
    """Give a changed service what it needs now; what it has it keeps."""
    spec, before = service["spec"], old["spec"]
    _keep_allocated(spec, before)
    _follow_first_address(spec, before)
    errors = _settle_families(spec, before)
    if not errors and before.get("type") == "ExternalName" != spec.get("type"):
        errors = _allocate_address(spec, view)
    errors = errors or _allocate_ports(spec, before, view)
    return AdmissionRefused("", tuple(errors)) if errors else None


def _keep_allocated(spec: Json, before: Json) -> None:
    if "ExternalName" not in {spec.get("type"), before.get("type")}:
        for field in ("clusterIP", "clusterIPs"):
            if not spec.get(field):
                keep(spec, before, field)
    if {spec.get("type"), before.get("type")} <= EXPOSED:
        own = {port.get("nodePort") for port in spec.get("ports") or []}
        known = {port.get("name"): port.get("nodePort") for port in before.get("ports") or []}
        for port in spec.get("ports") or []:
            earlier = known.get(port.get("name"))
            if not port.get("nodePort") and earlier and earlier not in own:
                port["nodePort"] = earlier
    checked = needs_health_check(spec) and needs_health_check(before)
    if checked and not spec.get("healthCheckNodePort"):
        keep(spec, before, "healthCheckNodePort")


def _follow_first_address(spec: Json, before: Json) -> None:
    """Let the list follow the single address where a client changed only that."""
    first, was = spec.get("clusterIP") or "", before.get("clusterIP") or ""
    same_list = (spec.get("clusterIPs") or []) == (before.get("clusterIPs") or [])
    if first == was or not same_list:
        return
    if first:
        spec["clusterIPs"] = [first]
    else:
        spec.pop("clusterIPs", None)


def _settle_families(spec: Json, before: Json | None) -> list[FieldError]:
    """Fill in the IP families and their policy; refuse what the cluster cannot do."""
    if spec.get("type") == "ExternalName":
        return []
    selectorless = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("ipFamilyPolicy") is None:
        earlier = (before or {}).get("ipFamilyPolicy")
        spec["ipFamilyPolicy"] = earlier or ("RequireDualStack" if selectorless else "SingleStack")
    known = (before or {}).get("clusterIPs") or []
    if errors := check_cluster_addresses(spec, known):
        return errors
    families = list(spec.get("ipFamilies") or [])
    policy = spec["ipFamilyPolicy"]
    errors = list(_check_policy(spec, families, policy))
    errors += _add_families(spec, families)
    if errors:
        return errors
    spec["ipFamilies"] = families or ["IPv4"]
    if not selectorless:
        return list(_check_configured(families, policy))
    if len(spec["ipFamilies"]) < 2 and policy != "SingleStack":
        spec["ipFamilies"] += [family for family in _DUAL if family not in spec["ipFamilies"]]
    return []


def _add_families(spec: Json, families: list[str]) -> Iterator[FieldError]:
    """Add the families of addresses that were given without them."""
    addresses = spec.get("clusterIPs") or []
    for index, text in enumerate(addresses):
        if text == "None":
            return
        if index >= len(families):
            families.append(family_of(text))
            if families[-1] != "IPv4":
                detail = f"{families[-1]} is not configured on this cluster"
                yield invalid(f"spec.clusterIPs[{index}]", addresses, detail)


def _check_policy(spec: Json, families: list[str], policy: str) -> Iterator[FieldError]:
    if policy != "SingleStack":
        return
    rule = "must be 'RequireDualStack' or 'PreferDualStack' when multiple"
    if len(spec.get("clusterIPs") or []) == 2:
        yield invalid(_POLICY, policy, f"{rule} cluster IPs are specified")
    if len(families) == 2:
        yield invalid(_POLICY, policy, f"{rule} IP families are specified")


def _check_configured(families: list[str], policy: str) -> Iterator[FieldError]:
    if policy == "RequireDualStack":
        yield invalid(_POLICY, policy, "this cluster is not configured for dual-stack services")
    for index, family in enumerate(families):
        if family != "IPv4":
            path = f"spec.ipFamilies[{index}]"
            yield invalid(path, family, "not configured on this cluster")


def _allocate_address(spec: Json, view: ClusterView) -> list[FieldError]:
    if spec.get("type") == "ExternalName" or is_headless(spec):
        return []
    used = {
        text
        for service in view.list("", "Service")
        for text in (service.get("spec") or {}).get("clusterIPs") or []
    }
    wanted = (spec.get("clusterIPs") or [""])[0]
    if wanted:
        problem = _address_problem(wanted, used)
        detail = f"failed to allocate IP {wanted}: {problem}"
        return [invalid("spec.clusterIPs", spec["clusterIPs"], detail)] if problem else []
    free = next((str(host) for host in _free_hosts() if str(host) not in used), "")
    if not free:
        return [invalid("spec.clusterIPs", [""], "failed to allocate IP: range is full")]
    spec["clusterIP"], spec["clusterIPs"] = free, [free]
    return []


def _free_hosts() -> Iterator[object]:
    """Yield the addresses to hand out: first those that people seldom choose themselves."""
    hosts = list(RANGE.hosts())[1:]
    middle = len(hosts) // 16
    yield from hosts[middle:]
    yield from hosts[:middle]


def _address_problem(text: str, used: set[str]) -> str:
    address = parse_address(text)
    if address not in RANGE:
        return "the provided network does not match the current range"
    if address in {RANGE.network_address, RANGE.broadcast_address}:
        edge = "network" if address == RANGE.network_address else "broadcast"
        return f"the provided IP {text} is the {edge} address of {RANGE}"
    return "provided IP is already allocated" if text in used else ""


def _allocate_ports(spec: Json, before: Json, view: ClusterView) -> list[FieldError]:
    own = {port.get("nodePort") for port in before.get("ports") or []}
    own.add(before.get("healthCheckNodePort"))
    used = set(_used_ports(view)) - own
    errors: list[FieldError] = []
    if spec.get("type") in EXPOSED:
        errors = _number_ports(spec, used)
    if not errors and needs_health_check(spec) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = _next_port(used)
    return errors


def _used_ports(view: ClusterView) -> Iterator[int]:
    for service in view.list("", "Service"):
        spec = service.get("spec") or {}
        for port in spec.get("ports") or []:
            if port.get("nodePort"):
                yield port["nodePort"]
        if spec.get("healthCheckNodePort"):
            yield spec["healthCheckNodePort"]


def _number_ports(spec: Json, used: set[int]) -> list[FieldError]:
    wanted = spec.get("type") == "NodePort" or bool(spec.get("allocateLoadBalancerNodePorts"))
    # The same port over two protocols gets one number.
    given: dict[int, int] = {
        port.get("port") or 0: port["nodePort"]
        for port in reversed(spec.get("ports") or [])
        if port.get("nodePort")
    }
    taken: set[int] = set()
    for index, port in enumerate(spec.get("ports") or []):
        number = port.get("nodePort") or (given.get(port.get("port") or 0) if wanted else 0)
        if not number and not wanted:
            continue
        number = number or _next_port(used | taken | set(given.values()))
        if number not in taken and (problem := _port_problem(number, used)):
            return [invalid(f"spec.ports[{index}].nodePort", number, problem)]
        port["nodePort"] = given[port.get("port") or 0] = number
        taken.add(number)
    used |= taken
    return []


def _port_problem(number: int, used: set[int]) -> str:
    if number not in PORTS:
        valid = f"{PORTS.start}-{PORTS.stop - 1}"
        return f"provided port is not in the valid range. The range of valid ports is {valid}"
    return "provided port is already allocated" if number in used else ""


def _next_port(used: set[int]) -> int:
    # The lower part is left to those who choose ports themselves.
    start = PORTS.start + 86
    upper = (port for port in range(start, PORTS.stop) if port not in used)
    return next(upper, PORTS.stop - 1)
