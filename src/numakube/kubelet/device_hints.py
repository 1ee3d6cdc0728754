"""Topology hints for devices, as ``pkg/kubelet/cm/devicemanager/topology_hints.go`` makes them.

A set of NUMA nodes has every device that sits on one of them: a device of several nodes counts for
each set that touches it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.kubelet.kubelet_effort import check_sets
from numakube.kubelet.topology_hints import Hint, hints_on, smallest_size
from numakube.kubelet.wide_hints import MOST_LISTED, Cover, WideHints
from numakube.values.numamask import NumaMask, masks_over, sums_over

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping


def device_hints(
    nodes: tuple[int, ...],
    *,
    every: Counter[NumaMask],
    free: Counter[NumaMask],
    tied: Counter[NumaMask],
    count: int,
    alone: bool = False,
) -> list[Hint] | WideHints:
    """Return the sets of *nodes* that touch enough devices.

    Args:
        nodes: the NUMA nodes that hints may name.
        every: all devices by the nodes that they sit on.
        free: those that can be given out.
        tied: those that the pod has already and will use again.
        count: how many devices are wanted.
        alone: whether sets of several nodes may be left out.
    """
    if len(nodes) > MOST_LISTED:
        check_sets(len(nodes))
        return wide_device_hints(nodes, every=every, free=free, tied=tied, count=count)
    return listed_device_hints(nodes, every=every, free=free, tied=tied, count=count, alone=alone)


def wide_device_hints(
    nodes: tuple[int, ...],
    *,
    every: Counter[NumaMask],
    free: Counter[NumaMask],
    tied: Counter[NumaMask],
    count: int,
) -> WideHints:
    """Return the same, described."""
    touched = Cover(dict.fromkeys(tied, 1), len(tied))
    missing = count - sum(tied.values())
    smallest = WideHints(nodes, (Cover(every, count),)).narrowest or len(nodes)
    return WideHints(nodes, (Cover(free, missing), touched), smallest)


def listed_device_hints(
    nodes: tuple[int, ...],
    *,
    every: Counter[NumaMask],
    free: Counter[NumaMask],
    tied: Counter[NumaMask],
    count: int,
    alone: bool = False,
) -> list[Hint]:
    """Return the same, one by one."""
    smallest = _smallest_size(every, nodes, count)
    missing = count - sum(tied.values())
    touching = _touching(free, nodes, alone=alone)
    fitting = [mask for mask in masks_over(nodes, alone=alone) if touching[mask] >= missing]
    if tied:
        fitting = [mask for mask in fitting if all(mask & one for one in tied)]
    return hints_on(nodes, fitting, smallest)


def _smallest_size(counts: Counter[NumaMask], nodes: tuple[int, ...], wanted: int) -> int:
    """Return how many of *nodes* it takes to touch *wanted* devices; all if they do not."""
    if all(one.bit_count() == 1 for one in counts):
        return smallest_size([counts[1 << node] for node in nodes], wanted)
    touched = _touching(counts, nodes)
    enough = (mask.bit_count() for mask in masks_over(nodes) if touched[mask] >= wanted)
    return next(enough, len(nodes))


def _touching(
    counts: Counter[NumaMask], nodes: tuple[int, ...], *, alone: bool = False
) -> Mapping[NumaMask, int]:
    """Return for every set of *nodes* how many devices sit on any of them."""
    if all(one.bit_count() == 1 for one in counts):
        return sums_over({node: counts[1 << node] for node in nodes}, alone=alone)
    return {
        mask: sum(count for one, count in counts.items() if one & mask)
        for mask in masks_over(nodes, alone=alone)
    }
