"""Real processes in real control groups move where they were put, and back.

Needs a machine with a version 1 cpuset hierarchy that can be written, and two CPUs.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from numakube.node.cgroups.group_files import CPUS, MEMS, CgroupFiles, Hierarchy, Version
from numakube.node.cgroups.group_names import container_group, pod_group
from numakube.node.file_watch import Inotify
from numakube.testing import until_blocking
from numakube.topology.allotments import Allotment, Share
from numakube.values.cpuset import CpuMask, CpuSet, iter_bits
from numakube_placement.enforcer.allowed_cpus import NodeState, PodState, decide
from numakube_placement.enforcer.enforcer_state_file import OriginalsFile
from numakube_placement.enforcer.group_writing import GroupWriter
from numakube_placement.koordinator.node_facts import CpuLayout, CpuPlace

MOUNT = Path("/sys/fs/cgroup/cpuset")
PARENT = "kubepods"


class Machine:
    """A hierarchy of our own below the machine's, and processes in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = CgroupFiles(Hierarchy(Version.V1, root, None))
        self.processes: list[subprocess.Popen[bytes]] = []

    def add(self, group: str) -> None:
        """Make a group as a runtime does: with what the group above has."""
        path = self.root
        for name in ("", *group.split("/")):
            path /= name
            if not path.is_dir():
                path.mkdir()
            for file in (CPUS, MEMS):
                if not (path / file).read_text().strip():
                    (path / file).write_text((path.parent / file).read_text())

    def run(self, group: str) -> int:
        """Start a process that waits in a group; return its id."""
        wait = "import sys; sys.stdin.read()"
        command = (sys.executable, "-c", wait)
        process = subprocess.Popen(command, stdin=subprocess.PIPE)  # noqa: S603 - our own
        self.processes.append(process)
        (self.root / group / "cgroup.procs").write_text(str(process.pid))
        return process.pid

    def close(self) -> None:
        """End the processes and remove the groups; what cannot be removed stays."""
        for process in self.processes:
            process.kill()
            process.communicate()
        for folder in sorted(self.root.rglob("*"), key=lambda path: -len(path.parts)):
            if folder.is_dir():
                _remove(folder)
        _remove(self.root)


def _remove(folder: Path) -> None:
    def removed() -> bool:
        with contextlib.suppress(OSError):
            folder.rmdir()
        return not folder.exists()

    # A group is busy for a moment after its last process has ended.
    with contextlib.suppress(AssertionError):
        until_blocking(removed, within=1.0)


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A hierarchy of our own."""
    if not (MOUNT / CPUS).is_file() or not os.access(MOUNT, os.W_OK):
        pytest.skip("this machine has no writable cgroup v1 cpuset hierarchy")
    cpus = CpuSet.parse((MOUNT / CPUS).read_text().strip())
    if len(cpus) < 2 or os.sched_getaffinity(0) != set(cpus):
        pytest.skip("this process has a single CPU, or not all of them")
    machine = Machine(MOUNT / f"numakube-test-{uuid.uuid4().hex}")
    try:
        machine.add(PARENT)
        machine.run(PARENT)
    except OSError as error:
        machine.close()
        pytest.skip(f"groups cannot be made here: {error.strerror}")
    yield machine
    machine.close()


def allowed(pid: int) -> str:
    """Return the CPUs that a process may run on."""
    found = re.search(r"Cpus_allowed_list:\s*(\S+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return found[1]


def test_processes_move_where_their_pods_were_put(machine: Machine, tmp_path: Path) -> None:
    """A bound one to its CPU, a shared one off it, both back at the end."""
    everything = CpuSet.parse((MOUNT / CPUS).read_text().strip())
    first = next(iter(everything))
    rest = CpuSet(everything.bits & ~(1 << first))
    pods, pids = [], []
    for uid, share in (("a", Share(cpus=CpuMask(1 << first))), ("b", None)):
        identity = uid.encode().hex().ljust(64, "0")
        group = container_group(pod_group(PARENT, "Burstable", uid), f"containerd://{identity}")
        machine.add(group)
        pids.append(machine.run(group))
        pods.append(
            PodState(
                uid=uid,
                name=uid,
                containers={identity: "app"},
                allotment=None if share is None else Allotment(total=share),
            )
        )
    node = NodeState(
        layout=CpuLayout(tuple(CpuPlace(cpu, cpu, 0, 0) for cpu in iter_bits(everything.bits))),
        memory_nodes=1,
    )
    executor = GroupWriter(machine.files, OriginalsFile(tmp_path))
    assert executor.look() == ""
    assert executor.apply(pods, decide(pods, node)).refused == []
    assert [allowed(pid) for pid in pids] == [str(first), str(rest)]
    assert executor.apply(pods, decide(pods, node)).changes == []

    assert executor.restore().refused == []
    assert [allowed(pid) for pid in pids] == [str(everything)] * 2


def test_the_kernel_tells_of_new_groups_and_of_writes(machine: Machine) -> None:
    """So that nothing has to be looked for."""
    inotify = Inotify.open()
    if inotify is None:
        pytest.skip("no inotify instance is left on this machine")
    try:
        assert inotify.watch(machine.root / PARENT)
        machine.add(f"{PARENT}/pod1")
        assert (machine.root / PARENT, "pod1") in list(inotify.changes())
        assert inotify.watch(machine.root / PARENT / "pod1")
        machine.files.write(f"{PARENT}/pod1", CPUS, machine.files.read(PARENT, CPUS) or "")
        assert (machine.root / PARENT / "pod1", CPUS) in list(inotify.changes())
    finally:
        inotify.close()
