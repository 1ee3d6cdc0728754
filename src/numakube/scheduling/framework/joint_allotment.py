"""One decision of two plugins: CPUs that the scheduler gives itself, and devices of claims.

NodeNUMAResource chooses the NUMA nodes of a pod where no kubelet does, and DynamicResources the
devices. Either choice limits the other. So the plugin that has the last word, on devices, asks the
one that gives CPUs for a choice that both agree to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from numakube.scheduling.framework.cycle_state import StateKey
from numakube.values.numamask import NumaMask

if TYPE_CHECKING:
    from numakube.scheduling.snapshot.nodes import NodeInfo

Places: TypeAlias = Mapping[str, NumaMask]
"""NUMA nodes by container; an empty name stands for the whole pod."""
Agrees: TypeAlias = Callable[[Places], bool]


@dataclass(frozen=True, slots=True)
class Allotted:
    """Where a pod is put.

    Attributes:
        strict: whether the pod, or its node, wants nothing less than alignment.
    """

    places: Places
    strict: bool


class Allots(Protocol):
    """Gives the pod of a cycle CPUs on nodes whose kubelet does not."""

    def allot(self, node: NodeInfo, agrees: Agrees) -> Allotted | None:
        """Decide where on *node* the pod goes: where *agrees* says yes, if there is such a place.

        Returns:
            ``None`` if it is not the scheduler that decides there.
        """
        ...


ALLOTS: Final = StateKey[Allots]("allots")
