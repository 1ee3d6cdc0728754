"""Relations of pods whose NUMA nodes the scheduler chooses, where no kubelet does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from numakube.api.koordinator import keys
from numakube.kubelet import KubeletSettings
from numakube.scheduling.cycle import Chosen
from numakube.testing import World, pod
from numakube.topology.allotments import allotment_of
from numakube.values.numamask import nodes_of

if TYPE_CHECKING:
    from numakube.api.pod import Pod
    from numakube.testing import Scheduler

SHAPE: Final = "2 sockets, 4 cores, smt 2, 16Gi"
ANTI: Final = "numakube.dev/zone-anti-affinity"
SPREAD: Final = "numakube.dev/zone-spread"
NEAR: Final = "numakube.dev/zone-affinity"
REQUIRED: Final = {"numakube.dev/zone-mode": "Required"}


def scheduler() -> Scheduler:
    """Return a scheduler on a node whose kubelet aligns nothing."""
    world = World()
    world.add_node("n", machine=SHAPE, settings=KubeletSettings(topology_policy="none"))
    return world.scheduler()


def placed(name: str, app: str, wish: dict[str, str] | None = None, cpu: str = "2") -> Pod:
    """Return a pod that asks to be put on one NUMA node."""
    spec = json.dumps({"numaTopologyPolicy": "SingleNUMANode"})
    annotations = {keys.NUMA_TOPOLOGY_SPEC: spec, **(wish or {})}
    labels = {"app": app, keys.QOS_CLASS: "LSR", keys.PRIORITY_CLASS: "koord-prod"}
    return pod(name, cpu, labels=labels, annotations=annotations)


def zone_of(one: Pod) -> set[int]:
    """Return the NUMA nodes that a pod was given."""
    allotment = allotment_of(one)
    assert allotment is not None
    return {*allotment.total.zones, *nodes_of(allotment.total.mask)}


def two_workers(wish: dict[str, str]) -> list[set[int]]:
    """Return where two workers go of which the second has more room beside the first."""
    cluster = scheduler()
    first = cluster.run(placed("a", "worker", wish))
    cluster.run(placed("big", "big", cpu="4"))
    return [zone_of(first), zone_of(cluster.run(placed("b", "worker", wish)))]


def test_the_scheduler_puts_pods_on_different_numa_nodes() -> None:
    assert two_workers({}) == [{0}, {0}]
    for wish in ({ANTI: "app=worker"}, {SPREAD: "app=worker"}):
        assert two_workers(wish) == two_workers({**wish, **REQUIRED}) == [{0}, {1}]


def test_the_scheduler_puts_pods_on_the_same_numa_node() -> None:
    cluster = scheduler()
    cluster.run(placed("big", "big", cpu="6"))
    cache = cluster.run(placed("cache", "cache", cpu="4"))
    near = cluster.run(placed("near", "web", {NEAR: "app=cache", **REQUIRED}))
    assert zone_of(near) == zone_of(cache)


def test_a_pod_waits_if_every_numa_node_has_one_that_it_avoids() -> None:
    cluster, wish = scheduler(), {ANTI: "app=worker", **REQUIRED}
    for name in ("a", "b"):
        cluster.run(placed(name, "worker", wish))
    (reason,) = cluster.reasons(placed("c", "worker", wish))
    assert reason.startswith("zone-anti-affinity app=worker: it would be put in NUMA node ")
    decision = cluster.decide(placed("c", "web", {ANTI: "app=worker"}))
    assert isinstance(decision, Chosen)
