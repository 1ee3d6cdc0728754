"""PodResources answers from files, for trying an agent without a kubelet.

A folder with ``list.json`` and ``get_allocatable_resources.json``: the messages in JSON form, as
``fake:///folder`` of the Resource Topology Exporter reads them, again at every call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.errors import KubeletUnavailable
from numakube.node.podresources import allocatable_from_json, pods_from_json

if TYPE_CHECKING:
    from pathlib import Path

    from numakube.node.podresources import AllocatableResources, PodResources


class FakePodResources:
    """Answers from files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def incarnation(self) -> object:
        """Return the same thing always: files do not restart."""
        return self._folder

    async def list_pods(self) -> tuple[PodResources, ...]:
        """Return what every pod holds."""
        return pods_from_json(*self._read("list.json"))

    async def allocatable(self) -> AllocatableResources:
        """Return what the node could give out if it were empty."""
        return allocatable_from_json(*self._read("get_allocatable_resources.json"))

    def _read(self, name: str) -> tuple[bytes, str]:
        path = self._folder / name
        try:
            return path.read_bytes(), str(path)
        except OSError as error:
            raise KubeletUnavailable(f"{path}: {error.strerror}") from None
