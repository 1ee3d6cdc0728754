"""What the metrics show of pods that wait."""

from __future__ import annotations

from tests.apps.scheduler.parts import Parts

from numakube.api.pod import PodSchedulingGate
from numakube.testing import World, pod

PLUGINS = ("NodeResourcesFit", "TaintToleration", "NodeAffinity")


def value(parts: Parts, name: str, **labels: str) -> float | None:
    """Return a sample."""
    return parts.registry.get_sample_value(f"scheduler_{name}", labels)


def test_pods_are_counted_where_they_wait_and_by_who_keeps_them() -> None:
    """As they are at the moment of reading; one that is tried is kept by nobody."""
    parts = Parts(World())
    parts.metrics.watch_queue(parts.queue.waiting, PLUGINS)
    for name, refused_by in (("a", {"NodeResourcesFit"}), ("b", set(PLUGINS[:2]))):
        parts.queue.refused(parts.taken(pod(name)), frozenset(refused_by), "no room")
    parts.queue.failed(parts.taken(pod("c")), "no answer")
    parts.waits(pod("d"))
    parts.waits(pod("e", scheduling_gates=(PodSchedulingGate(name="later"),)))

    def waiting() -> list[float | None]:
        queues = ("active", "backoff", "unschedulable", "gated")
        return [value(parts, "pending_pods", queue=queue) for queue in queues]

    def kept() -> list[float | None]:
        return [value(parts, "unschedulable_pods", plugin=plugin) for plugin in PLUGINS]

    assert waiting() == [1.0, 1.0, 2.0, 1.0]
    assert kept() == [2.0, 1.0, 0.0]
    parts.queue.activate("b", "asked for")
    assert waiting() == [2.0, 1.0, 1.0, 1.0]
    assert kept() == [1.0, 0.0, 0.0]
