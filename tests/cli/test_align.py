"""Is this container aligned? As a text and as an exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from numakube.cli.align import NOT_ALIGNED, UNKNOWN, answer
from numakube.cli.main import cli
from numakube.cli.shared.output_option import Output
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.sysfs_machine import write_tree

CARD = "PCIDEVICE_EXAMPLE_COM_DEVICEA"
STATIC = {CARD: "a1", f"{CARD}_INFO": '{"a1": {"static": {"numaNodes": "1"}}}'}


@pytest.fixture
def locate(tmp_path: Path) -> Callable[[str], Path]:
    """A container with four CPUs of one NUMA node, and unbound memory, on a machine of two."""
    write_tree(from_shape("2 sockets, 4 cores, smt 2, 16Gi"), tmp_path / "sys")
    status = tmp_path / "proc/self/status"
    status.parent.mkdir(parents=True)
    status.write_text("Cpus_allowed_list:\t1-2,9-10\nMems_allowed_list:\t0-1\n")
    return lambda path: tmp_path / path.lstrip("/")


def test_what_is_on_one_numa_node_is_aligned(locate: Callable[[str], Path]) -> None:
    text, code = answer(locate, {}, output=Output.TABLE, with_memory=False)
    assert (text.splitlines()[-1], code) == ("aligned on NUMA node 0", 0)
    assert "not bound, from any of NUMA nodes 0-1" in text


def test_a_device_elsewhere_is_not(locate: Callable[[str], Path]) -> None:
    text, code = answer(locate, STATIC, output=Output.JSON, with_memory=False)
    assert '"aligned": false' in text
    assert code == NOT_ALIGNED


def test_where_nothing_can_be_told_the_answer_is_unknown(tmp_path: Path) -> None:
    text, code = answer(lambda _: tmp_path / "empty", {}, output=Output.TABLE, with_memory=False)
    assert code == UNKNOWN
    assert "is /sys mounted?" in text


def test_the_command_looks_at_the_process_that_it_is() -> None:
    """On whatever machine this test runs."""
    ended = CliRunner().invoke(cli, ["check", "container", "-o", "json"])

    assert ended.exit_code in (0, NOT_ALIGNED, UNKNOWN)
    assert '"cpus"' in ended.output or "error:" in ended.output
