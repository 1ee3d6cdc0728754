"""Resource names, what kind of resource each is, and amounts of resources as plain integers.

An amount is an integer in the resource's base unit: thousandths for ``cpu``, bytes for memory,
storage and hugepages, a count for everything else. The classes of names follow Kubernetes' core
helpers (1.35): a name without a slash or under ``kubernetes.io/`` is native, any other is extended.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.errors import InvalidValue
from numakube.values import names
from numakube.values.quantity import Quantity, milli_value, parse_quantity, value

if TYPE_CHECKING:
    from collections.abc import Mapping

ResourceName: TypeAlias = str
"""Such as ``cpu``, ``hugepages-2Mi`` or ``vendor.example/gpu``."""

Amounts: TypeAlias = "Mapping[ResourceName, int]"
"""How much of each resource, in base units; a missing resource is zero."""

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
STORAGE: Final = "storage"
PODS: Final = "pods"
HUGEPAGES_PREFIX: Final = "hugepages-"
ATTACHABLE_VOLUMES_PREFIX: Final = "attachable-volumes-"
MILLI_PER_CPU: Final = 1000
"""The amount of ``cpu`` that is one whole CPU."""

_NATIVE_DOMAIN: Final = "kubernetes.io/"
_QUOTA_PREFIX: Final = "requests."
_COUNTED_OBJECTS: Final = frozenset(
    {
        PODS, "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps",
        "persistentvolumeclaims", "services.nodeports", "services.loadbalancers",
    }
)  # fmt: skip
_QUOTA_STANDARD: Final = _COUNTED_OBJECTS | {
    CPU, MEMORY, EPHEMERAL_STORAGE, "requests.cpu", "requests.memory", "requests.storage",
    "requests.ephemeral-storage", "limits.cpu", "limits.memory", "limits.ephemeral-storage",
}  # fmt: skip
_CONTAINER_STANDARD: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})


class ResourceKind(Enum):
    """What a resource is, which decides its unit and who hands it out."""

    CPU = "cpu"
    MEMORY = "memory"
    STORAGE = "storage"
    PODS = "pods"
    HUGEPAGES = "hugepages"
    ATTACHABLE_VOLUMES = "attachable-volumes"
    EXTENDED = "extended"
    """Announced by a device plugin or set on the node by hand: ``domain/name``."""
    OTHER_NATIVE = "other-native"
    INVALID = "invalid"

    @property
    def is_bytes(self) -> bool:
        """Tell whether amounts are bytes."""
        return self in _BYTE_KINDS


_BYTE_KINDS: Final = frozenset({ResourceKind.MEMORY, ResourceKind.STORAGE, ResourceKind.HUGEPAGES})
_KINDS: Final = {
    CPU: ResourceKind.CPU,
    MEMORY: ResourceKind.MEMORY,
    EPHEMERAL_STORAGE: ResourceKind.STORAGE,
    STORAGE: ResourceKind.STORAGE,
    PODS: ResourceKind.PODS,
}


@lru_cache(maxsize=4096)
def kind_of(name: ResourceName) -> ResourceKind:
    """Return what kind of resource *name* is."""
    if name in _KINDS:
        return _KINDS[name]
    if is_hugepages(name):
        return ResourceKind.HUGEPAGES
    if name.startswith(ATTACHABLE_VOLUMES_PREFIX):
        return ResourceKind.ATTACHABLE_VOLUMES
    if is_native(name):
        return ResourceKind.INVALID if names.qualified_name(name) else ResourceKind.OTHER_NATIVE
    return ResourceKind.EXTENDED if is_extended(name) else ResourceKind.INVALID


def is_native(name: ResourceName) -> bool:
    """Tell whether *name* belongs to Kubernetes itself."""
    return "/" not in name or is_prefixed_native(name)


def is_prefixed_native(name: ResourceName) -> bool:
    """Tell whether *name* is spelled with Kubernetes' own domain."""
    return _NATIVE_DOMAIN in name


def is_hugepages(name: ResourceName) -> bool:
    """Tell whether *name* is a hugepage resource of any size."""
    return name.startswith(HUGEPAGES_PREFIX)


def is_memory(name: ResourceName) -> bool:
    """Tell whether *name* is memory or hugepages, which the Memory Manager places together."""
    return name == MEMORY or is_hugepages(name)


@lru_cache(maxsize=4096)
def is_extended(name: ResourceName) -> bool:
    """Tell whether *name* is a well-formed extended resource, such as a device plugin's."""
    if is_native(name) or name.startswith(_QUOTA_PREFIX):
        return False
    return not names.qualified_name(_QUOTA_PREFIX + name)


def is_scalar(name: ResourceName) -> bool:
    """Tell whether kube-scheduler counts *name* among its scalar resources."""
    return (
        is_extended(name)
        or is_hugepages(name)
        or is_prefixed_native(name)
        or name.startswith(ATTACHABLE_VOLUMES_PREFIX)
    )


def is_whole_number(name: ResourceName) -> bool:
    """Tell whether the API server refuses fractions of *name*."""
    return name in _COUNTED_OBJECTS or is_extended(name)


def is_pod_level(name: ResourceName) -> bool:
    """Tell whether *name* can be asked for the pod as a whole."""
    return name == CPU or is_memory(name)


def is_overcommit_allowed(name: ResourceName) -> bool:
    """Tell whether the limit of *name* may exceed its request."""
    return is_native(name) and not is_hugepages(name)


@lru_cache(maxsize=256)
def hugepage_bytes(name: ResourceName) -> int:
    """Return the page size of the hugepage resource *name*."""
    if not is_hugepages(name):
        raise InvalidValue(f"resource name: {name} is an invalid hugepage name")
    return parse_quantity(name.removeprefix(HUGEPAGES_PREFIX)).value()


def hugepage_name(page_bytes: int) -> ResourceName:
    """Return the resource of hugepages of *page_bytes* each: ``hugepages-2Mi``."""
    return f"{HUGEPAGES_PREFIX}{Quantity.of_bytes(page_bytes)}"


def is_whole_hugepages(name: ResourceName, quantity: str | int | float) -> bool:
    """Tell whether the quantity is a whole number of the hugepages that *name* names."""
    try:
        page = parse_quantity(name.removeprefix(HUGEPAGES_PREFIX))
    except InvalidValue:
        return False
    if page <= Quantity.of_count(0) or page.milli_value() % 1000:
        return False
    return value(quantity) % page.value() == 0


def resource_name_problems(name: ResourceName) -> list[str]:
    """Say why the API server refuses *name* as any resource, in its words."""
    problems = names.qualified_name(name)
    if not problems and "/" not in name and not (name == STORAGE or is_standard_for_quota(name)):
        problems.append("must be a standard resource type or fully qualified")
    return problems


def container_resource_problems(name: ResourceName) -> list[str]:
    """Say why the API server refuses *name* in a container's requests or limits, in its words."""
    problems = resource_name_problems(name)
    if "/" not in name:
        if name not in _CONTAINER_STANDARD and not is_hugepages(name):
            problems.append("must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        problems.append("doesn't follow extended resource name standard")
    return problems


def is_standard_for_quota(name: ResourceName) -> bool:
    """Tell whether a quota can limit *name* without its having a prefix."""
    return name in _QUOTA_STANDARD or name.startswith(
        (HUGEPAGES_PREFIX, _QUOTA_PREFIX + HUGEPAGES_PREFIX)
    )


def amount_of(name: ResourceName, quantity: str | int | float) -> int:
    """Return the quantity of resource *name* in its base unit."""
    return milli_value(quantity) if name == CPU else value(quantity)


def quantity_of(name: ResourceName, amount: int) -> Quantity:
    """Return *amount* base units of resource *name* as a quantity to be printed."""
    if name == CPU:
        return Quantity.of_milli(amount)
    return Quantity.of_bytes(amount) if kind_of(name).is_bytes else Quantity.of_count(amount)


def amounts_of(quantities: Mapping[ResourceName, str | int | float] | None) -> dict[str, int]:
    """Return the amounts that a ``requests``, ``limits`` or ``allocatable`` map stands for."""
    if not quantities:
        return {}
    return {name: amount_of(name, quantity) for name, quantity in quantities.items()}


def quantities_of(amounts: Amounts) -> dict[ResourceName, str]:
    """Return *amounts* as a map of canonical quantities."""
    return {name: str(quantity_of(name, amount)) for name, amount in amounts.items()}


def add_amounts(*parts: Amounts) -> dict[ResourceName, int]:
    """Return the sum of *parts*, resource by resource."""
    total: dict[ResourceName, int] = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def largest_amounts(*parts: Amounts) -> dict[ResourceName, int]:
    """Return the largest amount of each resource in any of *parts*."""
    largest: dict[ResourceName, int] = {}
    for part in parts:
        for name, amount in part.items():
            largest[name] = max(amount, largest.get(name, amount))
    return largest


def shortfalls(wanted: Amounts, free: Amounts) -> dict[ResourceName, int]:
    """Return how much of each wanted resource is missing from *free*; empty if all of it fits."""
    missing = {name: amount - free.get(name, 0) for name, amount in wanted.items()}
    return {name: amount for name, amount in missing.items() if amount > 0}
