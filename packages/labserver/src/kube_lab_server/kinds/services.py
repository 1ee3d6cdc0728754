"""Services: defaults, checks and warnings. `service_addresses` gives them addresses and ports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.endpoints import PROTOCOLS, check_endpoint_ip
from kube_lab_server.kinds.kind_rules import KindAdmission, KindRules, PartRules
from kube_lab_server.kinds.pod.container_environment import validate_port
from kube_lab_server.kinds.service_addresses import (
    EXPOSED,
    allocate_changed,
    allocate_new,
    check_address_changes,
    check_cluster_addresses,
    drop_unused,
    is_exposed,
    is_headless,
    needs_health_check,
)
from kube_lab_server.kinds.table_columns import (
    AGE,
    NAME,
    NONE,
    Column,
    Table,
    age_of,
    balancer_addresses,
    format_labels,
    name_of,
    wide,
)
from kube_lab_server.kinds.value_checks import (
    address_warnings,
    check_address,
    check_network,
    network_warnings,
)
from kube_lab_server.schema.metadata_checks import validate_labels
from numakube.api.field_errors import (
    FieldError,
    Verbatim,
    duplicate,
    forbidden,
    invalid,
    invalids,
    not_supported,
    required,
)
from numakube.values import names

if TYPE_CHECKING:
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


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
            return ",".join(filter(None, (balancer_addresses(status), *own))) or "<pending>"
        case "ExternalName":
            return spec.get("externalName") or ""
        case _:
            return "<unknown>"


def _service_port(port: Json) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port['port']}{node_port}/{port.get('protocol') or ''}"


SERVICE_TABLE: Final = Table(
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


TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_SOURCE_RANGES: Final = "service.beta.kubernetes.io/load-balancer-source-ranges"
_ONLY_BALANCERS: Final = "may only be used when `type` is 'LoadBalancer'"
_NOT_EXTERNAL: Final = "may not be set for ExternalName services"
_DAY: Final = 86400
_THREE_HOURS: Final = 10800
_DISTRIBUTIONS: Final = ("PreferClose", "PreferSameZone", "PreferSameNode")


def _default(service: Json) -> None:
    spec = service.setdefault("spec", {})
    _default_affinity(spec)
    spec["type"] = spec.get("type") or "ClusterIP"
    for port in spec.get("ports") or []:
        port["protocol"] = port.get("protocol") or "TCP"
        port["targetPort"] = port.get("targetPort") or port.get("port") or 0
    if is_exposed(spec) and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if spec.get("internalTrafficPolicy") is None and spec["type"] in EXPOSED | {"ClusterIP"}:
        spec["internalTrafficPolicy"] = "Cluster"
    if spec["type"] == "ExternalName":
        spec.pop("internalTrafficPolicy", None)
    if spec["type"] == "LoadBalancer":
        if spec.get("allocateLoadBalancerNodePorts") is None:
            spec["allocateLoadBalancerNodePorts"] = True
        for ingress in _ingresses(service):
            if ingress.get("ip") and ingress.get("ipMode") is None:
                ingress["ipMode"] = "VIP"


def _ingresses(service: Json) -> list[Json]:
    balancer = (service.get("status") or {}).get("loadBalancer") or {}
    found: list[Json] = balancer.get("ingress") or []
    return found


def _default_affinity(spec: Json) -> None:
    spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
        if client.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _THREE_HOURS}}


def _check(service: Json) -> list[FieldError]:
    spec = service["spec"]
    errors = _check_topology(service["metadata"].get("annotations") or {})
    errors += _check_type(spec)
    errors += _check_ports(spec)
    errors += validate_labels(spec.get("selector"), "spec.selector")
    errors += _check_affinity(spec)
    errors += check_cluster_addresses(spec)
    for index, text in enumerate(spec.get("externalIPs") or []):
        path = f"spec.externalIPs[{index}]"
        errors += check_address(text, path) or check_endpoint_ip(text, path)
    kind = spec.get("type") or ""
    if not kind:
        errors.append(required("spec.type"))
    elif kind not in TYPES:
        errors.append(not_supported("spec.type", kind, TYPES))
    errors += _check_port_conflicts(spec)
    errors += _check_source_ranges(service)
    return errors + _check_traffic(spec)


def _check_topology(annotations: dict[str, str]) -> list[FieldError]:
    mode, hints = annotations.get(TOPOLOGY), annotations.get(OLD_TOPOLOGY)
    if mode is None or hints is None or mode == hints:
        return []
    detail = f"must match annotations[{OLD_TOPOLOGY}] when both are specified"
    return [invalid(f"metadata.annotations[{TOPOLOGY}]", mode, detail)]


def _check_type(spec: Json) -> list[FieldError]:
    kind = spec.get("type")
    errors: list[FieldError] = []
    if not spec.get("ports") and not is_headless(spec) and kind != "ExternalName":
        errors.append(required("spec.ports"))
    if kind in EXPOSED and is_headless(spec):
        detail = f"may not be set to 'None' for {kind} services"
        errors.append(invalid("spec.clusterIPs[0]", "None", detail))
    if kind == "ExternalName":
        errors += [
            forbidden(f"spec.{field}", _NOT_EXTERNAL)
            for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
            if spec.get(field)
        ]
        name = (spec.get("externalName") or "").removesuffix(".")
        path = "spec.externalName"
        errors += invalids(path, name, names.dns_subdomain(name)) if name else [required(path)]
    return errors


def _check_ports(spec: Json) -> list[FieldError]:
    ports = spec.get("ports") or []
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name, number = port.get("name") or "", port.get("port") or 0
        if name:
            errors += invalids(f"{path}.name", name, names.dns_label(name))
            if name in seen:
                errors.append(duplicate(f"{path}.name", name))
            seen.add(name)
        elif len(ports) > 1:
            errors.append(required(f"{path}.name"))
        errors += invalids(f"{path}.port", number, names.port_number(number))
        protocol = port.get("protocol") or ""
        if not protocol:
            errors.append(required(f"{path}.protocol"))
        elif protocol not in PROTOCOLS:
            errors.append(not_supported(f"{path}.protocol", protocol, PROTOCOLS))
        errors += validate_port(port.get("targetPort") or 0, f"{path}.targetPort")
        if (used := port.get("appProtocol")) is not None:
            errors += invalids(f"{path}.appProtocol", used, names.qualified_name(used))
    return errors


def _check_affinity(spec: Json) -> list[FieldError]:
    affinity, config = spec.get("sessionAffinity") or "", spec.get("sessionAffinityConfig")
    if not affinity:
        return [required("spec.sessionAffinity")]
    if affinity not in {"ClientIP", "None"}:
        return [not_supported("spec.sessionAffinity", affinity, ("ClientIP", "None"))]
    path = "spec.sessionAffinityConfig"
    if affinity == "None":
        detail = "must not be set when session affinity is None"
        return [] if config is None else [forbidden(path, detail)]
    timeout = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
    path = f"{path}.clientIP.timeoutSeconds"
    if timeout is None:
        return [required(path, "when session affinity type is ClientIP")]
    if 0 < timeout <= _DAY:
        return []
    return [invalid(path, timeout, f"must be greater than 0 and less than {_DAY}")]


def _check_port_conflicts(spec: Json) -> list[FieldError]:
    ports = spec.get("ports") or []
    errors = []
    if spec.get("type") == "ClusterIP":
        detail = "may not be used when `type` is 'ClusterIP'"
        errors += [
            forbidden(f"spec.ports[{index}].nodePort", detail)
            for index, port in enumerate(ports)
            if port.get("nodePort")
        ]
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        if number := port.get("nodePort"):
            key = (port.get("protocol") or "", number)
            if key in seen:
                errors.append(duplicate(f"spec.ports[{index}].nodePort", number))
            seen.add(key)
    return errors + _check_same_ports(ports)


def _check_same_ports(ports: list[Json]) -> list[FieldError]:
    errors = []
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        protocol, number = port.get("protocol") or "", port.get("port") or 0
        if (protocol, number) in seen:
            # The port is shown as the server holds it, with the field names of its Go type.
            shown = (
                f'{{"Name":"","Protocol":"{protocol}","AppProtocol":null,"Port":{number},'
                '"TargetPort":0,"NodePort":0}'
            )
            errors.append(duplicate(f"spec.ports[{index}]", Verbatim(shown)))
        seen.add((protocol, number))
    return errors


def _check_source_ranges(service: Json) -> list[FieldError]:
    spec = service["spec"]
    balancer = spec.get("type") == "LoadBalancer"
    errors: list[FieldError] = []
    ranges = spec.get("loadBalancerSourceRanges") or []
    text = (service["metadata"].get("annotations") or {}).get(_SOURCE_RANGES)
    if ranges:
        path = "spec.LoadBalancerSourceRanges"
        if not balancer:
            errors.append(forbidden(path, _ONLY_BALANCERS))
        for index, network in enumerate(ranges):
            errors += check_network(network.strip(), f"{path}[{index}]")
    elif text is not None:
        path = f"metadata.annotations[{_SOURCE_RANGES}]"
        if not balancer:
            errors.append(forbidden(path, _ONLY_BALANCERS))
        for network in text.strip().split(",") if text.strip() else ():
            errors += check_network(network.strip(), path)
    allocates = spec.get("allocateLoadBalancerNodePorts")
    if allocates is not None and not balancer:
        errors.append(forbidden("spec.allocateLoadBalancerNodePorts", _ONLY_BALANCERS))
    if allocates is None and balancer:
        errors.append(required("allocateLoadBalancerNodePorts"))
    return errors + _check_balancer_class(spec)


def _check_balancer_class(spec: Json) -> list[FieldError]:
    name = spec.get("loadBalancerClass")
    path = "spec.loadBalancerClass"
    if name is None:
        return []
    if spec.get("type") != "LoadBalancer":
        return [forbidden(path, _ONLY_BALANCERS)]
    return invalids(path, name, names.qualified_name(name))


def _check_traffic(spec: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    external, port = spec.get("externalTrafficPolicy") or "", spec.get("healthCheckNodePort") or 0
    path = "spec.externalTrafficPolicy"
    if not is_exposed(spec):
        if external:
            detail = "may only be set for externally-accessible services"
            errors.append(invalid(path, external, detail))
    elif not external:
        errors.append(required(path))
    elif external not in {"Cluster", "Local"}:
        errors.append(not_supported(path, external, ("Cluster", "Local")))
    path = "spec.healthCheckNodePort"
    if needs_health_check(spec):
        errors += invalids(path, port, names.port_number(port)) if port else [required(path)]
    elif port:
        rule = (
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        )
        errors.append(invalid(path, port, rule))
    return errors + _check_internal_traffic(spec)


def _check_internal_traffic(spec: Json) -> list[FieldError]:
    errors = []
    policy, distribution = spec.get("internalTrafficPolicy"), spec.get("trafficDistribution")
    if policy is None:
        if spec.get("type") in EXPOSED | {"ClusterIP"}:
            errors.append(required("spec.internalTrafficPolicy"))
    elif policy not in {"Cluster", "Local"}:
        errors.append(not_supported("spec.internalTrafficPolicy", policy, ("Cluster", "Local")))
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        path = "spec.trafficDistribution"
        errors.append(not_supported(path, distribution, _DISTRIBUTIONS))
    return errors


def _check_change(new: Json, old: Json) -> list[FieldError]:
    after, before = new["spec"], old["spec"]
    errors = check_address_changes(after, before)
    name = after.get("loadBalancerClass")
    balancers = after.get("type") == before.get("type") == "LoadBalancer"
    if balancers and name != before.get("loadBalancerClass"):
        errors.append(invalid("spec.loadBalancerClass", name, "may not change once set"))
    errors += _check_balancer_class(after)
    port, was = after.get("healthCheckNodePort"), before.get("healthCheckNodePort")
    if needs_health_check(after) and needs_health_check(before) and port != was:
        errors.append(forbidden("spec.healthCheckNodePort", names.IMMUTABLE))
    return errors


def _check_status(new: Json, old: Json) -> list[FieldError]:
    path = "status.loadBalancer.ingress"
    ingresses = _ingresses(new)
    if new["spec"].get("type") != "LoadBalancer":
        detail = "may only be used when `spec.type` is 'LoadBalancer'"
        return [forbidden(path, detail)] if ingresses else []
    known = [ingress.get("ip") or "" for ingress in _ingresses(old)]
    errors: list[FieldError] = []
    for index, ingress in enumerate(ingresses):
        errors += _check_ingress(ingress, known, f"{path}[{index}]")
    return errors


def _check_ingress(ingress: Json, known: list[str], path: str) -> list[FieldError]:
    text, mode, host = ingress.get("ip") or "", ingress.get("ipMode"), ingress.get("hostname") or ""
    errors = check_address(text, f"{path}.ip", known) if text else []
    if mode is None:
        if text:
            errors.append(required(f"{path}.ipMode", "must be specified when `ip` is set"))
    elif not text:
        errors.append(forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set"))
    elif mode not in {"Proxy", "VIP"}:
        errors.append(not_supported(f"{path}.ipMode", mode, ("Proxy", "VIP")))
    if host:
        errors += invalids(f"{path}.hostname", host, names.dns_subdomain(host))
        if not check_address(host, ""):
            detail = "must be a DNS name, not an IP address"
            errors.append(invalid(f"{path}.hostname", host, detail))
    return errors


def _on_update(new: Json, old: Json) -> None:
    drop_unused(new, old["spec"])


SERVICE: Final = KindRules(
    table=SERVICE_TABLE,
    admission=KindAdmission(create=(allocate_new,), update={"": allocate_changed}),
    name_check=names.dns_1035_label,
    parts={"status": PartRules(check=_check_status, warn=warn_of_balancer)},
    default=_default,
    on_update=_on_update,
    check=_check,
    check_change=_check_change,
    change_first=True,
    warn=service_warnings,
)
