"""How many pairs of devices behind one PCIe switch are left, by node and zone.

A GPU and a network card that a container gets together should be behind one switch. Where the free
ones of a node are behind different switches, no pod can have that there, however many are free.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.insight.dra_devices import DraDevice
    from numakube.kubelet.device_pairs import Functions
    from numakube.kubelet.machine import Closeness, DeviceTree
    from numakube.topology.exact_report import ExactReport


@dataclass(frozen=True, slots=True)
class ClosePairs:
    """Devices of two resources, paired.

    Attributes:
        resources: the two.
        total: how many pairs behind one PCIe switch there are if all devices are free.
        free: how many there are of the devices that are free.
        best: how close the closest free pair is; ``None`` if there is no pair, or no telling.
    """

    resources: tuple[str, str]
    total: int
    free: int
    best: Closeness | None


def close_pairs(
    report: ExactReport, devices: Iterable[DraDevice] = (), zone: int | None = None
) -> tuple[ClosePairs, ...]:
    """Return the pairs of each two resources, on the whole node or in one *zone*.

    The drivers of *devices*, which claims get, stand for resources.
    """
    found = {name: _functions(report, name, zone) for name in report.devices}
    found |= _of_drivers(report, devices, zone)
    known = dict(sorted(found.items()))
    return tuple(
        ClosePairs(
            (one, other),
            _switch_pairs(report.tree, all_, others),
            _switch_pairs(report.tree, free, others_free),
            _closest(report.tree, free, others_free),
        )
        for (one, (all_, free)), (other, (others, others_free)) in combinations(known.items(), 2)
        if all_ and others
    )


def added_pairs(pairs: Iterable[ClosePairs]) -> tuple[ClosePairs, ...]:
    """Return the pairs of several nodes together."""
    found: dict[tuple[str, str], ClosePairs] = {}
    for pair in pairs:
        before = found.setdefault(pair.resources, replace(pair, total=0, free=0))
        levels = [level for level in (before.best, pair.best) if level is not None]
        found[pair.resources] = ClosePairs(
            pair.resources,
            before.total + pair.total,
            before.free + pair.free,
            min(levels, default=None),
        )
    return tuple(found[resources] for resources in sorted(found))


def _functions(report: ExactReport, resource: str, zone: int | None) -> tuple[Functions, Functions]:
    """Return the functions of all devices and of the free ones, as far as they are known."""
    table = report.devices[resource]
    held = {device for pod in report.pods.values() for device in pod.devices.get(resource, ())}
    near = {
        position: function
        for position, function in enumerate(table.functions)
        if function in report.tree.paths and (zone is None or zone in table.numa_nodes[position])
    }
    taken = held.union(table.unhealthy)
    free = (function for position, function in near.items() if position not in taken)
    return tuple(near.values()), tuple(free)


def _of_drivers(
    report: ExactReport, devices: Iterable[DraDevice], zone: int | None
) -> dict[str, tuple[Functions, Functions]]:
    """Return likewise the functions that claims may have, by driver."""
    known: dict[str, list[DraDevice]] = {}
    for device in devices:
        near = device.pci in report.tree.paths and (zone is None or zone in device.zones)
        if near and (device.claims or not device.trouble):
            known.setdefault(device.called, []).append(device)
    return {
        driver: (
            tuple(device.pci for device in some),
            tuple(device.pci for device in some if device.is_free),
        )
        for driver, some in known.items()
    }


def _switch_pairs(tree: DeviceTree, one: Functions, other: Functions) -> int:
    """Return how many pairs there can be at once; each device is part of one at most."""
    some, others = (
        Counter(tree.paths[at].switch for at in functions) for functions in (one, other)
    )
    return (some & others).total()


def _closest(tree: DeviceTree, one: Functions, other: Functions) -> Closeness | None:
    connections = (tree.between(*pair) for pair in product(set(one), set(other)))
    return min((found.closeness for found in connections if found is not None), default=None)
