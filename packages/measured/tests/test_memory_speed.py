"""How fast memory is between NUMA nodes: measured, written, read again, and used."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from numakube.node.usage import FakeUsage
from numakube_measured.bench_command import command
from numakube_measured.bench_report import notes, svg, table
from numakube_measured.memory_speed import (
    ANNOTATION,
    Cell,
    MemorySpeed,
    read_speed,
    speed_of,
    write_speed,
)

TWO = MemorySpeed(
    cells=(
        Cell(cpus=0, memory=0, mi_per_second=40_000, bandwidth_spread=0.02, latency_ns=90.0),
        Cell(cpus=0, memory=1, mi_per_second=20_000, bandwidth_spread=0.5, latency_ns=140.0),
        Cell(cpus=1, memory=0, mi_per_second=20_000),
        Cell(cpus=1, memory=1),
    ),
    repeats=7,
    mebibytes=256,
)


def test_a_table_has_a_row_for_the_cpus_of_each_node() -> None:
    titles, rows = table(TWO)
    assert titles == ["", "MEMORY 0", "MEMORY 1"]
    assert rows == [
        ["CPUs 0", "39.1 100% 90ns", "19.5 50% 140ns~"],
        ["CPUs 1", "19.5 100%", "-"],
    ]


def test_noise_and_unknown_pairs_are_said() -> None:
    said = " ".join(notes(TWO))
    assert "1 of 4 pairs differ by more than 15 %" in said
    assert "1 pairs are unknown" in said


def test_the_picture_is_well_formed_whatever_the_host_is_called() -> None:
    from msgspec.structs import replace

    ElementTree.fromstring(svg(replace(TWO, host="<a & b>")))  # noqa: S314 (our own)


def test_what_a_node_is_annotated_with_is_read_again() -> None:
    text = write_speed(TWO)
    assert text == "memory 0 1; 0: 40000 20000; 1: 20000 -"
    found = read_speed({ANNOTATION: text})
    assert found is not None
    assert found.share(0, 1) == 0.5
    assert found.share(1, 1) is None


@pytest.mark.parametrize(
    "text",
    ["", "memory", "memory x; 0: 1", "memory 0 1; 0: 1", "memory 0; 0 1", "memory 0; : 5", ";;"],
)
def test_an_annotation_that_makes_no_sense_says_nothing(text: str) -> None:
    assert read_speed({ANNOTATION: text}) is None


@given(st.text(max_size=100))
def test_no_text_breaks_the_reader(text: str) -> None:
    read_speed({ANNOTATION: text})
    read_speed({ANNOTATION: f"memory 0 1;{text}"})


@pytest.mark.parametrize(
    ("cpus", "memory", "share"),
    [
        ({0: 1}, {0: 100}, 1.0),
        ({0: 1}, {1: 100}, 0.5),
        ({0: 1}, {0: 50, 1: 50}, 2 / 3),
        ({0: 1}, {0: 100, 1: 0}, 1.0),
        ({1: 1}, {1: 100}, None),
        ({7: 1}, {0: 100}, None),
        ({}, {0: 100}, None),
        ({0: 1}, {}, None),
    ],
)
def test_the_time_for_each_byte_adds_up(
    cpus: dict[int, int], memory: dict[int, int], share: float | None
) -> None:
    found = speed_of(TWO, cpus, memory)
    assert found == (None if share is None else pytest.approx(share))


@pytest.mark.skipif(
    platform.system() != "Linux" or not Path("/sys/devices/system/node").exists(),
    reason="this host has no NUMA nodes",
)
def test_this_machine_can_be_measured() -> None:
    """A few MiB, which say nothing of its memory: it is the way that is tried."""
    ended = CliRunner().invoke(
        command, ["node", "--mebibytes", "1", "--repeats", "3", "-o", "json"]
    )
    if ended.exception is not None and "does not let memory be placed" in str(ended.exception):
        pytest.skip("this kernel, or what confines this process, lets no memory be placed")
    assert ended.exit_code == 0, ended.output
    found = json.loads(ended.stdout)
    assert found["kind"] == "MemorySpeed"
    assert all(cell["miPerSecond"] is None or cell["miPerSecond"] > 0 for cell in found["cells"])


def test_a_node_is_not_filled_up_by_measuring(tmp_path: Path) -> None:
    usage = FakeUsage(tmp_path, tmp_path / "proc")
    usage.online("0")
    usage.zone(0, total=1 << 30, free=64 << 20)
    (tmp_path / "devices/system/node/node0/cpulist").write_text("0-1023\n")
    ended = CliRunner().invoke(command, ["node", "--sysfs", str(tmp_path)])
    assert "NUMA node 0 has 64 MiB left: try --mebibytes 4" in str(ended.exception)
