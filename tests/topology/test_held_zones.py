"""The zones of which a pod holds something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.kubelet.build import start

from numakube.kubelet.admission_outcome import MemoryBlock
from numakube.kubelet.machines.shape_text import from_shape
from numakube.topology.exact_report import DeviceTable, ExactReport, Holding
from numakube.topology.held_zones import zone_cpus, zones_of_holding
from numakube.topology.model_report import report_of
from numakube.values.cpuset import CpuSet

NEAR = ((0,), (1,), (2,), (1, 2), (), (2, 1))
"""The zones of six devices."""


@pytest.fixture(scope="module")
def report() -> ExactReport:
    """A machine of three zones with two cores of two threads each, and devices."""
    machine = from_shape("3 sockets, 2 cores, smt 2, 16Gi")
    return replace(report_of(start(machine)), devices={"gpu": DeviceTable(NEAR)})


def test_the_cpus_of_a_zone_are_those_of_its_cores(report: ExactReport) -> None:
    """All threads of them."""
    whole = {node.id: node for node in report.machine.nodes}
    assert zone_cpus(report.machine) == {
        zone: sum(1 << cpu for core in node.cores for cpu in core.threads)
        for zone, node in whole.items()
    }


@pytest.mark.parametrize(
    ("zones_of_cpus", "memory", "devices", "expected"),
    [
        ((), (), (), ()),
        ((1,), (), (), (1,)),
        ((2, 0), (), (), (0, 2)),
        ((), (((0, 2), 1),), (), (0, 2)),
        ((), (((0, 2), 0),), (), ()),
        ((1,), (((0,), 1), ((2,), 0)), (), (0, 1)),
        ((), (), (0, 2), (0, 2)),
        ((), (), (4,), ()),
        ((), (), (3,), (1,)),
        ((), (), (5,), (2,)),
        ((1,), (), (5,), (1,)),
        ((0,), (), (3,), (0, 1)),
        ((), (), (2, 3), (2,)),
        ((), (((2,), 1),), (3, 1), (1, 2)),
    ],
)
def test_a_pod_holds_what_its_cpus_memory_and_devices_are_in(
    report: ExactReport,
    zones_of_cpus: tuple[int, ...],
    memory: tuple[tuple[tuple[int, ...], int], ...],
    devices: tuple[int, ...],
    expected: tuple[int, ...],
) -> None:
    """A device near several zones counts only if the pod holds nothing near it."""
    cpus: Mapping[int, int] = zone_cpus(report.machine)
    first = [(cpus[zone] & -cpus[zone]).bit_length() - 1 for zone in zones_of_cpus]
    holding = Holding(
        cpus=CpuSet.of(first),
        memory=tuple(MemoryBlock(zones, "memory", size) for zones, size in memory),
        devices={"gpu": devices} if devices else {},
    )
    assert zones_of_holding(report, holding, cpus) == expected
