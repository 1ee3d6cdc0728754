"""Draws from the pods of a trace: the commonest shapes, and as many pods as a demand takes."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np

    from numakube.simulation.traces.trace_rows import TracePod

POPULARITY: Final = 0.95
"""The part of a workload that typical pods make up."""
Shape: TypeAlias = tuple[int, int, int, tuple[str, ...]]
_T = TypeVar("_T", bound=tuple[Any, ...])


def commonest(pods: Iterable[TracePod], popularity: float = POPULARITY) -> Counter[Shape]:
    """Return the commonest shapes, as many as make up *popularity* of *pods*, with their number."""
    counted = Counter(
        (pod.cpu_milli, pod.gpus, pod.gpu_milli, tuple(sorted(pod.gpu_models))) for pod in pods
    )
    return most_of(counted, popularity)


def most_of(counted: Counter[_T], popularity: float = POPULARITY) -> Counter[_T]:
    """Return the commonest of what was counted, as many as make up *popularity* of all."""
    wanted = popularity * counted.total()
    chosen: Counter[_T] = Counter()
    for shape, count in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        if chosen.total() >= wanted:
            break
        chosen[shape] = count
    return chosen


def arrivals(
    pods: Sequence[TracePod], wanted_milli: float, rng: np.random.Generator
) -> Iterator[TracePod]:
    """Yield *pods* in random order, then some of them again, until they ask for *wanted_milli*."""
    asked = sum(pod.total_gpu_milli for pod in pods)
    order = [pods[index] for index in rng.permutation(len(pods))]
    while asked > wanted_milli:
        asked -= order.pop(int(rng.integers(len(order)))).total_gpu_milli
    yield from order
    while asked < wanted_milli:
        pod = pods[int(rng.integers(len(pods)))]
        asked += pod.total_gpu_milli
        yield pod
