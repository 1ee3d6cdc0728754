"""Workloads start on the nodes that Kueue has chosen for them, or Kueue chooses again."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st
from packages.planning.tests.admission_check.conftest import Kueue, checking
from packages.planning.tests.admission_check.test_kueue_workloads import template
from tests.apps.scheduler.served import served

from numakube.api.codec import convert
from numakube.api.fit_question import HOLD
from numakube.api.kueue import TopologyAssignment
from numakube.errors import InvalidValue
from numakube.kube.catalog import PODS
from numakube.kube.client import strategic_patch
from numakube.testing import pod_document
from numakube_lab.testing import LabCluster
from numakube_planning.admission_check.assigned_domains import assigned_pods

HOST = "kubernetes.io/hostname"
GATE = "kueue.x-k8s.io/topology"


def packed(*slices: dict[str, Any], levels: tuple[str, ...] = (HOST,)) -> dict[str, Any]:
    """Return an assignment as v1beta2 has it."""
    return {"levels": list(levels), "slices": list(slices)}


def on(counts: dict[str, int]) -> dict[str, Any]:
    """Return an assignment to nodes, without anything that they have in common."""
    individual = {"roots": list(counts)}
    return packed(
        {
            "domainCount": len(counts),
            "valuesPerLevel": [{"individual": individual}],
            "podCounts": {"individual": list(counts.values())},
        }
    )


def read(document: dict[str, Any]) -> list[tuple[dict[str, str], int]]:
    """Return what an assignment says."""
    found = assigned_pods(convert(TopologyAssignment, document, "the assignment"))
    return [(one.selector, one.count) for one in found]


def nodes_of(world: LabCluster) -> list[str]:
    """Return the names of the nodes."""
    return sorted(world.pool.kubelets)


def test_both_encodings_say_the_same() -> None:
    """What values begin and end with, one value for all, and one number for all."""
    new = packed(
        {
            "domainCount": 2,
            "valuesPerLevel": [
                {"universal": "b1"},
                {"individual": {"prefix": "gb-", "suffix": ".x", "roots": ["07", "08"]}},
            ],
            "podCounts": {"universal": 3},
        },
        {
            "domainCount": 1,
            "valuesPerLevel": [{"universal": "b2"}, {"universal": "gb-11.x"}],
            "podCounts": {"individual": [1]},
        },
        levels=("block", HOST),
    )
    old = {
        "levels": ["block", HOST],
        "domains": [
            {"values": ["b1", "gb-07.x"], "count": 3},
            {"values": ["b1", "gb-08.x"], "count": 3},
            {"values": ["b2", "gb-11.x"], "count": 1},
        ],
    }
    expected = [
        ({"block": "b1", HOST: "gb-07.x"}, 3),
        ({"block": "b1", HOST: "gb-08.x"}, 3),
        ({"block": "b2", HOST: "gb-11.x"}, 1),
    ]
    assert read(new) == read(old) == expected


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (packed({"domainCount": 10**9, "valuesPerLevel": [{"universal": "a"}]}), "1000000000 dom"),
        (packed({"domainCount": -1}), "-1 is negative"),
        (
            packed(
                {"domainCount": 10**6, "valuesPerLevel": [{"universal": "a"}]},
                {"domainCount": -(10**6)},
            ),
            "slices[1].domainCount: -1000000 is negative",
        ),
        (packed({"domainCount": 1}, levels=("a",) * 17), "levels: 17; there may be 16"),
        (
            packed({"domainCount": 1, "valuesPerLevel": [{"universal": "a"}] * 9}),
            "slices[0].valuesPerLevel: 9 values for 1 levels",
        ),
        (
            packed(
                {
                    "domainCount": 1,
                    "valuesPerLevel": [{"individual": {"prefix": "p" * 64, "roots": [""]}}],
                }
            ),
            "slices[0].valuesPerLevel[0]: a value has 64 characters",
        ),
        (
            packed(
                {
                    "domainCount": 2,
                    "valuesPerLevel": [{"individual": {"roots": ["a"]}}],
                    "podCounts": {"universal": 1},
                }
            ),
            "slices[0].valuesPerLevel[0]: 1 values for 2 domains",
        ),
        (packed({"domainCount": 1, "podCounts": {"universal": 1}}), "0 values for 1 levels"),
        (
            packed({"domainCount": 1, "valuesPerLevel": [{"universal": "a"}]}),
            "podCounts: 0 for 1 domains",
        ),
    ],
)
def test_an_assignment_that_contradicts_itself_is_refused(
    document: dict[str, Any], told: str
) -> None:
    """Before anything is unpacked that takes time or memory."""
    with pytest.raises(InvalidValue) as raised:
        read(document)
    assert told in str(raised.value)


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.integers(0, 9), max_size=20))
def test_pods_are_neither_lost_nor_made(counts: dict[str, int]) -> None:
    found = read(on(counts))
    assert {one[HOST]: count for one, count in found} == {k: v for k, v in counts.items() if v}


async def test_a_node_that_takes_too_few_is_named(world: LabCluster, kueue: Kueue) -> None:
    """Kueue has counted amounts; only Kueue can choose other nodes."""
    first, second = nodes_of(world)
    await world.create(pod_document("a", "3", nodeName=first))
    await world.create(pod_document("b", "3", nodeName=first))
    await world.runs("a", "b")
    async with checking(world):
        await kueue.queue("job", template(), 3, topologyAssignment=on({first: 1, second: 2}))

        check = await kueue.says("job", "Retry", f"node {first} takes 0 of 1 pods: 0/2 nodes are")

        assert second not in check["message"]
        assert check["requeueAfterSeconds"] == 60


async def test_pods_find_the_places_on_the_nodes_that_they_are_given(
    world: LabCluster, kueue: Kueue
) -> None:
    """Kueue takes its gate off one pod after the other, and says then where each goes."""
    first, second = nodes_of(world)
    async with checking(world):
        await kueue.queue("job", template(), 4, topologyAssignment=on({first: 2, second: 2}))
        check = await kueue.says("job", "Ready")
        value = check["podSetUpdates"][0]["annotations"][HOLD]
        names = ("j0", "j1", "j2", "j3")
        for name in names:
            held = {"annotations": {HOLD: value}}
            gates = [{"name": GATE}]
            await world.create(pod_document(name, "3", metadata=held, schedulingGates=gates))
        await world.create(pod_document("late", "3"))
        await world.refuses("late", "0/2 nodes are available")

        for name, node in zip(names, (second, second, first, first), strict=True):
            opened = {
                "nodeSelector": {HOST: node},
                "schedulingGates": [{"$patch": "delete", "name": GATE}],
            }
            patch = strategic_patch({"spec": opened})
            await world.client.patch(PODS, name, patch, namespace="default")

        await world.runs(*names)
        assert [world.pod(name).spec.node_name for name in names] == [second, second, first, first]
        assert not world.pod("late").spec.node_name


async def test_nothing_is_said_while_kueue_has_still_to_choose(
    world: LabCluster, kueue: Kueue
) -> None:
    """Its choice is delayed while nodes are being made."""
    async with checking(world):
        await kueue.queue("job", template(), 1, delayedTopologyRequest="Pending")
        await kueue.queue("next", template(), 1)
        await kueue.says("next", "Ready")
        assert (await kueue.check_of("job"))["state"] == "Pending"
        first = nodes_of(world)[0]

        await kueue.reserve(
            "job", delayedTopologyRequest="Ready", topologyAssignment=on({first: 1})
        )

        await kueue.says("job", "Ready")


async def test_an_assignment_that_cannot_be_read_is_told(world: LabCluster, kueue: Kueue) -> None:
    async with checking(world):
        await kueue.queue("job", template(), 2, topologyAssignment=on({"n": 1}))
        await kueue.says("job", "Pending", "topologyAssignment: it places 1 of 2 pods")


async def test_copies_of_a_large_pod_stop_nobody_else(world: LabCluster, kueue: Kueue) -> None:
    """They are more than a scheduler reads; those that come later have their answer."""
    large = template()
    large["metadata"] = {"annotations": {"note": "x" * 100_000}}
    domains = {f"n{number}": 1 for number in range(100)}
    async with checking(world):
        await kueue.queue("large", large, 100, topologyAssignment=on(domains))
        await kueue.queue("next", template(), 1)

        await kueue.says("next", "Ready")

        await kueue.says("large", "Retry", "its pods have more than 7 MiB together")


async def test_a_question_that_takes_too_long_stops_nobody_else(
    world: LabCluster, kueue: Kueue
) -> None:
    """Although it is the first in every turn."""
    async with served(world.running[-1]) as own, ClientSession() as session:

        async def passed_on(request: web.Request) -> web.Response:
            body = await request.read()
            if b"endless" in body:
                raise web.HTTPServiceUnavailable(text="this takes longer than 5 s")
            url = own.rstrip("/") + request.path_qs
            async with session.request(request.method, url, data=body) as answer:
                return web.Response(status=answer.status, body=await answer.read())

        between = web.Application()
        between.router.add_route("*", "/{path:.*}", passed_on)
        async with TestServer(between) as server, checking(world, url=str(server.make_url("/"))):
            await kueue.queue("endless", template(), 1)
            await kueue.queue("next", template(), 1)

            await kueue.says("next", "Ready")

        assert (await kueue.check_of("endless"))["state"] == "Pending"
