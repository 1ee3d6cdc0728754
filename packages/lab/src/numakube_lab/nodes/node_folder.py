"""A node's folder: checkpoint files, kubelet configuration and sysfs, as on a real node's disk.

    <folder>/config.yaml
    <folder>/cpu_manager_state
    <folder>/memory_manager_state
    <folder>/allocated_pods_state
    <folder>/device-plugins/kubelet_internal_checkpoint
    <folder>/sys/...            with control groups in sys/fs/cgroup, see `node_cgroups`

A sysfs tree has thousands of files: nothing is written before `NodeFolder.make` is called;
until then the state is kept in memory.

Checkpoints are replaced as a whole (a new file, then a rename), so that a reader never sees half
of one.
"""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.checkpoints import CPU_STATE, DEVICE_STATE, MEMORY_STATE
from numakube.api.kubelet_config import with_defaults
from numakube.kubelet.state_files import StateFiles
from numakube.node.pci.fake_pci import write_cards
from numakube.node.sysfs_machine import write_tree

if TYPE_CHECKING:
    from pathlib import Path

    from numakube_lab.nodes.kubelet_admission import Admission
    from numakube_lab.nodes.node_plan import NodePlan

CONFIG: Final = "config.yaml"
ALLOCATED_STATE: Final = "allocated_pods_state"
SYSFS: Final = "sys"


class NodeFolder:
    """The folder of one node; a kubelet keeps its state there."""

    def __init__(self, path: Path, plan: NodePlan) -> None:
        self.path = path
        self._plan = plan
        self._making: asyncio.Task[None] | None = None
        self._made = False
        self._admission: Admission | None = None
        self._saved: tuple[int, int] | None = None
        self._files: StateFiles | None = None
        self._written: dict[str, bytes] = {}

    async def make(self) -> Path:
        """Have the folder written, if it is not yet; return where it is."""
        if not self._made and (self._making is None or self._making.done()):
            self._making = asyncio.create_task(self._make())
        if self._making is not None:
            # The caller may go; others wait for the same files.
            await asyncio.shield(self._making)
        return self.path

    async def remove(self) -> None:
        """Delete the folder, if there is one."""
        if self._making is not None:
            await asyncio.wait([self._making])
        await asyncio.to_thread(shutil.rmtree, self.path, ignore_errors=True)

    def save(self, admission: Admission) -> None:
        """Write the checkpoint files that have changed."""
        self._admission = admission
        moment = id(admission), admission.version
        if self._made and moment != self._saved:
            self._write(admission.files())
            self._saved = moment

    def load(self) -> StateFiles | None:
        """Return the checkpoint files; ``None`` if the kubelet has not run here yet."""
        if not self._made:
            return self._files
        self._written.clear()
        files = StateFiles(
            cpu=_read(self.path / CPU_STATE),
            memory=_read(self.path / MEMORY_STATE),
            devices=_read(self.path / DEVICE_STATE),
            allocated=_read(self.path / ALLOCATED_STATE),
        )
        return None if files == StateFiles() else files

    def close(self, admission: Admission) -> None:
        """Keep the files as of now; those on disk are written already."""
        self._admission = None
        if not self._made:
            self._files = admission.files()

    async def _make(self) -> None:
        await asyncio.to_thread(self._prepare)
        self._made = True
        files = self._files if self._admission is None else self._admission.files()
        self._write(files or StateFiles())

    def _prepare(self) -> None:
        """Write what does not change: configuration and sysfs."""
        plan = self._plan
        self.path.mkdir(parents=True, exist_ok=True)
        _replace(self.path / CONFIG, msgspec.yaml.encode(with_defaults(plan.config)))
        write_tree(plan.machine, self.path / SYSFS)
        if plan.virtual_functions:
            nodes = [node.id for node in plan.machine.nodes]
            write_cards(self.path / SYSFS, nodes, virtual_functions=plan.virtual_functions)

    def _write(self, files: StateFiles) -> None:
        for name, content in (
            (CPU_STATE, files.cpu),
            (MEMORY_STATE, files.memory),
            (DEVICE_STATE, files.devices),
            (ALLOCATED_STATE, files.allocated),
        ):
            if content is not None and self._written.get(name) != content:
                _replace(self.path / name, content)
                self._written[name] = content


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
