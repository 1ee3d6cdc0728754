"""Waiting pods by reason."""

from __future__ import annotations

import msgspec
from packages.pages.tests.world import pod_object, waiting_pods

from numakube.api.pod import Pod, PodSchedulingGate
from numakube_pages.pod_view import (
    NO_VERDICT,
    RefusalCount,
    group_by_reason,
    refusals_in,
    verdict_on,
    waiting_gangs,
)
from numakube_pages.scheduler_view import Waiting


def test_a_message_is_taken_apart_by_reason_the_most_frequent_first() -> None:
    """What preemption says comes after and is another matter."""
    message = (
        "0/5 nodes are available: 2 Insufficient memory, 3 cannot align container "
        "(cpu: best zone has 6 of 8). preemption: 0/5 nodes are available: 5 No victims."
    )
    assert refusals_in(message) == (
        RefusalCount(3, "cannot align container (cpu: best zone has 6 of 8)"),
        RefusalCount(2, "Insufficient memory"),
    )


def test_a_reason_with_commas_stays_whole() -> None:
    """Only a comma before a number begins another reason."""
    message = "0/2 nodes are available: 2 node(s) had untolerated taint {a: b, c}."
    assert refusals_in(message) == (RefusalCount(2, "node(s) had untolerated taint {a: b, c}"),)


def test_a_gang_is_told_by_its_first_member_that_does_not_fit() -> None:
    """With those that wait for the same reason alone."""
    outside = "node(s) outside the topology domain that is tried for the gang"
    said = f"0/3 nodes are available: 1 Insufficient cpu, 2 {outside}."
    message = f"gang a/g: 1 of 2 needed pods fit; g-2: {said}"
    assert refusals_in(message) == (RefusalCount(1, "Insufficient cpu"), RefusalCount(2, outside))
    told = {"name": "a/g", "needed": 2, "running": 0, "waiting": 2}
    pods = [pod_object(name, message=message) for name in ("g-1", "g-2", "single")]
    queue = [
        Waiting(pod=one.metadata.key, place="unschedulable", attempts=1, gang=gang)
        for one, gang in zip(pods, (told, told, None), strict=True)
    ]

    (gang,) = waiting_gangs(queue, {pod.metadata.key: pod for pod in pods})

    assert (gang.name, gang.needed, gang.running, gang.waiting) == ("a/g", 2, 0, 2)
    assert gang.why.startswith("1 of 2 needed pods fit; g-2: 0/3 nodes")


def test_words_of_another_form_are_told_as_they_are() -> None:
    """Other schedulers write what they like."""
    assert refusals_in("the quota is used up") == (RefusalCount(0, "the quota is used up"),)
    assert refusals_in("") == ()


def test_pods_that_differ_in_numbers_only_are_told_together() -> None:
    """In the words of the first, largest group first."""
    groups = group_by_reason(waiting_pods())
    assert [(len(group.pods), group.nodes) for group in groups] == [(3, 6), (1, 8), (1, 0)]
    assert groups[0].reason == "cannot align container (cpu: best zone has 10 of 20)"
    assert groups[1].reason == "Insufficient memory"
    assert groups[2].reason == NO_VERDICT


def test_gates_are_the_reason_before_anything_else() -> None:
    """No scheduler looks at a gated pod, whatever it said before."""
    pod = pod_object("gated", message="0/1 nodes are available: 1 Insufficient cpu.")
    spec = msgspec.structs.replace(pod.spec, scheduling_gates=(PodSchedulingGate(name="quota"),))
    gated: Pod = msgspec.structs.replace(pod, spec=spec)
    assert verdict_on(gated).text == "Scheduling gates are closed: quota"
