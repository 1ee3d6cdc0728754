"""One decision about a pod that the scheduler aligns, or about an ordinary one, on many nodes.

A whole cycle with the default profile, and what it books: CPU time of one thread. Nodes have 2 NUMA
nodes and 128 CPUs, and kubelets that align nothing. The first pod that wishes something has every
node read once; after that only nodes that have changed are looked at again.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Final

from packages.placement.tests.plugins.wishes import KoordinatorScheduler, pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numakube.api.pod import Pod

NODES: Final = (1000, 5000)
ROUNDS: Final = 100
SHAPE: Final = "2 sockets, 32 cores, smt 2, 256Gi"
BUDGET_MS: Final = 10.0
_SINGLE: Final = {"numaTopologyPolicy": "SingleNUMANode"}
_CONTAINERS: Final = {**_SINGLE, "numaTopologyScope": "container"}

KINDS: Final[dict[str, Callable[[str], Pod]]] = {
    "ordinary": lambda name: pod(name),
    "one NUMA node": lambda name: pod(name, spec=_SINGLE),
    "one NUMA node and CPUs": lambda name: pod(name, cpu="4", spec=_SINGLE, bound=True),
    "two containers, CPUs": lambda name: pod(
        name, containers={"one": "2", "two": "4"}, spec=_CONTAINERS, bound=True
    ),
}


def run() -> Iterator[dict[str, object]]:
    """Yield how long decisions take."""
    for count in NODES:
        scheduler = KoordinatorScheduler()
        for number in range(count):
            scheduler.add_node(
                f"n{number}", machine=SHAPE, offers={"cpu": "128", "memory": "512Gi"}
            )
        for kind, make in KINDS.items():
            times = [timed(scheduler, make(f"{kind} {number}")) for number in range(ROUNDS)]
            name = f"{count} nodes: {kind}"
            yield {
                "metric": f"{name}: median",
                "value": round(statistics.median(times[1:]), 2),
                "unit": "ms",
                "budget": BUDGET_MS,
            }
            yield {"metric": f"{name}: first", "value": round(times[0], 1), "unit": "ms"}


def timed(scheduler: KoordinatorScheduler, one: Pod) -> float:
    """Return how long it takes to place a pod."""
    started = time.process_time()
    scheduler.assume(one)
    return 1000 * (time.process_time() - started)
