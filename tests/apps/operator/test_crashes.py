"""An operator that dies at any write, and several at once: the end is always the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from random import Random
from typing import Any

import pytest
from tests.apps.operator.test_on_the_lab import (
    conditions,
    in_state,
    kinds_served,
    label,
    wanted_exporters,
    wanted_scheduler,
)

from numakube.api.crds import OPERATOR_CRD, SCHEDULER_CRD, crd
from numakube.apps.operator.controller import OPERATORS, SCHEDULERS
from numakube.apps.operator.exporters_plan import Setup
from numakube.apps.operator.process import OperatorProcess
from numakube.apps.operator.scheduler_plan import SchedulerSetup
from numakube.kube.catalog import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    NETWORK_POLICIES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from numakube.kube.client import Client
from numakube.kube.clock import SystemClock
from numakube.kube.connection.cluster_config import load_config
from numakube.kube.connection.credentials import authenticator_for
from numakube.kube.connection.http import HttpTransport
from numakube.kube.connection.transport import Request, Response, Stream, Transport
from numakube.kubelet.machines.shape_text import from_shape
from numakube.manifests.operator import LEASE
from numakube.testing import until
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.testing import Opener, Site, SiteOptions

pytestmark = pytest.mark.timeout(240)

NAMESPACE = "ns"
OBJECTS = 27
"""What an operator makes; it writes every one of them, since it does not know who did before."""
OURS = "app.kubernetes.io/managed-by=numakube-operator"
KINDS: tuple[Any, ...] = (
    *(SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS),
    *(NETWORK_POLICIES, DAEMON_SETS, DEPLOYMENTS, CONFIG_MAPS, SERVICES),
)


class Mortal:
    """A transport that dies after a number of writes, before or after the last has arrived."""

    def __init__(self, transport: Transport, writes: int, *, late: bool) -> None:
        self._transport = transport
        self._writes = writes
        self._late = late
        self.dead = asyncio.Event()

    async def send(self, request: Request) -> Response:
        """Send *request*, if still alive."""
        if request.method == "GET":
            return await self._transport.send(request)
        self._writes -= 1
        if self._writes < 0:
            if self._late and not self.dead.is_set():
                await self._transport.send(request)
            self.dead.set()
            await asyncio.Event().wait()
        return await self._transport.send(request)

    def open(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Open a stream."""
        return self._transport.open(request)

    async def aclose(self) -> None:
        """Close."""
        await self._transport.aclose()


@pytest.fixture
async def site(sites: Opener) -> AsyncIterator[Site]:
    """A cluster of one node, with the kinds and the namespace of an operator."""
    plans = uniform_plans(1, from_shape("2 sockets, 2 cores, 8Gi"), "", "1.35")
    async with sites(SiteOptions(plans=plans, exporters=False)) as site:
        for name in (OPERATOR_CRD, SCHEDULER_CRD):
            await site.client.create(CUSTOM_RESOURCE_DEFINITIONS, crd(name))
        await kinds_served(site.client)
        home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await site.client.create(NAMESPACES, home)
        yield site


def transport_to(site: Site) -> Transport:
    """Return how the administrator reaches a cluster."""
    config, clock = load_config(kubeconfig=site.kubeconfig, env={}), SystemClock()
    auth = authenticator_for(config.user, clock=clock, env={}, interactive=False)
    return HttpTransport(config, auth=auth, clock=clock)


@asynccontextmanager
async def operating(
    client: Client, *, leader_elect: bool = False
) -> AsyncIterator[OperatorProcess]:
    """Run an operator, which does not ask others unless told to."""
    process = OperatorProcess(
        client,
        Setup(namespace=NAMESPACE, image="registry.example/numakube:1"),
        SchedulerSetup(namespace=NAMESPACE),
        leader_elect=leader_elect,
    )
    task = asyncio.create_task(process.run(asyncio.Event()))
    try:
        yield process
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def everything(client: Client) -> dict[str, str]:
    """Return what an operator made, with what would change if it were written again."""
    found = {}
    for resource in KINDS:
        for item in (await client.list(resource, labels=OURS)).items:
            metadata = item["metadata"]
            mark = metadata.get("generation") or metadata["resourceVersion"]
            found[f"{resource.kind} {metadata['name']}"] = f"{metadata['uid']} {mark}"
    return found


async def both_available(client: Client) -> None:
    """Wait until both objects say so."""
    await in_state(client, OPERATORS, "Available")
    await in_state(client, SCHEDULERS, "Available")


async def ask_for_both(client: Client) -> None:
    """Create both objects."""
    await client.create(OPERATORS.raw, wanted_exporters(nodeSelector={"matchLabels": {}}))
    await client.create(SCHEDULERS.raw, wanted_scheduler())


@pytest.mark.parametrize("late", [False, True])
async def test_an_operator_that_dies_at_any_write_is_followed_by_one_that_ends_the_work(
    site: Site, *, late: bool
) -> None:
    """Nothing is made twice and nothing is forgotten."""
    client = site.client
    await ask_for_both(client)
    for writes in Random(late).sample(range(OBJECTS), 5):
        mortal = Mortal(transport_to(site), writes, late=late)
        async with Client(mortal, rate=0) as doomed, operating(doomed), asyncio.timeout(60):
            await mortal.dead.wait()
    async with operating(client):
        await both_available(client)
        made = await everything(client)
    kinds = sorted(name.partition(" ")[0] for name in made)
    assert kinds.count("DaemonSet") == kinds.count("Deployment") == 1
    assert len(made) == OBJECTS


async def test_several_operators_at_once_do_not_undo_each_others_work(site: Site) -> None:
    """Once everything is there, nobody writes any more."""
    client = site.client
    await ask_for_both(client)
    async with operating(client) as one, operating(client) as two, operating(client) as three:
        await both_available(client)
        await pass_by(client, "a", one, two, three)
        before = await everything(client)
        await pass_by(client, "b", one, two, three)
        assert await everything(client) == before
        assert await both_still_available(client)


async def pass_by(client: Client, value: str, *processes: OperatorProcess) -> None:
    """Change a label of the node, and wait until every operator has looked at both objects."""
    before = [passes(process) for process in processes]
    await label(client, "node-0", "example.com/x", value)

    async def seen() -> bool:
        return all(
            now > then
            for one, counts in zip(processes, before, strict=True)
            for now, then in zip(passes(one), counts, strict=True)
        )

    await until(seen)


def passes(process: OperatorProcess) -> list[float]:
    """Return how often an operator has passed over objects of each kind."""
    name = "controller_runtime_reconcile_total"
    return [
        process.registry.get_sample_value(name, {"controller": one.kind, "result": "success"}) or 0
        for one in (OPERATORS, SCHEDULERS)
    ]


async def both_still_available(client: Client) -> bool:
    """Tell whether both objects say so now."""
    found = [
        await client.get(OPERATORS.raw, "numaresourcesoperator"),
        await client.get(SCHEDULERS.raw, "numaresourcesscheduler"),
    ]
    return all(conditions(one)["Available"] == "True" for one in found)


async def test_who_stands_by_goes_on_where_the_leader_stopped(site: Site) -> None:
    """And meanwhile does nothing."""
    client = site.client
    await ask_for_both(client)
    async with AsyncExitStack() as leading:
        first = await leading.enter_async_context(operating(client, leader_elect=True))
        await both_available(client)
        async with operating(client, leader_elect=True) as second:
            await pass_by(client, "a", first)
            assert await leader(client) == first.identity
            assert passes(second) == [0, 0]
            await leading.aclose()

            async def taken_over() -> bool:
                return await leader(client) == second.identity

            await until(taken_over)
            await delete_and_see_it_return(client)


async def test_a_server_that_goes_away_and_forgets_the_past_is_worked_with_again(
    site: Site,
) -> None:
    """On a real server: it is killed in the midst of the work, and another one started."""
    client = site.client
    await ask_for_both(client)
    async with site.connect() as theirs, operating(theirs):
        await until(partial(client.get, SERVICE_ACCOUNTS, "rte", namespace=NAMESPACE))
        await site.expire_history()
        await both_available(client)
        await site.drop_watches()
        await delete_and_see_it_return(client)
        assert len(await everything(client)) == OBJECTS


async def leader(client: Client) -> str:
    """Return who leads."""
    lease = await client.get(LEASES.raw, LEASE, namespace=NAMESPACE)
    return str(lease["spec"].get("holderIdentity"))


async def delete_and_see_it_return(client: Client) -> None:
    """Delete the exporters, and wait until there are new ones."""
    (old,) = (await client.list(DAEMON_SETS, namespace=NAMESPACE)).items
    await client.delete(DAEMON_SETS, old["metadata"]["name"], namespace=NAMESPACE)

    async def returned() -> bool:
        found = (await client.list(DAEMON_SETS, namespace=NAMESPACE)).items
        return [item["metadata"]["uid"] for item in found] not in ([], [old["metadata"]["uid"]])

    await until(returned)
