"""The tasks that run containers, which have one owner, and why a container cannot be started."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self

import structlog

from numakube.errors import NumakubeError

if TYPE_CHECKING:
    from collections.abc import Coroutine


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


_PATIENCE_SECONDS: Final = 5.0
"""How long tasks have to end once they were cancelled."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Tasks:
    """Tasks that may fail each on its own; the owner ends those that are left."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, job: Coroutine[object, object, None], *, name: str) -> asyncio.Task[None]:
        """Run *job* until it ends or the owner does."""
        task = asyncio.create_task(job, name=name)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    async def aclose(self) -> None:
        """Cancel everything and wait for it to end."""
        for task in self._running:
            task.cancel()
        if self._running:
            _, stubborn = await asyncio.wait(self._running, timeout=_PATIENCE_SECONDS)
            for task in stubborn:
                _log.error("task_does_not_end", task=task.get_name())

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task_failed", task=task.get_name(), error=repr(error))
