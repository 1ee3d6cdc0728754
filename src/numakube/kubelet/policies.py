"""The Topology Manager's policies: how hints are merged and whether the result is admitted.

Kubernetes 1.26 to 1.37 behave the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from numakube.kubelet.hint_merge import merge
from numakube.kubelet.topology_hints import Hint, ProviderHints, axes_of
from numakube.kubelet.wide_hint_merge import AnyAxis, merge_wide
from numakube.kubelet.wide_hints import WideHints
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.kubelet.numa_ranking import NumaInfo


class Decision(NamedTuple):
    """The merged hint and whether the policy admits it."""

    hint: Hint
    admitted: bool


def decide(policy: TopologyPolicy, answers: Iterable[ProviderHints], numa: NumaInfo) -> Decision:
    """Merge the providers' answers as *policy* does. Not for policy ``none``, which never asks."""
    axes = axes_of(answers)
    if policy is TopologyPolicy.SINGLE_NUMA_NODE:
        hint = _merge_single(axes, numa)
        return Decision(hint, hint.preferred)
    hint = merge_wide(axes, numa)
    return Decision(hint, hint.preferred or policy is TopologyPolicy.BEST_EFFORT)


def _merge_single(axes: Sequence[AnyAxis], numa: NumaInfo) -> Hint:
    """Merge only preferred hints of one node; a result that says "all nodes" is stored as none."""
    hint = merge([_single_nodes(axis) for axis in axes], numa)
    if hint.mask == numa.everywhere:
        return Hint(None, hint.preferred)
    return hint


def _single_nodes(axis: AnyAxis) -> list[Hint]:
    if isinstance(axis, WideHints):
        return axis.preferred_single_nodes()
    preferred = (hint for hint in axis if hint.preferred)
    return [hint for hint in preferred if hint.mask is None or hint.mask.bit_count() == 1]
