"""Pods that are resized in place, on kubelets with and without static managers."""

from __future__ import annotations

from typing import Any

from tests.lab.nodes.build import Lab

from numakube.kube.catalog import CORE_EVENTS, PODS
from numakube.kube.client import strategic_patch
from numakube.testing import until


async def resize(lab: Lab, name: str, cpu: str) -> None:
    """Ask for another number of CPUs."""
    amounts = {"cpu": cpu, "memory": "1Gi"}
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    change = strategic_patch({"spec": {"containers": [container]}})
    await lab.client.patch(PODS, name, change, namespace="default", subresource="resize")


NOTHING = ("", "")


async def pending(lab: Lab, name: str) -> tuple[str, str]:
    """Return reason and message of a resize that waits."""
    status = (await lab.get(name)).status
    found = [condition for condition in status.conditions if condition.type == "PodResizePending"]
    return (found[0].reason, found[0].message) if found else NOTHING


async def waits_as(lab: Lab, name: str, expected: tuple[str, str]) -> Any:
    """Wait until the pod says so."""
    await until(lambda: pending(lab, name), lambda found: found == expected)
    return await lab.get(name)


async def granted(lab: Lab, name: str) -> str:
    """Return the CPUs that the kubelet says the pod has."""
    (container,) = (await lab.get(name)).status.container_statuses
    return str(container.resources.requests["cpu"])


async def granted_later(lab: Lab, name: str) -> str:
    """Return the CPUs that the pod has a second later."""
    await lab.clock.advance(1)
    return await granted(lab, name)


INFEASIBLE = (
    "Infeasible",
    'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"',
)


async def test_a_resize_of_exclusive_cpus_is_infeasible_and_changes_nothing(lab: Lab) -> None:
    """The pod keeps its CPUs, and its status says what it has and why."""
    await lab.node(kubernetes="1.37")
    await lab.create("a", cpu="2")
    await lab.runs("a")
    held = lab.cpus("a")
    await resize(lab, "a", "4")
    pod = await waits_as(lab, "a", INFEASIBLE)
    assert lab.cpus("a") == held
    (container,) = pod.status.container_statuses
    assert container.resources.requests["cpu"] == "2"

    async def told() -> list[str]:
        return [event.reason for event in (await lab.client.list(CORE_EVENTS)).items]

    await until(told, lambda reasons: reasons == ["ResizeInfeasible"])


async def test_a_resize_that_is_taken_back_is_forgotten(lab: Lab) -> None:
    """The condition goes."""
    await lab.node(kubernetes="1.37")
    await lab.create("a", cpu="2")
    await lab.runs("a")
    await resize(lab, "a", "4")
    await waits_as(lab, "a", INFEASIBLE)
    await resize(lab, "a", "2")
    await waits_as(lab, "a", NOTHING)


async def test_with_the_alpha_gate_a_resize_is_accepted_and_cpus_stay(lab: Lab) -> None:
    """As far as Kubernetes 1.37 goes: the manager does not look at a resize."""
    gates = {"InPlacePodVerticalScalingExclusiveCPUs": True}
    await lab.node(kubernetes="1.37", feature_gates=gates)
    await lab.create("a", cpu="2")
    await lab.runs("a")
    held = lab.cpus("a")
    await resize(lab, "a", "4")
    await until(lambda: granted(lab, "a"), lambda cpus: cpus == "4")
    assert lab.cpus("a") == held
    assert await pending(lab, "a") == NOTHING


async def test_a_resize_that_finds_no_room_is_deferred_until_there_is_some(lab: Lab) -> None:
    """Without static managers amounts decide: what another pod has, or what no node has."""
    await lab.node(kubernetes="1.37", cpu_manager_policy="none", topology_manager_policy="none")
    await lab.create("a", cpu="2")
    await lab.create("b", cpu="10")
    await lab.runs("a")
    await lab.runs("b")
    await resize(lab, "a", "8")
    deferred = (
        "Node didn't have enough resource: cpu, requested: 8000, used: 10000, capacity: 14000"
    )
    await waits_as(lab, "a", ("Deferred", deferred))
    await resize(lab, "a", "40")
    too_much = "Node didn't have enough capacity: cpu, requested: 40000, capacity: 14000"
    await waits_as(lab, "a", ("Infeasible", too_much))
    await resize(lab, "a", "4")
    await until(lambda: granted(lab, "a"), lambda cpus: cpus == "4")
    assert await pending(lab, "a") == NOTHING


async def test_a_deferred_resize_is_tried_again_when_another_pod_has_ended(lab: Lab) -> None:
    """Nobody has to touch the pod for that."""
    await lab.node(kubernetes="1.37", cpu_manager_policy="none", topology_manager_policy="none")
    await lab.create("a", cpu="2")
    await lab.create("b", cpu="10")
    await lab.runs("a")
    await lab.runs("b")
    await resize(lab, "a", "8")
    await until(lambda: pending(lab, "a"), lambda found: found[0] == "Deferred")
    await lab.client.delete(PODS, "b", namespace="default", grace_seconds=0)
    await lab.reaches("b", "")
    await until(lambda: granted_later(lab, "a"), lambda cpus: cpus == "8")
    await waits_as(lab, "a", NOTHING)
