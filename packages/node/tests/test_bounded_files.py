"""Files that anybody may have put there are read up to a size, and only if they are files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from numakube.errors import ConfigError
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.bounded_files import MOST_BYTES, read_regular_file
from numakube.node.device_plugin.device_choices import read_choices
from numakube.node.kubelet_files import read_host
from numakube.node.pci.pci_functions import text_of
from numakube.node.sysfs_machine import write_tree

pytestmark = pytest.mark.timeout(20)


def sparse(path: Path, size: int) -> None:
    """Make a file of *size* that takes no room."""
    path.touch()
    os.truncate(path, size)


def test_a_regular_file_is_read_to_its_end(tmp_path: Path) -> None:
    """Through a link, and one of the kernel that tells no size."""
    path = tmp_path / "state"
    path.write_bytes(b"x" * 3_000_000)
    (tmp_path / "link").symlink_to(path)
    assert read_regular_file(tmp_path / "link") == b"x" * 3_000_000
    assert read_regular_file(Path("/proc/self/comm"))


def test_a_file_may_have_as_many_bytes_as_it_may(tmp_path: Path) -> None:
    """And not one more."""
    path = tmp_path / "state"
    path.write_bytes(b"12345")
    assert read_regular_file(path, most=5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_regular_file(path, most=4)


@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "huge"])
def test_nothing_else_is_read(tmp_path: Path, kind: str) -> None:
    """Nobody waits for a writer, and nothing fills the memory."""
    path = tmp_path / "state"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        sparse(path, 6 << 30)
    with pytest.raises(OSError, match=f"more than {MOST_BYTES}|not a regular file"):
        read_regular_file(path)


def test_readers_of_devices_do_not_wait_for_a_pipe(tmp_path: Path) -> None:
    for name in ("numa_node", "x.json"):
        os.mkfifo(tmp_path / name)
    assert text_of(tmp_path / "numa_node") is None
    assert not read_choices(tmp_path)


@pytest.mark.parametrize("name", ["cpu_manager_state", "config.yaml"])
def test_validation_of_a_host_names_a_file_that_is_none(tmp_path: Path, name: str) -> None:
    """What would follow from it is not known."""
    folder = tmp_path / "var/lib/kubelet"
    folder.mkdir(parents=True)
    write_tree(from_shape("1 socket, 2 cores, 1Gi"), tmp_path / "sys")
    (folder / "config.yaml").write_text("kind: KubeletConfiguration\n")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(ConfigError, match=f"{name}: it is not a regular file"):
        read_host(tmp_path)
