"""``kubectl numa plan defrag --apply`` on a running cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from packages.planning.tests.rebalancer.fragmented import fragmented, on
from tests.apps.scheduler.served import served
from tests.cli.conftest import Ended
from tests.cli.test_rights import account, allow, as_user

from numakube.api.fit_question import HOLD
from numakube.manifests.rbac_rules import READ, rule
from numakube.testing import pod_document

Run = Callable[..., Ended]
ROOM = ("plan", "defrag", "--shape", "cpu=3,memory=1Gi", "--apply")


async def test_room_is_made_and_used(numakube: Run) -> None:
    """A dry run changes nothing; then the pod for which there was no room runs."""
    async with fragmented() as world:
        config = ("--kubeconfig", world.site.kubeconfig)
        dry = await asyncio.to_thread(numakube, *ROOM, "--dry-run=server", *config)
        assert (dry.code, on(world, "node-0")) == (0, {"a", "b"})
        assert dry.out.splitlines()[-1] == "node/node-0 uncordoned (server dry run)"
        ended = await asyncio.to_thread(numakube, *ROOM, *config)
        assert (ended.code, ended.err) == (0, "")
        assert [line.partition(" ")[2] for line in ended.out.splitlines()[-4:]] == [
            "cordoned",
            "evicted from node-0",
            "replaces it on node-1",
            "uncordoned",
        ]
        assert "a" in on(world, "node-1")
        again = await asyncio.to_thread(numakube, *ROOM, *config)
        assert again.out == "1 of 1 pods fit as it is.\n"
        await world.create(pod_document("wanted", "3"))
        await world.runs("wanted")


async def test_who_may_not_evict_changes_nothing(numakube: Run, tmp_path: Path) -> None:
    """The API server's refusal is told before the first node is cordoned."""
    async with fragmented(rbac=True) as world:
        run = as_user.__wrapped__(numakube, world, tmp_path)  # type: ignore[attr-defined]
        who = await account(world, "reader")
        groups = ("", "topology.node.k8s.io", "policy", "storage.k8s.io", "resource.k8s.io")
        await allow(world, who, *(rule(group, ["*"], READ) for group in groups))
        ended = await run("reader", *ROOM)
        assert ended.code == 1
        assert 'cannot patch resource "nodes"' in ended.err
        assert on(world, "node-0") == {"a", "b"}


def test_it_needs_a_cluster_that_can_be_changed(numakube: Run) -> None:
    """A bundle cannot, and a dry run is of something."""
    assert "needs a live cluster" in numakube(*ROOM, "--from", "x.tar.gz").err
    assert "goes with --apply" in numakube(*ROOM[:-1], "--dry-run=client").err


async def test_the_places_are_held_for_pods_that_name_the_hold(numakube: Run) -> None:
    """Others of the same priority stay off them."""
    async with fragmented() as world, served(world.running[-1]) as url:
        more = ("--kubeconfig", world.site.kubeconfig, "--scheduler-url", url)
        ended = await asyncio.to_thread(numakube, *ROOM, *more, "--hold", "mine")
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.splitlines()[-1] == (
            "1 place is held for 10m: pods with the annotation numakube.dev/hold: mine take them"
        )
        await world.create(pod_document("other", "3"))
        await world.refuses("other")
        held = {"annotations": {HOLD: "mine"}}
        await world.create(pod_document("wanted", "3", metadata=held))
        await world.runs("wanted")
    assert "--hold goes with --apply" in numakube(*ROOM[:-1], "--hold", "x").err
