"""What a rebalancer leaves alone, and how it goes on after another one, or after its own end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from packages.planning.tests.rebalancer.fragmented import fragmented, on
from packages.planning.tests.rebalancer.test_rebalancer import rebalancer
from tests.apps.shipped_rights import with_shipped_rights

from numakube.errors import Forbidden
from numakube.kube.catalog import NODES, PODS
from numakube.kube.client import merge_patch
from numakube.testing import pod_document
from numakube.values.times import format_time
from numakube_lab.testing import LabCluster
from numakube_planning.manifests import RebalancerManifest
from numakube_planning.rebalancer.pod_moving import CORDONED


class WithoutEvictions(RebalancerManifest):
    """A rebalancer that somebody has taken the right to evict from."""

    def cluster_rules(self) -> list[dict[str, Any]]:
        rules = super().cluster_rules()
        return [rule for rule in rules if "pods/eviction" not in rule.get("resources", ())]


async def placed(world: LabCluster) -> dict[str, str]:
    """Return the node of every pod, by its uid."""
    return {pod.metadata.uid: pod.spec.node_name for pod in (await world.client.list(PODS)).items}


async def cordons(world: LabCluster) -> dict[str, tuple[bool, bool]]:
    """Return of every node whether it is cordoned, and whether for a move."""
    nodes = (await world.client.list(NODES)).items
    return {
        node.metadata.name: (node.spec.unschedulable, CORDONED in node.metadata.annotations)
        for node in nodes
    }


async def left_cordoned(
    world: LabCluster, node: str, *, seconds_ago: float, closed: bool = True
) -> None:
    """Cordon *node* as a rebalancer does for a move; somebody may have opened it meanwhile."""
    since = world.client.clock.now() - timedelta(seconds=seconds_ago)
    annotations = {CORDONED: format_time(since)}
    change = {"metadata": {"annotations": annotations}, "spec": {"unschedulable": closed}}
    await world.client.patch(NODES, node, merge_patch(change))


async def test_nothing_moves_while_another_one_does_and_a_dry_run_changes_nothing() -> None:
    """After the other one was killed, its node is opened again, and the room is made."""
    open_nodes = {"node-0": (False, False), "node-1": (False, False)}
    async with fragmented() as world:
        await world.create(pod_document("late", "3"))
        await world.refuses("late")
        before = await placed(world)
        assert await rebalancer(world.client, dry_run=True).turn() == ""
        assert (await placed(world), await cordons(world)) == (before, open_nodes)

        await left_cordoned(world, "node-0", seconds_ago=1.0)
        assert await rebalancer(world.client).turn() == ""
        assert await placed(world) == before
        assert await cordons(world) == {**open_nodes, "node-0": (True, True)}
        assert await rebalancer(world.client, dry_run=True).turn() == ""
        assert await cordons(world) == {**open_nodes, "node-0": (True, True)}

        await left_cordoned(world, "node-0", seconds_ago=1.0, closed=False)
        assert await rebalancer(world.client).turn() == ""
        assert await placed(world) == before

        await left_cordoned(world, "node-0", seconds_ago=3600.0)
        process = rebalancer(world.client)
        assert await process.turn() == ""
        await world.runs("late")
        assert await cordons(world) == open_nodes
        moves = process.registry.get_sample_value("numakube_rebalancer_moves_total")
        assert moves == 1
        assert await process.turn() == ""
        assert process.registry.get_sample_value("numakube_rebalancer_moves_total") == moves


async def test_without_the_right_to_evict_every_pod_stays_and_every_node_is_open() -> None:
    async with (
        fragmented(rbac=True) as world,
        with_shipped_rights(world, WithoutEvictions) as client,
    ):
        await world.create(pod_document("late", "3"))
        await world.refuses("late")
        process = rebalancer(client)
        with pytest.raises(Forbidden, match="evict"):
            await process.turn()
        assert on(world, "node-0") == {"a", "b"}
        assert await cordons(world) == {"node-0": (False, False), "node-1": (False, False)}
        assert process.registry.get_sample_value("numakube_rebalancer_moves_total") == 0
