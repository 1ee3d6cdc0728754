"""Whether a new belief differs from the one before, and whether it makes room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.scheduling.numa.caches.cache_contract import NOTHING, Cause, Change, Changes
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.topology.report_changes import configuration_of

if TYPE_CHECKING:
    from numakube.scheduling.snapshot.zone_belief import NumaBelief


def change_between(
    node: str,
    before: NumaBelief | None,
    after: NumaBelief | None,
    cause: Cause,
    *,
    frees: bool = False,
) -> Changes:
    """Return what there is to tell of a node's belief that was replaced; *frees* if it is known."""
    if before is None and after is None:
        return NOTHING
    return Changes((Change(node, cause, frees=frees or makes_room(before, after)),))


def makes_room(before: NumaBelief | None, after: NumaBelief | None) -> bool:
    """Tell whether a pod that was refused under *before* may be accepted under *after*."""
    if before is None or after is None:
        # A strict pod takes no node without data, another no node whose zones are full.
        return before is not after
    if before.blocked and not after.blocked:
        return True
    if configuration_of(before.topology) != configuration_of(after.topology):
        return True
    return _more_is_free(before, after) or _a_pod_left(before, after)


def _more_is_free(before: NumaBelief, after: NumaBelief) -> bool:
    zones = zip(before.available, after.available, strict=True)
    return any(amount > old.get(name, 0) for old, new in zones for name, amount in new.items())


def _a_pod_left(before: NumaBelief, after: NumaBelief) -> bool:
    """Tell whether a pod holds nothing any more; equal counts may hide other CPUs."""
    if not isinstance(before, ExactBelief) or not isinstance(after, ExactBelief):
        return False
    return bool(before.basis.holders() - after.basis.holders())
