"""What each policy makes of the hints of all resources.

``BestEffort`` takes the best set of NUMA nodes there is, ``Restricted`` only a set that every
resource prefers, ``SingleNUMANode`` only a single node. On nodes where we decide, a resource under
``Restricted`` prefers every set that it can be had on: the smallest set is measured by what is free
now, where a kubelet measures it by what an idle machine could give.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.allotment.hints import mask_text, summary
from numakube.allotment.merging import Surroundings, merge
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.allotment.hints import Hint
    from numakube.values.numamask import NumaMask


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What a policy says.

    Attributes:
        mask: where; means nothing if it is not admitted.
        settled: whether hints for wider sets could not change the answer any more.
    """

    mask: NumaMask
    admitted: bool
    settled: bool


def decide(
    policy: TopologyPolicy, hints: Mapping[str, Sequence[Hint]], around: Surroundings
) -> Decision:
    """Return what *policy* makes of *hints* by resource."""
    if policy is TopologyPolicy.SINGLE_NUMA_NODE:
        hints = {name: [hint for hint in one if _is_single(hint)] for name, one in hints.items()}
    merged = merge(hints.values(), around)
    if policy is TopologyPolicy.BEST_EFFORT:
        settled = merged.aligned and merged.clean
        return Decision(mask=merged.mask, admitted=True, settled=settled)
    return Decision(mask=merged.mask, admitted=merged.preferred, settled=merged.preferred)


def reason(
    policy: TopologyPolicy, hints: Mapping[str, Sequence[Hint]], around: Surroundings
) -> str:
    """Say why *policy* admits none of *hints*: what resources prefer, and who is in the way."""
    separator = "," if policy is TopologyPolicy.SINGLE_NUMA_NODE else " & "
    text = summary(hints, separator=separator)
    if not decide(policy, hints, Surroundings(zones=around.zones)).admitted:
        return text
    single, shared = mask_text(around.neighbours.single), mask_text(around.neighbours.shared)
    return (
        f"{text}; exclusive placement is required, but there are pods on one NUMA node"
        f" [{single}] and across several [{shared}]"
    )


def _is_single(hint: Hint) -> bool:
    return hint.preferred and (hint.mask is None or hint.mask.bit_count() == 1)
