"""Stateful sets: names, order, claims, updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.lab.controllers.kit import Bench, bench, template, workload

from numakube.api.pod import Pod
from numakube.kube.catalog import PERSISTENT_VOLUME_CLAIMS, PODS
from numakube.kube.store import Added, Change, Removed
from numakube_lab.controllers.object_types import STATEFUL_SETS, StatefulSet
from numakube_lab.controllers.workloads.stateful_set_controller import StatefulSets


def stateful(name: str, **spec: Any) -> dict[str, Any]:
    """A stateful set."""
    return workload(name, serviceName="db", **spec)


def settled(count: int) -> Callable[[StatefulSet], bool]:
    """All pods are there, ready and of the latest revision."""

    def holds(one: StatefulSet) -> bool:
        status = one.status
        return (
            status.observed_generation >= one.metadata.generation
            and status.replicas == status.ready_replicas == status.updated_replicas == count
            and status.current_revision == status.update_revision
        )

    return holds


def names(lab: Bench) -> list[str]:
    """Return the names of all pods."""
    return sorted(pod.metadata.name for pod in lab.pods.store.values())


def images(lab: Bench) -> list[str]:
    """Return the images of the pods, by their names."""
    return [lab.get(PODS, name).spec.containers[0].image for name in names(lab)]


async def test_pods_come_up_in_order_and_go_in_reverse() -> None:
    """Each waits for the one before it to be ready."""
    async with bench(StatefulSets) as lab:
        story: list[str] = []

        def note(change: Change[Pod]) -> None:
            word = {Added: "+", Removed: "-"}.get(type(change))
            if word:
                ready = sum(_is_ready(pod) for pod in lab.pods.store.values())
                story.append(f"{word}{change.object.metadata.name}({ready})")

        lab.pods.store.subscribe(note)
        await lab.apply(STATEFUL_SETS, stateful("db", replicas=3))
        await lab.sees(STATEFUL_SETS, "db", settled(3))
        assert story == ["+db-0(0)", "+db-1(1)", "+db-2(2)"]
        await lab.change(STATEFUL_SETS, "db", {"spec": {"replicas": 1}}, "scale")
        await lab.sees(STATEFUL_SETS, "db", settled(1))
        assert [step[:5] for step in story[3:]] == ["-db-2", "-db-1"]
        pod = lab.get(PODS, "db-0")
        assert pod.spec.hostname == "db-0"
        assert pod.metadata.labels["apps.kubernetes.io/pod-index"] == "0"


async def test_parallel_pods_do_not_wait() -> None:
    """All are created although none gets ready."""
    async with bench(StatefulSets) as lab:
        lab.kubelet.outcome = lambda _: ("Running", False)
        await lab.apply(STATEFUL_SETS, stateful("db", replicas=3, podManagementPolicy="Parallel"))
        await lab.until(PODS, lambda: names(lab) == ["db-0", "db-1", "db-2"])


async def test_a_pod_comes_back_under_its_name() -> None:
    """With another uid."""
    async with bench(StatefulSets) as lab:
        await lab.apply(STATEFUL_SETS, stateful("db", replicas=2))
        await lab.sees(STATEFUL_SETS, "db", settled(2))
        old = lab.get(PODS, "db-0").metadata.uid
        await lab.client.delete(PODS, "db-0", namespace="default")
        await lab.sees(PODS, "db-0", lambda one: one.metadata.uid != old)
        await lab.sees(STATEFUL_SETS, "db", settled(2))


async def test_claims_are_made_once_and_kept() -> None:
    """A pod that comes back finds its claim again."""
    async with bench(StatefulSets) as lab:
        claim = {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        await lab.apply(STATEFUL_SETS, stateful("db", replicas=2, volumeClaimTemplates=[claim]))
        await lab.sees(STATEFUL_SETS, "db", settled(2))
        claims = await lab.client.list(PERSISTENT_VOLUME_CLAIMS)
        uids = {claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in claims.items}
        assert sorted(uids) == ["data-db-0", "data-db-1"]
        raw = await lab.client.get(PODS.raw, "db-1", namespace="default")
        assert raw["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "data-db-1"
        await lab.change(STATEFUL_SETS, "db", {"spec": {"replicas": 0}}, "scale")
        await lab.sees(STATEFUL_SETS, "db", settled(0))
        await lab.change(STATEFUL_SETS, "db", {"spec": {"replicas": 2}}, "scale")
        await lab.sees(STATEFUL_SETS, "db", settled(2))
        claims = await lab.client.list(PERSISTENT_VOLUME_CLAIMS)
        assert {
            claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in claims.items
        } == uids


async def test_an_update_rolls_from_the_highest_down_to_the_partition() -> None:
    """Below it pods keep their revision, also if they are created again."""
    async with bench(StatefulSets) as lab:
        update = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        await lab.apply(STATEFUL_SETS, stateful("db", replicas=3, updateStrategy=update))
        await lab.sees(STATEFUL_SETS, "db", settled(3))
        await lab.change(STATEFUL_SETS, "db", {"spec": {"template": template(image="two")}})
        await lab.sees(STATEFUL_SETS, "db", lambda one: _updated(one) == (2, 1, 3))
        assert images(lab) == ["example.com/main:1", "two", "two"]
        old = lab.get(PODS, "db-0").metadata.uid
        await lab.client.delete(PODS, "db-0", namespace="default")
        await lab.sees(PODS, "db-0", lambda one: one.metadata.uid != old)
        await lab.sees(STATEFUL_SETS, "db", lambda one: _updated(one) == (2, 1, 3))
        assert images(lab)[0] == "example.com/main:1"
        everything = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}
        await lab.change(STATEFUL_SETS, "db", everything)
        await lab.sees(STATEFUL_SETS, "db", settled(3))
        assert images(lab) == ["two", "two", "two"]


async def test_an_update_stops_at_a_pod_that_does_not_get_ready() -> None:
    """The others stay as they are."""
    async with bench(StatefulSets) as lab:
        await lab.apply(STATEFUL_SETS, stateful("db", replicas=3))
        await lab.sees(STATEFUL_SETS, "db", settled(3))
        lab.kubelet.outcome = lambda pod: ("Running", pod.spec.containers[0].image != "bad")
        await lab.change(STATEFUL_SETS, "db", {"spec": {"template": template(image="bad")}})
        await lab.sees(STATEFUL_SETS, "db", lambda one: _updated(one) == (1, 2, 2))
        assert images(lab) == ["example.com/main:1", "example.com/main:1", "bad"]


def _updated(one: StatefulSet) -> tuple[int, int, int]:
    status = one.status
    return status.updated_replicas, status.current_replicas, status.ready_replicas


def _is_ready(one: Pod) -> bool:
    conditions = one.status.conditions if one.status else ()
    return any(each.type == "Ready" and each.status == "True" for each in conditions)
