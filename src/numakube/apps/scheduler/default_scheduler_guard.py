"""The guard of the name ``default-scheduler``: two schedulers must not bind the same pods.

Pods that name no scheduler belong to the cluster's kube-scheduler, which holds the lease
``kube-system/kube-scheduler`` while it works. A scheduler of ours that serves the same name takes
these pods only while it holds that lease itself. So it waits as long as a kube-scheduler runs, and
a kube-scheduler that is started later stands by, as a second replica of it would. Pods of other
profiles do not wait.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from numakube.api.meta import ObjectReference
from numakube.api.scheduler_config import DEFAULT_SCHEDULER, HOLDER_PREFIX, MAIN_LEASE
from numakube.kube.catalog import LEASES
from numakube.kube.leader_election import LeaderElection
from numakube.kube.resource_types import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.kube.client import Client
    from numakube.kube.event_recorder import EventRecorder
    from numakube.kube.leader_election import LeaseTiming

GUARDED_LEASE: Final = ObjectKey(*MAIN_LEASE)
HELD: Final = "DefaultSchedulerHeld"
TAKEN: Final = "DefaultSchedulerTaken"

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class DefaultSchedulerGuard:
    """Waits for kube-scheduler's lease, and says so while another holds it.

    Attributes:
        election: for that lease; a scheduler whose own lease it is runs it itself.
    """

    def __init__(
        self, client: Client, recorder: EventRecorder, *, identity: str, timing: LeaseTiming
    ) -> None:
        self.election = LeaderElection(
            client,
            GUARDED_LEASE,
            identity=identity,
            timing=timing,
            on_new_leader=self._new_leader,
        )
        self._recorder = recorder
        self._waits = False

    async def run(self, take_over: Callable[[], None]) -> None:
        """Wait for the lease, call *take_over*, and keep the lease until cancelled.

        Raises:
            LeadershipLost: it was not renewed in time.
        """

        async def keep() -> None:
            take_over()
            await asyncio.Event().wait()

        self._waits = True
        try:
            await self.election.run(keep)
        finally:
            self._waits = False

    def missing(self) -> str:
        """Say who keeps us from pods of `DEFAULT_SCHEDULER`; empty if nobody does."""
        holder = self.election.leader
        if self.election.is_leader or holder.startswith(HOLDER_PREFIX):
            return ""
        if holder:
            return _held_text(holder)
        return f"the lease {GUARDED_LEASE} could not be taken yet" if self._waits else ""

    def _new_leader(self, holder: str) -> None:
        lease = ObjectReference(
            api_version=LEASES.api_version,
            kind=LEASES.kind,
            namespace=GUARDED_LEASE.namespace,
            name=GUARDED_LEASE.name,
        )
        if holder == self.election.identity:
            _log.info("default_scheduler_taken", lease=str(GUARDED_LEASE))
            text = f"pods of {DEFAULT_SCHEDULER} are scheduled by {holder}"
            self._recorder.normal(lease, TAKEN, text)
        elif not holder.startswith(HOLDER_PREFIX):
            _log.warning("default_scheduler_held", lease=str(GUARDED_LEASE), holder=holder)
            self._recorder.warning(lease, HELD, _held_text(holder))


def _held_text(holder: str) -> str:
    return (
        f"the lease {GUARDED_LEASE} is held by {holder}:"
        f" pods of {DEFAULT_SCHEDULER} are left to it until it stops"
    )
