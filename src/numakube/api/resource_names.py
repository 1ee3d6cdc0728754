"""The names of resources: which are native, which a node may offer, which a quota may count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api import name_checks as names
from numakube.api.field_errors import FieldError, invalid, invalids, not_supported
from numakube.errors import InvalidValue
from numakube.values.quantity import parse_quantity

if TYPE_CHECKING:
    from numakube.values.quantity import Quantity

HUGE_PAGES: Final = "hugepages-"
_COMPUTE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_COUNTED: Final = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_STANDARD_QUOTA: Final = (
    _COMPUTE
    | _COUNTED
    | {f"{side}.{name}" for side in ("requests", "limits") for name in _COMPUTE}
    | {"requests.storage"}
)
_STANDARD: Final = _STANDARD_QUOTA | {"storage"}
POD_LEVEL: Final = ("cpu", HUGE_PAGES, "memory")


def is_huge_pages(name: str) -> bool:
    """Tell whether *name* is that of pages of one size: ``hugepages-2Mi``."""
    return name.startswith(HUGE_PAGES)


def is_native(name: str) -> bool:
    """Tell whether Kubernetes itself defines the resource."""
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Tell whether *name* is a device's or an operator's: ``example.com/gpu``."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not names.qualified_name(f"requests.{name}")


def is_overcommit_allowed(name: str) -> bool:
    """Tell whether a request may be below its limit."""
    return is_native(name) and not is_huge_pages(name)


def is_whole(name: str) -> bool:
    """Tell whether the resource only comes in whole numbers."""
    return name in _COUNTED or is_extended(name)


def is_pod_level(name: str) -> bool:
    """Tell whether the resource can be asked for the pod as a whole."""
    return name in {"cpu", "memory"} or is_huge_pages(name)


def is_divisible(name: str, amount: Quantity) -> bool:
    """Tell whether *amount* is a multiple of the page size in *name*."""
    try:
        page = parse_quantity(name.removeprefix(HUGE_PAGES))
    except InvalidValue:
        return False
    if page.value() <= 0 or page.milli_value() % 1000:
        return False
    return amount.value() % page.value() == 0


def validate_resource_name(name: str, path: str) -> list[FieldError]:
    """Check the name of any resource."""
    if errors := invalids(path, name, names.qualified_name(name)):
        return errors
    if "/" in name or name in _STANDARD or _is_quota_huge_pages(name):
        return []
    return [invalid(path, name, "must be a standard resource type or fully qualified")]


def _is_quota_huge_pages(name: str) -> bool:
    return name.startswith((HUGE_PAGES, "requests.hugepages-"))


def validate_container_resource_name(name: str, path: str) -> list[FieldError]:
    """Check the name of a resource that a container asks for."""
    errors = validate_resource_name(name, path)
    if "/" not in name:
        if name not in _COMPUTE and not is_huge_pages(name):
            errors.append(invalid(path, name, "must be a standard resource for containers"))
    elif not is_native(name) and not is_extended(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def validate_pod_resource_name(name: str, path: str) -> list[FieldError]:
    """Check the name of a resource that a pod as a whole asks for."""
    if errors := validate_resource_name(name, path):
        return errors
    return [] if is_pod_level(name) else [not_supported(path, name, POD_LEVEL)]


def is_standard_for_quota(name: str) -> bool:
    """Tell whether a quota can limit the resource without its having a prefix."""
    return name in _STANDARD_QUOTA or _is_quota_huge_pages(name)


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
    if is_whole(name) and amount.milli_value() % 1000:
        errors.append(invalid(path, str(amount), "must be an integer"))
    return errors


def validate_not_negative(amount: Quantity, path: str) -> list[FieldError]:
    """Check that a quantity is not below zero."""
    return [invalid(path, str(amount), names.NOT_NEGATIVE)] if amount.unscaled < 0 else []
