"""What typical pods cannot use of a zone: fragmentation gradient descent (FGD), by zone.

Free devices are of use to a pod only if the zone also has the CPUs and the memory that it asks for.
For each typical pod the free devices of a zone count as fragments if the pod asks for none of them
or does not fit into the zone; `fragments` is the mean over the typical pods by how often they come.
A placement is rated by what it does to that: the fewer fragments it makes, the better.

If no typical pod asks for a device, CPUs are counted instead of devices.

The measure is that of Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with
Fragmentation Gradient Descent" (USENIX ATC 2023), which looks at whole nodes. A kubelet that aligns
makes the zone the place where a device and its CPUs have to meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from numakube.values.resources import CPU, MILLI_PER_CPU, ResourceKind, kind_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

Shares: TypeAlias = npt.NDArray[np.float64]

_UNITS: Final = {CPU: MILLI_PER_CPU}
"""Fragments are counted in whole devices or whole CPUs."""


@dataclass(frozen=True)
class TypicalPods:
    """What pods usually ask for.

    Attributes:
        pods: the amounts of each, and its part of all pods; the parts add up to 1.
    """

    pods: tuple[tuple[tuple[tuple[str, int], ...], float], ...]

    @classmethod
    def weighted(cls, pods: Sequence[tuple[Mapping[str, int], int]]) -> TypicalPods:
        """Return pods that come as often as their weights say."""
        total = sum(weight for _, weight in pods)
        return cls(tuple((tuple(sorted(one.items())), weight / total) for one, weight in pods))

    @cached_property
    def names(self) -> frozenset[str]:
        """All resources that any of them asks for."""
        return frozenset(name for parts, _ in self.pods for name, _ in parts)

    @cached_property
    def counted(self) -> tuple[str, ...]:
        """The resources whose free amounts are fragments or not."""
        devices = sorted(name for name in self.names if kind_of(name) is ResourceKind.EXTENDED)
        return tuple(devices) or (CPU,)

    def fits(
        self, reported: Collection[str]
    ) -> Iterator[tuple[tuple[tuple[str, int], ...], float]]:
        """Yield what each needs of a zone, with its part of all pods.

        CPUs, memory and hugepages that nodes do not report by zone are of no account there.
        """
        for parts, share in self.pods:
            needed = tuple(
                (name, amount)
                for name, amount in parts
                if name in reported or kind_of(name) is ResourceKind.EXTENDED
            )
            yield needed, share


def kept_whole(
    free: Mapping[str, int],
    wanted: Mapping[str, int],
    typical: TypicalPods,
    reported: Collection[str],
) -> float:
    """Rate what taking *wanted* from a zone does to its fragments: 1 is best, 0.5 is nothing."""
    left = {name: max(0, amount - wanted.get(name, 0)) for name, amount in free.items()}
    gained = fragments(free, typical, reported) - fragments(left, typical, reported)
    return (1 + gained / (1 + abs(gained))) / 2


def fragments(free: Mapping[str, int], typical: TypicalPods, reported: Collection[str]) -> float:
    """Return how many devices (or CPUs) of a zone are of no use to typical pods, on average."""
    lost = 0.0
    for needed, share in typical.fits(reported):
        hosts = all(free.get(name, 0) >= amount for name, amount in needed)
        asked = {name for name, _ in needed}
        for name in typical.counted:
            if not (hosts and name in asked):
                lost += share * (free.get(name, 0) / _UNITS.get(name, 1))
    return lost


def kept_whole_all(
    free: Mapping[str, Shares],
    wants: Sequence[Mapping[str, int]],
    typical: TypicalPods,
    reported: Collection[str],
) -> Shares:
    """Rate each placement as `kept_whole` does; arrays are ``(stages, nodes)``."""
    left = {}
    for name, amounts in free.items():
        wanted = np.array([[float(one.get(name, 0))] for one in wants])
        left[name] = (amounts - wanted).clip(0.0, np.inf)
    gained = _fragments_all(free, typical, reported) - _fragments_all(left, typical, reported)
    rating: Shares = (1 + gained / (1 + np.abs(gained))) / 2
    return rating


def _fragments_all(
    free: Mapping[str, Shares], typical: TypicalPods, reported: Collection[str]
) -> Shares:
    lost = np.zeros(next(iter(free.values())).shape)
    for needed, share in typical.fits(reported):
        hosts = np.ones(lost.shape, dtype=np.bool_)
        for name, amount in needed:
            hosts &= free[name] >= amount
        asked = {name for name, _ in needed}
        for name in typical.counted:
            parts = share * (free[name] / _UNITS.get(name, 1))
            lost += np.where(hosts, 0.0, parts) if name in asked else parts
    return lost
