"""Endpoints and EndpointSlices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.kind_rules import KindRules
from kube_lab_server.kinds.table_columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    Table,
    age_of,
    name_of,
    shown_some,
)
from kube_lab_server.kinds.value_checks import (
    address_warnings,
    check_address,
    check_canonical_address,
    parse_address,
)
from kube_lab_server.schema.metadata_checks import immutable, validate_labels
from numakube.api.field_errors import (
    FieldError,
    duplicate,
    invalid,
    invalids,
    not_supported,
    required,
    too_many,
)
from numakube.values import names

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


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


ENDPOINTS_TABLE: Final = Table(
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


ENDPOINT_SLICE_TABLE: Final = Table(
    (
        NAME,
        Column("AddressType", "What kind of addresses there are."),
        Column("Ports", "Ports of the endpoints."),
        Column("Endpoints", "Addresses of the endpoints."),
        AGE,
    ),
    _endpoint_slice,
)


PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_MAX_ADDRESSES: Final = 100
_MAX_ENDPOINTS: Final = 1000
_MAX_PORTS: Final = 20_000
_MAX_TOPOLOGY: Final = 16
_MAX_HINTS: Final = 8
_LOCAL_MULTICAST: Final = {4: bytes((224, 0, 0)), 6: bytes((0xFF, 0x02))}
_HOST_NAME: Final = "kubernetes.io/hostname"
_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_CONTROLLERS: Final = tuple(
    f"endpointslice{which}-controller.k8s.io" for which in ("", "mirroring")
)
_DEPRECATED: Final = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"


def _default_endpoints(endpoints: Json) -> None:
    for subset in endpoints.get("subsets") or []:
        for port in subset.get("ports") or []:
            port["protocol"] = port.get("protocol") or "TCP"


def _check_endpoints(endpoints: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, subset in enumerate(endpoints.get("subsets") or []):
        path = f"subsets[{index}]"
        ready, other = subset.get("addresses") or [], subset.get("notReadyAddresses") or []
        if not ready and not other:
            errors.append(required(path, "must specify `addresses` or `notReadyAddresses`"))
        for field, listed in (("addresses", ready), ("notReadyAddresses", other)):
            for position, address in enumerate(listed):
                errors += _check_endpoint_address(address, f"{path}.{field}[{position}]")
        ports = subset.get("ports") or []
        for position, port in enumerate(ports):
            named = len(ports) > 1
            errors += _check_port(port, f"{path}.ports[{position}]", needs_name=named)
    return errors


def _check_endpoint_address(address: Json, path: str) -> list[FieldError]:
    text = address.get("ip") or ""
    errors = check_address(text, f"{path}.ip")
    if host := address.get("hostname"):
        errors += invalids(f"{path}.hostname", host, names.dns_label(host))
    if (node := address.get("nodeName")) is not None:
        errors += invalids(f"{path}.nodeName", node, names.dns_subdomain(node))
    return errors + check_endpoint_ip(text, f"{path}.ip")


def check_endpoint_ip(text: str, path: str) -> list[FieldError]:
    """Refuse addresses that only mean something on one machine."""
    address = parse_address(text)
    if address is None:
        return [invalid(path, text, "must be a valid IP address")]
    wrong = []
    if address.is_unspecified:
        wrong.append(f"may not be unspecified ({text})")
    if address.is_loopback:
        wrong.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        wrong.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if address.packed.startswith(_LOCAL_MULTICAST[address.version]):
        wrong.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    return invalids(path, text, wrong)


def _check_port(port: Json, path: str, *, needs_name: bool) -> list[FieldError]:
    name, number = port.get("name") or "", port.get("port") or 0
    errors: list[FieldError] = []
    if name:
        errors += invalids(f"{path}.name", name, names.dns_label(name))
    elif needs_name:
        errors.append(required(f"{path}.name"))
    errors += invalids(f"{path}.port", number, names.port_number(number))
    return errors + _check_protocol(port.get("protocol") or "", f"{path}.protocol")


def _check_protocol(protocol: str, path: str) -> list[FieldError]:
    if not protocol:
        return [required(path)]
    return [] if protocol in PROTOCOLS else [not_supported(path, protocol, PROTOCOLS)]


def _warn_endpoints(endpoints: Json, old: Json | None) -> list[str]:
    del old
    warnings = [_DEPRECATED]
    for index, subset in enumerate(endpoints.get("subsets") or []):
        for field in ("addresses", "notReadyAddresses"):
            for position, address in enumerate(subset.get(field) or []):
                path = f"subsets[{index}].{field}[{position}].ip"
                warnings += address_warnings(address.get("ip") or "", path)
    return warnings


ENDPOINTS: Final = KindRules(
    table=ENDPOINTS_TABLE,
    default=_default_endpoints,
    check=_check_endpoints,
    rechecks_name=True,
    warn=_warn_endpoints,
)


def _default_slice(endpoint_slice: Json) -> None:
    for port in endpoint_slice.get("ports") or []:
        if port.get("name") is None:
            port["name"] = ""
        if port.get("protocol") is None:
            port["protocol"] = "TCP"


def _check_slice(endpoint_slice: Json) -> list[FieldError]:
    kind = endpoint_slice.get("addressType") or ""
    if not kind:
        errors = [required("addressType")]
    else:
        known = kind in _ADDRESS_TYPES
        errors = [] if known else [not_supported("addressType", kind, _ADDRESS_TYPES)]
    errors += _check_slice_ports(endpoint_slice.get("ports") or [], "ports")
    endpoints = endpoint_slice.get("endpoints") or []
    if len(endpoints) > _MAX_ENDPOINTS:
        return [*errors, too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)]
    for index, endpoint in enumerate(endpoints):
        errors += _check_endpoint(endpoint, kind, f"endpoints[{index}]")
    return errors


def _check_endpoint(endpoint: Json, kind: str, path: str) -> list[FieldError]:
    addresses = endpoint.get("addresses") or []
    place = f"{path}.addresses"
    errors: list[FieldError] = []
    if not addresses:
        errors.append(required(place, "must contain at least 1 address"))
    elif len(addresses) > _MAX_ADDRESSES:
        errors.append(too_many(place, len(addresses), _MAX_ADDRESSES))
    for index, text in enumerate(addresses):
        errors += _check_slice_address(text, kind, place, index)
    if (node := endpoint.get("nodeName")) is not None:
        errors += invalids(f"{path}.nodeName", node, names.dns_subdomain(node))
    topology = endpoint.get("deprecatedTopology") or {}
    if len(topology) > _MAX_TOPOLOGY:
        place = f"{path}.deprecatedTopology"
        errors.append(too_many(place, len(topology), _MAX_TOPOLOGY))
    errors += validate_labels(topology, f"{path}.deprecatedTopology")
    if (host := endpoint.get("hostname")) is not None:
        errors += invalids(f"{path}.hostname", host, names.dns_label(host))
    return errors + _check_hints(endpoint.get("hints"), f"{path}.hints")


def _check_slice_address(text: str, kind: str, path: str, index: int) -> list[FieldError]:
    place = f"{path}[{index}]"
    if kind == "FQDN":
        return _check_domain(text, place)
    if kind not in {"IPv4", "IPv6"}:
        return []
    check = check_address if kind == "IPv4" else check_canonical_address
    if errors := check(text, place):
        return errors
    address = parse_address(text)
    if address is not None and f"IPv{address.version}" != kind:
        errors.append(invalid(path, text, f"must be an {kind} address"))
    return errors + check_endpoint_ip(text, place)


def _check_domain(text: str, path: str) -> list[FieldError]:
    if not text:
        return [required(path)]
    name = text.removesuffix(".")
    if wrong := names.dns_subdomain(name):
        return [invalid(path, name, ",".join(wrong))]
    if "." not in name:
        detail = "should be a domain with at least two segments separated by dots"
        return [invalid(path, name, detail)]
    return []


def _check_hints(hints: Json | None, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field, check in (("forZones", names.label_value), ("forNodes", names.dns_subdomain)):
        listed = (hints or {}).get(field) or []
        if len(listed) > _MAX_HINTS:
            return [*errors, too_many(f"{path}.{field}", len(listed), _MAX_HINTS)]
        for index, hint in enumerate(listed):
            name = hint.get("name") or ""
            place = f"{path}.{field}[{index}].name"
            if hint in listed[:index]:
                errors.append(duplicate(place, name))
            errors += invalids(place, name, check(name))
    return errors


def _check_slice_ports(ports: Sequence[Json], path: str) -> list[FieldError]:
    if len(ports) > _MAX_PORTS:
        return [too_many(path, len(ports), _MAX_PORTS)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        place = f"{path}[{index}]"
        name = port.get("name") or ""
        if name:
            errors += invalids(f"{place}.name", name, names.dns_label(name))
        if name in seen:
            errors.append(duplicate(f"{place}.name", name))
        seen.add(name)
        errors += _check_protocol(port.get("protocol") or "", f"{place}.protocol")
        if (used := port.get("appProtocol")) is not None:
            errors += invalids(f"{place}.appProtocol", used, names.qualified_name(used))
    return errors


def _drop_topology(endpoint_slice: Json) -> None:
    """Drop a field that only clients of an older version may write."""
    for endpoint in endpoint_slice.get("endpoints") or []:
        endpoint.pop("deprecatedTopology", None)


def _on_slice_update(new: Json, old: Json) -> None:
    if (new.get("endpoints") or []) != (old.get("endpoints") or []):
        _keep_node_names(new, old)
        _drop_topology(new)
    content = ("endpoints", "ports", "addressType")
    same = all((new.get(part) or None) == (old.get(part) or None) for part in content)
    labels = [obj["metadata"].get("labels") or {} for obj in (new, old)]
    if not same or labels[0] != labels[1]:
        new["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


def _keep_node_names(new: Json, old: Json) -> None:
    """Take the names of nodes from where an older version kept them."""
    known = {
        (endpoint.get("deprecatedTopology") or {}).get(_HOST_NAME)
        for endpoint in old.get("endpoints") or []
    }
    for endpoint in new.get("endpoints") or []:
        name = (endpoint.get("deprecatedTopology") or {}).get(_HOST_NAME)
        usable = name and name in known and not names.dns_subdomain(name)
        if endpoint.get("nodeName") is None and usable:
            endpoint["nodeName"] = name


def _on_slice_create(endpoint_slice: Json) -> None:
    endpoint_slice["metadata"]["generation"] = 1
    _drop_topology(endpoint_slice)


def _warn_slice(endpoint_slice: Json, old: Json | None) -> list[str]:
    warnings = []
    if old is None and endpoint_slice.get("addressType") == "FQDN":
        warnings.append("spec.addressType: FQDN endpoints are deprecated")
    labels = endpoint_slice["metadata"].get("labels") or {}
    if labels.get(_MANAGED_BY) in _CONTROLLERS:
        return warnings
    for index, endpoint in enumerate(endpoint_slice.get("endpoints") or []):
        for place, address in enumerate(endpoint.get("addresses") or []):
            path = f"endpoints[{index}].addresses[{place}]"
            warnings += address_warnings(address, path)
    return warnings


def _check_slice_change(new: Json, old: Json) -> list[FieldError]:
    return immutable(new.get("addressType"), old.get("addressType"), "addressType")


ENDPOINT_SLICE: Final = KindRules(
    table=ENDPOINT_SLICE_TABLE,
    own_metadata_change=False,
    default=_default_slice,
    on_create=_on_slice_create,
    on_update=_on_slice_update,
    check=_check_slice,
    check_change=_check_slice_change,
    rechecks_name=True,
    warn=_warn_slice,
)
