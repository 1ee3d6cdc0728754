"""What a scheduler lets people see of itself, and whom."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from numakube.apps.host.common_settings import SWITCH
from numakube.apps.host.endpoint_access import Access
from numakube.apps.host.http_serving import Health, Listen, Serving
from numakube.apps.scheduler.scheduler_endpoints import SchedulerEndpoints
from numakube.kube.catalog import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, SERVICE_ACCOUNTS
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import request_token
from numakube.testing import pod_document, until
from numakube_lab.testing import LabCluster, Opener, lab_cluster, without_election

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def world(sites: Opener) -> AsyncIterator[LabCluster]:
    """One node with a pod, and one that waits."""
    async with lab_cluster(
        1, shape="2 sockets, 4 cores, smt 2, 16Gi", rbac=True, on=sites
    ) as world:
        await world.start()
        await world.create(pod_document("runs"), pod_document("waits", "40"))
        await world.runs("runs")
        await world.refuses("waits")
        yield world


@pytest.fixture
async def restored() -> AsyncIterator[None]:
    """The level of the log as it was."""
    level = SWITCH.level
    yield
    SWITCH.set(level)


def serving(world: LabCluster, host: str) -> Serving:
    """Return a server of the endpoints, as if it listened on *host*."""
    (running,) = world.running
    process = running.process
    endpoints = SchedulerEndpoints(process.parts, without_election(), running.client)
    routes = endpoints.routes(Access(running.client, host=host))
    health = Health()
    health.ready("caches", process.mirror.missing)
    listen = Listen(host="127.0.0.1", port=0)
    return Serving(listen, health=health, registry=process.registry, routes=routes)


async def get(session: aiohttp.ClientSession, path: str) -> Any:
    """Return what is answered, decoded."""
    async with session.get(path) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def at_rest(session: aiohttp.ClientSession) -> list[dict[str, Any]]:
    """Return the pods that fit nowhere and wait for a change."""
    queue = await get(session, "/debug/queue")
    return [pod for pod in queue["pods"] if pod["place"] == "unschedulable"]


@pytest.mark.usefixtures("restored")
async def test_on_loopback_everything_can_be_looked_at(world: LabCluster) -> None:
    """Queue, cache, pods, configuration, metrics and the level of the log."""
    async with (
        serving(world, "127.0.0.1") as server,
        aiohttp.ClientSession(server.url) as session,
    ):
        (waiting,) = await until(lambda: at_rest(session))
        assert waiting["pod"] == "default/waits"
        assert "0/1 nodes are available" in waiting["message"]
        (node,) = (await get(session, "/debug/cache?node=node-0"))["nodes"]
        assert (node["pods"], node["numa"]["policy"]) == (1, "single-numa-node")
        assert (await get(session, "/debug/pods/default/runs"))["node"] == "node-0"
        assert (await get(session, "/debug/pods/default/waits"))["queue"] == {
            **waiting,
            "waitingSeconds": pytest.approx(waiting["waitingSeconds"], abs=60),
            "retryInSeconds": pytest.approx(waiting["retryInSeconds"], abs=60),
        }
        config = (await get(session, "/configz"))["kubescheduler.config.k8s.io"]
        assert config["profiles"][0]["schedulerName"] == "numakube-scheduler"
        for path in ("/debug/pods/default/none", "/debug/cache?node=none"):
            async with session.get(path) as response:
                assert response.status == 404
        async with session.get("/metrics") as response:
            text = await response.text()
        labels = 'profile="numakube-scheduler",result="scheduled"'
        assert f"scheduler_schedule_attempts_total{{{labels}}}" in text
        await levels_can_be_set(session)


async def levels_can_be_set(session: aiohttp.ClientSession) -> None:
    """By klog's verbosity or by name, for good or for a while."""
    for path, body, status in (
        ("/debug/flags/v", "5", 200),
        ("/debug/flags/v?for=10s", "warning", 200),
        ("/debug/flags/v", "loud", 400),
        ("/debug/flags/v?for=soon", "5", 400),
        ("/debug/flags/v?for=-1s", "5", 400),
    ):
        async with session.put(path, data=body) as response:
            assert response.status == status, (path, body)
    assert SWITCH.level == "warning"


async def test_elsewhere_a_caller_needs_a_token_and_the_right(world: LabCluster) -> None:
    """Health and metrics stay open; what the API server says decides about the rest."""
    reader, stranger = await account(world, "reader"), await account(world, "stranger")
    await allow(world, "reader")
    async with (
        serving(world, "0.0.0.0") as server,
        aiohttp.ClientSession(server.url) as session,
    ):
        assert await status(session, "/livez") == 200
        assert await status(session, "/configz") == 401
        assert await status(session, "/configz", "made up") == 403
        assert await status(session, "/configz", stranger) == 403
        assert await status(session, "/configz", reader) == 200
        assert await status(session, "/debug/queue", reader) == 403


async def status(session: aiohttp.ClientSession, path: str, token: str = "") -> int:
    """Return the status of an answer."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with session.get(path, headers=headers) as response:
        return response.status


async def account(world: LabCluster, name: str) -> str:
    """Return the token of a new account."""
    document = {"metadata": {"name": name}}
    await world.client.create(SERVICE_ACCOUNTS, document, namespace="default")
    return (await request_token(world.client, ObjectKey("default", name))).token


async def allow(world: LabCluster, name: str) -> None:
    """Let an account read the configuration."""
    rules = [{"nonResourceURLs": ["/configz"], "verbs": ["get"]}]
    role = {"metadata": {"name": "configz"}, "rules": rules}
    await world.client.create(CLUSTER_ROLES, role)
    binding = {
        "metadata": {"name": "configz"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "configz",
        },
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": name}],
    }
    await world.client.create(CLUSTER_ROLE_BINDINGS, binding)
