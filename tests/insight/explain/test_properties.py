"""On random clusters: the verdict is the scheduler's, and what is suggested helps."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.insight.explain.applying import can_apply, decided, helps
from tests.insight.explain.cases import Case

from numakube.api.affinity_and_taints import Taint
from numakube.api.pod import Container, Pod
from numakube.insight.explain import explain, pod_subject, render
from numakube.insight.scheduler_engine import engine_of
from numakube.kubelet.admission_outcome import Rejected
from numakube.scheduling.cycle import Chosen, Refused
from numakube.testing import World, kubelet_settings, pod, resources

pytestmark = pytest.mark.timeout(300)

POLICIES = ("single-numa-node", "restricted", "best-effort", "none")
SHAPES = (
    "2 sockets, 2 cores, smt 2, 8Gi, gpu 1",
    "1 socket, nps 4, 4 cores, 16Gi, gpu 4",
    "2 sockets, 3 cores, 8Gi",
)


def random_case(seed: int) -> Case:
    """A small crowded cluster and one more pod."""
    rng = Random(seed)
    world = World()
    for number in range(rng.randint(1, 3)):
        name = f"node-{number}"
        options = {"full-pcpus-only": "true"} if rng.random() < 0.2 else {}
        taints = (Taint(key="team", value="x", effect="NoSchedule"),) if rng.random() < 0.2 else ()
        world.add_node(
            name,
            settings=kubelet_settings(
                rng.choice(POLICIES), rng.choice(("container", "pod")), cpu_options=options
            ),
            machine=rng.choice(SHAPES),
            taints=taints,
            unschedulable=rng.random() < 0.1,
        )
        for place in range(rng.randint(0, 4)):
            one = random_pod(rng, f"{name}-{place}")
            trial = world.kubelets[name].clone()
            if not isinstance(trial.admit(one), Rejected):
                world.run(one, name)
    stale = {name: {"topology.numakube.dev/stale": "old"} for name in world.nodes}
    attributes = stale if rng.random() < 0.1 else None
    facts = world.facts(exact=rng.random() < 0.8, attributes=attributes)
    return Case(facts, pod_subject(random_pod(rng, "subject", large=True)))


def random_pod(rng: Random, name: str, *, large: bool = False) -> Pod:
    """A pod of one or two containers."""
    most = 8 if large else 3
    base = pod(
        name, priority=rng.choice((0, 0, 10)), guaranteed=rng.random() < 0.85,
        node_selector={"disk": "ssd"} if large and rng.random() < 0.1 else {},
    )  # fmt: skip
    containers = []
    for number in range(rng.choice((1, 1, 2, 3))):
        wanted = {"cpu": rng.choice((str(rng.randint(1, most)), "1500m"))}
        wanted["memory"] = f"{rng.randint(1, most)}Gi"
        if rng.random() < 0.3:
            wanted["vendor.example/gpu"] = str(rng.randint(1, 2))
        containers.append(Container(name=f"c{number}", resources=resources(wanted)))
    split = 1 if len(containers) > 1 and rng.random() < 0.3 else 0
    spec = msgspec.structs.replace(
        base.spec, init_containers=tuple(containers[:split]), containers=tuple(containers[split:])
    )
    return msgspec.structs.replace(base, spec=spec)


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_the_verdict_is_the_schedulers(seed: int) -> None:
    """Whether it fits, where, and whom it would evict."""
    case = random_case(seed)
    explanation = explain(case.facts, engine_of(case.facts), case.subject)
    decision = decided(case.facts, case.subject.unbound())
    if isinstance(decision, Chosen):
        assert explanation.verdict == "fits"
        assert decision.node in explanation.fitting
    else:
        assert isinstance(decision, Refused)
        assert explanation.verdict == "refused"
        told = next((change for change in explanation.changes if change.kind == "preempt"), None)
        assert (told is None) == (decision.nomination is None)
        if told is not None and decision.nomination is not None:
            assert told.node == decision.nomination.node
    refused = {name for group in explanation.groups for name in group.nodes}
    assert refused | set(explanation.fitting) == set(case.facts.nodes)
    assert not refused & set(explanation.fitting)


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_what_is_suggested_helps(seed: int) -> None:
    """Each change, carried out, makes the scheduler place the pod and the kubelet take it."""
    case = random_case(seed)
    explanation = explain(case.facts, engine_of(case.facts), case.subject)
    for change in filter(can_apply, explanation.changes):
        assert helps(change, case.facts, case.subject.unbound()), change.text


@settings(max_examples=12)
@given(st.integers(0, 2**32))
def test_pods_that_run_are_explained_and_nothing_is_lost(seed: int) -> None:
    """Whatever the data, there is a text, and the facts are as they were."""
    case = random_case(seed)
    for one in case.facts.pods[:3]:
        explanation = explain(case.facts, engine_of(case.facts), pod_subject(one))
        assert explanation.placement is not None
        assert explanation.placement.node == one.spec.node_name
        assert explanation.pod.node in render(explanation)
