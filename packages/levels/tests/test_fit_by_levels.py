"""Whether a gang would fit is answered by levels, and room that is kept stays in its domains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from packages.levels.tests.test_level_search import (
    BLOCK,
    LEVELS,
    PREFERRED,
    RACK,
    REQUIRED,
    SLICES,
    Racks,
)
from tests.apps.scheduler.served import served

from numakube.api.fit_question import HOLD
from numakube.scheduling.gang_placements import GangRequest
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import pod, pod_document
from numakube_lab.testing import LabCluster, Opener, lab_cluster, without_election

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SHAPE = "1 socket, 4 cores, smt 1, 8Gi"
PLACES = {"A/r1": 2, "A/r2": 3, "B/r3": 1, "B/r4": 2}
"""Nodes by block and rack; each takes one pod of three CPUs."""


@pytest.fixture
async def world(sites: Opener) -> AsyncIterator[LabCluster]:
    """Racks of nodes that take a pod each."""
    async with lab_cluster(sum(PLACES.values()), shape=SHAPE, on=sites) as world:
        racks = [rack for rack, count in PLACES.items() for _ in range(count)]
        for node, rack in zip(sorted(world.pool.kubelets), racks, strict=True):
            block, _, name = rack.partition("/")
            labels = {BLOCK: block, RACK: name}
            await world.change_node(node, {"metadata": {"labels": labels}})
        await world.start(without_election(TopologyLevels=LEVELS))
        yield world


def gang(count: int, annotations: dict[str, str], **more: Any) -> list[dict[str, Any]]:
    """Return the pods of a gang."""
    labels = {NAME_LABEL: "g", MIN_LABEL: str(count)}
    metadata = {"labels": labels, "annotations": {**annotations, **more}}
    return [pod_document(f"g{n}", "3", metadata=dict(metadata)) for n in range(count)]


async def asked(world: LabCluster, question: dict[str, Any]) -> dict[str, Any]:
    """Ask the scheduler."""
    async with (
        served(world.running[-1]) as url,
        aiohttp.ClientSession(url) as session,
        session.post("/v1/fit", json={"gang": True, **question}) as response,
    ):
        assert response.status == 200, await response.text()
        answer: dict[str, Any] = await response.json()
        return answer


async def test_an_answer_has_domains_and_the_largest_gang(world: LabCluster) -> None:
    """Two slices of two: in one block if it is preferred, and the smallest racks that take one."""
    wish = {SLICES: "rack=2", PREFERRED: "block"}
    answer = await asked(world, {"pods": gang(4, wish)})
    assert answer["fits"] == 4
    assert answer["domains"] == {"block": {"A": 4}, "rack": {"A/r1": 2, "A/r2": 2}}
    assert answer["largest"] == {"block": 5, "rack": 3}
    assert answer["cost"] == {"uneven": 0, "leftOver": 1}


async def test_a_refusal_has_the_largest_gang_and_no_domains(world: LabCluster) -> None:
    answer = await asked(world, {"pods": gang(4, {REQUIRED: "rack"})})
    assert answer["fits"] == 0
    assert (
        "4 pods have to fit in one rack; the best, A/r2, takes 3" in answer["refused"][0]["reason"]
    )
    assert answer["largest"] == {"block": 5, "rack": 3}
    assert "domains" not in answer


async def test_a_gang_without_levels_is_answered_without_them(world: LabCluster) -> None:
    answer = await asked(world, {"pods": gang(4, {})})
    assert answer["fits"] == 4
    assert not answer.keys() & {"domains", "largest", "cost"}


async def test_a_gang_goes_to_the_domain_in_which_its_room_is_kept(world: LabCluster) -> None:
    """A tighter rack has got room by then, and the kept room is taken all the same."""
    first, *_, third, last = sorted(world.pool.kubelets)
    await world.create(pod_document("other", "3", nodeName=first))
    await world.runs("other")
    cluster = world.running[-1].process.parts.engine.cluster
    await world.until(lambda: any(node.pods for node in cluster.nodes()))
    pods = gang(2, {REQUIRED: "rack"}, **{HOLD: "j"})
    answer = await asked(world, {"pods": pods, "hold": {"name": "j", "seconds": 600}})
    assert answer["domains"]["rack"] == {"B/r4": 2}
    await world.delete("other")
    await world.until(lambda: not any(node.pods for node in cluster.nodes()))

    await world.create(*pods)

    await world.runs("g0", "g1")
    assert {world.pod(name).spec.node_name for name in ("g0", "g1")} == {third, last}


def planned(racks: Racks, nominated: dict[str, str], annotations: dict[str, str]) -> dict[str, str]:
    """Return the nodes of a gang for whose members room is kept."""
    labels = {NAME_LABEL: "g", MIN_LABEL: str(len(nominated))}
    pods = [PodInfo(pod(name, "6", labels=labels, annotations=annotations)) for name in nominated]
    for one in pods:
        racks.engine.nominations.nominate(one, nominated[one.name])
    racks.plan(1, annotations)  # so that the request has the gang's rules
    request = GangRequest(racks.request.gang, pods, len(pods))
    plan = racks.planner.plan(request)
    return {one.name: chosen.node for one, chosen in plan.placements}


@pytest.mark.parametrize(
    ("wish", "nodes", "kept"),
    [
        ({REQUIRED: "rack"}, ("b-0", "b-1"), True),
        ({REQUIRED: "rack"}, ("a-0", "b-1"), False),
        ({SLICES: "rack=2"}, ("b-0", "b-1"), True),
        ({SLICES: "rack=2"}, ("a-0", "b-1"), False),
        ({PREFERRED: "rack"}, ("a-0", "b-1"), True),
    ],
)
def test_kept_places_are_taken_only_if_they_are_what_the_gang_asks_for(
    wish: dict[str, str], nodes: tuple[str, str], *, kept: bool
) -> None:
    """Labels may have changed since, or what the gang asks for."""
    nominated = dict(zip(("x", "y"), nodes, strict=True))
    found = planned(Racks({"a": 2, "b": 4}), nominated, wish)
    assert (found == nominated) is kept
    assert len(found) == 2
