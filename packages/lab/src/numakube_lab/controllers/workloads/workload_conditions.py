"""Conditions of workloads: how they are set, with the times of changes kept right."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.values.times import format_time
from numakube_lab.controllers.types.workload_types import Condition

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

Conditions = tuple[Condition, ...]


def find_condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the condition of this type."""
    return next((one for one in conditions if one.type == kind), None)


def without_condition(conditions: Conditions, kind: str) -> Conditions:
    """Return the conditions less the one of this type."""
    return tuple(one for one in conditions if one.type != kind)


def with_condition(
    conditions: Conditions,
    kind: str,
    status: str,
    reason: str,
    message: str,
    *,
    now: datetime,
    renew: bool = False,
) -> Conditions:
    """Return *conditions* with one set.

    A condition that says the same as before stays as it is, unless it is to be renewed: its update
    time then tells that it was found true again.
    """
    current = find_condition(conditions, kind)
    if current and (current.status, current.reason) == (status, reason) and not renew:
        return conditions
    moment = format_time(now)
    since = current.last_transition_time if current and current.status == status else moment
    new = Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_update_time=moment,
        last_transition_time=since,
    )
    return (*without_condition(conditions, kind), new)
