"""How long a kubelet would take, where it tries every set of NUMA nodes.

Each resource manager looks at 2**n - 1 sets, and the Topology Manager at every permutation of their
hints. On a machine of 34 NUMA nodes that is a matter of hours, in which the kubelet admits no pod
and updates no status: it does not answer. Times were measured with the managers of Kubernetes 1.37.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Final

from numakube.kubelet.admission_outcome import NoAnswer
from numakube.kubelet.wide_hints import WideHints
from numakube.values.display import age_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.kubelet.topology_hints import Hint

_SECONDS_PER_SET: Final = 2e-6
_SECONDS_PER_PERMUTATION: Final = 4e-7
# After this a kubelet that is busy with one pod has missed heartbeats.
_PATIENCE_SECONDS: Final = 60


def check_sets(nodes: int) -> None:
    """Raise `NoAnswer` if the kubelet would try all sets of so many NUMA nodes for minutes."""
    tried = (1 << nodes) - 1
    _check(tried * _SECONDS_PER_SET, f"it tries each of the {tried} sets of {nodes} NUMA nodes")


def can_try_sets(nodes: int) -> bool:
    """Tell whether a kubelet comes to an end with all sets of so many NUMA nodes."""
    try:
        check_sets(nodes)
    except NoAnswer:
        return False
    return True


def check_permutations(axes: Iterable[Sequence[Hint] | WideHints]) -> None:
    """Raise `NoAnswer` if the kubelet would compare permutations of hints for minutes."""
    count = prod(one.fewest if isinstance(one, WideHints) else len(one) for one in axes)
    seconds = count * _SECONDS_PER_PERMUTATION
    _check(seconds, f"it compares each of {count} permutations of topology hints")


def _check(seconds: float, work: str) -> None:
    if seconds > _PATIENCE_SECONDS:
        raise NoAnswer(f"this kubelet would not answer for about {age_words(seconds)}: {work}")
