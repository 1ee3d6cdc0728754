"""The devices that a Device resource lists for a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.allotment.device_wishes import by_present_names
from numakube.allotment.facts import DevicePlace
from numakube.errors import InvalidValue
from numakube.values.numamask import MAX_NODE_ID
from numakube.values.resources import amounts_of

if TYPE_CHECKING:
    from numakube.api.koordinator.devices import DeviceCr, DeviceInfo
    from numakube.values.resources import Amounts


def devices_of(device: DeviceCr, problems: list[str]) -> tuple[DevicePlace, ...]:
    """Return the devices by type and minor; of two with the same the first counts."""
    places: dict[tuple[str, int], DevicePlace] = {}
    for index, info in enumerate(device.spec.devices):
        place = f"spec.devices[{index}]"
        if (info.type, info.minor) in places:
            problems.append(f"{place}: {info.type} {info.minor} is listed twice")
            continue
        places[info.type, info.minor] = _place_of(info, _amounts(info, place, problems))
    return tuple(places[key] for key in sorted(places))


def _place_of(info: DeviceInfo, amounts: Amounts) -> DevicePlace:
    topology = info.topology
    numa = topology.node_id if topology is not None else -1
    return DevicePlace(
        type=info.type,
        minor=info.minor,
        id=info.id,
        numa=numa if 0 <= numa <= MAX_NODE_ID else None,
        pcie=topology.pcie_id if topology is not None else "",
        healthy=info.health,
        resources=amounts,
        labels=info.labels,
        vfs=tuple(sorted(vf.bus_id for group in info.vf_groups for vf in group.vfs)),
        vf_labels={
            vf.bus_id: group.labels for group in info.vf_groups if group.labels for vf in group.vfs
        },
    )


def _amounts(info: DeviceInfo, place: str, problems: list[str]) -> Amounts:
    try:
        return by_present_names(amounts_of(info.resources))
    except InvalidValue as error:
        problems.append(f"{place}.resources: {error}")
        return {}
