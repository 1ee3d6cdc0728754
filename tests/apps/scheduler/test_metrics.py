"""What the metrics show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from prometheus_client import CollectorRegistry
from tests.scheduling.conftest import pod_of
from tests.scheduling.queue.test_scheduling_queue import Rules

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.apps.node_state_metrics import NodeState
from numakube.apps.scheduler.metrics import SchedulerMetrics
from numakube.scheduling.queue.scheduling_queue import SchedulingQueue
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.topology.topology_view import NodeTopology

if TYPE_CHECKING:
    from numakube.scheduling.snapshot.zone_belief import NumaBelief
    from numakube.values.resources import Amounts


@dataclass(frozen=True)
class Belief:
    """As much of a belief as decides about the state."""

    topology: NodeTopology | None
    blocked: str = ""
    available: tuple[Amounts, ...] = ()


def test_gauges_show_what_the_queue_holds() -> None:
    """Read when asked, not when changed."""
    registry = CollectorRegistry()
    metrics, queue = SchedulerMetrics(registry), SchedulingQueue(Rules())
    metrics.watch_queue(queue, ["Fit"])
    for number in range(3):
        queue.add(pod_of(f"p{number}"), 0)
    entry = queue.pop(0)
    assert entry is not None
    queue.refused(entry, frozenset({"Fit"}), 0)

    def value(queue_name: str) -> float | None:
        return registry.get_sample_value("scheduler_pending_pods", {"queue": queue_name})

    assert (value("active"), value("unschedulable"), value("gated")) == (2, 1, 0)
    assert registry.get_sample_value("scheduler_unschedulable_pods", {"plugin": "Fit"}) == 1


def test_nodes_are_counted_by_what_is_known_of_them() -> None:
    """Each once, and every state is there, so that an alert finds a zero."""
    registry = CollectorRegistry(auto_describe=True)
    metrics, cluster = SchedulerMetrics(registry), Cluster()
    metrics.node_states.cluster = cluster
    topology = NodeTopology(node="n", zones=())
    beliefs = {
        "none": None,
        "unusable": Belief(None),
        "blocked": Belief(replace(topology, stale_reason="kubelet away"), blocked="foreign pods"),
        "stale": Belief(replace(topology, stale_reason="kubelet away")),
        "orphaned": Belief(replace(topology, orphaned="its pod is gone")),
        "counts": Belief(topology),
    }
    for name, belief in beliefs.items():
        cluster.set_node(Node(metadata=ObjectMeta(name=name)))
        cluster.suppose(name, cast("NumaBelief | None", belief))

    found = {
        state.value: registry.get_sample_value("numakube_cache_nodes", {"state": state.value})
        for state in NodeState
    }
    once = dict.fromkeys(("blocked", "stale", "orphaned", "counts"), 1)
    assert found == {"unknown": 2, **once, "exact": 0}


def test_plugins_are_timed_in_one_attempt_of_ten() -> None:
    """The first among them; what is timed every time does not depend on attempts."""
    registry = CollectorRegistry()
    metrics = SchedulerMetrics(registry)

    def count(point: str) -> float | None:
        name = "scheduler_plugin_execution_duration_seconds_count"
        return registry.get_sample_value(name, {"plugin": "Fit", "extension_point": point})

    for _ in range(11):
        metrics.begin_attempt()
        with metrics.stopwatch("Filter", "Fit"), metrics.stopwatch("Score", "Fit"):
            pass
        with metrics.timer("Bind", "Fit"):
            pass
    assert (count("Filter"), count("Score"), count("Bind")) == (2, 2, 11)
