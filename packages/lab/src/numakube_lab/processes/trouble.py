"""Why a container of the lab's cannot be started."""

from __future__ import annotations

from typing import Self

from numakube.errors import NumakubeError


class CannotStart(NumakubeError):
    """A container cannot be started now; it is tried again.

    Attributes:
        reason: the kubelet's reason for the container's waiting.
        message: what is missing.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message

    @classmethod
    def because(cls, message: str) -> Self:
        """Return trouble with what the container's own description refers to."""
        return cls("CreateContainerConfigError", message)

    @classmethod
    def unmounted(cls, volume: str, message: str) -> Self:
        """Return trouble with a volume: to a kubelet the container is still being created."""
        return cls(
            "ContainerCreating", f'MountVolume.SetUp failed for volume "{volume}" : {message}'
        )
