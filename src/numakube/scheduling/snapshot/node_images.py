"""Which nodes have which container images.

The size of an image is what the first node said that had it, as in kube-scheduler's cache (1.35).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.snapshot.nodes import NodeInfo


class Image:
    """An image and the rows of the nodes that have it."""

    __slots__ = ("_array", "_rows", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._rows: set[int] = set()
        self._array: Rows | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, row: int) -> bool:
        return row in self._rows

    @property
    def rows(self) -> Rows:
        """The rows as an array."""
        if self._array is None:
            self._array = np.fromiter(self._rows, dtype=np.intp, count=len(self._rows))
        return self._array

    def add(self, row: int) -> None:
        """Take into account that the node at *row* has it."""
        self._rows.add(row)
        self._array = None

    def discard(self, row: int) -> None:
        """Take into account that the node at *row* has it no more."""
        self._rows.discard(row)
        self._array = None


class ImageTable:
    """All images by name."""

    def __init__(self) -> None:
        self._images: dict[str, Image] = {}
        self._names: dict[int, frozenset[str]] = {}

    def get(self, name: str) -> Image | None:
        """Return the image called *name*, if any node has it."""
        return self._images.get(name)

    def write(self, node: NodeInfo) -> None:
        """Take over the images that *node* has."""
        sizes: dict[str, int] = {}
        for image in node.node.status.images:
            for name in image.names:
                sizes.setdefault(name, image.size_bytes)
        before = self._names.get(node.row, frozenset())
        now = frozenset(sizes)
        if now == before:
            return
        self._forget(node.row, before - now)
        for name in now - before:
            if name not in self._images:
                self._images[name] = Image(sizes[name])
            self._images[name].add(node.row)
        self._names[node.row] = now

    def clear(self, row: int) -> None:
        """Forget the node that was at *row*."""
        self._forget(row, self._names.pop(row, frozenset()))

    def _forget(self, row: int, names: frozenset[str]) -> None:
        for name in names:
            image = self._images[name]
            image.discard(row)
            if not len(image):
                del self._images[name]
