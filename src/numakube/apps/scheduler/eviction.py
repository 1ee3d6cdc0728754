"""Making room: the victims of a preemption are marked and deleted, gracefully.

As kube-scheduler does, a victim first gets the condition ``DisruptionTarget``, so that its
controller can tell an eviction from a failure, and is then deleted with its own grace period.
Disruption budgets were weighed when the victims were chosen.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from numakube.errors import Conflict, NotFound, NumakubeError
from numakube.kube.catalog import PODS
from numakube.kube.patches import strategic_patch
from numakube.values.times import format_time

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.kube.client import Client
    from numakube.scheduling.snapshot.pods import PodInfo

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


async def evict(client: Client, victims: Iterable[PodInfo], by: PodInfo, node: str) -> list[str]:
    """Delete *victims* for *by*; return what could not be done, in words."""
    outcomes = await asyncio.gather(*(_evict_one(client, one, by) for one in victims))
    problems = [problem for problem in outcomes if problem]
    if problems:
        _log.warning("preemption_incomplete", pod=by.key, node=node, problems=problems)
    return problems


async def _evict_one(client: Client, victim: PodInfo, by: PodInfo) -> str:
    if victim.is_being_deleted:
        return ""
    try:
        await _mark(client, victim, by)
        await client.delete(PODS, victim.name, namespace=victim.namespace, uid=victim.uid)
    except (NotFound, Conflict):
        return ""  # It is gone, or another has its name: the room is there either way.
    except NumakubeError as error:
        return f"{victim.key}: {error}"
    return ""


async def _mark(client: Client, victim: PodInfo, by: PodInfo) -> None:
    scheduler = by.scheduler_name
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"{scheduler}: preempting to accommodate a higher priority pod",
        "lastTransitionTime": format_time(client.clock.now()),
    }
    change = {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
    await client.patch(
        PODS,
        victim.name,
        strategic_patch(change),
        namespace=victim.namespace,
        subresource="status",
    )
