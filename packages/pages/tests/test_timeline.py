"""What the flight recorder kept, as steps for people."""

from __future__ import annotations

from typing import Any

import pytest
from packages.pages.tests.world import empty_source, pod_object

from numakube.insight.facts import ClusterFacts, SchedulerFacts
from numakube_pages.pod_view import pod_view
from numakube_pages.scheduler_view import Recorded, missed_in, moments_of

ZONES = {"zones": [{"ids": [0], "amounts": {"cpu": "4", "memory": "8Gi"}}]}
ELSEWHERE = {"zones": [{"ids": [1], "amounts": {"cpu": "4"}}]}


def flight(*events: dict[str, Any]) -> dict[str, Any]:
    """Return the document of a pod with one attempt."""
    times = [{"time": f"2026-11-15T12:00:{number:02}Z", **one} for number, one in enumerate(events)]
    queued = {"time": "2026-11-15T11:59:59Z", "why": "NodeAdded"}
    attempt = {"number": 3, "queued": queued, "events": times, "eventsDropped": 0}
    return {"pod": "default/web", "attempts": [attempt]}


def told(event: dict[str, Any]) -> tuple[str, str, bool]:
    """Return what is said of one event."""
    queued, moment = moments_of(flight(event))
    assert (queued.what, queued.detail) == ("queued for attempt 3", "NodeAdded")
    return moment.what, moment.detail, moment.good


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            {
                "event": "tried",
                "result": "chosen",
                "node": "a",
                "feasible": 2,
                "evaluated": 5,
                "seconds": 0.0021,
            },
            ("tried", "chose a; 2 of 5 nodes fit, in 2.1 ms", True),
        ),
        (
            {"event": "tried", "result": "failed", "message": "out of order", "seconds": 0.001},
            ("tried", "failed: out of order", False),
        ),
        (
            {
                "event": "tried",
                "evaluated": 3,
                "seconds": 0.001,
                "refusals": [
                    {"nodes": 3, "reasons": ["too small"], "plugin": "Fit", "examples": ["a"]}
                ],
            },
            ("tried", "none of 3 nodes fits, in 1.0 ms; 3 x too small (Fit: a, ...)", False),
        ),
        (
            {"event": "reserved", "node": "a", "predicted": ZONES},
            ("reserved", "on a: predicted zone 0: cpu 4, memory 8Gi", True),
        ),
        (
            {"event": "reserved", "node": "a", "anywhereIn": [0, 1]},
            ("reserved", "on a: counts only, somewhere in zones 0+1", True),
        ),
        ({"event": "bound", "node": "a"}, ("bound", "to a", True)),
        ({"event": "admitted", "node": "a"}, ("admitted", "by the kubelet of a", True)),
        ({"event": "notBound", "reason": "conflict"}, ("not bound", "conflict", False)),
        (
            {"event": "rejected", "node": "a", "reason": "TopologyAffinityError", "message": ""},
            ("rejected", "by the kubelet of a: TopologyAffinityError", False),
        ),
        (
            {"event": "observed", "node": "a", "zones": ELSEWHERE},
            ("observed", "on a: zone 1: cpu 4", True),
        ),
        ({"event": "ended", "how": "deleted"}, ("ended", "deleted", True)),
        ({"event": "somethingNew", "node": "a"}, ("somethingNew", "node a", True)),
    ],
)
def test_every_step_is_told_in_words(
    event: dict[str, Any], expected: tuple[str, str, bool]
) -> None:
    """Those that are not known yet as they are."""
    assert told(event) == expected


def test_mispredictions_are_told_with_both_sides() -> None:
    """On the timeline and on their own."""
    event = {
        "event": "mispredicted",
        "node": "a",
        "severity": "zones",
        "predicted": ZONES,
        "reported": {"refused": {"reason": "TopologyAffinityError", "message": "no"}},
    }
    what, detail, good = told(event)
    assert (what, good) == ("mispredicted", False)
    assert detail.endswith("got refusal (TopologyAffinityError: no)")
    (missed,) = missed_in(flight(event))
    assert (missed.pod, missed.node, missed.severity) == ("default/web", "a", "zones")
    assert missed.predicted == "zone 0: cpu 4, memory 8Gi"


def test_a_bundle_tells_what_its_schedulers_told() -> None:
    """Queue, attempts and mispredictions."""
    documents = {
        "queue": {"pods": [{"pod": "default/web", "place": "backoff", "attempts": 2}]},
        "attempts": {"items": [flight({"event": "bound", "node": "a"})]},
    }
    inside = Recorded(ClusterFacts(schedulers={"s": SchedulerFacts("s", documents)}))
    (waiting,) = inside.waiting()
    assert (waiting.pod, waiting.place, waiting.attempts) == ("default/web", "backoff", 2)
    assert [moment.what for moment in inside.moments("default", "web")][-1] == "bound"
    assert inside.moments("default", "other") == []
    assert inside.mispredictions() == []


@pytest.mark.parametrize(
    "documents",
    [
        {"queue": 7, "attempts": []},
        {"queue": {"pods": [1, {"attempts": "x"}]}, "attempts": {"items": [3, {"attempts": 4}]}},
        {"attempts": {"items": [{"pod": "a/b", "attempts": [{"events": [None, 5]}]}]}},
        {"attempts": {"items": [{"pod": "a/b", "attempts": [{"events": [{"event": "tried",
          "seconds": "x", "refusals": 9}]}]}]}},
    ],
)  # fmt: skip
def test_nonsense_in_a_bundle_is_passed_over(documents: dict[str, Any]) -> None:
    """Bundles come from strangers."""
    inside = Recorded(ClusterFacts(schedulers={"s": SchedulerFacts("s", documents)}))
    assert all(waiting.attempts == 0 for waiting in inside.waiting())
    assert inside.moments("a", "b") == []
    assert inside.mispredictions() == []


def test_a_pods_own_conditions_fill_in_where_nobody_recorded_it() -> None:
    """Creation first; what is known to the second comes at its end."""
    source = empty_source(inside=Recorded(_facts_with(flight({"event": "bound", "node": "a"}))))
    pod = pod_object("web", message="0/1 nodes are available: 1 no.")
    source.pods.put(pod)
    view = pod_view(source, "default", "web")
    assert view is not None
    assert [moment.what for moment in view.moments] == ["queued for attempt 3", "created", "bound"]
    source.pods.put(pod_object("other", message="0/1 nodes are available: 1 no."))
    other = pod_view(source, "default", "other")
    assert other is not None
    assert [moment.what for moment in other.moments] == ["created", "PodScheduled is False"]


def _facts_with(document: dict[str, Any]) -> ClusterFacts:
    documents = {"attempts": {"items": [document]}}
    return ClusterFacts(schedulers={"s": SchedulerFacts("s", documents)})
