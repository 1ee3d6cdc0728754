"""What is wrong with the names and amounts of resources, as errors of a field.

Which names there are, and what they mean, is in `numakube.values.resources`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, invalid, invalids, not_supported
from numakube.values import names
from numakube.values.quantity import parse_quantity
from numakube.values.resources import (
    CPU,
    HUGEPAGES_PREFIX,
    MEMORY,
    container_resource_problems,
    is_pod_level,
    is_standard_for_quota,
    is_whole_number,
    resource_name_problems,
)

if TYPE_CHECKING:
    from numakube.values.quantity import Quantity

_POD_LEVEL: Final = (CPU, HUGEPAGES_PREFIX, MEMORY)


def validate_resource_name(name: str, path: str) -> list[FieldError]:
    """Check the name of any resource."""
    return invalids(path, name, resource_name_problems(name))


def validate_container_resource_name(name: str, path: str) -> list[FieldError]:
    """Check the name of a resource that a container asks for."""
    return invalids(path, name, container_resource_problems(name))


def validate_pod_resource_name(name: str, path: str) -> list[FieldError]:
    """Check the name of a resource that a pod as a whole asks for."""
    if errors := validate_resource_name(name, path):
        return errors
    return [] if is_pod_level(name) else [not_supported(path, name, _POD_LEVEL)]


def validate_quota_resource_name(name: str, path: str) -> list[FieldError]:
    """Check the name of a resource that a quota limits."""
    errors = validate_resource_name(name, path)
    if "/" not in name and not is_standard_for_quota(name):
        errors.append(invalid(path, name, "must be a standard resource for quota"))
    return errors


def validate_amount(name: str, text: str, path: str) -> list[FieldError]:
    """Check that the amount *text* of resource *name* is not negative, and whole if it must be."""
    amount = parse_quantity(text)
    errors = validate_not_negative(amount, path)
    if is_whole_number(name) and amount.milli_value() % 1000:
        errors.append(invalid(path, str(amount), "must be an integer"))
    return errors


def validate_not_negative(amount: Quantity, path: str) -> list[FieldError]:
    """Check that a quantity is not below zero."""
    return [invalid(path, str(amount), names.NOT_NEGATIVE)] if amount.unscaled < 0 else []
