"""How close to each other the devices are that a pod holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.kubelet.device_pairs import pairing
from numakube.kubelet.machine import Closeness
from numakube.values.display import short_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.topology.exact_report import ExactReport, Holding

_WORDS: Final = {
    Closeness.SELF: "parts of one PCI function",
    Closeness.LINK: "linked directly",
    Closeness.PIX: "behind one PCIe switch",
    Closeness.PXB: "behind one PCIe switch, with further ones in between",
    Closeness.PHB: "behind one host bridge, but not behind one PCIe switch",
    Closeness.NODE: "on one NUMA node, but behind different host bridges",
    Closeness.SYS: "on different NUMA nodes",
}


def closeness_of(
    report: ExactReport, holding: Holding, claimed: Iterable[tuple[str, str]] = ()
) -> Closeness | None:
    """Return how close the worst pair of devices of different resources, or drivers, is.

    Devices are paired in the best way, as a program that uses them would. ``None`` if the pod
    has devices of fewer than two resources, or if it is not known how they are connected. Devices
    of claims are given by driver and PCI address.
    """
    groups = [
        tuple(report.devices[resource].functions[position] for position in positions)
        for resource, positions in holding.devices.items()
        if positions and report.devices[resource].functions
    ]
    drivers: dict[str, list[str]] = {}
    for driver, address in claimed:
        if address in report.tree.paths:
            drivers.setdefault(driver, []).append(address)
    groups += map(tuple, drivers.values())
    return pairing(report.tree, groups) if len(groups) > 1 else None


def closeness_words(report: ExactReport, holding: Holding) -> str:
    """Return the same as a sentence; empty if there is nothing to tell."""
    closeness = closeness_of(report, holding)
    if closeness is None:
        return ""
    names = [short_name(name) for name in sorted(holding.devices) if report.devices[name].functions]
    listed = ", ".join(names[:-1]) + f" and {names[-1]}"
    several = sum(map(len, holding.devices.values())) > len(names)
    whose = "Paired as well as they can be, its" if several else "Its"
    return f"{whose} {listed} are {_WORDS[closeness]} ({closeness.name})."
