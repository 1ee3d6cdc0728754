"""Would it fit? How long a scheduler takes to answer for one shape, at 5,000 nodes of 8 zones.

Budget: 99 % of the answers within 20 ms (`POST /v1/fit`, without HTTP).
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Final

from numakube.insight.node_setup import nodes_of_kinds
from numakube.insight.scheduler_engine import BindsNothing
from numakube.scheduling.assembly import all_plugins, assemble, default_configuration
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import pod
from numakube_planning.fit_endpoint import trying
from numakube_planning.simulation.virtual_node import NodeFactory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.scheduling.assembly import Engine

NODES: Final = "5000x 2 sockets, 4 numa, 8 cores, smt 2, 64Gi, gpu 1; policy=single-numa-node"
QUESTIONS: Final = 200
MOST_CPUS: Final = 6


def run() -> Iterator[dict[str, object]]:
    """Measure answers about pods of several sizes."""
    engine = engine_of_nodes()
    seconds = sorted(_answer(engine, number) for number in range(QUESTIONS))
    at = "answer to POST /v1/fit, 5000 nodes x 8 zones"
    median, late = statistics.median(seconds), seconds[int(0.99 * QUESTIONS)]
    yield {"metric": f"{at}, median", "value": round(1000 * median, 2), "unit": "ms"}
    yield {"metric": f"{at}, 99 %", "value": round(1000 * late, 2), "unit": "ms", "budget": 20}


def engine_of_nodes() -> Engine:
    """Return an engine that knows empty nodes and their reports."""
    engine = assemble(default_configuration(), all_plugins(BindsNothing.make))
    factory = NodeFactory({})
    for kind in nodes_of_kinds([NODES]):
        node = factory.make(kind)
        engine.cluster.set_node(node.object)
        report = node.report(1, exact=True)
        engine.cluster.take(engine.cache.set_report(report), engine.cache)
    return engine


def _answer(engine: Engine, number: int) -> float:
    asked = PodInfo(pod(f"p{number}", cpu=str(1 + number % MOST_CPUS)))
    begun = time.perf_counter()
    with trying(engine) as trials:
        (trial,) = trials.pods([asked])
    assert trial.node
    return time.perf_counter() - begun
