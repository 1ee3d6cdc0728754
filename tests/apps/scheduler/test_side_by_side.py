"""Our placements next to an independent scheduler written from the definitions."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.apps.scheduler.brute_force import nodes_for
from tests.apps.scheduler.invariants import Ledger, assert_invariants

from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import pod_document, until
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.nodes.node_documents import NodePlan
from numakube_lab.testing import LabCluster, Opener, lab_cluster

pytestmark = pytest.mark.timeout(180)

SHAPES = (
    "2 sockets, 4 cores, smt 2, 16Gi, gpu 2",
    "1 socket, 6 cores, smt 2, 16Gi",
    "2 sockets, 4 cores, smt 1, 12Gi, gpu 1",
    "4 sockets, 2 cores, smt 2, 16Gi, gpu 1",
)
KUBELETS = tuple(
    f"policy={policy},scope={scope}"
    for policy in ("single-numa-node", "restricted", "best-effort", "none")
    for scope in ("container", "pod")
)


def mixed_plans(rng: Random, count: int) -> tuple[NodePlan, ...]:
    """Return nodes of different shapes and policies."""
    return tuple(
        mixed_plan(number, rng.choice(SHAPES), rng.choice(KUBELETS)) for number in range(count)
    )


def mixed_plan(number: int, shape: str, kubelet: str) -> NodePlan:
    """Return the plan of one node."""
    return uniform_plans(1, from_shape(shape), kubelet, "1.35", first=number)[0]


def random_pod(rng: Random, name: str) -> dict[str, Any]:
    """Return a pod of one to three containers, guaranteed or not, some with devices."""
    document = pod_document(name)
    containers = []
    for index in range(rng.choice((1, 1, 2, 3))):
        amounts = {
            "cpu": rng.choice(("500m", "1", "2", "3", "4", "6")),
            "memory": rng.choice(("512Mi", "1Gi", "3Gi")),
        }
        if rng.random() < 0.15:
            amounts["example.com/gpu"] = "1"
        limits = (
            amounts if rng.random() < 0.8 else {key: amounts[key] for key in amounts if "/" in key}
        )
        containers.append(
            {
                "name": f"c{index}",
                "image": "registry.example/app:1",
                "resources": {"requests": amounts, "limits": limits},
            }
        )
    document["spec"]["containers"] = containers
    return document


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_whoever_waits_fits_nowhere_and_whoever_is_placed_is_admitted(
    sites: Opener, seed: int
) -> None:
    """On nodes of every policy and scope, after pods have come and gone."""
    rng = Random(seed)
    async with lab_cluster(0, plans=mixed_plans(rng, 6), on=sites) as world:
        ledger = Ledger.of(world)
        await world.start()
        deleted: set[str] = set()
        for turn in range(3):
            names = [f"p{turn}-{number}" for number in range(14)]
            await world.create(*(random_pod(rng, name) for name in names))
            await settle(world)
            running = sorted(world.by_phase("Running"))
            for name in rng.sample(running, len(running) // 3):
                deleted.add(world.pod(name).metadata.uid)
                await world.delete(name)
            await settle(world)
        await assert_invariants(world, ledger, deleted=deleted)


async def settle(world: LabCluster) -> None:
    """Wait until every pod was tried, and none waits that would fit."""
    await world.settled()
    await nobody_fits(world)


async def nobody_fits(world: LabCluster) -> None:
    """Wait until no pod waits that would fit; the failure shows those that would."""

    def would_fit() -> dict[str, list[str]]:
        waiting = {name: nodes_for(world, world.pod(name)) for name in world.by_phase("Pending")}
        return {name: nodes for name, nodes in waiting.items() if nodes}

    await until(would_fit, lambda found: not found)
