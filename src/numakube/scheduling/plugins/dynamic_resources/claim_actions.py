"""What allocating claims asks of the process that runs the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from numakube.errors import NumakubeError
from numakube.scheduling.framework.registry import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from datetime import datetime

    from numakube.api.pod import Pod, PodStatus
    from numakube.api.resource_claims import ResourceClaim
    from numakube.scheduling.framework.status import Status


class ClaimConflict(NumakubeError):
    """A claim was changed since the version that a change was meant for."""


class ClaimActions(Protocol):
    """Changes of claims and of the status of pods, and waiting for what others do with claims.

    Changes are meant for the version of the claim that is given: the process sends its
    ``resourceVersion`` along and raises `ClaimConflict` if it is not the latest, or another
    `numakube.errors.NumakubeError` with the server's words if the change fails.
    """

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the claim with that name as the server has it."""
        ...

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create *claim*; its name is generated."""
        ...

    async def set_finalizers(self, claim: ResourceClaim) -> ResourceClaim:
        """Write the finalizers of *claim*."""
        ...

    async def set_status(self, claim: ResourceClaim, *, allocation: bool) -> ResourceClaim:
        """Write the reservations of *claim*, and with *allocation* what is allocated."""
        ...

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete *claim*; one that is gone already is fine."""
        ...

    async def drop_reservation(self, claim: ResourceClaim, pod: Pod) -> None:
        """Take *pod* off the reservations of *claim*, whatever version it has."""
        ...

    async def set_pod_status(self, pod: Pod, status: PodStatus) -> None:
        """Write what *status* says of claims for extended and node-allocatable resources."""
        ...

    async def until(
        self, done: Callable[[], Status | None], *, timeout_seconds: float
    ) -> Status | None:
        """Ask *done*, now and whenever claims change, until it gives an answer.

        Returns:
            that answer, or ``None`` when the time is over.
        """
        ...

    def later(self, work: Coroutine[object, object, None]) -> None:
        """Do *work* beside the scheduling loop; failures are logged."""
        ...

    def now(self) -> datetime:
        """Return the time, in UTC."""
        ...

    def cpu_seconds(self) -> float:
        """Return how long the processor has worked for the thread that decides."""
        ...

    def new_id(self) -> str:
        """Return a random UUID."""
        ...

    def note(self, pod: Pod, reason: str, message: str) -> None:
        """Record an event of *pod*."""
        ...


CLAIM_ACTIONS: Final = Service[ClaimActions]("claim-actions")
KUBERNETES_MINOR: Final = Service[int]("kubernetes-minor")
"""The minor version of the API server."""
