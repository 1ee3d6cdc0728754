"""The layout of a machine's CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.allotment.facts import CpuLayout, CpuPlace

if TYPE_CHECKING:
    from numakube.kubelet.machine import Machine


def layout_of(machine: Machine) -> CpuLayout:
    """Return where the logical CPUs of *machine* are."""
    places = [
        CpuPlace(cpu, core.id, core.socket, node.id)
        for node in machine.nodes
        for core in node.cores
        for cpu in core.threads
    ]
    return CpuLayout(tuple(sorted(places, key=lambda place: place.id)))
