"""Showing machines and turning one format into another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from numakube.kubelet.machines.cadvisor_machine import to_cadvisor, write_devices
from numakube.kubelet.machines.shape_text import from_shape

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Ended

SHAPE = "2 sockets, 2 cores, smt 2, 8Gi, gpu 1"


def test_a_table_has_a_row_a_node(numakube: Callable[..., Ended]) -> None:
    """CPUs, memory and devices of every NUMA node."""
    rows = [line.split() for line in numakube("machine", SHAPE).out.splitlines()]

    assert rows[0][:4] == ["NODE", "SOCKET", "CORES", "CPUS"]
    assert rows[2] == ["1", "1", "2", "2-3,6-7", "8Gi", "-", "20", "10", "1"]


def test_many_numa_nodes_that_are_alike_share_a_row(numakube: Callable[..., Ended]) -> None:
    """Only distances to nodes with CPUs are listed then."""
    rows = [line.split() for line in numakube("machine", "gb200-nvl4").out.splitlines()[1:]]
    assert rows == [
        ["0", "0", "72", "0-71", "480Gi", "-", "10", "40", "2"],
        ["1", "1", "72", "72-143", "480Gi", "-", "40", "10", "2"],
        ["2,10,18,26", "-", "0", "-", "186Gi", "-", "80", "80", "0"],
        ["3-9,11-17,19-25,27-33", "-", "0", "-", "0B", "-", "80", "80", "0"],
    ]


def test_devices_without_a_numa_node_have_a_row_of_their_own(
    numakube: Callable[..., Ended],
) -> None:
    """They would be missing from the table otherwise."""
    rows = [
        line.split() for line in numakube("machine", "1 core, 1Gi, gpu 2@0 3@-").out.splitlines()
    ]

    assert [row[-1] for row in rows[1:]] == ["2", "3"]


def test_through_all_formats_and_back(tmp_path: Path, numakube: Callable[..., Ended]) -> None:
    """Shape to cAdvisor to sysfs to shape."""
    shape = "2 sockets, 2 cores, smt 2, 8Gi"
    document = tmp_path / "machine.json"
    document.write_text(numakube("machine", shape, "-o", "cadvisor").out)

    assert numakube("machine", document, "-o", "sysfs", "--directory", tmp_path / "sys").code == 0
    assert numakube("machine", tmp_path / "sys", "-o", "shape").out == f"{shape}\n"


def test_a_file_may_have_a_shape(tmp_path: Path, numakube: Callable[..., Ended]) -> None:
    """A shape can be kept in a file, over several lines."""
    file = tmp_path / "shape"
    file.write_text("2 sockets\n2 cores, smt 2\n8Gi\ngpu 1\n")

    assert numakube("machine", file, "-o", "shape").out == f"{SHAPE}\n"


def test_a_recorded_scenario_is_a_machine_with_devices(
    tmp_path: Path, numakube: Callable[..., Ended]
) -> None:
    """The two keys of the replay format."""
    machine = from_shape(SHAPE)
    document = {"machine": to_cadvisor(machine), "devices": write_devices(machine.devices)}
    file = tmp_path / "scenario.json"
    file.write_text(json.dumps(document))

    assert numakube("machine", file, "-o", "shape").out == f"{SHAPE}\n"


def test_presets_are_listed(numakube: Callable[..., Ended]) -> None:
    """Each with its shape."""
    assert "dgx-h100 " in numakube("machine", "--presets").out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "Missing argument 'MACHINE'"),
        (["1 core, 1Gi", "-o", "sysfs"], 2, "`-o sysfs` and `--directory` go together"),
        (["1 core, 1Gi", "--directory", "x"], 2, "`-o sysfs` and `--directory` go together"),
        (["./no-such-file"], 1, "./no-such-file: no such file or directory"),
        (["1 core"], 1, "memory is missing"),
        (["1 core, 1Gi, " + "nic 1, " * 500], 1, "already given at column"),
    ],
)
def test_errors(
    arguments: list[str], code: int, message: str, numakube: Callable[..., Ended]
) -> None:
    """Wrong usage is 2, a machine that cannot be read is 1."""
    result = numakube("machine", *arguments)

    assert result.code == code
    assert message in result.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "m.json: not JSON"),
        ('{"num_cores": "x"}', "m.json: num_cores: expected an integer, got a string"),
        ('{"machine": {"topology": 1}}', "m.json: machine: topology: expected a list"),
        ('{"machine": {}, "devices": {"a/b": [{}]}}', "m.json: devices: [a/b][0].id: is required"),
    ],
)
def test_a_bad_file_is_named_with_the_field(
    content: str, message: str, tmp_path: Path, numakube: Callable[..., Ended]
) -> None:
    """File, object and field."""
    file = tmp_path / "m.json"
    file.write_text(content)

    result = numakube("machine", file)

    assert result.code == 1
    assert message in result.err
