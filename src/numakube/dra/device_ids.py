"""Names of devices and pools, and the errors that allocation ends with."""

from __future__ import annotations

from typing import NamedTuple

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


class AllocationError(NumakubeError):
    """Allocation cannot go on for the pod, on whatever node.

    Attributes:
        kind: ``cel-compile``, ``cel-runtime`` or ``other``.
        node_only: only this node is ruled out.
    """

    def __init__(self, message: str, *, kind: str = "other", node_only: bool = False) -> None:
        super().__init__(message)
        self.kind = kind
        self.node_only = node_only
