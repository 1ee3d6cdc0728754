"""A kind is read in the version that a server has of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from msgspec.structs import replace

from numakube.api.meta import ObjectMeta
from numakube.api.pod_groups import (
    GangPolicy,
    PodGroup,
    PodGroupCondition,
    PodGroupSpec,
    PodGroupStatus,
    SchedulingPolicy,
)
from numakube.apps.cluster_mirror import Mirror
from numakube.apps.watched_kinds import POD_GROUPS, located
from numakube.errors import NotFound
from numakube.kube.client import Client
from numakube.kube.connect import connect
from numakube.kube.scripted_server import ScriptedServer, status_document
from numakube.scheduling.framework.cluster_events import POD_GROUP_KINDS, ClusterEvent
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.testing import until


@dataclass
class Groups:
    """A server of empty lists that has pod groups in some versions of their API.

    Attributes:
        plurals: the kinds of ``scheduling.k8s.io``, by version.
        forbidden: whether nobody may ask what there is.
    """

    plurals: Mapping[str, tuple[str, ...]]
    forbidden: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Answer like a server with one group."""
        _, *parts = request.path.split("/")
        if parts[:2] != ["apis", "scheduling.k8s.io"]:
            return await self._list(request, items=[])
        if self.forbidden and len(parts) == 3:
            return web.json_response(status_document(403, "Forbidden"), status=403)
        plurals = self.plurals.get(parts[2], ())
        if len(parts) == 3 and plurals:
            kinds = [{"name": plural, "namespaced": True} for plural in plurals]
            return web.json_response({"kind": "APIResourceList", "resources": kinds})
        if parts[3:] != ["podgroups"] or "podgroups" not in plurals:
            return web.json_response(status_document(404, "NotFound"), status=404)
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        meta = {"name": "team", "namespace": "default", "uid": "u", "resourceVersion": "7"}
        return await self._list(request, items=[{"metadata": meta, "spec": spec}])

    async def _list(self, request: web.Request, items: list[object]) -> web.StreamResponse:
        if "watch" in request.query:
            await self.ended.wait()
        return web.json_response({"metadata": {"resourceVersion": "7"}, "items": items})


@asynccontextmanager
async def served_by(groups: Groups) -> AsyncIterator[Client]:
    """Return a client of a server with *groups*."""
    async with (
        ScriptedServer(otherwise=groups) as server,
        connect(server.config, rate=0) as client,
    ):
        try:
            yield client
        finally:
            groups.ended.set()


STABLE = {"v1": ("priorityclasses", "podgroups")}
BETA = {"v1": ("priorityclasses",), "v1beta1": ("podgroups",)}


@pytest.mark.parametrize(("plurals", "version"), [(STABLE, "v1"), (BETA, "v1beta1")])
async def test_the_version_is_that_in_which_the_kind_is_served(
    plurals: Mapping[str, tuple[str, ...]], version: str
) -> None:
    """A version of the group that lacks the kind does not count."""
    async with served_by(Groups(plurals)) as client:
        assert (await located(client, POD_GROUPS)).version == version


async def test_a_kind_that_no_version_has_is_not_found() -> None:
    """As if it were asked for itself."""
    async with served_by(Groups({"v1": ("priorityclasses",)})) as client:
        with pytest.raises(NotFound, match=r"podgroups\.scheduling\.k8s\.io in none of"):
            await located(client, POD_GROUPS)


async def test_who_may_not_ask_reads_the_usual_version() -> None:
    """The right to read the objects does not come with the right to ask."""
    async with served_by(Groups(BETA, forbidden=True)) as client:
        assert await located(client, POD_GROUPS) == POD_GROUPS


def newer(group: PodGroup, version: str) -> ObjectMeta:
    """Return the metadata of *group* after a change."""
    return replace(group.metadata, resource_version=version)


async def test_groups_of_a_server_that_has_only_the_stable_version_are_seen() -> None:
    """Kubernetes 1.38, by the milestone of KEP-4671; what is written into them wakes nobody."""
    async with served_by(Groups(STABLE)) as client:
        mirror = Mirror(client, Cluster(), Predict(), kinds=POD_GROUP_KINDS, topologies=False)
        happened: list[ClusterEvent] = []
        mirror.listener = cast("Any", SimpleNamespace(happened=happened.append))
        task = asyncio.create_task(mirror.run())
        try:
            await until(lambda: "default/team" in mirror.cluster.objects.pod_groups)
            store = mirror.stores["pod_groups"]
            (group,) = store
            happened.clear()
            condition = PodGroupCondition(type="any", status="False", reason="Unschedulable")
            status = PodGroupStatus(conditions=(condition,))
            store.put(replace(group, metadata=newer(group, "8"), status=status))
            assert mirror.cluster.objects.pod_groups["default/team"].status.conditions
            assert happened == []
            gang = SchedulingPolicy(gang=GangPolicy(min_count=1))
            spec = PodGroupSpec(scheduling_policy=gang)
            store.put(replace(group, metadata=newer(group, "9"), spec=spec))
            assert [event.pod_group for event in happened] == [
                ("scheduling.k8s.io", "default", "team")
            ]
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
