"""Exporters on nodes with taints, by the scenarios' ids."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.apps.operator.test_on_the_lab import NAMESPACE, in_state, message_of
from tests.field.operated import (
    ALL,
    EXPORTERS,
    configure,
    daemon_set,
    exporters,
    taint,
    tainted,
    until_on,
    want_exporters,
)

from numakube.apps.operator.controller import OPERATORS
from numakube.kube.catalog import DAEMON_SETS, PODS
from numakube.kube.client import Client
from numakube.testing import until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
NODE = "node-2"
REST = ("node-0", "node-1")
NO_SCHEDULE = {"key": "testkey", "value": "val1", "effect": "NoSchedule"}
NO_EXECUTE = {"key": "testkey", "value": "val1", "effect": "NoExecute"}


def equal(taint: dict[str, str]) -> dict[str, str]:
    """Return the toleration of a taint."""
    return {"operator": "Equal", **taint}


@pytest_asyncio.fixture(loop_scope="module")
async def client(operated: Client) -> AsyncIterator[Client]:
    """A cluster with exporters on all nodes, which are as before in the end."""
    yield operated
    await taint(operated, NODE)
    await configure(operated, tolerations=[])
    await until_on(operated, *ALL, tolerations=[])


@pytest.mark.parametrize(
    ("id_", "wrong"),
    [("84302", {"operator": "foo"}), ("72862", {"operator": "Exists", "effect": "__foobar__"})],
)
async def test_a_toleration_that_makes_no_sense_is_told(
    client: Client, id_: str, wrong: dict[str, str]
) -> None:
    """84302 and 72862: in the words of the API server; taking it back helps."""
    before = await until_on(client, *ALL)
    await configure(client, tolerations=[{"key": "a", **wrong}])
    found = await in_state(client, OPERATORS, "Degraded")
    assert "Unsupported value" in message_of(found, "Degraded")
    await configure(client, tolerations=[])
    await in_state(client, OPERATORS, "Available")
    assert await until_on(client, *ALL) == before


async def test_84303_tolerations_follow_the_object(client: Client) -> None:
    """Exporters have none, then those of the object, then none again, and are new each time."""
    before = await until_on(client, *ALL, tolerations=[])
    for wanted in ([equal(NO_SCHEDULE)], []):
        await configure(client, tolerations=wanted)
        after = await until_on(client, *ALL, tolerations=wanted)
        assert not set(after.values()) & set(before.values())
        before = after


async def test_72857_exporters_run_on_nodes_with_taints_as_long_as_they_tolerate_them(
    client: Client,
) -> None:
    """Those of a new DaemonSet as well."""
    await configure(client, tolerations=[equal(NO_SCHEDULE)])
    await until_on(client, *ALL, tolerations=[equal(NO_SCHEDULE)])
    async with tainted(client, NODE, NO_SCHEDULE):
        before = await until_on(client, *ALL)
        name = (await daemon_set(client))["metadata"]["name"]
        await client.delete(DAEMON_SETS, name, namespace=NAMESPACE, propagation="Background")

        async def is_new() -> bool:
            found = await exporters(client)
            return found.keys() == before.keys() and not set(found.values()) & set(before.values())

        await until(is_new)
        await configure(client, tolerations=[])
        await until_on(client, *REST, tolerations=[])


async def test_84304_a_toleration_that_changes_sends_an_exporter_away(client: Client) -> None:
    """It is of another value than the taint then."""
    await configure(client, tolerations=[equal(NO_EXECUTE)])
    await until_on(client, *ALL, tolerations=[equal(NO_EXECUTE)])
    async with tainted(client, NODE, NO_EXECUTE):
        await until_on(client, *ALL)
        await configure(client, tolerations=[equal({**NO_EXECUTE, "value": "val2"})])
        await until_on(client, *REST)


async def test_84305_so_does_a_taint_that_changes(client: Client) -> None:
    """The others stay where they are."""
    async with tainted(client, NODE, NO_EXECUTE):
        await until_on(client, *REST)
        await configure(client, tolerations=[equal(NO_EXECUTE)])
        before = await until_on(client, *ALL, tolerations=[equal(NO_EXECUTE)])
        await taint(client, NODE, {**NO_EXECUTE, "value": "val2"})
        after = await until_on(client, *REST)
    assert after.items() <= before.items()


async def test_72861_one_effect_lets_an_exporter_stay_and_another_does_not(client: Client) -> None:
    """NoSchedule is about those to come; NoExecute is about all."""
    before = await until_on(client, *ALL)
    async with tainted(client, NODE, NO_SCHEDULE):
        assert await until_on(client, *ALL, left=1) == before
        await taint(client, NODE, NO_SCHEDULE, NO_EXECUTE)
        after = await until_on(client, *REST)
    assert after.items() <= before.items()


async def test_72859_an_exporter_that_is_gone_does_not_come_back_to_a_taint(
    client: Client,
) -> None:
    """It was only left there."""
    await until_on(client, *ALL)
    async with tainted(client, NODE, NO_SCHEDULE):
        await until_on(client, *ALL, left=1)
        pods = await client.list(PODS, namespace=NAMESPACE, labels="name=resource-topology")
        (name,) = (pod.metadata.name for pod in pods.items if pod.spec.node_name == NODE)
        await client.delete(PODS, name, namespace=NAMESPACE)
        await until_on(client, *REST)


async def ask_anew(client: Client, **config: object) -> None:
    """Take the user's object away, with all that came of it, and create it again."""
    await client.delete(OPERATORS, EXPORTERS)

    async def is_gone() -> bool:
        sets = (await client.list(DAEMON_SETS, namespace=NAMESPACE)).items
        return not sets and not await exporters(client)

    await until(is_gone)
    await want_exporters(client, **config)


async def test_72854_a_toleration_may_be_added_while_exporters_run(client: Client) -> None:
    """They come to the node that they did not come to at first."""
    async with tainted(client, NODE, NO_SCHEDULE):
        await ask_anew(client)
        await until_on(client, *REST)
        await in_state(client, OPERATORS, "Available")
        await configure(client, tolerations=[equal(NO_SCHEDULE)])
        await until_on(client, *ALL)


async def test_72855_or_be_there_from_the_beginning(client: Client) -> None:
    """Then exporters come to all nodes at once."""
    async with tainted(client, NODE, NO_SCHEDULE):
        await ask_anew(client, tolerations=[equal(NO_SCHEDULE)])
        await until_on(client, *ALL)
        await in_state(client, OPERATORS, "Available")


async def test_84306_a_taint_sends_an_exporter_away_and_its_end_lets_it_back(
    client: Client,
) -> None:
    """Without anybody's help."""
    before = await until_on(client, *ALL)
    async with tainted(client, NODE, NO_EXECUTE):
        await until_on(client, *REST)
    after = await until_on(client, *ALL)
    assert {node: after[node] for node in REST} == {node: before[node] for node in REST}
    assert after[NODE] != before[NODE]
