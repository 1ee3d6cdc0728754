"""Gangs by levels: how many pods a second are decided with all domains costed.

In one process, without an API server: plans are made and their places booked, as a scheduler does
before it binds. Each gang, of four pods or a thousand, requires one of fifty racks. Gangs
in slices are planned on 12 domains of 18 nodes.

Budgets: 600 pods a second; 32 pods in slices planned within 50 ms once one like them was; whether a
gang of eight fits is answered within 10 ms (`POST /v1/fit`, without HTTP).
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Final

from numakube.insight.how_many_fit import EngineBooks
from numakube.scheduling.gang_placements import GangRequest
from numakube.scheduling.gang_planning import GangPlanner
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL, Gang, gang_of
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod
from numakube_lab.testing import without_election
from numakube_planning.fit_endpoint import trying

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.scheduling.assembly import Engine

_RACK: Final = "example.com/rack"
_NODES: Final = 5_000
_RACKS: Final = 50
_CASES: Final = ((750, 4), (1500, 4), (2250, 4), (3, 1000))
"""Gangs, and the pods of each."""
_LEAST: Final = 600
_MOST_SECONDS: Final = 0.05
_QUESTIONS: Final = 20


def run() -> Iterator[dict[str, object]]:
    """Measure every case."""
    for gangs, size in _CASES:
        engine = _cluster(_NODES, _RACKS, "1 socket, 64 cores, smt 1, 128Gi")
        _planned(engine, "warm-up", size, {"numakube.dev/gang-topology": _RACK})
        began = time.process_time()
        for number in range(gangs):
            _planned(engine, f"g{number}", size, {"numakube.dev/gang-topology": _RACK})
        rate = gangs * size / (time.process_time() - began)
        metric = f"{gangs} gangs of {size} on {_NODES} nodes in {_RACKS} racks, decided"
        yield {
            "metric": metric,
            "value": round(rate),
            "unit": "pods/s",
            "budget": _LEAST,
            "ratio": round(_LEAST / rate, 2),
        }
    yield from _answers(_cluster(_NODES, _RACKS, "1 socket, 64 cores, smt 1, 128Gi"))
    engine = _cluster(12 * 18, 12, "1 socket, 8 cores, smt 1, 16Gi")
    asked = {"numakube.dev/gang-slices": f"{_RACK}=16"}
    for name in ("cold", "warm"):
        began = time.process_time()
        _planned(engine, name, 32, asked, cpu="6")
        seconds = time.process_time() - began
        metric = f"32 pods in slices of 16 on 12 domains of 18, {name}"
        row: dict[str, object] = {"metric": metric, "value": round(seconds, 3), "unit": "s"}
        yield {**row, "budget": _MOST_SECONDS} if name == "warm" else row


def _answers(engine: Engine) -> Iterator[dict[str, object]]:
    """Measure how long it takes to say whether gangs fit."""
    for size, budget in ((8, 10.0), (32, None)):
        times: list[float] = []
        for number in range(_QUESTIONS):
            request = _request(
                engine, f"q{size}-{number}", size, {"numakube.dev/gang-topology": _RACK}
            )
            began = time.process_time()
            with trying(engine) as trials:
                fits = all(one.node for one in trials.gang(request))
            times.append(1000 * (time.process_time() - began))
            if not fits:
                raise RuntimeError("a gang does not fit into an empty cluster")
        metric = f"answer to POST /v1/fit, gang of {size} on {_NODES} nodes in {_RACKS} racks"
        row: dict[str, object] = {
            "metric": metric,
            "value": round(statistics.median(times), 1),
            "unit": "ms",
        }
        yield row if budget is None else {**row, "budget": budget}


def _cluster(nodes: int, racks: int, machine: str) -> Engine:
    world = World()
    for number in range(nodes):
        labels = {_RACK: f"r{number % racks:02}"}
        world.add_node(f"n{number:05}", machine=machine, labels=labels)
    return world.scheduler(without_election()).engine


def _planned(
    engine: Engine, name: str, size: int, annotations: dict[str, str], *, cpu: str = "4"
) -> None:
    request = _request(engine, name, size, annotations, cpu=cpu)
    plan = GangPlanner(engine, EngineBooks(engine)).plan(request)
    if plan.fitting < size:
        raise RuntimeError(plan.why_not(request))


def _request(
    engine: Engine, name: str, size: int, annotations: dict[str, str], *, cpu: str = "4"
) -> GangRequest:
    labels = {NAME_LABEL: name, MIN_LABEL: str(size)}
    pods = [
        PodInfo(pod(f"{name}-{number}", cpu, "2Gi", labels=labels, annotations=annotations))
        for number in range(size)
    ]
    gang = gang_of(pods[0], engine.cluster.objects)
    if not isinstance(gang, Gang):
        raise TypeError(f"{name} is no gang")
    return GangRequest(gang, pods, size)
