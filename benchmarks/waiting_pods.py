"""Pods that fit nowhere: what each event costs while they wait, and what it costs to try them.

Waiting pods of a Deployment are all alike. Those of Jobs, Argo or Spark have a label of their own;
what the scheduler does for them should cost no more. A pod of another kind comes and goes, on a
node that has no room for those that wait. Then all are tried: of equal pods one is, of others each.

Budget: an event beside pods that differ in a label costs at most twice what it costs beside equal
ones.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from numakube.scheduling.cycle import Cycle, FirstOfEquals, Refused
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.scheduling_queue import ProfileHints, SchedulingQueue
from numakube.scheduling.snapshot.pod_equivalence import PodInfos
from numakube.testing import World, bound, pod
from numakube.testing.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.scheduling.snapshot.pods import PodInfo

NODES: Final = 20
PODS: Final = 4000
EVENTS: Final = 20
MACHINE: Final = "2 sockets, 8 cores, smt 2, 32Gi"


def run() -> Iterator[dict[str, object]]:
    """Measure pods that are alike, and pods that differ."""
    alike, unlike = Waiting(unlike=False), Waiting(unlike=True)
    equal, other = alike.event_seconds(), unlike.event_seconds()
    beside = f"an event beside {PODS} waiting pods"
    yield {"metric": f"{beside}, alike", **_milliseconds(equal)}
    budget = round(2e3 * max(equal, 1e-3), 3)
    yield {"metric": f"{beside}, each with a label", **_milliseconds(other), "budget": budget}
    yield {"metric": f"{PODS} pods tried, alike", **_milliseconds(alike.trial_seconds())}
    seconds = unlike.trial_seconds()
    yield {"metric": f"{PODS} pods tried, each with a label", **_milliseconds(seconds)}


def _milliseconds(seconds: float) -> dict[str, object]:
    return {"value": round(seconds * 1e3, 3), "unit": "ms"}


class Waiting:
    """A full cluster, and pods that wait for it."""

    def __init__(self, *, unlike: bool) -> None:
        world = World()
        for number in range(NODES):
            world.add_node(f"n{number}", machine=MACHINE)
        self._scheduler = Scheduler.of(world.facts())
        engine = self._scheduler.engine
        self._cycle = Cycle(engine.cluster, engine.nominations, FirstOfEquals())
        self._queue = SchedulingQueue(
            ProfileHints(engine.runtimes, engine.cluster, engine.nominations)
        )
        infos = PodInfos()
        for number in range(PODS):
            labels = {"example.com/id": str(number)} if unlike else {}
            self._queue.add(infos.of(pod(f"p{number}", cpu="20", labels=labels)), 0.0)
        self._other = infos.of(bound(pod("other", cpu="2"), "n0"))
        self._try_all()

    def event_seconds(self) -> float:
        """Return how long it takes to find out that a pod that is gone helps nobody."""
        cluster, started = self._scheduler.engine.cluster, time.perf_counter()
        for _ in range(EVENTS):
            cluster.place(self._other, "n0")
            cluster.remove_pod(self._other.uid)
            node = cluster.node("n0")
            event = ClusterEvent(
                kind=EventKind.POD_DELETED, node="n0", node_info=node, pod=self._other
            )
            assert not self._queue.handle([event], 0.0)
        return (time.perf_counter() - started) / EVENTS

    def trial_seconds(self) -> float:
        """Return how long it takes to try all of them in vain."""
        self._queue.activate([one.uid for one in self._queue], 0.0)
        started = time.perf_counter()
        assert self._try_all() == PODS
        return time.perf_counter() - started

    def _try_all(self) -> int:
        tried = 0
        while (entry := self._queue.pop(0.0)) is not None:
            self._refuse(entry.pod, entry.uid)
            tried += 1
        return tried

    def _refuse(self, info: PodInfo, uid: str) -> None:
        decision = self._cycle.decide(info, self._scheduler.runtime)
        assert isinstance(decision, Refused)
        entry = self._queue.get(uid)
        assert entry is not None
        self._queue.refused(entry, decision.diagnosis.plugins(), 0.0)
