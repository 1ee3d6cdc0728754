"""What devices stand for of a node's own resources (KEP-5517), in slices and in the status of pods.

The feature is alpha; the lab has it on, as kube-apiserver 1.37 with the gate
``DRANodeAllocatableResources``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, invalid, not_found, required
from numakube.values.quantity import parse_quantity
from numakube.values.resources import is_pod_level

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

_NOT_ALLOCATABLE: Final = "must be a node allocatable resource name"
_EITHER: Final = "at least one of perPod or perContainer must be set"


def check_device_resources(device: Json, path: str) -> list[FieldError]:
    """Check what one device of a slice stands for."""
    errors: list[FieldError] = []
    for name, one in sorted((device.get("nodeAllocatableResources") or {}).items()):
        place = f"{path}.nodeAllocatableResources[{name}]"
        if not is_pod_level(name):
            errors.append(invalid(place, name, _NOT_ALLOCATABLE))
        mapping, overhead = one.get("mapping"), one.get("overhead")
        if mapping is None and overhead is None:
            errors.append(required(place, "at least one of mapping or overhead must be set"))
        if mapping is not None:
            errors += _check_mapping(mapping, device.get("capacity") or {}, f"{place}.mapping")
        if overhead is not None:
            errors += _check_overhead(overhead, f"{place}.overhead")
    return errors


def _check_mapping(mapping: Json, capacity: Json, path: str) -> list[FieldError]:
    key, factor = mapping.get("capacityKey"), mapping.get("capacityMultiplier")
    errors: list[FieldError] = []
    if key is not None and key not in capacity:
        place = f"{path}.capacityKey"
        errors.append(not_found(place, key))
    if (key is None) != (factor is None):
        has, lacks = ("capacityKey", "capacityMultiplier")[:: 1 if factor is None else -1]
        errors.append(required(f"{path}.{lacks}", f"{lacks} is required when {has} is set"))
    for field in ("capacityMultiplier", "deviceMultiplier"):
        value = mapping.get(field)
        if value is not None and parse_quantity(value).value() <= 0:
            errors.append(invalid(f"{path}.{field}", str(value), "must be positive"))
    return errors


def _check_overhead(overhead: Json, path: str) -> list[FieldError]:
    given = {field: overhead.get(field) for field in ("perPod", "perContainer")}
    if all(value is None for value in given.values()):
        return [invalid(path, "", _EITHER)]
    return [
        invalid(f"{path}.{field}", str(value), "must be non-negative")
        for field, value in given.items()
        if value is not None and parse_quantity(value).milli_value() < 0
    ]


def check_pod_resources(status: Json, spec: Json) -> list[FieldError]:
    """Check what the status of a pod says of its claims."""
    known = {one.get("resourceClaimName") for one in spec.get("resourceClaims") or ()}
    known |= {one.get("resourceClaimName") for one in status.get("resourceClaimStatuses") or ()}
    errors: list[FieldError] = []
    for index, one in enumerate(status.get("nodeAllocatableResourceClaimStatuses") or ()):
        path = f"status.nodeAllocatableResourceClaimStatuses[{index}]"
        name = one.get("resourceClaimName") or ""
        if name and name not in known:
            detail = "no mapping found in pod reference"
            errors.append(invalid(f"{path}.resourceClaimName", name, detail))
        for field in ("mapping", "overhead"):
            for position, item in enumerate(one.get(field) or ()):
                errors += _check_item(item, f"{path}.{field}[{position}]", field)
    return errors


def _check_item(item: Json, path: str, field: str) -> list[FieldError]:
    name = item.get("name") or ""
    errors = [] if is_pod_level(name) else [invalid(f"{path}.name", name, _NOT_ALLOCATABLE)]
    if field == "overhead":
        return errors + _check_overhead(item, path)
    quantity = item.get("quantity")
    if quantity is not None and parse_quantity(quantity).milli_value() < 0:
        errors.append(invalid(f"{path}.quantity", str(quantity), "must be non-negative"))
    return errors
