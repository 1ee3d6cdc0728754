"""ResourceClaims, their templates and DeviceClasses, and the names that all kinds give devices."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.kind_rules import KindRules, PartRules, keep, keep_metadata
from kube_lab_server.kinds.node_checks import validate_node_selector
from kube_lab_server.kinds.pod.volume_sources import validate_driver_name
from kube_lab_server.kinds.table_columns import (
    AGE,
    AGED_TABLE,
    NAME,
    Column,
    Table,
    age_of,
    name_of,
)
from kube_lab_server.kinds.value_checks import remembered, validate_conditions
from kube_lab_server.schema.metadata_checks import immutable, validate_annotations, validate_labels
from numakube.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    invalids,
    not_supported,
    required,
    too_long,
    too_many,
)
from numakube.values import names
from numakube.values.gotext import go_json
from numakube.values.resources import is_extended

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


_MAX_POOL: Final = 253
_MAX_IDENTIFIER: Final = 32


def validate_device_name(name: str, path: str) -> list[FieldError]:
    """Check the name of a device."""
    return invalids(path, name, names.dns_label(name))


def validate_pool_name(name: str, path: str) -> list[FieldError]:
    """Check the name of a pool of devices: subdomains with slashes between them."""
    if not name:
        return [required(path)]
    errors = [too_long(path, _MAX_POOL)] if len(name.encode()) > _MAX_POOL else []
    for part in name.split("/"):
        errors += invalids(path, part, names.dns_subdomain(part))
    return errors


def validate_attribute_name(name: str, path: str) -> list[FieldError]:
    """Check the name of an attribute or a capacity, with or without a domain."""
    domain, slash, identifier = name.partition("/")
    if not slash:
        return _validate_identifier(name, path)
    if "/" in identifier:
        return []
    errors = [] if domain else [invalid(path, "", "the domain must not be empty")]
    if domain:
        errors += validate_driver_name(domain, path)
    if not identifier:
        return [*errors, invalid(path, "", "the name must not be empty")]
    return errors + _validate_identifier(identifier, path)


def validate_full_attribute_name(name: str, path: str) -> list[FieldError]:
    """Check the name of an attribute that has to have a domain."""
    errors = validate_attribute_name(name, path)
    if "/" not in name:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        errors.append(invalid(path, name, detail))
    return errors


def _validate_identifier(name: str, path: str) -> list[FieldError]:
    errors = [too_long(path, _MAX_IDENTIFIER)] if len(name.encode()) > _MAX_IDENTIFIER else []
    return errors + invalids(path, name, names.c_identifier(name))


MAX_ITEMS: Final = 32
_MAX_ALTERNATIVES: Final = 8
_MAX_TEXT: Final = 10 * 1024
_MODES: Final = ("All", "ExactCount")
_NOT_A_REQUEST: Final = (
    "must be the name of a request in the claim "
    "or the name of a request and a subrequest separated by '/'"
)
_ONE_OF: Final = "exactly one of `exactly` or `firstAvailable` is required"


def check_items(
    items: Sequence[JsonValue],
    maximum: int,
    check: Callable[[JsonValue, str], list[FieldError]],
    path: str,
    *,
    key: Callable[[JsonValue], object] | None = None,
) -> list[FieldError]:
    """Check the items of a list, of which no two have the same *key*."""
    if len(items) > maximum:
        return [too_many(path, len(items), maximum)]
    errors = [error for i, item in enumerate(items) for error in check(item, f"{path}[{i}]")]
    keys = [key(item) for item in items] if key else []
    repeated = [(i, found) for i, found in enumerate(keys) if found in keys[:i]]
    return errors + [duplicate(f"{path}[{index}]", found) for index, found in repeated]


def request_names(spec: Json) -> set[str]:
    """Return how the requests of a claim can be referred to."""
    found = set()
    for request in (spec.get("devices") or {}).get("requests") or []:
        found.add(request.get("name") or "")
        for alternative in request.get("firstAvailable") or []:
            found.add(f"{request.get('name') or ''}/{alternative.get('name') or ''}")
    return found


@remembered
def check_spec(spec: Json, path: str) -> list[FieldError]:
    """Check what a claim asks for."""
    devices, known = spec.get("devices") or {}, request_names(spec)
    place = f"{path}.devices"

    def check_constraint(constraint: Json, where: str) -> list[FieldError]:
        errors = check_references(constraint, known, where)
        attribute = constraint.get("matchAttribute")
        if attribute is None:
            return [*errors, required(f"{where}.matchAttribute")]
        return errors + validate_full_attribute_name(attribute, f"{where}.matchAttribute")

    def check_config(config: Json, where: str) -> list[FieldError]:
        return check_references(config, known, where) + check_configuration(config, where)

    requests, constraints = devices.get("requests") or [], devices.get("constraints") or []
    errors = check_items(requests, MAX_ITEMS, _check_request, f"{place}.requests", key=_name)
    errors += check_items(constraints, MAX_ITEMS, check_constraint, f"{place}.constraints")
    return errors + check_items(
        devices.get("config") or [], MAX_ITEMS, check_config, f"{place}.config"
    )


def _name(item: Json) -> str:
    return item.get("name") or ""


def _check_request_name(name: str, path: str) -> list[FieldError]:
    return invalids(path, name, names.dns_label(name))


def _check_request(request: Json, path: str) -> list[FieldError]:
    errors = _check_request_name(_name(request), f"{path}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is None and not alternatives:
        return [*errors, required(path, _ONE_OF)]
    if exactly is not None and alternatives:
        return [*errors, invalid(path, None, f"{_ONE_OF}, but multiple fields are set")]
    if exactly is not None:
        return errors + _check_asked(exactly, f"{path}.exactly")
    place = f"{path}.firstAvailable"
    return errors + check_items(
        alternatives, _MAX_ALTERNATIVES, _check_alternative, place, key=_name
    )


def _check_alternative(request: Json, path: str) -> list[FieldError]:
    return _check_request_name(_name(request), f"{path}.name") + _check_asked(request, path)


def _check_asked(request: Json, path: str) -> list[FieldError]:
    wanted = request.get("deviceClassName") or ""
    place = f"{path}.deviceClassName"
    errors = invalids(place, wanted, names.dns_subdomain(wanted)) if wanted else [required(place)]
    errors += check_selectors(request.get("selectors") or [], f"{path}.selectors")
    mode, count = request.get("allocationMode") or "", request.get("count") or 0
    if mode not in _MODES:
        errors.append(not_supported(f"{path}.allocationMode", mode, _MODES))
    elif mode == "All" and count:
        detail = "must not be specified when allocationMode is 'All'"
        errors.append(invalid(f"{path}.count", count, detail))
    elif mode == "ExactCount" and count <= 0:
        errors.append(invalid(f"{path}.count", count, "must be greater than zero"))
    return errors


def check_selectors(selectors: Sequence[Json], path: str) -> list[FieldError]:
    """Check expressions that select devices."""
    return check_items(selectors, MAX_ITEMS, _check_selector, path)


def _check_selector(selector: Json, path: str) -> list[FieldError]:
    if (cel := selector.get("cel")) is None:
        return [required(f"{path}.cel")]
    place = f"{path}.cel.expression"
    text = cel.get("expression") or ""
    return [too_long(place, _MAX_TEXT)] if len(text.encode()) > _MAX_TEXT else []


def check_references(owner: Json, known: set[str], path: str) -> list[FieldError]:
    """Check the names of requests that a constraint or setting is for."""

    def check(name: str, where: str) -> list[FieldError]:
        return check_reference(name, known, where)

    place = f"{path}.requests"
    return check_items(owner.get("requests") or [], MAX_ITEMS, check, place, key=str)


def check_reference(name: str, known: set[str], path: str) -> list[FieldError]:
    """Check the name of a request, or of one of its alternatives."""
    parts = name.split("/")
    unknown = [] if name in known else [invalid(path, name, _NOT_A_REQUEST)]
    if len(parts) > len(("request", "alternative")):
        return unknown
    return [error for part in parts for error in _check_request_name(part, path)] + unknown


def check_configuration(config: Json, path: str) -> list[FieldError]:
    """Check settings that are passed on to a driver."""
    if (opaque := config.get("opaque")) is None:
        return [required(f"{path}.opaque")]
    place = f"{path}.opaque"
    errors = validate_driver_name(opaque.get("driver") or "", f"{place}.driver")
    return errors + check_raw(opaque.get("parameters"), f"{place}.parameters")


def check_raw(value: JsonValue, path: str) -> list[FieldError]:
    """Check a JSON object that only a driver understands."""
    if value is None:
        return [required(path)]
    if len(go_json(value).encode()) > _MAX_TEXT:
        return [too_long(path, _MAX_TEXT)]
    if not isinstance(value, dict):
        return [invalid(path, "<value omitted>", "must be a valid JSON object")]
    return []


_MAX_CONSUMERS: Final = 256
_MAX_CONDITIONS: Final = 8
# Fields of features that are off: conditions of binding, taints.
_OFF: Final = ("bindingConditions", "bindingFailureConditions", "tolerations")
_OF_SHARES: Final = ("shareID", "consumedCapacity")
"""Fields of results that go with devices which several claims share."""


def _prepare_status(new: Json, old: Json, now: str, *, shares: bool) -> None:
    """Keep everything of a claim but its status."""
    del now
    keep(new, old, "spec")
    keep_metadata(new, old)
    status = new.get("status") or {}
    off = _OFF if shares else (*_OFF, *_OF_SHARES)
    for device in (*_results(status), *(status.get("devices") or [])):
        for field in off:
            device.pop(field, None)
    _drop_deallocated(status, old.get("status") or {})


def _drop_deallocated(status: Json, before: Json) -> None:
    """Drop what is said of devices that are no longer allocated."""
    left = {_device_key(result) for result in _results(status)}
    gone = {_device_key(result) for result in _results(before)} - left
    if gone and (devices := status.pop("devices", None)):
        kept = [device for device in devices if _device_key(device) not in gone]
        if kept:
            status["devices"] = kept


def _results(status: Json) -> list[Json]:
    allocation = status.get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []


def _device_key(device: Json) -> tuple[str, ...]:
    """Return what tells one allocated device, or share of one, from another."""
    key = (device.get("driver") or "", device.get("pool") or "", device.get("device") or "")
    return (*key, device["shareID"]) if device.get("shareID") else key


def check_claim_status(new: Json, old: Json) -> list[FieldError]:
    """Check the new status of a claim."""
    status, before = new.get("status") or {}, old.get("status") or {}
    allocation = status.get("allocation")
    errors = check_items(
        status.get("reservedFor") or [],
        _MAX_CONSUMERS,
        _check_consumer,
        "status.reservedFor",
        key=lambda consumer: consumer.get("uid") or "",
    )
    errors += _check_devices(status)
    errors += _check_reservations(new, status, before)
    if allocation is not None and before.get("allocation") is not None:
        return errors + immutable(allocation, before["allocation"], "status.allocation")
    if allocation is not None:
        known = request_names(new.get("spec") or {})
        errors += _check_allocation(allocation, known, "status.allocation")
    return errors


def _check_consumer(consumer: Json, path: str) -> list[FieldError]:
    fields = ("resource", "name", "uid")
    return [required(f"{path}.{field}") for field in fields if not consumer.get(field)]


def _check_devices(status: Json) -> list[FieldError]:
    allocated = {_device_key(result) for result in _results(status)}
    devices = status.get("devices") or []

    def check(device: Json, path: str) -> list[FieldError]:
        errors = _check_device_reference(device, path)
        if _device_key(device) not in allocated:
            shown = "/".join(_device_key(device))
            errors.append(invalid(path, shown, "must be an allocated device in the claim"))
        conditions = device.get("conditions") or []
        if len(conditions) > _MAX_CONDITIONS:
            errors.append(too_many(f"{path}.conditions", len(conditions), _MAX_CONDITIONS))
        errors += validate_conditions(conditions, f"{path}.conditions")
        data = device.get("data")
        return errors + ([] if data is None else check_raw(data, f"{path}.data"))

    return check_items(devices, len(devices), check, "status.devices", key=_device_key)


def _check_device_reference(device: Json, path: str) -> list[FieldError]:
    driver, pool, name, *_ = _device_key(device)
    return [
        *validate_driver_name(driver, f"{path}.driver"),
        *validate_pool_name(pool, f"{path}.pool"),
        *validate_device_name(name, f"{path}.device"),
    ]


def _check_reservations(claim: Json, status: Json, before: Json) -> list[FieldError]:
    consumers = status.get("reservedFor") or []
    if not consumers:
        return []
    if status.get("allocation") is None:
        detail = "may not be specified when `allocated` is not set"
        return [forbidden("status.reservedFor", detail)]
    earlier = before.get("reservedFor") or []
    added = [consumer for consumer in consumers if consumer not in earlier]
    if not claim["metadata"].get("deletionTimestamp") or not added:
        return []
    detail = (
        "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
    )
    return [forbidden("status.reservedFor", detail)]


def _check_allocation(allocation: Json, known: set[str], path: str) -> list[FieldError]:
    devices = allocation.get("devices") or {}

    def check_result(result: Json, where: str) -> list[FieldError]:
        errors = check_reference(result.get("request") or "", known, f"{where}.request")
        return errors + _check_device_reference(result, where)

    def check_config(config: Json, where: str) -> list[FieldError]:
        errors = _check_source(config.get("source") or "", f"{where}.source")
        errors += check_references(config, known, where)
        return errors + check_configuration(config, where)

    results, configs = devices.get("results") or [], devices.get("config") or []
    errors = check_items(results, MAX_ITEMS, check_result, f"{path}.devices.results")
    errors += check_items(configs, 2 * MAX_ITEMS, check_config, f"{path}.devices.config")
    if (selector := allocation.get("nodeSelector")) is not None:
        errors += validate_node_selector(selector, f"{path}.nodeSelector")
    return errors


def _check_source(source: str, path: str) -> list[FieldError]:
    if not source:
        return [required(path)]
    known = ("FromClaim", "FromClass")
    return [] if source in known else [not_supported(path, source, known)]


def _resource_claim(obj: Json, now: datetime) -> list[JsonValue]:
    status = obj.get("status") or {}
    deleted = bool(obj["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if status.get("allocation") is not None:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not deleted:
        states.append("pending")
    return [name_of(obj), ",".join(states), age_of(obj, now)]


RESOURCE_CLAIM_TABLE: Final = Table(
    (NAME, Column("State", "Whether devices were allocated and for pods."), AGE), _resource_claim
)


def _default_request(request: Json | None) -> None:
    if request is None:
        return
    mode = request["allocationMode"] = request.get("allocationMode") or "ExactCount"
    if mode == "ExactCount" and not request.get("count"):
        request["count"] = 1


def _default_spec(spec: Json) -> None:
    for request in (spec.get("devices") or {}).get("requests") or []:
        _default_request(request.get("exactly"))
        for alternative in request.get("firstAvailable") or []:
            _default_request(alternative)


def _default_claim(claim: Json) -> None:
    _default_spec(claim.get("spec") or {})


def _default_template(template: Json) -> None:
    _default_spec((template.get("spec") or {}).get("spec") or {})


def _drop_from_spec(spec: Json, *, shares: bool) -> None:
    """Drop the fields of features that are off."""
    devices = spec.get("devices") or {}
    for request in devices.get("requests") or []:
        for asked in (request.get("exactly") or {}, *(request.get("firstAvailable") or [])):
            asked.pop("tolerations", None)
            if not shares:
                asked.pop("capacity", None)
    for constraint in devices.get("constraints") or []:
        if not shares:
            constraint.pop("distinctAttribute", None)


def _on_claim(claim: Json, _old: Json | None = None, *, shares: bool) -> None:
    _drop_from_spec(claim.get("spec") or {}, shares=shares)


def _on_template(template: Json, _old: Json | None = None, *, shares: bool) -> None:
    _drop_from_spec((template.get("spec") or {}).get("spec") or {}, shares=shares)


def _check_claim(claim: Json) -> list[FieldError]:
    return check_spec(claim.get("spec") or {}, "spec")


def _check_change(new: Json, old: Json) -> list[FieldError]:
    return immutable(new.get("spec"), old.get("spec"), "spec")


def _check_template(template: Json) -> list[FieldError]:
    spec = template.get("spec") or {}
    meta = spec.get("metadata") or {}
    errors = validate_labels(meta.get("labels"), "spec.metadata.labels")
    errors += validate_annotations(meta.get("annotations"), "spec.metadata.annotations")
    return errors + check_spec(spec.get("spec") or {}, "spec.spec")


def _check_class(found: Json) -> list[FieldError]:
    spec = found.get("spec") or {}
    errors = check_selectors(spec.get("selectors") or [], "spec.selectors")
    configs = spec.get("config") or []
    errors += check_items(configs, MAX_ITEMS, check_configuration, "spec.config")
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        detail = "must be a valid extended resource name"
        errors.append(invalid("spec.extendedResourceName", name, detail))
    return errors


def resource_claim(*, shares: bool) -> KindRules:
    """Return the rules of claims; with *shares* of devices that several claims have."""
    prepare = partial(_prepare_status, shares=shares)
    return KindRules(
        table=RESOURCE_CLAIM_TABLE,
        parts={"status": PartRules(prepare=prepare, check=check_claim_status)},
        default=_default_claim,
        on_create=partial(_on_claim, shares=shares),
        on_update=partial(_on_claim, shares=shares),
        check_create=_check_claim,
        check_change=_check_change,
        rechecks_name=True,
    )


def resource_claim_template(*, shares: bool) -> KindRules:
    """Return the rules of templates of claims."""
    return KindRules(
        table=AGED_TABLE,
        default=_default_template,
        on_create=partial(_on_template, shares=shares),
        on_update=partial(_on_template, shares=shares),
        check_create=_check_template,
        check_change=_check_change,
    )


DEVICE_CLASS: Final = KindRules(
    table=AGED_TABLE,
    namespaced=False,
    counted=("spec",),
    check=_check_class,
    rechecks_name=True,
)
