"""Daemon sets have a pod on every node that is meant to have one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.lab.controllers.kit import Bench, add_node, bench, node, template, workload

from numakube.api.affinity_and_taints import Taint
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeSpec
from numakube.api.pod import Pod
from numakube.kube.catalog import NODES, PODS
from numakube.kube.clock import ManualClock
from numakube_lab.controllers.all_controllers import DefaultScheduler
from numakube_lab.controllers.object_types import (
    CONTROLLER_REVISIONS,
    DAEMON_SETS,
    DaemonSet,
    DaemonSetSpec,
)
from numakube_lab.controllers.workloads.daemon_set_controller import (
    DaemonSets,
    pod_for,
    pod_spec,
    target_of,
    verdict_on,
)

BOTH = (DaemonSets, DefaultScheduler)


def rolled_out(count: int) -> Callable[[DaemonSet], bool]:
    """What ``kubectl rollout status`` waits for."""

    def holds(one: DaemonSet) -> bool:
        status = one.status
        return (
            status.observed_generation >= one.metadata.generation
            and status.updated_number_scheduled == status.number_available == count
            and status.desired_number_scheduled == count
        )

    return holds


def places(lab: Bench) -> list[str]:
    """Return the nodes of all pods."""
    return sorted(pod.spec.node_name for pod in lab.pods.store.values())


@pytest.mark.parametrize(
    ("taint", "runs", "stays"),
    [
        (None, True, True),
        (Taint(key="x", effect="NoSchedule"), False, True),
        (Taint(key="x", effect="NoExecute"), False, False),
        (Taint(key="x", effect="PreferNoSchedule"), True, True),
        (Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule"), True, True),
        (Taint(key="node.kubernetes.io/not-ready", effect="NoExecute"), True, True),
        (Taint(key="node.kubernetes.io/network-unavailable", effect="NoSchedule"), False, True),
    ],
)
def test_taints_decide_about_a_node(taint: Taint | None, *, runs: bool, stays: bool) -> None:
    """Daemons put up with much, but not with everything."""
    one = Node(spec=NodeSpec(taints=(taint,) if taint else ()))
    verdict = verdict_on(one, pod_spec(DaemonSet(spec=DaemonSetSpec(template=template()))))
    assert (verdict.runs, verdict.stays) == (runs, stays)


def test_a_pod_names_its_node_and_keeps_the_rest_of_its_affinity() -> None:
    """So that the scheduler binds it there and nowhere else."""
    spec = template()
    preferred = [{"weight": 1, "preference": {"matchExpressions": []}}]
    kind = "preferredDuringSchedulingIgnoredDuringExecution"
    spec["spec"]["affinity"] = {"nodeAffinity": {kind: preferred}}
    owner = DaemonSet(
        metadata=ObjectMeta(name="agent", namespace="default", uid="u"),
        spec=DaemonSetSpec(template=spec),
    )
    affinity = pod_for(owner, "n1", "hash")["spec"]["affinity"]["nodeAffinity"]
    assert affinity[kind] == preferred
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}


async def test_every_node_gets_one_also_later_ones() -> None:
    """And a node that goes takes its pod's place in the count with it."""
    async with bench(*BOTH, nodes=("a", "b"), assign="") as lab:
        await lab.apply(DAEMON_SETS, workload("agent"))
        await lab.sees(DAEMON_SETS, "agent", rolled_out(2))
        assert places(lab) == ["a", "b"]
        await add_node(lab.client, node("c"))
        await lab.sees(DAEMON_SETS, "agent", rolled_out(3))
        assert places(lab) == ["a", "b", "c"]


async def test_a_node_selector_chooses_nodes() -> None:
    """A node that gets the label gets the pod; one that loses it loses it."""
    async with bench(*BOTH, nodes=("a", "b"), assign="") as lab:
        spec = template()
        spec["spec"]["nodeSelector"] = {"numa": "yes"}
        await lab.apply(DAEMON_SETS, workload("agent", template=spec))
        await lab.change(NODES, "a", {"metadata": {"labels": {"numa": "yes"}}})
        await lab.sees(DAEMON_SETS, "agent", rolled_out(1))
        assert places(lab) == ["a"]
        await lab.change(NODES, "a", {"metadata": {"labels": {"numa": None}}})
        await lab.until(PODS, lambda: not len(lab.pods.store))
        await lab.sees(DAEMON_SETS, "agent", rolled_out(0))


async def test_a_rolling_update_takes_one_node_at_a_time() -> None:
    """Never are two pods missing."""
    async with bench(*BOTH, nodes=("a", "b", "c"), assign="") as lab:
        await lab.apply(DAEMON_SETS, workload("agent"))
        await lab.sees(DAEMON_SETS, "agent", rolled_out(3))
        fewest = 3

        def note(_: object) -> None:
            nonlocal fewest
            fewest = min(fewest, sum(map(_is_up, lab.pods.store.values())))

        lab.pods.store.subscribe(note)
        await lab.change(DAEMON_SETS, "agent", {"spec": {"template": template(image="two")}})
        await lab.sees(DAEMON_SETS, "agent", rolled_out(3))
        assert {pod.spec.containers[0].image for pod in lab.pods.store.values()} == {"two"}
        assert fewest == 2
        revisions = lab.mirror(CONTROLLER_REVISIONS).store
        await lab.until(CONTROLLER_REVISIONS, lambda: len(revisions) == 2)


async def test_surging_never_leaves_a_node_without() -> None:
    """The new pod is available before the old one goes."""
    async with bench(*BOTH, nodes=("a", "b"), assign="") as lab:
        update = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        await lab.apply(DAEMON_SETS, workload("agent", updateStrategy=update))
        await lab.sees(DAEMON_SETS, "agent", rolled_out(2))
        fewest = 2

        def note(_: object) -> None:
            nonlocal fewest
            fewest = min(fewest, sum(map(_is_up, lab.pods.store.values())))

        lab.pods.store.subscribe(note)
        await lab.change(DAEMON_SETS, "agent", {"spec": {"template": template(image="two")}})
        await lab.sees(DAEMON_SETS, "agent", rolled_out(2))
        assert fewest == 2


@pytest.mark.parametrize("limits", [{}, {"maxSurge": 1, "maxUnavailable": 0}])
async def test_a_pod_that_was_only_left_on_its_node_goes_with_the_next_update(
    limits: dict[str, int],
) -> None:
    """A taint that keeps new pods away lets the old one stay, until it would have to be new."""
    async with bench(*BOTH, nodes=("a", "b"), assign="") as lab:
        update = {"type": "RollingUpdate", "rollingUpdate": limits}
        await lab.apply(DAEMON_SETS, workload("agent", updateStrategy=update))
        await lab.sees(DAEMON_SETS, "agent", rolled_out(2))
        taint = {"key": "x", "effect": "NoSchedule"}
        await lab.change(NODES, "b", {"spec": {"taints": [taint]}})
        await lab.sees(DAEMON_SETS, "agent", lambda one: one.status.number_misscheduled == 1)
        assert places(lab) == ["a", "b"]
        await lab.change(DAEMON_SETS, "agent", {"spec": {"template": template(image="two")}})
        await lab.until(PODS, lambda: places(lab) == ["a"])
        await lab.sees(DAEMON_SETS, "agent", rolled_out(1))
        assert {pod.spec.containers[0].image for pod in lab.pods.store.values()} == {"two"}


async def test_on_delete_waits_for_the_user() -> None:
    """Only a pod that somebody deletes comes back new."""
    async with bench(*BOTH, nodes=("a",), assign="") as lab:
        await lab.apply(DAEMON_SETS, workload("agent", updateStrategy={"type": "OnDelete"}))
        await lab.sees(DAEMON_SETS, "agent", rolled_out(1))
        (old,) = lab.pods.store.values()
        await lab.change(DAEMON_SETS, "agent", {"spec": {"template": template(image="two")}})
        await lab.sees(DAEMON_SETS, "agent", lambda one: one.status.updated_number_scheduled == 0)
        await lab.client.delete(PODS, old.metadata.name, namespace="default")
        await lab.sees(DAEMON_SETS, "agent", rolled_out(1))


async def test_failed_pods_are_replaced_after_growing_pauses() -> None:
    """A node that rejects its pod does not cause a flood of them."""
    clock = ManualClock()
    async with bench(DaemonSets, nodes=("a",), assign="a", clock=clock) as lab:
        lab.kubelet.outcome = lambda _: ("Failed", False)
        seen: set[str] = set()
        lab.pods.store.subscribe(lambda change: seen.add(change.object.metadata.uid))
        await lab.apply(DAEMON_SETS, workload("agent"))
        for count, pause in ((1, 1), (2, 2), (3, 4)):
            await lab.until(PODS, lambda wanted=count: _failed(lab) and len(seen) == wanted)  # type: ignore[misc]
            await clock.advance(pause / 2)
            assert len(seen) == count
            await clock.advance(pause / 2)


def _failed(lab: Bench) -> bool:
    return any(pod.status and pod.status.phase == "Failed" for pod in lab.pods.store.values())


def _is_up(one: Pod) -> bool:
    conditions = one.status.conditions if one.status else ()
    ready = any(each.type == "Ready" and each.status == "True" for each in conditions)
    return ready and bool(target_of(one))
