"""Where a container is, seen from inside."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from numakube.errors import ConfigError
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.own_alignment import read_own_place
from numakube.node.sysfs_machine import write_tree

VF = "0000:3b:02.1"
CARD = "PCIDEVICE_EXAMPLE_COM_DEVICEA"
STATIC = {CARD: "a1", f"{CARD}_INFO": '{"a1": {"static": {"numaNodes": "1"}}}'}


@pytest.fixture
def locate(tmp_path: Path) -> Callable[[str], Path]:
    """A container on a machine of two NUMA nodes with 8 CPUs each; CPUs 8-15 are siblings."""
    write_tree(from_shape("2 sockets, 4 cores, smt 2, 16Gi"), tmp_path / "sys")
    device = tmp_path / "sys/bus/pci/devices" / VF
    device.mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    allowed(tmp_path, cpus="1-2,9-10", mems="0-1")
    return lambda path: tmp_path / path.lstrip("/")


def allowed(root: Path, *, cpus: str, mems: str) -> None:
    """Let the kernel say where the process may run."""
    status = root / "proc/self/status"
    status.parent.mkdir(parents=True, exist_ok=True)
    text = (
        f"Name:\tx\nCpus_allowed:\tffff\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t{mems}\n"
    )
    status.write_text(text)


def test_cpus_of_one_numa_node_are_aligned(locate: Callable[[str], Path]) -> None:
    """Memory that no kubelet bound counts only if that is asked for."""
    place = read_own_place(locate, {})

    assert (str(place.cpus), place.cpu_nodes, place.memory_nodes) == ("1-2,9-10", (0,), (0, 1))
    assert not place.memory_is_bound
    assert place.misalignments() == []
    assert place.misalignments(with_memory=True) == ["memory may come from NUMA nodes 0-1"]


def test_cpus_of_two_numa_nodes_are_not(locate: Callable[[str], Path], tmp_path: Path) -> None:
    """CPUs that the kernel allows but the machine does not have are nobody's."""
    allowed(tmp_path, cpus="2-4,100-255", mems="0")

    assert read_own_place(locate, {}).misalignments() == ["the CPUs 2-4 are on NUMA nodes 0-1"]


def test_bound_memory_has_to_be_beside_the_cpus(
    locate: Callable[[str], Path], tmp_path: Path
) -> None:
    """Whether it is asked for or not."""
    allowed(tmp_path, cpus="1-2", mems="1")

    assert read_own_place(locate, {}).misalignments() == ["memory is on NUMA node 1"]


@pytest.mark.parametrize("env", [{CARD: VF, f"{CARD}_INFO": "{}"}, STATIC])
def test_devices_count_by_sysfs_or_by_the_word_of_our_plugin(
    env: dict[str, str], locate: Callable[[str], Path], tmp_path: Path
) -> None:
    """PCI devices and static ones."""
    (wrong,) = read_own_place(locate, env).misalignments()
    assert wrong == f"the device {env[CARD]} is on NUMA node 1"

    allowed(tmp_path, cpus="4-5", mems="1")
    assert read_own_place(locate, env).misalignments() == []


@pytest.mark.parametrize("info", ["", "[]", '{"b": 1}', '{"b": {"static": 1}}', "no json"])
def test_a_device_of_which_nothing_is_known_is_only_listed(
    info: str, locate: Callable[[str], Path]
) -> None:
    """Others put other things into these variables."""
    place = read_own_place(locate, {CARD: "b", f"{CARD}_INFO": info})

    assert [(device.id, device.numa_nodes) for device in place.devices] == [("b", ())]
    assert place.misalignments() == []


def test_without_proc_the_control_group_tells(
    locate: Callable[[str], Path], tmp_path: Path
) -> None:
    """Its effective sets."""
    (tmp_path / "proc/self/status").unlink()
    with pytest.raises(ConfigError, match="control group"):
        read_own_place(locate, {})
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "cpuset.cpus.effective").write_text("4\n")
    (group / "cpuset.mems.effective").write_text("1\n")

    assert read_own_place(locate, {}).cpu_nodes == (1,)
