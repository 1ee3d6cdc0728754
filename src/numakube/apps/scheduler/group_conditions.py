"""What Kubernetes' own PodGroup says of its gang: the condition ``PodGroupInitiallyScheduled``.

As kube-scheduler 1.37 writes it (KEP-4671): true with the reason ``Scheduled`` as soon as enough
members have a place and are being bound, else false with ``Unschedulable`` or ``SchedulerError``.
Once true it stays true, whatever becomes of the members: controllers such as that of Jobs wait for
it. Only the newest of each group is written, one group at a time, and only what changes.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from numakube.api.pod_groups import INITIALLY_SCHEDULED
from numakube.apps.watched_kinds import POD_GROUPS, located
from numakube.errors import ApiError, NotFound, NumakubeError
from numakube.kube.client import strategic_patch
from numakube.values.times import format_time

if TYPE_CHECKING:
    from numakube.api.pod_groups import PodGroup
    from numakube.kube.client import Client

SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
RETRY_SECONDS: Final = 1.0
_LONGEST_MESSAGE: Final = 32_768
"""What the API server takes."""
_REMEMBERED: Final = 10_000
"""Groups of which it is known what they were told last."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class _Wanted(NamedTuple):
    """What a group is to say."""

    group: PodGroup
    reason: str
    message: str

    @property
    def status(self) -> str:
        return str(self.reason == SCHEDULED)


class GroupConditions:
    """Writes the conditions of groups; `run` it in a task of its own."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._wanted: dict[str, _Wanted] = {}
        self._told: dict[str, tuple[str, str, str]] = {}
        self._changed = asyncio.Event()

    def decided(self, group: PodGroup, reason: str, message: str) -> None:
        """Let *group* say what came of the last attempt."""
        wanted = _Wanted(group, reason, message[:_LONGEST_MESSAGE])
        uid, found = group.metadata.uid, group.condition(INITIALLY_SCHEDULED)
        seen = (found.status, found.reason, found.message) if found else ("", "", "")
        # What was told last may not be in the object yet that the decision was made on.
        told = self._told.get(uid, seen)
        says = wanted.status, reason, wanted.message
        if "True" in (seen[0], told[0]) or told == says:
            return
        self._told[uid] = says
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        self._wanted[uid] = wanted
        self._changed.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            while not self._wanted:
                self._changed.clear()
                await self._changed.wait()
            uid, wanted = next(iter(self._wanted.items()))
            del self._wanted[uid]
            if not await self._write(wanted):
                self._wanted.setdefault(uid, wanted)
                await self._client.clock.sleep(RETRY_SECONDS)

    async def _write(self, wanted: _Wanted) -> bool:
        """Write a condition; tell whether there is nothing more to do about it."""
        meta = wanted.group.metadata
        condition = self._condition(wanted)
        change = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(
                (await located(self._client, POD_GROUPS)).raw,
                meta.name,
                strategic_patch(change),
                namespace=meta.namespace,
                subresource="status",
            )
        except NumakubeError as error:
            refused = isinstance(error, ApiError) and error.code < HTTPStatus.INTERNAL_SERVER_ERROR
            if not isinstance(error, NotFound):
                _log.warning("group_condition_not_written", group=meta.key, error=str(error))
            return refused
        return True

    def _condition(self, wanted: _Wanted) -> dict[str, Any]:
        group = wanted.group
        found = group.condition(INITIALLY_SCHEDULED)
        same = found is not None and found.status == wanted.status
        now = format_time(self._client.clock.now())
        return {
            "type": INITIALLY_SCHEDULED,
            "status": wanted.status,
            "reason": wanted.reason,
            "message": wanted.message,
            "observedGeneration": group.metadata.generation,
            "lastTransitionTime": found.last_transition_time if found and same else now,
        }
