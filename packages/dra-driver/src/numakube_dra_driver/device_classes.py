"""The classes of the driver's devices, by which claims ask for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from numakube_dra_driver.devices import CPU_CAPACITY, DRIVER


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
CLASSES: Final = (
    ServedClass(name="numa-cpus", resource="cpu", capacity=CPU_CAPACITY, rule=f'{_KIND} == "cpu"'),
)


def class_documents() -> list[dict[str, Any]]:
    """Return the classes as they are created."""
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": one.name},
            "spec": {"selectors": [{"cel": {"expression": _expression(one)}}]},
        }
        for one in CLASSES
    ]


def _expression(served: ServedClass) -> str:
    return f'device.driver == "{DRIVER}" && {served.rule}'
