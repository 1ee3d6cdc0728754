"""Ingresses, IngressClasses and NetworkPolicies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.kind_rules import (
    KindAdmission,
    KindRules,
    PartRules,
    annotation_of,
    newest_of,
)
from kube_lab_server.kinds.pod.container_environment import validate_port
from kube_lab_server.kinds.services import warn_of_balancer
from kube_lab_server.kinds.table_columns import (
    AGE,
    NAME,
    NONE,
    Column,
    Table,
    age_of,
    balancer_addresses,
    format_selector,
    name_of,
)
from kube_lab_server.kinds.value_checks import (
    check_address,
    check_network,
    network_warnings,
    parse_network,
    validate_label_selector,
)
from kube_lab_server.schema.metadata_checks import immutable
from numakube.api.field_errors import (
    FieldError,
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
    from kube_lab_server.kinds.kind_rules import AdmissionRefused, ClusterView


def _ingress(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    name = spec.get("ingressClassName")
    return [
        name_of(obj),
        NONE if name is None else name,
        _hosts(spec.get("rules") or []),
        balancer_addresses(status),
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


INGRESS_TABLE: Final = Table(
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


NETWORK_POLICY_TABLE: Final = Table(
    (NAME, Column("Pod-Selector", "Labels of the pods that the policy is for."), AGE),
    _network_policy,
)


_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_BAD_SEQUENCES: Final = ("//", "/./", "/../", "%2f", "%2F")
_BAD_SUFFIXES: Final = ("/..", "/.")
_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"
_NOT_AN_ADDRESS: Final = "must be a DNS name, not an IP address"
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")


def _check_ingress(ingress: Json) -> list[FieldError]:
    spec = ingress.get("spec") or {}
    rules, backend = spec.get("rules") or [], spec.get("defaultBackend")
    errors: list[FieldError] = []
    if not rules and backend is None:
        detail = "either `defaultBackend` or `rules` must be specified"
        errors.append(invalid("spec", None, detail))
    if backend is not None:
        errors += _check_backend(backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        errors += _check_rule(rule, f"spec.rules[{index}]")
    for index, tls in enumerate(spec.get("tls") or []):
        path = f"spec.tls[{index}]"
        for position, host in enumerate(tls.get("hosts") or []):
            errors += invalids(f"{path}.hosts[{position}]", host, _host_problems(host))
        if secret := tls.get("secretName"):
            errors += invalids(f"{path}.secretName", secret, names.dns_subdomain(secret))
    if (name := spec.get("ingressClassName")) is not None:
        errors += invalids("spec.ingressClassName", name, names.dns_subdomain(name))
    return errors


def _host_problems(host: str) -> list[str]:
    return names.wildcard_subdomain(host) if "*" in host else names.dns_subdomain(host)


def _check_rule(rule: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if host := rule.get("host"):
        if not check_address(host, ""):
            errors.append(invalid(f"{path}.host", host, _NOT_AN_ADDRESS))
        errors += invalids(f"{path}.host", host, _host_problems(host))
    http = rule.get("http")
    if http is None:
        return errors
    paths = http.get("paths") or []
    if not paths:
        errors.append(required(f"{path}.http.paths"))
    for index, one in enumerate(paths):
        errors += _check_path(one, f"{path}.http.paths[{index}]")
    return errors


def _check_path(one: Json, path: str) -> list[FieldError]:
    kind, text = one.get("pathType"), one.get("path") or ""
    if kind is None:
        return [required(f"{path}.pathType", "pathType must be specified")]
    errors: list[FieldError] = []
    place = f"{path}.path"
    if kind not in _PATH_TYPES:
        errors.append(not_supported(f"{path}.pathType", kind, _PATH_TYPES))
    elif not text.startswith("/") and (text or kind != "ImplementationSpecific"):
        errors.append(invalid(place, text, "must be an absolute path"))
    if kind in {"Exact", "Prefix"}:
        wrong = [f"must not contain '{bad}'" for bad in _BAD_SEQUENCES if bad in text]
        wrong += [f"cannot end with '{bad}'" for bad in _BAD_SUFFIXES if text.endswith(bad)]
        errors += invalids(place, text, wrong)
    return errors + _check_backend(one.get("backend") or {}, f"{path}.backend")


def _check_backend(backend: Json, path: str) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _check_reference(resource, f"{path}.resource")
    if service is None:
        return [invalid(path, "", "resource or service backend is required")]
    name = service.get("name") or ""
    place = f"{path}.service.name"
    errors = invalids(place, name, names.dns_1035_label(name)) if name else [required(place)]
    port = service.get("port") or {}
    named, number = port.get("name") or "", port.get("number") or 0
    if named and number:
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif named:
        errors += invalids(f"{path}.service.port.name", named, names.port_name(named))
    elif number:
        errors += invalids(f"{path}.service.port.number", number, names.port_number(number))
    else:
        errors.append(required(path, "port name or number is required"))
    return errors


def _check_reference(ref: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if (group := ref.get("apiGroup")) is not None:
        errors += invalids(f"{path}.apiGroup", group, names.dns_subdomain(group))
    for field in ("kind", "name"):
        value, place = ref.get(field) or "", f"{path}.{field}"
        good = invalids(place, value, names.path_segment(value))
        errors += good if value else [required(place)]
    return errors


def _check_new_ingress(ingress: Json) -> list[FieldError]:
    annotated = (ingress["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION)
    name = (ingress.get("spec") or {}).get("ingressClassName")
    if annotated is None or name is None or annotated == name:
        return []
    detail = "must match `ingressClassName` when both are specified"
    return [invalid(f"annotations.{_CLASS_ANNOTATION}", annotated, detail)]


def _check_ingress_status(new: Json, old: Json) -> list[FieldError]:
    known = [entry.get("ip") or "" for entry in _points(old)]
    errors: list[FieldError] = []
    for index, entry in enumerate(_points(new)):
        path = f"status.loadBalancer.ingress[{index}]"
        if text := entry.get("ip"):
            errors += check_address(text, f"{path}.ip", known)
        if host := entry.get("hostname"):
            errors += invalids(f"{path}.hostname", host, names.dns_subdomain(host))
            if not check_address(host, ""):
                errors.append(invalid(f"{path}.hostname", host, _NOT_AN_ADDRESS))
    return errors


def _points(ingress: Json) -> list[Json]:
    balancer = (ingress.get("status") or {}).get("loadBalancer") or {}
    found: list[Json] = balancer.get("ingress") or []
    return found


def _warn_ingress(ingress: Json, old: Json | None) -> list[str]:
    annotations = ingress["metadata"].get("annotations") or {}
    named = (ingress.get("spec") or {}).get("ingressClassName") is not None
    if old is not None or named or _CLASS_ANNOTATION not in annotations:
        return []
    advice = "please use 'spec.ingressClassName' instead"
    return [f'annotation "{_CLASS_ANNOTATION}" is deprecated, {advice}']


_DEFAULT_INGRESS_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"
_OLD_INGRESS_CLASS: Final = "kubernetes.io/ingress.class"


def set_ingress_class(ingress: Json, view: ClusterView) -> AdmissionRefused | None:
    """Give an ingress that names no class the default class."""
    spec = ingress.get("spec") or {}
    if spec.get("ingressClassName") is not None or annotation_of(ingress, _OLD_INGRESS_CLASS):
        return None
    defaults = [
        found
        for found in view.list("networking.k8s.io", "IngressClass")
        if annotation_of(found, _DEFAULT_INGRESS_CLASS) == "true"
    ]
    if defaults:
        ingress.setdefault("spec", {})["ingressClassName"] = newest_of(defaults)
    return None


INGRESS: Final = KindRules(
    table=INGRESS_TABLE,
    admission=KindAdmission(create=(set_ingress_class,)),
    warn=_warn_ingress,
    counted=("spec",),
    parts={"status": PartRules(check=_check_ingress_status, warn=warn_of_balancer)},
    check=_check_ingress,
    check_create=_check_new_ingress,
    rechecks_name=True,
)


def _default_class(found: Json) -> None:
    parameters = (found.get("spec") or {}).get("parameters")
    if parameters is not None and parameters.get("scope") is None:
        parameters["scope"] = "Cluster"


def _check_class_change(new: Json, old: Json) -> list[FieldError]:
    after, before = ((obj.get("spec") or {}).get("controller") or "" for obj in (new, old))
    return immutable(after, before, "spec.controller")


INGRESS_CLASS: Final = KindRules(
    namespaced=False,
    counted=("spec",),
    default=_default_class,
    check_change=_check_class_change,
    change_first=True,
    rechecks_name=True,
)


def _default_policy(policy: Json) -> None:
    spec = policy.setdefault("spec", {})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
    for side in ("ingress", "egress"):
        for rule in spec.get(side) or []:
            for port in rule.get("ports") or []:
                if port.get("protocol") is None:
                    port["protocol"] = "TCP"


def _check_policy(policy: Json) -> list[FieldError]:
    spec = policy.get("spec") or {}
    errors = validate_label_selector(spec.get("podSelector"), "spec.podSelector")
    for side, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(side) or []):
            path = f"spec.{side}[{index}]"
            for position, port in enumerate(rule.get("ports") or []):
                errors += _check_policy_port(port, f"{path}.ports[{position}]")
            for position, peer in enumerate(rule.get(peers) or []):
                errors += _check_peer(peer, f"{path}.{peers}[{position}]")
    types = spec.get("policyTypes") or []
    if len(types) > 2:
        detail = "may not specify more than two policyTypes"
        return [*errors, invalid("spec.policyTypes", types, detail)]
    return errors + [
        not_supported(f"spec.policyTypes[{index}]", kind, ("Ingress", "Egress"))
        for index, kind in enumerate(types)
        if kind not in {"Ingress", "Egress"}
    ]


def _check_policy_port(port: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    protocol, number, last = port.get("protocol"), port.get("port"), port.get("endPort")
    if protocol is not None and protocol not in _PROTOCOLS:
        errors.append(not_supported(f"{path}.protocol", protocol, _PROTOCOLS))
    place = f"{path}.endPort"
    if number is None:
        if last is not None:
            detail = "may not be specified when `port` is not specified"
            errors.append(invalid(place, last, detail))
        return errors
    if isinstance(number, str) and last is not None:
        detail = "may not be specified when `port` is non-numeric"
        errors.append(invalid(place, last, detail))
    errors += validate_port(number, f"{path}.port")
    if isinstance(number, int) and last is not None:
        if last < number:
            errors.append(invalid(place, number, "must be greater than or equal to `port`"))
        errors += invalids(place, last, names.port_number(last))
    return errors


def _check_peer(peer: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    selectors = [f for f in ("podSelector", "namespaceSelector") if peer.get(f) is not None]
    for field in selectors:
        errors += validate_label_selector(peer[field], f"{path}.{field}")
    block = peer.get("ipBlock")
    if block is not None:
        errors += _check_block(block, f"{path}.ipBlock")
        if selectors:
            errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
    elif not selectors:
        errors.append(required(path, "must specify a peer"))
    return errors


def _check_block(block: Json, path: str) -> list[FieldError]:
    text = block.get("cidr") or ""
    if not text:
        return [required(f"{path}.cidr")]
    errors = check_network(text, f"{path}.cidr")
    parsed = parse_network(text)
    if parsed is None:
        return errors
    whole = parsed[1]
    for index, hole in enumerate(block.get("except") or []):
        place = f"{path}.except[{index}]"
        errors += check_network(hole, place)
        part = parse_network(hole)
        if part is None:
            continue
        inside = part[1].network_address in whole
        if not inside or whole.prefixlen >= part[1].prefixlen:
            errors.append(invalid(place, hole, "must be a strict subset of `cidr`"))
    return errors


def _warn_policy(policy: Json, old: Json | None) -> list[str]:
    del old
    spec = policy.get("spec") or {}
    warnings: list[str] = []
    for side, peers in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(side) or []):
            for place, peer in enumerate(rule.get(peers) or []):
                path = f"spec.{side}[{index}].{peers}[{place}].ipBlock"
                block = peer.get("ipBlock") or {}
                warnings += network_warnings(block["cidr"], f"{path}.cidr") if block else []
                for number, text in enumerate(block.get("except") or []):
                    warnings += network_warnings(text, f"{path}.except[{number}]")
    return warnings


NETWORK_POLICY: Final = KindRules(
    table=NETWORK_POLICY_TABLE,
    counted=("spec",),
    default=_default_policy,
    check=_check_policy,
    rechecks_twice=True,
    warn=_warn_policy,
)
