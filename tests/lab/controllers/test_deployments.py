"""Deployments replace pods step by step."""

from __future__ import annotations

from collections.abc import Callable

from tests.lab.controllers.kit import Bench, bench, template, workload

from numakube.api.pod import Pod
from numakube.kube.catalog import CORE_EVENTS
from numakube.kube.clock import ManualClock
from numakube_lab.controllers.object_types import (
    DEPLOYMENTS,
    REPLICA_SETS,
    Deployment,
    ReplicaSet,
)
from numakube_lab.controllers.workloads.deployment_controller import Deployments
from numakube_lab.controllers.workloads.replica_set_controller import ReplicaSets

REVISION = "deployment.kubernetes.io/revision"
BOTH = (Deployments, ReplicaSets)


def rolled_out(replicas: int, revision: int) -> Callable[[Deployment], bool]:
    """What ``kubectl rollout status`` waits for."""

    def holds(one: Deployment) -> bool:
        status = one.status
        return (
            status.observed_generation >= one.metadata.generation
            and one.metadata.annotations.get(REVISION) == str(revision)
            and status.updated_replicas == replicas == one.spec.replicas
            and status.replicas == status.available_replicas == replicas
            and reason(one, "Progressing") in ("NewReplicaSetAvailable", "")
        )

    return holds


def reason(one: Deployment, kind: str) -> str:
    """Return the reason of a condition."""
    return next((each.reason for each in one.status.conditions if each.type == kind), "")


def sets_of(lab: Bench) -> dict[str, ReplicaSet]:
    """Return the replica sets by the image of their pods."""
    found = lab.mirror(REPLICA_SETS).in_namespace("default")
    return {
        replica_set.spec.template["spec"]["containers"][0]["image"]: replica_set
        for replica_set in found
    }


def image(name: str) -> dict[str, object]:
    """A change of the deployment's image."""
    return {"spec": {"template": template(image=name)}}


async def test_a_deployment_comes_up() -> None:
    """It has one replica set, all pods, and says that it is available and done."""
    async with bench(*BOTH) as lab:
        await lab.apply(DEPLOYMENTS, workload("web", replicas=3))
        done = await lab.sees(DEPLOYMENTS, "web", rolled_out(3, 1))
        assert reason(done, "Available") == "MinimumReplicasAvailable"
        (owned,) = lab.mirror(REPLICA_SETS).in_namespace("default")
        label = owned.metadata.labels["pod-template-hash"]
        assert owned.metadata.name == f"web-{label}"
        assert owned.spec.selector.match_labels["pod-template-hash"] == label
        assert all(
            pod.metadata.labels["pod-template-hash"] == label for pod in lab.pods.store.values()
        )


async def test_a_new_image_rolls_out_within_the_limits() -> None:
    """Never more than the surge allows, never fewer available than wanted."""
    async with bench(*BOTH) as lab:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await lab.apply(DEPLOYMENTS, workload("web", replicas=3, strategy=strategy))
        await lab.sees(DEPLOYMENTS, "web", rolled_out(3, 1))
        told: list[int] = []
        lab.mirror(REPLICA_SETS).store.subscribe(
            lambda _: told.append(
                sum(replica_set.spec.replicas for replica_set in sets_of(lab).values())
            )
        )
        await lab.change(DEPLOYMENTS, "web", image("two"))
        await lab.sees(DEPLOYMENTS, "web", rolled_out(3, 2))
        assert set(told) <= {3, 4}
        assert sets_of(lab)["two"].spec.replicas == 3
        assert sets_of(lab)["example.com/main:1"].spec.replicas == 0


async def test_a_rollback_takes_the_old_replica_set_again() -> None:
    """It gets the next revision and remembers those it had."""
    async with bench(*BOTH) as lab:
        await lab.apply(DEPLOYMENTS, workload("web", replicas=2))
        await lab.sees(DEPLOYMENTS, "web", rolled_out(2, 1))
        await lab.change(DEPLOYMENTS, "web", image("two"))
        await lab.sees(DEPLOYMENTS, "web", rolled_out(2, 2))
        await lab.change(DEPLOYMENTS, "web", {"spec": {"template": template()}})
        await lab.sees(DEPLOYMENTS, "web", rolled_out(2, 3))
        assert len(sets_of(lab)) == 2
        first = sets_of(lab)["example.com/main:1"].metadata.annotations
        assert first[REVISION] == "3"
        assert first["deployment.kubernetes.io/revision-history"] == "1"


async def test_old_revisions_are_removed_beyond_the_limit() -> None:
    """The oldest go."""
    async with bench(*BOTH) as lab:
        await lab.apply(DEPLOYMENTS, workload("web", replicas=1, revisionHistoryLimit=1))
        await lab.sees(DEPLOYMENTS, "web", rolled_out(1, 1))
        for number, name in ((2, "two"), (3, "three")):
            await lab.change(DEPLOYMENTS, "web", image(name))
            await lab.sees(DEPLOYMENTS, "web", rolled_out(1, number))
        await lab.until(REPLICA_SETS, lambda: set(sets_of(lab)) == {"two", "three"})


async def test_recreate_ends_all_old_pods_first() -> None:
    """At no time do pods of both templates run."""
    async with bench(*BOTH) as lab:
        await lab.apply(DEPLOYMENTS, workload("web", replicas=2, strategy={"type": "Recreate"}))
        await lab.sees(DEPLOYMENTS, "web", rolled_out(2, 1))
        mixed: list[set[str]] = []
        lab.pods.store.subscribe(lambda _: mixed.append(_images(lab)), replay=False)
        await lab.change(DEPLOYMENTS, "web", image("two"))
        await lab.sees(DEPLOYMENTS, "web", rolled_out(2, 2))
        assert all(len(images) <= 1 for images in mixed)


async def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    """What was changed meanwhile comes when it is resumed."""
    async with bench(*BOTH) as lab:
        await lab.apply(DEPLOYMENTS, workload("web", replicas=1))
        await lab.sees(DEPLOYMENTS, "web", rolled_out(1, 1))
        await lab.change(DEPLOYMENTS, "web", {"spec": {"paused": True}})
        await lab.sees(DEPLOYMENTS, "web", lambda d: reason(d, "Progressing") == "DeploymentPaused")
        await lab.change(DEPLOYMENTS, "web", image("two"))
        await lab.change(DEPLOYMENTS, "web", {"spec": {"replicas": 3}}, "scale")
        await lab.sees(DEPLOYMENTS, "web", lambda one: one.status.available_replicas == 3)
        assert set(sets_of(lab)) == {"example.com/main:1"}
        await lab.change(DEPLOYMENTS, "web", {"spec": {"paused": False}})
        await lab.sees(DEPLOYMENTS, "web", rolled_out(3, 2))


async def test_scaling_is_told_in_events() -> None:
    """``kubectl describe`` shows what happened."""
    async with bench(*BOTH) as lab:
        await lab.apply(DEPLOYMENTS, workload("web", replicas=2))
        await lab.sees(DEPLOYMENTS, "web", rolled_out(2, 1))
        (owned,) = lab.mirror(REPLICA_SETS).in_namespace("default")
        await lab.recorded()
        events = (await lab.client.list(CORE_EVENTS)).items
        told = {(event.reason, event.message) for event in events}
        name = owned.metadata.name
        assert ("ScalingReplicaSet", f"Scaled up replica set {name} from 0 to 2") in told
        created = {f"Created pod: {pod.metadata.name}" for pod in lab.pods.store.values()}
        assert {message for why, message in told if why == "SuccessfulCreate"} == created


async def test_a_rollout_without_progress_is_reported_late() -> None:
    """After the deadline, and as soon as there is progress again, the report changes."""
    clock = ManualClock()
    async with bench(*BOTH, clock=clock) as lab:
        lab.kubelet.outcome = lambda _: ("Running", False)
        await lab.apply(DEPLOYMENTS, workload("web", replicas=1, progressDeadlineSeconds=60))
        await lab.sees(
            DEPLOYMENTS, "web", lambda d: reason(d, "Progressing") == "ReplicaSetUpdated"
        )
        await clock.advance(61)
        late = await lab.sees(
            DEPLOYMENTS, "web", lambda d: reason(d, "Progressing") == "ProgressDeadlineExceeded"
        )
        assert reason(late, "Available") == "MinimumReplicasUnavailable"
        lab.kubelet.outcome = lambda _: ("Running", True)
        lab.kubelet.again()
        await lab.sees(DEPLOYMENTS, "web", rolled_out(1, 1))


async def test_scaling_in_mid_rollout_is_shared_out() -> None:
    """Both the old and the new replica set grow while the rollout is stuck."""
    async with bench(*BOTH) as lab:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}
        await lab.apply(DEPLOYMENTS, workload("web", replicas=4, strategy=strategy))
        await lab.sees(DEPLOYMENTS, "web", rolled_out(4, 1))
        lab.kubelet.outcome = _stuck_with("two")
        await lab.change(DEPLOYMENTS, "web", image("two"))
        await lab.until(REPLICA_SETS, lambda: len(sets_of(lab)) == 2)
        await lab.sees(DEPLOYMENTS, "web", lambda one: one.status.updated_replicas == 2)
        await lab.change(DEPLOYMENTS, "web", {"spec": {"replicas": 10}}, "scale")
        await lab.until(REPLICA_SETS, lambda: sets_of(lab)["two"].spec.replicas == 4)
        assert sets_of(lab)["example.com/main:1"].spec.replicas == 8


def _stuck_with(name: str) -> Callable[[Pod], tuple[str, bool]]:
    return lambda pod: ("Running", pod.spec.containers[0].image != name)


def _images(lab: Bench) -> set[str]:
    return {pod.spec.containers[0].image for pod in lab.pods.store.values()}
