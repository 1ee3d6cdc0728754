"""Pods that wait, decided again."""

from __future__ import annotations

import msgspec

from numakube.api.pod import Pod, PodCondition, PodSchedulingGate, PodStatus
from numakube.insight.bundle_replay import Redecision, redecide
from numakube.insight.scheduler_engine import engine_of
from numakube.testing import World, pod

ALIGN = (
    "0/1 nodes are available: 1 cannot align container (cpu: best zone has 8 of 10 even if idle)."
)


def refused(one: Pod, message: str) -> Pod:
    """The pod after its scheduler has refused it."""
    condition = PodCondition(
        type="PodScheduled", status="False", reason="Unschedulable", message=message
    )
    status = PodStatus(phase="Pending", conditions=(condition,))
    return msgspec.structs.replace(one, status=status)


def world() -> World:
    """Pods that were refused, rightly and not any more, one that is new, and some of others."""
    made = World()
    made.add_node("node-a")
    gates = (PodSchedulingGate(name="g"),)
    made.pods += [
        refused(pod("right", cpu="10"), f"{ALIGN} preemption: anything"),
        refused(pod("freed", cpu="2"), "0/1 nodes are available: 1 Insufficient cpu."),
        pod("new", cpu="3"),
        pod("gated", scheduling_gates=gates),
        pod("other", scheduler_name="default-scheduler"),
    ]
    made.run(pod("runs"), "node-a")
    return made


def decisions() -> dict[str, Redecision]:
    """Decide about the pods of the world."""
    facts = world().facts()
    return {redecision.pod: redecision for redecision in redecide(facts, engine_of(facts))}


def test_only_pods_that_wait_for_us_are_decided() -> None:
    """Others are none of our business."""
    assert set(decisions()) == {"default/right", "default/freed", "default/new", "default/gated"}


def test_the_schedulers_words_are_compared() -> None:
    """But for what preemption adds."""
    found = decisions()
    assert found["default/right"].agrees
    assert found["default/right"].message.startswith(ALIGN)
    assert not found["default/freed"].agrees
    assert found["default/freed"].node == "node-a"
    assert "waiting for scheduling gates" in found["default/gated"].message
