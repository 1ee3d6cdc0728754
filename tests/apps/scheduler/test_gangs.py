"""Gangs run as a whole or not at all."""

from __future__ import annotations

import contextlib
from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest
from tests.apps.scheduler.gang_trials import group_definition

from kube_lab_server import FaultKind, FaultRule
from numakube.api.pod import Pod
from numakube.api.scheduler_config import KubeSchedulerConfiguration, PluginConfig
from numakube.errors import NotFound
from numakube.kube.catalog import CUSTOM_RESOURCE_DEFINITIONS, NODES, PRIORITY_CLASSES
from numakube.kube.client import merge_patch
from numakube.kube.resource_types import Resource
from numakube.scheduling.plugins.pod_gangs import (
    COSCHEDULING_LABEL,
    DISRUPTION_MODE,
    MIN_LABEL,
    NAME_LABEL,
    REQUIRED_TOPOLOGY,
)
from numakube.testing import GPU, pod_document, refusal_of, turns
from numakube_lab.testing import LabCluster, Opener, lab_cluster, without_election

SHAPE = "1 socket, 8 cores, smt 1, 32Gi"
ALMOST_A_NODE = "6"
RACK = "example.com/rack"
GROUP = "scheduling.x-k8s.io"


def member(name: str, gang: str = "g", *, least: int, **more: Any) -> dict[str, Any]:
    """Return a pod that takes most of a node, of a gang that needs *least* such pods."""
    labels = {NAME_LABEL: gang, MIN_LABEL: str(least)}
    metadata = {"labels": labels, "annotations": more.pop("annotations", {})}
    return pod_document(name, ALMOST_A_NODE, metadata=metadata, **more)


def gang(*names: str, least: int | None = None, **more: Any) -> list[dict[str, Any]]:
    """Return the members of a gang that needs all of them, unless told otherwise."""
    return [member(name, names[0], least=least or len(names), **more) for name in names]


def placed(world: LabCluster) -> set[str]:
    """Return the names of the pods that have a node."""
    return {pod.metadata.name for pod in world.pods.store if pod.spec.node_name}


async def test_a_gang_that_does_not_fit_whole_takes_no_room(sites: Opener) -> None:
    """Each member says how many fit, and all run as soon as there is room for all."""
    async with lab_cluster(3, shape=SHAPE, on=sites) as world:
        await world.start()
        await world.create(pod_document("alone", ALMOST_A_NODE))
        await world.runs("alone")
        await world.create(*gang("a", "b", "c"))
        for name in "abc":
            text = await world.refuses(name, "gang default/a: 2 of 3 needed pods fit; ")
            assert "0/3 nodes are available" in text
        assert placed(world) == {"alone"}

        await world.delete("alone")

        await world.runs("a", "b", "c")


async def test_members_wait_until_there_are_enough(sites: Opener) -> None:
    """Two of three could run at once, and must not."""
    async with lab_cluster(3, shape=SHAPE, on=sites) as world:
        await world.start()
        *first, last = gang("a", "b", "c")
        await world.create(*first, pod_document("alone", "1"))
        await world.runs("alone")
        assert placed(world) == {"alone"}

        await world.create(last)

        await world.runs("a", "b", "c")


async def test_of_two_gangs_that_need_the_same_room_one_runs_whole(sites: Opener) -> None:
    """Neither holds a part of it while it waits for the rest."""
    async with lab_cluster(3, shape=SHAPE, on=sites) as world:
        await world.start()
        one, other = gang("a1", "a2"), gang("b1", "b2")
        await world.create(one[0], other[0], one[1], other[1])

        await world.until(lambda: len(world.by_phase("Running")) == 2)

        winner = {name[0] for name in world.by_phase("Running")}
        assert len(winner) == 1
        loser = "b" if winner == {"a"} else "a"
        for number in "12":
            await world.refuses(f"{loser}{number}", "1 of 2 needed pods fit")
        assert {name[0] for name in placed(world)} == winner


async def test_members_beyond_the_minimum_run_if_they_fit(sites: Opener) -> None:
    """And wait alone if they do not; a lost member is replaced."""
    async with lab_cluster(2, shape=SHAPE, on=sites) as world:
        await world.start()
        await world.create(*gang("a", "b", "c", least=2))
        await world.until(lambda: len(world.by_phase("Running")) == 2)
        (waits,) = {"a", "b", "c"} - world.by_phase("Running")
        await world.refuses(waits, "0/2 nodes are available")

        await world.delete(min(world.by_phase("Running")))

        await world.runs(waits)


async def test_a_gang_stays_within_one_topology_domain(sites: Opener) -> None:
    """One that is large enough, though another has more nodes that are free."""
    async with lab_cluster(5, shape=SHAPE, on=sites) as world:
        names = sorted(node.metadata.name for node in (await world.client.list(NODES)).items)
        for name, rack in zip(names, ("r1", "r2", "r2", "r3", "r3"), strict=True):
            change = {"metadata": {"labels": {RACK: rack}}}
            await world.client.patch(NODES, name, merge_patch(change))
        await world.start()
        taken = pod_document("alone", ALMOST_A_NODE, nodeSelector={RACK: "r2"})
        await world.create(taken)
        await world.runs("alone")
        members = gang("a", "b", annotations={REQUIRED_TOPOLOGY: RACK})

        await world.create(*members)

        await world.runs("a", "b")
        assert {world.pod(name).spec.node_name for name in "ab"} == set(names[3:])
        await world.create(*gang("c", "d", annotations={REQUIRED_TOPOLOGY: RACK}))
        short = "2 pods have to fit in one example.com/rack; the best, r1, takes 1 "
        await world.refuses("c", f"{short}(2 in all domains of example.com/rack)")
        assert placed(world) == {"alone", "a", "b"}


def by_name(pod: Pod) -> str:
    """Return what pods are sorted by."""
    return pod.metadata.name


async def urgent(world: LabCluster) -> None:
    """Create a priority class."""
    await world.client.create(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})


async def test_room_is_made_for_the_whole_gang(sites: Opener) -> None:
    """All who stand in the way go together."""
    async with lab_cluster(2, shape=SHAPE, on=sites) as world:
        await urgent(world)
        await world.start()
        await world.create(*(pod_document(name, ALMOST_A_NODE) for name in "xy"))
        await world.runs("x", "y")

        await world.create(*gang("a", "b", priorityClassName="urgent"))

        await world.runs("a", "b")
        assert placed(world) == {"a", "b"}


async def test_room_is_made_for_members_beyond_the_minimum_too(sites: Opener) -> None:
    """After the others have their places."""
    async with lab_cluster(2, shape=SHAPE, on=sites) as world:
        await urgent(world)
        await world.start()
        await world.create(pod_document("x", ALMOST_A_NODE))
        await world.runs("x")

        await world.create(*gang("a", "b", least=1, priorityClassName="urgent"))

        await world.runs("a", "b")


async def test_nobody_is_evicted_for_a_gang_that_does_not_fit_even_then(sites: Opener) -> None:
    """Not even those who would make room for a part of it."""
    async with lab_cluster(2, shape=SHAPE, on=sites) as world:
        await urgent(world)
        await world.start()
        await world.create(*(pod_document(name, ALMOST_A_NODE) for name in "xy"))
        await world.runs("x", "y")

        await world.create(*gang("a", "b", "c", priorityClassName="urgent"))

        await world.refuses("c", "2 of 3 needed pods fit")
        assert world.by_phase("Running") == {"x", "y"}
        assert not any(world.pod(name).metadata.deletion_timestamp for name in "xy")


def limited(seconds: int) -> KubeSchedulerConfiguration:
    """Return a configuration in which gangs may be incomplete for *seconds*."""
    config = without_election()
    args = PluginConfig(name="GangScheduling", args={"incompleteSeconds": seconds})
    profile = config.profiles[0]
    configured = (*profile.plugin_config, args)
    profile = msgspec.structs.replace(profile, plugin_config=configured)
    return msgspec.structs.replace(config, profiles=(profile,))


async def test_a_gang_that_stays_incomplete_is_released(sites: Opener) -> None:
    """As after the death of a scheduler between two bindings, when the rest fits no more."""
    async with lab_cluster(2, shape=SHAPE, on=sites) as world:
        names = sorted(node.metadata.name for node in (await world.client.list(NODES)).items)
        here, there = names
        await world.create(pod_document("alone", ALMOST_A_NODE, nodeName=there))
        first, second = gang("a", "b")
        first["spec"]["nodeName"] = here
        await world.create(first, second)
        await world.runs("alone", "a")

        await world.start(limited(1))

        await world.until(lambda: "a" not in {pod.metadata.name for pod in world.pods.store})
        (text,) = await world.some_events("GangIncomplete")
        assert text == "Fewer than 2 pods of gang default/a have been running for too long"


async def test_a_restarted_scheduler_completes_a_gang(sites: Opener) -> None:
    """Those that were bound count."""
    async with lab_cluster(2, shape=SHAPE, on=sites) as world:
        node = min(node.metadata.name for node in (await world.client.list(NODES)).items)
        first, second = gang("a", "b")
        first["spec"]["nodeName"] = node
        await world.create(first, second)

        await world.start()

        await world.runs("a", "b")
        assert placed(world) == {"a", "b"}


async def create_group(
    world: LabCluster, group: str, version: str, name: str, spec: dict[str, Any]
) -> None:
    """Create a PodGroup of one of the APIs."""
    groups = Resource(
        group=group,
        version=version,
        plural="podgroups",
        kind="PodGroup",
        namespaced=True,
        object_type=dict[str, Any],
    )
    document = {
        "apiVersion": f"{group}/{version}",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": spec,
    }
    await world.client.create(groups, document, namespace="default")


async def test_pods_wait_for_the_group_object_that_they_name(sites: Opener) -> None:
    """Coscheduling's; the object says how many are needed."""
    async with lab_cluster(2, shape=SHAPE, on=sites) as world:
        kind = group_definition(GROUP, "v1alpha1")
        await world.client.create(CUSTOM_RESOURCE_DEFINITIONS.raw, kind)
        await world.start()
        metadata = {"labels": {COSCHEDULING_LABEL: "team"}}
        pods = [pod_document(name, ALMOST_A_NODE, metadata=metadata) for name in "ab"]
        await world.create(*pods, pod_document("alone", "1"))
        await world.runs("alone")
        assert placed(world) == {"alone"}

        await create_group(world, GROUP, "v1alpha1", "team", {"minMember": 2})

        await world.runs("a", "b")
        assert not any(map(refusal_of, world.pods.store))


async def test_a_gang_that_says_so_is_evicted_as_a_whole_for_a_single_pod(sites: Opener) -> None:
    """The others of it are of no use alone."""
    async with lab_cluster(2, shape=SHAPE, on=sites) as world:
        await urgent(world)
        await world.start()
        await world.create(*gang("a", "b", annotations={DISRUPTION_MODE: "all"}))
        await world.runs("a", "b")

        await world.create(pod_document("first", ALMOST_A_NODE, priorityClassName="urgent"))

        await world.runs("first")
        await world.until(lambda: {pod.metadata.name for pod in world.pods.store} == {"first"})


async def test_members_wait_no_longer_when_the_last_one_comes_with_a_node(sites: Opener) -> None:
    """Somebody else has placed it."""
    async with lab_cluster(2, shape=SHAPE, on=sites) as world:
        await world.start()
        first, second = gang("a", "b")
        await world.create(first, pod_document("alone", "1"))
        await world.runs("alone")
        second["spec"]["nodeName"] = min(world.pool.kubelets)

        await world.create(second)

        await world.runs("a", "b")


def by_gpus(name: str, cpu: str, count: int, **more: Any) -> dict[str, Any]:
    """Return a pod with devices."""
    return pod_document(name, cpu, also={GPU: str(count)}, **more)


def job(name: str) -> list[dict[str, Any]]:
    """Return a job of two pods that need both devices of a NUMA node each."""
    labels = {NAME_LABEL: name, MIN_LABEL: "2"}
    return [by_gpus(f"{name}-{one}", "2", 2, metadata={"labels": labels}) for one in "ab"]


async def test_jobs_queue_on_a_cluster_with_one_free_device_on_each_numa_node(
    sites: Opener,
) -> None:
    """As in pytorch/ci-infra 696: no kubelet rejects a pod, and no job is placed in part."""
    async with lab_cluster(2, on=sites) as world:
        await world.start()
        fillers = [by_gpus(f"filler-{number}", "9", 1) for number in range(4)]
        await world.create(*fillers)
        await world.runs(*(f"filler-{number}" for number in range(4)))
        await world.create(*job("j0"), *job("j1"), *job("j2"))
        for name in ("j0", "j1", "j2"):
            await world.refuses(f"{name}-a", f"gang default/{name}: 0 of 2 needed pods fit")
        assert len(placed(world)) == 4

        await world.delete("filler-0")
        await world.delete("filler-1")

        await world.until(lambda: len(world.by_phase("Running")) == 4)
        ran = {name[:2] for name in world.by_phase("Running") if name.startswith("j")}
        assert len(ran) == 1
        assert {name[:2] for name in placed(world) if name.startswith("j")} == ran
        assert not world.by_phase("Failed")


FAULTS = (
    FaultRule(kind=FaultKind.FAIL, code=503, share=0.5, times=6, path="/binding"),
    FaultRule(kind=FaultKind.DROP, share=0.3, times=6, path="/binding"),
    FaultRule(kind=FaultKind.FAIL, code=500, share=0.2, times=6),
)


def halves(world: LabCluster) -> set[str]:
    """Return the gangs of which some pods have a node, but fewer than needed."""
    counts: Counter[tuple[str, int]] = Counter()
    for pod in world.pods.store:
        if pod.spec.node_name and pod.metadata.deletion_timestamp is None:
            counts[pod.metadata.labels[NAME_LABEL], int(pod.metadata.labels[MIN_LABEL])] += 1
    return {name for (name, least), count in counts.items() if count < least}


@pytest.mark.timeout(180)
async def test_no_gang_stays_half_placed_whatever_happens(sites: Opener) -> None:
    """Schedulers die between two bindings, bindings fail, and members vanish."""
    rng = Random(1)
    async with lab_cluster(4, shape=SHAPE, on=sites) as world:
        running = await world.start(limited(1))
        for number in range(8):
            size = rng.randint(1, 4)
            await world.create(*gang(*(f"g{number}-{member}" for member in range(size))))
            world.faults.add(rng.choice(FAULTS))
            await turns(rng.randint(1, 400))
            if rng.random() < 0.5:
                await running.kill()
                running = await world.start(limited(1))
            for pod in rng.sample(sorted(world.pods.store, key=by_name), k=rng.randint(0, 2)):
                with contextlib.suppress(NotFound):
                    await world.delete(pod.metadata.name)
        world.faults.clear()

        await world.until(lambda: not halves(world))

        for pod in list(world.pods.store):
            with contextlib.suppress(NotFound):
                await world.delete(pod.metadata.name)
        await world.create(*gang("z1", "z2", "z3", "z4"))
        await world.runs("z1", "z2", "z3", "z4")
        assert not world.by_phase("Failed")
