"""Topology hints: what a resource manager tells the Topology Manager about one request.

A hint is a set of NUMA nodes that can satisfy the request, and whether that set is as small as the
machine allows ("preferred"). A provider answers with one list of hints a resource:

* ``None`` for the whole answer, or for one resource: it does not care where;
* an empty list: it cannot be satisfied anywhere;
* an empty mapping reads as "does not care", which is what the memory manager returns when nothing
  fits; its Allocate fails later (Kubernetes 1.37).

Three managers provide hints and allocate, always in this order: devices, CPUs, memory. There is no
roll-back: what a manager gave to a pod that is rejected later stays until the pod is forgotten.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeAlias

from numakube.values.numamask import NumaMask, masks_over, nodes_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numakube.kubelet.admission_outcome import Failure
    from numakube.kubelet.pod_demand import ContainerDemand, PodDemand
    from numakube.kubelet.wide_hints import WideHints

Axis: TypeAlias = "Sequence[Hint]"
"""The alternatives of one resource; a permutation takes one hint of every axis."""
ProviderHints: TypeAlias = "Mapping[str, Sequence[Hint] | WideHints | None] | None"
"""A provider's answer: resource name to its hints."""


class Hint(NamedTuple):
    """One possible placement; a mask of ``None`` means "anywhere"."""

    mask: NumaMask | None
    preferred: bool

    def __str__(self) -> str:
        nodes = "any" if self.mask is None else "{" + ",".join(map(str, nodes_of(self.mask))) + "}"
        return f"{nodes}/{'preferred' if self.preferred else 'not preferred'}"


ANYWHERE = Hint(None, preferred=True)
"""A provider without preference."""

NOWHERE = Hint(None, preferred=False)
"""A provider that cannot be satisfied; also the hint of a container that has none stored."""


def axes_of(answers: Iterable[ProviderHints]) -> list[Axis | WideHints]:
    """Return the axes to merge: one for each resource that some provider spoke about."""
    axes: list[Axis | WideHints] = []
    for answer in answers:
        if not answer:
            axes.append((ANYWHERE,))
            continue
        for hints in answer.values():
            if hints is None:
                axes.append((ANYWHERE,))
            else:
                axes.append(hints or (NOWHERE,))
    return axes


def hints_on(nodes: tuple[int, ...], masks: Iterable[NumaMask], smallest: int) -> list[Hint]:
    """Return hints for *masks* of *nodes*; those of the *smallest* size are preferred."""
    plain, preferred = _every_hint(nodes)
    return [preferred[one] if one.bit_count() == smallest else plain[one] for one in masks]


def smallest_size(amounts: Collection[int], wanted: int) -> int:
    """Return how many nodes it takes to have *wanted*; all of them if even those do not."""
    totals = accumulate(sorted(amounts, reverse=True))
    enough = (size for size, total in enumerate(totals, start=1) if total >= wanted)
    return next(enough, len(amounts))


@lru_cache(maxsize=256)
def _every_hint(nodes: tuple[int, ...]) -> tuple[dict[NumaMask, Hint], dict[NumaMask, Hint]]:
    """Return the hints for every mask of *nodes*, not preferred and preferred: made once."""
    masks = masks_over(nodes)
    return (
        {mask: Hint(mask, preferred=False) for mask in masks},
        {mask: Hint(mask, preferred=True) for mask in masks},
    )


class HintProvider(Protocol):
    """A resource manager as the Topology Manager sees it."""

    name: ClassVar[str]

    def container_hints(
        self, pod: PodDemand, container: ContainerDemand, *, alone: bool = False
    ) -> ProviderHints:
        """Return where the container's demand can be met.

        Hints of several NUMA nodes may be left out if only those *alone* will be looked at.
        """

    def pod_hints(self, pod: PodDemand, *, alone: bool = False) -> ProviderHints:
        """Return where the demand of the whole pod can be met; *alone* as above."""

    def allocate(self, pod: PodDemand, container: ContainerDemand, hint: Hint) -> Failure | None:
        """Take the container's resources, close to *hint*; a second call changes nothing."""

    def allocate_pod(self, pod: PodDemand, hint: Hint) -> Failure | None:
        """Take the resources of a pod that is managed as one bubble."""

    def pods(self) -> Iterable[str]:
        """Return the uids of the pods that hold resources."""

    def forget(self, uid: str) -> None:
        """Release everything that the pod holds."""

    def wanted(self, pod: PodDemand, container: ContainerDemand | None) -> Mapping[str, int]:
        """Return the amounts that the hints are about, for traces; the whole pod if ``None``."""

    def free_by_node(self, resource: str) -> Mapping[int, int]:
        """Return what is free of *resource* on each NUMA node, for traces."""
