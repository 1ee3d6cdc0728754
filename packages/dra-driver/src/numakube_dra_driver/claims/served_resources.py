"""Which class of the cluster serves which resource of containers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.dra import classes_by_resource
from numakube_dra_driver.device_classes import CLASSES
from numakube_dra_driver.devices import DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.resource_slices import DeviceClass

LABEL: Final = f"{DRIVER}/claims"
"""On a class: ``false`` keeps it out of claims that are written for pods."""


@dataclass(frozen=True, slots=True)
class ServedBy:
    """The class that serves a resource.

    Attributes:
        is_ours: whether the devices are those of this driver.
    """

    name: str
    is_ours: bool = True


Serving: TypeAlias = Mapping[str, ServedBy]
"""By the names of resources."""


def serving_of(classes: Iterable[DeviceClass]) -> Serving:
    """Return what *classes* serve: ours by their names, and others by their extended resource."""
    usable = {
        one.metadata.name: one for one in classes if one.metadata.labels.get(LABEL) != "false"
    }
    ours = {one.resource: ServedBy(one.name) for one in CLASSES if one.name in usable}
    others = {
        resource: ServedBy(name, _is_ours(usable[name]))
        for resource, name in classes_by_resource(usable.values()).items()
    }
    return {**others, **ours}


def _is_ours(device_class: DeviceClass) -> bool:
    return any(
        selector.cel is not None and f'device.driver == "{DRIVER}"' in selector.cel.expression
        for selector in device_class.spec.selectors
    )
