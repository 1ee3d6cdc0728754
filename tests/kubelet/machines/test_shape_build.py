"""Shapes say what devices are attached to, and presets have it as the real machines do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from numakube.kubelet.machines.shape_text import from_shape

if TYPE_CHECKING:
    from numakube.kubelet.machine import Machine


def matrix(machine: Machine, rows: str, columns: str) -> list[str]:
    """Return how each device of one resource is connected to those of another."""
    return [
        " ".join(_word(machine, device.pci, other.pci) for other in machine.devices[columns])
        for device in machine.devices[rows]
    ]


def _word(machine: Machine, one: str, other: str) -> str:
    connection = machine.tree.between(one, other)
    return "?" if connection is None else connection.text


def own(word: str, *, of: int = 4) -> list[str]:
    """Return the rows of GPUs that have one card each, *of* cards a socket."""
    rows = [[word if i == j else "NODE" for j in range(of)] for i in range(of)]
    far = ["SYS"] * of
    return [" ".join((*row, *far)) for row in rows] + [" ".join((*far, *row)) for row in rows]


SHARED = [
    *["PIX PIX NODE NODE SYS SYS SYS SYS"] * 2,
    *["NODE NODE PIX PIX SYS SYS SYS SYS"] * 2,
    *["SYS SYS SYS SYS PIX PIX NODE NODE"] * 2,
    *["SYS SYS SYS SYS NODE NODE PIX PIX"] * 2,
]


@pytest.mark.parametrize(
    ("preset", "rows"),
    [
        ("dgx-h100", own("PXB")),
        ("dgx-b200", own("PXB")),
        ("hgx-b200", SHARED),
        ("gb300", own("PIX", of=2)),
    ],
)
def test_gpus_and_cards_are_as_close_as_in_the_real_machine(preset: str, rows: list[str]) -> None:
    """The rows are those that ``nvidia-smi topo -m`` prints on such a machine."""
    assert matrix(from_shape(preset), "nvidia.com/gpu", "nvidia.com/hostdev") == rows


def test_gpus_of_amd_have_cards_behind_their_switch() -> None:
    """By NUMA nodes of the socket, the switch is the GPU's own, or shared by two GPUs."""
    one_each = matrix(from_shape("mi300x"), "amd.com/gpu", "amd.com/nic")

    assert matrix(from_shape("mi300x-8"), "amd.com/gpu", "amd.com/nic") == SHARED
    assert [row.split().index("PIX") for row in one_each] == list(range(8))
    assert {word for row in one_each for word in row.split()} == {"PIX", "SYS"}


def test_gpus_are_linked() -> None:
    """Links between GPUs count more than what lies between them on the bus."""
    rows = matrix(from_shape("dgx-h100"), "nvidia.com/gpu", "nvidia.com/gpu")

    assert rows[0] == "X NV18 NV18 NV18 NV18 NV18 NV18 NV18"


def test_parts_of_one_card_are_in_one_slot() -> None:
    """All virtual functions of a card have its address; the accelerator has another root port."""
    machine = from_shape("telco-2s")

    cards = [device.pci for device in machine.devices["intel.com/sriov"]]
    assert len(set(cards[:16])) == len(set(cards[16:])) == 1
    assert cards[0] != cards[16]
    assert set(matrix(machine, "intel.com/sriov", "intel.com/acc100")[0].split()) == {"NODE"}


def test_devices_lie_evenly_on_the_switches_of_their_numa_node() -> None:
    """Six devices on four switches: no switch has more than two, and the order stays."""
    machine = from_shape("8 cores, 1Gi, gpu 6, nic 2, 4 switches")
    roots = [
        machine.tree.paths[device.pci].root for device in machine.devices["vendor.example/gpu"]
    ]
    nics = [machine.tree.paths[device.pci].root for device in machine.devices["vendor.example/nic"]]

    assert [roots.count(root) for root in dict.fromkeys(roots)] == [2, 1, 2, 1]
    assert nics == [roots[0], roots[3]]


def test_where_a_device_without_numa_node_is_attached_is_not_known() -> None:
    """Such a device has no address."""
    machine = from_shape("8 cores, 1Gi, gpu 1 1@-, 1 switch")

    assert [bool(device.pci) for device in machine.devices["vendor.example/gpu"]] == [True, False]


def test_many_devices_behind_one_switch_have_addresses_of_their_own() -> None:
    """Buses and domains are not used up."""
    machine = from_shape("8 cores, 1Gi, gpu 2000, 1 switch")

    first, *others = (device.pci for device in machine.devices["vendor.example/gpu"])

    assert len({first, *others}) == 2000
    assert {_word(machine, first, other) for other in others} == {"PIX"}
