"""Names of devices and pools, and the errors that allocation ends with."""

from __future__ import annotations

from typing import Final, NamedTuple

from numakube.errors import NumakubeError


class DeviceId(NamedTuple):
    """A device: unique in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


class PoolId(NamedTuple):
    """A pool of devices."""

    driver: str
    pool: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}"


CEL_TIMEOUT: Final = "cel-timeout"


class AllocationError(NumakubeError):
    """Allocation cannot go on for the pod, on whatever node.

    Attributes:
        kind: ``cel-compile``, ``cel-runtime``, ``cel-timeout`` or ``other``.
        node_only: only this node is ruled out.
        costly: finding out took as long as it may: not to be repeated soon.
    """

    def __init__(
        self, message: str, *, kind: str = "other", node_only: bool = False, costly: bool = False
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.node_only = node_only
        self.costly = costly

    def at(self, where: str) -> AllocationError:
        """Return the same error with *where* it happened before it."""
        return AllocationError(
            f"{where}: {self}", kind=self.kind, node_only=self.node_only, costly=self.costly
        )
