"""What a node offers to claims."""

from __future__ import annotations

from typing import Any

import pytest
from dra_bed import offer_of

from numakube.api.codec import to_tree
from numakube.api.kubelet_config import KubeletConfiguration
from numakube.api.resource_claims import CapacityRequirements
from numakube.dra.allocated_state import is_available, wanted_amounts
from numakube.errors import ConfigError
from numakube.kubelet.machines.shape_text import from_shape
from numakube.values.cpuset import CpuSet, union
from numakube_dra_driver.devices import CPU_CAPACITY, Grouping

EPYC = "2 sockets, 2 numa each, 8 cores, smt 2, l3 4, 64Gi"


def cpus(**options: Any) -> dict[str, str]:
    """Return the CPUs of each device."""
    return {name: str(CpuSet(one.cpus)) for name, one in offer_of(**options).groups.items()}


@pytest.mark.parametrize("grouping", list(Grouping))
def test_every_cpu_is_in_one_device(grouping: Grouping) -> None:
    offer = offer_of(grouping=grouping, whole_cores=False, reserved=CpuSet.parse("0"))
    groups = offer.groups.values()
    assert sum(group.cpus.bit_count() for group in groups) == 15
    assert str(CpuSet(union(group.cpus for group in groups))) == "1-15"


def test_devices_are_called_by_the_numbers_of_the_hardware() -> None:
    assert list(cpus(grouping=Grouping.NUMA)) == ["cpu-numa0", "cpu-numa1"]
    assert list(cpus(grouping=Grouping.SOCKET)) == ["cpu-socket0", "cpu-socket1"]
    assert list(cpus(grouping=Grouping.MACHINE)) == ["cpu-machine"]
    assert list(cpus(grouping=Grouping.CORE))[1] == "core-0001"
    assert "core-0000" not in cpus(grouping=Grouping.CORE, reserved=CpuSet.parse("0"))


def test_a_core_with_a_reserved_cpu_is_left_out_of_whole_cores() -> None:
    assert cpus(reserved=CpuSet.parse("0"))["cpu-numa0"] == "1-3,9-11"
    assert cpus(reserved=CpuSet.parse("0"), whole_cores=False)["cpu-numa0"] == "1-3,8-11"


def test_what_the_kubelet_reserves_is_not_offered() -> None:
    config = KubeletConfiguration(reserved_system_cpus="0,8")
    assert cpus(config=config)["cpu-numa0"] == "1-3,9-11"
    assert cpus(config=config, reserved=CpuSet.parse("4,12"))["cpu-numa1"] == "5-7,13-15"


def test_a_static_cpu_manager_keeps_its_cpus() -> None:
    offer = offer_of(config=KubeletConfiguration(cpu_manager_policy="static"))
    assert not offer.groups
    assert "set cpuManagerPolicy to none" in offer.refused


def test_reserved_cpus_must_be_there() -> None:
    with pytest.raises(ConfigError, match="this machine has no CPUs 99"):
        offer_of(reserved=CpuSet.parse("0,99"))


def test_a_device_says_where_it_is() -> None:
    device = to_tree(offer_of().devices[1])
    attributes = device["attributes"]
    assert device["allowMultipleAllocations"] is True
    assert attributes["resource.kubernetes.io/numaNode"] == {"int": 1}
    assert attributes["numakube.dev/socket"] == attributes["dra.cpu/socketID"] == {"int": 1}
    assert attributes["numakube.dev/cpus"] == {"string": "4-7,12-15"}
    assert (attributes["dra.cpu/numCPUs"], attributes["dra.cpu/smtEnabled"]) == (
        {"int": 8},
        {"bool": True},
    )


def test_a_device_of_several_numa_nodes_has_no_numa_node() -> None:
    machine = offer_of(grouping=Grouping.MACHINE).devices[0]
    assert "resource.kubernetes.io/numaNode" not in machine.attributes
    assert "numakube.dev/socket" not in machine.attributes


def test_a_list_of_cpus_that_is_too_long_for_an_attribute_is_left_out() -> None:
    machine = from_shape("1 socket, 64 cores, smt 2, 16Gi")
    odd = CpuSet.of(range(0, 64, 2)) | CpuSet.of(range(64, 128, 2))
    device = offer_of(machine, reserved=odd).devices[0]
    assert "numakube.dev/cpus" not in device.attributes


@pytest.mark.parametrize(
    ("shape", "whole", "asked", "given"),
    [
        ("1 socket, 8 cores, smt 2, 16Gi", True, "3", "4"),
        ("1 socket, 8 cores, smt 2, 16Gi", True, "15", "16"),
        ("1 socket, 8 cores, smt 2, 16Gi", False, "3", "3"),
        ("1 socket, 8 cores, smt 2, 16Gi", False, "1500m", "2"),
        ("1 socket, 8 cores, smt 2, 16Gi", True, None, "16"),
        ("1 socket, 1 core, smt 2, 16Gi", True, "1", "2"),
        ("1 socket, 1 core, 16Gi", False, None, "1"),
    ],
)
def test_schedulers_round_what_is_asked_for(
    shape: str, whole: bool, asked: str | None, given: str
) -> None:
    """As kube-scheduler does by the device's policy."""
    device = offer_of(shape, whole_cores=whole).devices[0]
    request = CapacityRequirements(requests={CPU_CAPACITY: asked}) if asked else None
    amounts = wanted_amounts(request, device.capacity, fractions=False)
    assert amounts is not None
    assert str(amounts[CPU_CAPACITY]) == given
    assert is_available(amounts, device.capacity, (), fractions=False)
