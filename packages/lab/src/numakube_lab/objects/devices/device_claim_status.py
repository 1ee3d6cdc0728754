"""The status of a claim of devices: what was allocated, and for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from numakube_lab.objects.checks.condition_checks import validate_conditions
from numakube_lab.objects.checks.kind_rules import keep, keep_metadata
from numakube_lab.objects.checks.node_selector_checks import validate_node_selector
from numakube_lab.objects.devices.device_names import validate_device_name, validate_pool_name
from numakube_lab.objects.devices.device_requests import (
    MAX_ITEMS,
    check_configuration,
    check_items,
    check_raw,
    check_reference,
    check_references,
    request_names,
)
from numakube_lab.objects.pod.volume_sources import validate_driver_name
from numakube_lab.schema.metadata_checks import immutable

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

_MAX_CONSUMERS: Final = 256
_MAX_CONDITIONS: Final = 8
# Fields of features that are off: shared capacity, conditions of binding.
_OFF: Final = (
    "shareID",
    "consumedCapacity",
    "bindingConditions",
    "bindingFailureConditions",
    "tolerations",
)


def prepare_claim_status(new: Json, old: Json, now: str) -> None:
    """Keep everything of a claim but its status."""
    del now
    keep(new, old, "spec")
    keep_metadata(new, old)
    status = new.get("status") or {}
    results = _results(status)
    for result in results:
        for field in _OFF:
            result.pop(field, None)
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


def _device_key(device: Json) -> tuple[str, str, str]:
    return (device.get("driver") or "", device.get("pool") or "", device.get("device") or "")


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
    driver, pool, name = _device_key(device)
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
