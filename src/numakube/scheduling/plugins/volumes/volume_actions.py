"""What binding volumes asks of the process that runs the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from numakube.scheduling.framework.registry import Service

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.api.storage_objects import PersistentVolume, PersistentVolumeClaim
    from numakube.scheduling.framework.status import Status


class VolumeActions(Protocol):
    """Changes of volumes and claims, and waiting for what others make of them.

    Changes are meant for the version of the object that is given: the process must send its
    ``resourceVersion`` along, and raise `numakube.errors.NumakubeError` if that fails.
    """

    async def bind_volume(self, volume: PersistentVolume) -> None:
        """Write the ``claimRef`` and the annotations of *volume*."""
        ...

    async def select_node(self, claim: PersistentVolumeClaim) -> None:
        """Write the annotations of *claim*, which name the selected node."""
        ...

    async def until(self, done: Callable[[], Status | None], *, timeout_seconds: float) -> Status:
        """Ask *done*, now and whenever claims or volumes change, until it gives an answer.

        Returns:
            that answer, or a failure that says ``timed out`` when the time is over.
        """
        ...


VOLUME_ACTIONS: Final = Service[VolumeActions]("volume-actions")
