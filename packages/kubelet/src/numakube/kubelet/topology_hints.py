"""Topology hints: what managers tell the Topology Manager of one request, and how it merges them.

`merge` has the kubelet's answer but not its cost; `reference_merge` is the definition, which tries
every permutation. Where a machine has so many NUMA nodes that hints cannot even be listed,
`numakube.kubelet.wide_hints` describes them.

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

from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import accumulate, product
from math import prod
from operator import or_
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeAlias

from numakube.values.numamask import NumaMask, mask_of, masks_over, nodes_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from numakube.kubelet.admission_outcome import Failure
    from numakube.kubelet.machine import Machine
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
    return [preferred[mask] if mask.bit_count() == smallest else plain[mask] for mask in masks]


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


# The NUMA nodes of a machine as the Topology Manager ranks them.
#
# *Fitter* is the kubelet's order on masks: fewer nodes first, then, with
# ``prefer-closest-numa-nodes``, the smaller average distance, then the smaller number.


@dataclass(frozen=True, slots=True)
class NumaInfo:
    """All NUMA nodes, also those without CPUs or memory, with their distances."""

    nodes: tuple[int, ...]
    everywhere: NumaMask
    distances: Mapping[int, Mapping[int, int]]
    closest: bool = False

    @classmethod
    def of(cls, machine: Machine, *, closest: bool = False) -> NumaInfo:
        """Read the nodes of *machine*; *closest* makes distances count."""
        ids = tuple(node.id for node in machine.nodes)
        distances = {node.id: _by_id(node.distances, ids) for node in machine.nodes}
        return cls(nodes=ids, everywhere=mask_of(ids), distances=distances, closest=closest)

    def fitness(self, mask: NumaMask) -> tuple[int, int, int]:
        """Return the key whose minimum is the fittest mask."""
        return mask.bit_count(), self.total_distance(mask) if self.closest else 0, mask

    def total_distance(self, mask: NumaMask) -> int:
        """Return the sum over all ordered pairs; for masks of one size it orders as the average."""
        nodes = nodes_of(mask)
        return sum(self.distances[node].get(other, 0) for node in nodes for other in nodes)

    def between(self, one: int, other: int) -> int:
        """Return the distance there and back."""
        return self.distances[one].get(other, 0) + self.distances[other].get(one, 0)


def _by_id(row: tuple[int, ...], ids: tuple[int, ...]) -> Mapping[int, int]:
    """Return a row of distances by node id.

    The kubelet indexes the row by id. The kernel lists the nodes in ascending order without gaps,
    so that ids with holes run over its end and crash the kubelet; there the position is meant.
    """
    if len(row) > max(ids):
        return dict(enumerate(row))
    return dict(zip(sorted(ids), row, strict=False))


# Merge the hints of all providers into one, with the kubelet's answer but not its cost.
#
# The kubelet walks the product of all axes: 255**3 permutations at eight NUMA nodes and three
# resources. Its comparison is a total preorder, so the winner can be found from sets instead:
#
# 1. A *preferred* candidate needs the same mask, preferred, on every axis (an axis may abstain with
#    a preferred "anywhere"). Intersecting the axes' preferred masks yields all of them, and any of
#    them beats every other candidate.
# 2. Otherwise every permutation is non-preferred, and only the *set* of masks that can come out of
#    ANDing one mask of each axis matters. It is built axis by axis (see `_conjunctions`).
#
# `reference_merge` is the definition; a property test proves both equal.
# Rules: ``pkg/kubelet/cm/topologymanager/policy.go`` of Kubernetes 1.26 to 1.37.


# Pairs of masks up to which two sets are ANDed one by one; above, the transform is cheaper, as long
# as it has no more nodes than this.
_DIRECT_PAIRS = 4096
_MOST = 16


def merge(axes: Sequence[Axis], numa: NumaInfo) -> Hint:
    """Return the best hint that takes one alternative of every axis."""
    preferred = _preferred_masks(axes, numa)
    if preferred:
        return Hint(min(preferred, key=numa.fitness), preferred=True)
    masks = (mask for mask in _conjunctions(axes, numa) if mask)
    return Hint(better_mask(masks, _best_non_preferred_count(axes), numa), preferred=False)


def better_mask(masks: Iterable[NumaMask], wanted: int, numa: NumaInfo) -> NumaMask:
    """Return the best of *masks* that are not preferred, or all nodes if there is no mask."""
    return min(
        masks,
        key=lambda mask: (*_distance_from(wanted, mask), *numa.fitness(mask)),
        default=numa.everywhere,
    )


def _preferred_masks(axes: Sequence[Axis], numa: NumaInfo) -> set[NumaMask]:
    """Return the masks on which all axes agree with preferred hints."""
    agreed: set[NumaMask] = set()
    all_may_abstain = True
    for axis in axes:
        masks = {hint.mask for hint in axis if hint.preferred and hint.mask is not None}
        may_abstain = ANYWHERE in axis
        kept = agreed if may_abstain else agreed & masks
        agreed = kept | masks if all_may_abstain else kept
        all_may_abstain = all_may_abstain and may_abstain
    merged = {mask & numa.everywhere for mask in agreed} - {0}
    return merged | {numa.everywhere} if all_may_abstain else merged


def _best_non_preferred_count(axes: Iterable[Axis]) -> int:
    """Return the size a non-preferred mask should have: the widest of the axes' narrowest masks."""
    return max(
        (
            min(sizes)
            for axis in axes
            if (sizes := [hint.mask.bit_count() for hint in axis if hint.mask is not None])
        ),
        default=0,
    )


def _distance_from(wanted: int, mask: NumaMask) -> tuple[bool, int]:
    """Rank sizes: *wanted* first, then smaller ones downwards, then larger ones upwards."""
    size = mask.bit_count()
    return size > wanted, abs(size - wanted)


def _conjunctions(axes: Iterable[Axis], numa: NumaInfo) -> Iterable[NumaMask]:
    """Return every mask that ANDing one mask of each axis can give."""
    # Equal axes count each: a permutation may take another mask of every one of them.
    sets = [
        frozenset(numa.everywhere if hint.mask is None else hint.mask for hint in axis)
        for axis in axes
    ]
    reached = {numa.everywhere}
    for masks in sorted(sets, key=len):
        pairs = len(reached) * len(masks)
        if pairs > _DIRECT_PAIRS and len(nodes := _nodes_in_common(sets)) <= _MOST:
            return _transformed_conjunctions(sets, nodes)
        reached = {one & other for one in reached for other in masks}
    return reached


def _nodes_in_common(sets: Iterable[frozenset[NumaMask]]) -> tuple[int, ...]:
    """Return the nodes that can be in a conjunction: those that every set has in some mask."""
    common = -1
    for masks in sets:
        common &= reduce(or_, masks)
    return nodes_of(common)


def _transformed_conjunctions(
    sets: Iterable[frozenset[NumaMask]], nodes: tuple[int, ...]
) -> Iterable[NumaMask]:
    """Do the same by sums over supersets, in time linear in the number of masks an axis.

    With ``f(m)`` the number of masks of an axis that contain *m*, the product of all ``f`` counts
    the permutations whose AND contains *m*; inverting the sum gives those whose AND is *m*.
    """
    common = mask_of(nodes)
    position = {1 << node: 1 << index for index, node in enumerate(nodes)}
    tables = []
    for masks in sets:
        counts = [0] * (1 << len(nodes))
        for mask in masks:
            counts[_translate(mask & common, position)] = 1
        _sum_over_supersets(counts, sign=1)
        tables.append(counts)
    product = [prod(column) for column in zip(*tables, strict=True)]
    _sum_over_supersets(product, sign=-1)
    back = {index: node for node, index in position.items()}
    return [_translate(index, back) for index, count in enumerate(product) if count]


def _sum_over_supersets(values: list[int], *, sign: int) -> None:
    """Replace each value by the sum over its supersets (or undo that with ``sign=-1``)."""
    bit = 1
    while bit < len(values):
        for base in range(0, len(values), 2 * bit):
            for index in range(base, base + bit):
                values[index] += sign * values[index + bit]
        bit *= 2


def _translate(mask: int, table: dict[int, int]) -> int:
    """Move every bit of *mask* to where *table* says."""
    result = 0
    while mask:
        low = mask & -mask
        result |= table[low]
        mask ^= low
    return result


# The hint merge straight from its definition: every permutation, compared one by one.
#
# Kept beside `merge` as its oracle and as the text to read to understand the rules. Exponential:
# 255**3 steps for three resources on eight NUMA nodes.


def reference_merge(axes: Sequence[Axis], numa: NumaInfo) -> Hint:
    """Return the best hint over all permutations, or everywhere and not preferred."""
    wanted = max(
        (
            min(hint.mask.bit_count() for hint in axis if hint.mask is not None)
            for axis in axes
            if any(hint.mask is not None for hint in axis)
        ),
        default=0,
    )
    best: tuple[NumaMask, bool] | None = None
    for permutation in product(*axes):
        candidate = _conjunction(permutation, numa)
        if candidate[0] and (best is None or _beats(candidate, best, wanted, numa)):
            best = candidate
    return Hint(*best) if best else Hint(numa.everywhere, preferred=False)


def _conjunction(permutation: Sequence[Hint], numa: NumaInfo) -> tuple[NumaMask, bool]:
    """Return the nodes that all hints have, and whether they are preferred."""
    mask = numa.everywhere
    masks = set()
    for hint in permutation:
        if hint.mask is not None:
            mask &= hint.mask
            masks.add(hint.mask)
    preferred = all(hint.preferred for hint in permutation) and len(masks) <= 1
    return mask, preferred


def _beats(
    candidate: tuple[NumaMask, bool], current: tuple[NumaMask, bool], wanted: int, numa: NumaInfo
) -> bool:
    """Tell whether *candidate* replaces *current*."""
    (one, preferred), (other, current_preferred) = candidate, current
    if preferred != current_preferred:
        return preferred
    fitter = numa.fitness(one) < numa.fitness(other)
    if preferred:
        return fitter
    size, current_size = one.bit_count(), other.bit_count()
    if current_size > wanted:
        return fitter
    if size > wanted or size < current_size:
        return False
    return size > current_size or fitter
