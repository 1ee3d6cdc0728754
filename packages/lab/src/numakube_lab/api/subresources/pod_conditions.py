"""Conditions that the server itself sets on pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube_lab.api.handling.object_meta import timestamp

if TYPE_CHECKING:
    from datetime import datetime

    from numakube_lab.kinds import Json


def with_condition(pod: Json, condition: Json, now: datetime) -> Json:
    """Return *pod* with *condition* set; its time changes only if its status does."""
    status = dict(pod.get("status") or {})
    conditions = [dict(item) for item in status.get("conditions") or ()]
    for index, item in enumerate(conditions):
        if item["type"] == condition["type"]:
            same = item.get("status") == condition["status"]
            since = item.get("lastTransitionTime") if same else timestamp(now)
            conditions[index] = {
                "lastProbeTime": None,
                "lastTransitionTime": since,
                **condition,
            }
            break
    else:
        fresh = {"lastProbeTime": None, "lastTransitionTime": timestamp(now)}
        conditions.append({**fresh, **condition})
    return {**pod, "status": {**status, "conditions": conditions}}
