"""What the operator decides about the scheduler, from the present state alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.apps.operator.test_exporters_plan import applied

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.numaresources import (
    NUMAResourcesScheduler,
    SchedulerProfile,
    SchedulerSpec,
    ScoredResource,
    ScoringStrategySpec,
)
from numakube.api.workloads import (
    Deployment,
    DeploymentCondition,
    DeploymentStatus,
)
from numakube.api.yaml_text import load_yaml
from numakube.apps.operator.planned_actions import OperatorPlan, PlannedState
from numakube.apps.operator.scheduler_plan import (
    SchedulerSeen,
    SchedulerSetup,
    digests_of,
    plan_scheduler,
)
from numakube.manifests.release_image import IMAGE

SCHEDULER_SETUP = SchedulerSetup(namespace="ns")


def scheduler_plan(
    nodes: int = 3,
    *,
    control_plane: int = 0,
    setup: SchedulerSetup = SCHEDULER_SETUP,
    deployment: Deployment | None = None,
    **spec: Any,
) -> OperatorPlan:
    """Return the plan for a scheduler on a cluster of so many nodes."""
    label = {"node-role.kubernetes.io/control-plane": ""}
    all_nodes = tuple(
        Node(metadata=ObjectMeta(name=f"n{n}", labels=label if n < control_plane else {}))
        for n in range(nodes)
    )
    own = NUMAResourcesScheduler(
        metadata=ObjectMeta(name="numaresourcesscheduler", uid="s"),
        spec=SchedulerSpec(**{"image_spec": "registry.example/numakube:1", **spec}),
    )
    plan = plan_scheduler(SchedulerSeen(object=own, nodes=all_nodes, deployment=deployment), setup)
    assert plan is not None
    return plan


def configuration(plan: OperatorPlan) -> dict[str, Any]:
    """Return the configuration that a plan gives the scheduler."""
    text = applied(plan, "ConfigMap")["topo-aware-scheduler-config"]["data"]["config.yaml"]
    found = load_yaml(text, "config")
    assert isinstance(found, dict)
    return found


def plugin(plan: OperatorPlan) -> dict[str, Any]:
    """Return the arguments of the NUMA plugin."""
    found: dict[str, Any] = configuration(plan)["profiles"][0]["pluginConfig"][0]["args"]
    return found


@pytest.mark.parametrize(
    ("nodes", "control_plane", "explicit", "replicas"),
    [
        (5, 1, None, 1),
        (5, 2, None, 1),
        (5, 3, None, 3),
        (9, 7, None, 3),
        (2, 0, None, 1),
        (4, 0, None, 3),
        (0, 0, None, 1),
        (3, 3, 0, 0),
        (3, 3, 2, 2),
    ],
)
def test_replicas(nodes: int, control_plane: int, explicit: int | None, replicas: int) -> None:
    """As many as the control plane bears; a cluster that shows none still gets a scheduler."""
    plan = scheduler_plan(nodes, control_plane=control_plane, replicas=explicit)
    deployment = applied(plan, "Deployment")["secondary-scheduler"]
    assert deployment["spec"]["replicas"] == replicas
    assert configuration(plan)["leaderElection"] == {
        "leaderElect": replicas > 1,
        "resourceName": "numa-scheduler-leader",
        "resourceNamespace": "ns",
    }


def test_more_replicas_than_nodes_are_refused() -> None:
    """They would wait for ever."""
    plan = scheduler_plan(2, replicas=3)
    assert plan.verdict.state is PlannedState.DEGRADED
    assert "greater than the number of the nodes, which is 2" in plan.verdict.message


def test_the_default_scheduler_configuration() -> None:
    """A real KubeSchedulerConfiguration."""
    plan = scheduler_plan()
    names = [profile["schedulerName"] for profile in configuration(plan)["profiles"]]
    assert names == ["numakube-scheduler", "topo-aware-scheduler"]
    found = plugin(plan)
    assert found["cacheResyncPeriodSeconds"] == 5
    assert found["cache"] == {
        "resyncMethod": "Autodetect",
        "foreignPodsDetect": "OnlyExclusiveResources",
        "informerMode": "Dedicated",
    }
    assert found["scoringStrategy"] == {"type": "LeastAllocated"}
    assert "preemptionMode" not in found
    assert plan.status["cacheResyncPeriod"] == "5s"


def test_every_field_of_the_scheduler_has_an_effect() -> None:
    """Names, caches, scores and preemption."""
    plan = scheduler_plan(
        scheduler_name="mine",
        cache_resync_period="7.6s",
        cache_resync_detection="Aggressive",
        scheduler_informer="Shared",
        scoring_strategy=ScoringStrategySpec(
            type="MostAllocated", resources=(ScoredResource(name="cpu", weight=3),)
        ),
        preemption_mode="Disabled",
        log_level="Trace",
    )
    found = plugin(plan)
    assert found["cacheResyncPeriodSeconds"] == 8
    assert found["cache"]["foreignPodsDetect"] == "All"
    assert found["scoringStrategy"]["resources"] == [{"name": "cpu", "weight": 3}]
    assert found["preemptionMode"] == "Disabled"
    assert plan.status["schedulerName"] == "mine"
    container = applied(plan, "Deployment")["secondary-scheduler"]["spec"]["template"]["spec"][
        "containers"
    ][0]
    assert "--log-level=debug" in container["args"]
    assert [(extra.type, extra.holds) for extra in plan.verdict.extras] == [
        ("DedicatedInformerActive", False)
    ]


def test_the_scheduler_takes_more_than_one_profile() -> None:
    """C27: each has what the fields say, and its own arguments besides."""
    own = {"preemptionMode": "Disabled", "scoringStrategy": {"type": "LeastNUMANodes"}}
    more = (SchedulerProfile(scheduler_name="b"), SchedulerProfile(scheduler_name="c", args=own))
    plan = scheduler_plan(scheduler_name="a", cache_resync_period="7s", profiles=more)
    found = {
        profile["schedulerName"]: profile["pluginConfig"][0]["args"]
        for profile in configuration(plan)["profiles"]
    }
    assert list(found) == ["a", "b", "c"]
    assert found["a"] == found["b"]
    assert found["c"] == {**found["a"], **own}
    assert found["c"]["cacheResyncPeriodSeconds"] == 7
    assert plan.status["schedulerName"] == "a"


@pytest.mark.parametrize(
    ("profile", "problem"),
    [
        (SchedulerProfile(scheduler_name="a"), "spec.profiles[0].schedulerName: a is in another"),
        (SchedulerProfile(scheduler_name="b", args={"mod": 1}), "mod: there is no such field"),
        (
            SchedulerProfile(scheduler_name="default-scheduler"),
            "no right to kube-scheduler's lease",
        ),
        (
            SchedulerProfile(scheduler_name="b", args={"cache": {"kind": "passthrough"}}),
            "spec.profiles: profile b: pluginConfig of NodeResourceTopologyMatch: ",
        ),
    ],
)
def test_profiles_that_cannot_start_make_it_degraded(
    profile: SchedulerProfile, problem: str
) -> None:
    """C27: the condition names the field; what runs goes on."""
    plan = scheduler_plan(scheduler_name="a", profiles=(profile,))
    assert plan.verdict.state is PlannedState.DEGRADED
    assert plan.verdict.reason == "InvalidSchedulerProfiles"
    assert problem in plan.verdict.message
    assert not plan.actions


@pytest.mark.parametrize(
    "image",
    [
        "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.31.8",
        "registry.redhat.io/openshift4/noderesourcetopology-scheduler-rhel9:v4.18",
        f"quay.io/openshift-kni/scheduler-plugins@sha256:{'0' * 64}",
    ],
)
def test_the_image_of_the_go_scheduler_is_refused_with_what_to_write(image: str) -> None:
    """A17: it would be started with arguments that it does not have."""
    plan = scheduler_plan(image_spec=image)
    assert (plan.verdict.state, plan.verdict.reason) == (
        PlannedState.DEGRADED,
        "InvalidSchedulerImage",
    )
    assert f'image "{image}" is a Go scheduler' in plan.verdict.message
    assert f"write spec.imageSpec: {IMAGE}" in plan.verdict.message
    assert not plan.actions


def test_an_image_of_any_name_is_asked_for_our_program() -> None:
    """A17: one that does not have it cannot be started with our arguments."""
    plan = scheduler_plan(image_spec="registry.example/mirror/x:1")
    template = applied(plan, "Deployment")["secondary-scheduler"]["spec"]["template"]
    assert template["spec"]["containers"][0]["command"] == ["numakube"]


def test_a_period_of_nothing_turns_the_cache_off() -> None:
    """And one that is no duration is reported."""
    assert "cacheResyncPeriodSeconds" not in plugin(scheduler_plan(cache_resync_period="0"))
    wrong = scheduler_plan(cache_resync_period="soon")
    assert wrong.verdict.state is PlannedState.DEGRADED
    assert wrong.verdict.message.startswith("spec.cacheResyncPeriod: ")


def test_only_trusted_images_run_where_that_is_asked_for() -> None:
    """By digest."""
    good = "sha256:" + "a" * 64
    other = "sha256:" + "b" * 64
    setup = SchedulerSetup(namespace="ns", trusted=digests_of(f"{good}, nonsense"))
    assert (
        scheduler_plan(setup=setup, image_spec=f"x@{good}").verdict.state
        is PlannedState.PROGRESSING
    )
    for image, text in (
        ("x:1", "must be referenced by digest, not by tag"),
        ("x@sha256:1", "has malformed digest"),
        (f"x@{other}", "is not in the trusted list"),
    ):
        plan = scheduler_plan(setup=setup, image_spec=image)
        assert plan.verdict.reason == "InvalidSchedulerImage"
        assert text in plan.verdict.message


def test_the_scheduler_is_available_with_its_present_deployment() -> None:
    """Not with an older one."""
    available = DeploymentCondition(type="Available", status="True")
    for seen, state in ((2, PlannedState.AVAILABLE), (1, PlannedState.PROGRESSING)):
        deployment = Deployment(
            metadata=ObjectMeta(name="secondary-scheduler", generation=2),
            status=DeploymentStatus(conditions=(available,), observed_generation=seen),
        )
        assert scheduler_plan(deployment=deployment).verdict.state is state


def test_feature_gates_of_the_operator_are_told_to_the_scheduler() -> None:
    setup = replace(SCHEDULER_SETUP, feature_gates="SchedulerShards=false")
    (deployment,) = applied(scheduler_plan(setup=setup), "Deployment").values()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["args"][-1] == "--feature-gates=SchedulerShards=false"
