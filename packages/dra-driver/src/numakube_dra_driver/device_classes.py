"""The classes of the driver's devices, by which claims ask for them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numakube.errors import ConfigError
from numakube_dra_driver.devices import CPU_CAPACITY, DRA_CPU, DRIVER
from numakube_dra_driver.memory_pools import HUGEPAGES_CAPACITY, MEMORY_CAPACITY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedClass:
    """A class of this driver, and what of a container it serves.

    Attributes:
        name: of the class.
        resource: what containers call it.
        capacity: what of a device a claim takes an amount of.
        rule: what is true of a device of the class, besides that it is this driver's.
    """

    name: str
    resource: str
    capacity: str
    rule: str


_KIND: Final = f'device.attributes["{DRIVER}"].kind'


def _hugepages(page: str) -> ServedClass:
    size = page.removesuffix("i").lower()
    attributes = f'device.attributes["{DRIVER}"]'
    return ServedClass(
        name=f"numa-hugepages-{page.lower()}",
        resource=f"hugepages-{page}",
        capacity=HUGEPAGES_CAPACITY,
        # Other devices have no page size, and to ask for one that is not there fails.
        rule=f'{_KIND} == "hugepages" && {attributes}.pageSize == "{size}"',
    )


CLASSES: Final = (
    ServedClass(name="numa-cpus", resource="cpu", capacity=CPU_CAPACITY, rule=f'{_KIND} == "cpu"'),
    ServedClass(
        name="numa-memory",
        resource="memory",
        capacity=MEMORY_CAPACITY,
        rule=f'{_KIND} == "memory"',
    ),
    _hugepages("2Mi"),
    _hugepages("1Gi"),
)
CAPACITIES: Final = {one.name: one.capacity for one in CLASSES}
"""What claims take an amount of, by class; of other classes they take devices."""


def class_documents() -> list[dict[str, Any]]:
    """Return the classes as they are created."""
    return [_class(one.name, _expression(one)) for one in CLASSES]


def pool_classes(pools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the classes for pools, as a ``resourceList`` has them.

    Raises:
        ConfigError: they make no sense, or two pools would have the same class.
    """
    from numakube.node.pci.device_pools import DeviceType  # most drivers do without
    from numakube.node.pci.pool_config import DEFAULT_PREFIX, read_config

    text = json.dumps({"resourceList": list(pools)})
    config = read_config(text, "pools", prefix=DEFAULT_PREFIX)
    owners: dict[str, str] = {}
    for pool in config.pools:
        name = class_name(pool.resource)
        if name in owners:
            raise ConfigError(f"pools {owners[name]} and {pool.resource}: one class {name} for two")
        owners[name] = pool.resource
    return [
        pool_class(pool.resource, is_static=pool.type is DeviceType.STATIC) for pool in config.pools
    ]


def pool_class(resource: str, *, is_static: bool = False) -> dict[str, Any]:
    """Return the class of a pool's devices: pods that ask for *resource* get them by claim, too."""
    kind = "static" if is_static else "pci"
    rule = f'{_KIND} == "{kind}" && device.attributes["{DRIVER}"].pool == "{resource}"'
    document = _class(class_name(resource), f'device.driver == "{DRIVER}" && {rule}')
    document["spec"]["extendedResourceName"] = resource
    return document


def class_name(resource: str) -> str:
    """Return the name of the class for a pool: ``sriov-netdevice.intel.com``."""
    prefix, _, name = resource.partition("/")
    plain = "".join(sign if sign.isalnum() else "-" for sign in name.lower()).strip("-")
    return f"{plain}.{prefix.lower()}"


def dra_cpu_class() -> dict[str, Any]:
    """Return the class of dra-driver-cpu, whose name is that of the driver."""
    return _class(DRA_CPU, f'device.driver == "{DRA_CPU}"')


def _class(name: str, expression: str) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def _expression(served: ServedClass) -> str:
    return f'device.driver == "{DRIVER}" && {served.rule}'
