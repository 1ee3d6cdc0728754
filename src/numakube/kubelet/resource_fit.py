"""The resource fit that the kubelet checks after alignment, with its words.

It repeats what a scheduler should have checked: the sum of requests against the node's
allocatable. Pods that were bound by hand or by two schedulers at once fail here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.pod_resources import effective_requests, resources_by_claim
from numakube.kubelet.admission_outcome import Rejected
from numakube.values.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    add_amounts,
    amount_of,
    is_extended,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.pod import Pod
    from numakube.values.resources import Amounts

# The kubelet reports the first of these that does not fit, then any other resource.
_ORDER = (CPU, MEMORY, EPHEMERAL_STORAGE)


def requested_amounts(pod: Pod) -> dict[str, int]:
    """Return what *pod* counts for: requests of all containers at its peak, and overhead."""
    return {
        name: amount_of(name, str(quantity)) for name, quantity in effective_requests(pod).items()
    }


def check_fit(pod: Pod, others: Iterable[Pod], allocatable: Amounts) -> Rejected | None:
    """Return why *pod* does not fit beside *others* on a node; ``None`` if it does."""
    running = list(others)
    used = add_amounts(*(requested_amounts(other) for other in running))
    left_to_claims = {name for _, name in resources_by_claim(pod)}
    wanted = {
        name: amount
        for name, amount in requested_amounts(pod).items()
        if name not in left_to_claims
    }
    return fit_refusal(wanted, used, len(running), allocatable)


def fit_refusal(
    wanted: Amounts, used: Amounts, running: int, allocatable: Amounts
) -> Rejected | None:
    """Return why a pod that asks for *wanted* does not fit beside others, as `check_fit` does.

    Args:
        wanted: its `requested_amounts`.
        used: those of the others together.
        running: how many others there are.
        allocatable: what pods may use of the node.
    """
    limit = allocatable.get(PODS, 0)
    if running + 1 > limit:
        return _out_of(PODS, 1, running, limit)
    names = [*_ORDER, *(name for name in wanted if name not in _ORDER)]
    for name in names:
        want, capacity = wanted.get(name, 0), allocatable.get(name)
        if capacity is None and is_extended(name):
            continue  # no plugin here knows the resource; the kubelet lets it pass
        if want and want + used.get(name, 0) > (capacity or 0):
            return _out_of(name, want, used.get(name, 0), capacity or 0)
    return None


def _out_of(name: str, requested: int, used: int, capacity: int) -> Rejected:
    return Rejected(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, "
        f"capacity: {capacity}",
    )
