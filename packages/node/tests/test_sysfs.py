"""Machines are read from and written to a real directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from numakube.errors import MalformedObject
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.sysfs_machine import read_machine, write_tree

if TYPE_CHECKING:
    from pathlib import Path


def test_a_written_tree_reads_back(tmp_path: Path) -> None:
    """Nodes without CPUs, holes in ids, hugepages and caches all survive."""
    machine = from_shape(
        "2 sockets, 4 cores, smt 2, uncore 2, 8Gi, hugepages-1Gi 1/0, ids 0 8 9 + cxl 4Gi"
    )

    write_tree(machine, tmp_path)

    assert read_machine(tmp_path) == machine


def test_a_tree_can_be_written_again(tmp_path: Path) -> None:
    """Writing twice is no error, and every node directory links to its CPUs as the kernel does."""
    machine = from_shape("2 sockets, 2 cores, 1Gi")

    write_tree(machine, tmp_path)
    write_tree(machine, tmp_path)

    link = tmp_path / "devices/system/node/node1/cpu3"
    assert (link / "topology/physical_package_id").read_text() == "1\n"


def test_a_cpu_that_disappears_while_reading_is_left_out(tmp_path: Path) -> None:
    """A file that is listed but cannot be read any more counts as absent."""
    write_tree(from_shape("2 cores, 1Gi"), tmp_path)
    gone = tmp_path / "devices/system/cpu/cpu1/topology/core_id"
    gone.unlink()
    gone.symlink_to("nowhere")

    assert read_machine(tmp_path).cpu_count == 1


def test_a_directory_that_is_no_sysfs_is_refused(tmp_path: Path) -> None:
    """The message names the directory and what it should contain."""
    with pytest.raises(MalformedObject, match="is not a sysfs tree"):
        read_machine(tmp_path)


def test_this_very_machine_can_be_read(host_sysfs: Path) -> None:
    """Whatever runs the tests has at least one CPU and one NUMA node."""
    machine = read_machine(host_sysfs)

    assert machine.cpu_count >= 1
    assert machine.socket_count >= 1
    assert sum(len(core.threads) for node in machine.nodes for core in node.cores) >= 1
