"""An operator that dies at any write, and several at once: the end is always the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from tests.apps.operator.test_on_the_lab import (
    conditions,
    in_state,
    label,
    until,
    wanted_exporters,
    wanted_scheduler,
)
from tests.sites.labs import lab_of

from numakube.api.crds import OPERATOR_CRD, SCHEDULER_CRD, crd
from numakube.apps.operator.exporters_plan import Setup
from numakube.apps.operator.process import OperatorProcess
from numakube.apps.operator.scheduler_plan import SchedulerSetup
from numakube.apps.operator.state import OPERATORS, SCHEDULERS
from numakube.kube.catalog import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    NETWORK_POLICIES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from numakube.kube.client import Client
from numakube.kube.transport import Request, Response, Stream, Transport
from numakube.lab.cluster import Lab
from numakube.lab.inprocess import InProcess

pytestmark = pytest.mark.timeout(240)

NAMESPACE = "ns"
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
async def lab() -> AsyncIterator[Lab]:
    """A lab of one node, with the kinds and the namespace of an operator."""
    async with lab_of(1, "2 sockets, 2 cores, 8Gi") as lab:
        for name in (OPERATOR_CRD, SCHEDULER_CRD):
            await lab.client.create(CUSTOM_RESOURCE_DEFINITIONS, crd(name))
        home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await lab.client.create(NAMESPACES, home)
        yield lab


@asynccontextmanager
async def operating(client: Client) -> AsyncIterator[None]:
    """Run an operator, which does not ask others."""
    process = OperatorProcess(
        client,
        Setup(namespace=NAMESPACE, image="registry.example/numakube:1"),
        SchedulerSetup(namespace=NAMESPACE),
        leader_elect=False,
    )
    stop = asyncio.Event()
    task = asyncio.create_task(process.run(stop))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def everything(client: Client) -> dict[str, str]:
    """Return what an operator made, with what would change if it were written again."""
    found = {}
    for resource in KINDS:
        for one in (await client.list(resource, labels=OURS)).items:
            metadata = one["metadata"]
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
    lab: Lab, *, late: bool
) -> None:
    """Nothing is made twice and nothing is forgotten."""
    client = lab.client
    await ask_for_both(client)
    for writes in (0, 1, 4, 9, 15):
        mortal = Mortal(InProcess(lab.server), writes, late=late)
        async with operating(Client(mortal, rate=0)):
            async with asyncio.timeout(60):
                await mortal.dead.wait()
    async with operating(client):
        await both_available(client)
        made = await everything(client)
    kinds = sorted(name.partition(" ")[0] for name in made)
    assert kinds.count("DaemonSet") == kinds.count("Deployment") == 1
    assert len(made) == 19


async def test_several_operators_at_once_do_not_undo_each_others_work(lab: Lab) -> None:
    """Once everything is there, nobody writes any more."""
    client = lab.client
    await ask_for_both(client)
    async with operating(client), operating(client), operating(client):
        await both_available(client)
        before = await everything(client)
        # A label of the node lets every operator pass by once more.
        for value in ("a", "b"):
            await relabel(client, value)
            await until(lambda: seen(client), "still available")
        assert await everything(client) == before


async def relabel(client: Client, value: str) -> None:
    """Change a label of the node."""
    await label(client, "node-0", "example.com/x", value)


async def seen(client: Client) -> bool:
    """Tell whether both objects are available still."""
    found = [
        await client.get(OPERATORS.raw, "numaresourcesoperator"),
        await client.get(SCHEDULERS.raw, "numaresourcesscheduler"),
    ]
    return all(conditions(one)["Available"] == "True" for one in found)
