"""Looking inside a scheduler that runs as a pod, through the API server, with rights that count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

import msgspec
import pytest
from tests.cli.conftest import Ended

from numakube.apps.host.common_settings import SWITCH
from numakube.kube.catalog import DEPLOYMENTS, NAMESPACES, SERVICE_ACCOUNTS, resource_of
from numakube.manifests.scheduler import SchedulerManifest
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL
from numakube.testing import pod_document, until
from numakube_lab.testing import LabCluster, lab_cluster

pytestmark = pytest.mark.timeout(240)

Numakube = Callable[..., Awaitable[Ended]]


@pytest.fixture
async def world() -> AsyncIterator[LabCluster]:
    """A node with three CPUs left in either zone at most, and our scheduler deployed on it."""
    async with lab_cluster(1, shape="2 sockets, 6 cores, smt 2, 16Gi", rbac=True) as world:
        await world.create(
            pod_document("big", "8", nodeName="node-0"),
            pod_document("small", "9", nodeName="node-0"),
        )
        await deploy(world)
        await world.create(pod_document("late", "4"))
        await world.refuses("late")
        yield world


@pytest.fixture
def ask(numakube: Callable[..., Ended], world: LabCluster) -> Numakube:
    """Run a command while the cluster goes on."""

    async def call(*words: str) -> Ended:
        kubeconfig = str(world.site.kubeconfig)
        return await asyncio.to_thread(numakube, *words, "--kubeconfig", kubeconfig)

    return call


@pytest.fixture
def restored() -> Iterator[None]:
    """The level of the log as it was."""
    level = SWITCH.level
    yield
    SWITCH.set(level)


async def deploy(world: LabCluster) -> None:
    """Create what deploy/scheduler.yaml has, and wait until it works."""
    await world.client.create(NAMESPACES, {"metadata": {"name": "numakube"}})
    for document in SchedulerManifest(replicas=1).objects():
        await world.client.create(resource_of(document), document)

    async def is_ready() -> bool:
        found = await world.client.get(DEPLOYMENTS, "numakube-scheduler", namespace="numakube")
        return (found.get("status") or {}).get("readyReplicas") == 1

    await world.until(is_ready)


async def until_told(ask: Numakube, *words: str, texts: Sequence[str]) -> Ended:
    """Repeat a command until it tells all *texts*."""
    return await until(lambda: ask(*words), lambda told: all(text in told.out for text in texts))


async def test_the_whole_story_of_a_pod_is_told(world: LabCluster, ask: Numakube) -> None:
    """Refused, woken, placed, admitted and observed, in text and as JSON."""
    why = ("none of 1 nodes fits", "cannot align container (cpu: best zone has 3 of 4)")
    await until_told(
        ask, "debug", "trace", "pod", "late", texts=(*why, "now: waits (unschedulable)")
    )
    await world.delete("small")
    way = ("attempt 2", "chose node-0", "reserved", "bound", "observed", "as predicted")
    await until_told(ask, "debug", "trace", "pod", "late", texts=(*way, "now: on node-0"))
    shown = await ask("debug", "trace", "pod", "late", "-o", "json")
    document = msgspec.json.decode(shown.out)
    (item,) = document["items"]
    assert (document["kind"], item["speaker"]["leads"]) == ("PodTrace", True)
    nobody = await ask("debug", "trace", "pod", "none")
    assert nobody.code == 1
    assert "no scheduler remembers a pod default/none" in nobody.err


async def test_queue_cache_and_reservations_are_shown(world: LabCluster, ask: Numakube) -> None:
    """As tables, as names and as JSON; held is what no report contains yet."""
    await until_told(ask, "queue", texts=("default/late", "unschedulable"))
    wide = await ask("queue", "-o", "wide", "-n", "default")
    assert "topology-changed" in wide.out
    assert (await ask("queue", "-n", "elsewhere")).out == "no pod waits\n"
    assert (await ask("queue", "-o", "name")).out == "pod/late\n"
    labels = {NAME_LABEL: "team", MIN_LABEL: "2"}
    await world.create(pod_document("lonely", "1", metadata={"labels": labels}))
    gang = "now: waits (gated) after 0 attempts, with gang default/team: 0 run, 1 wait, 2 needed"
    await until_told(ask, "debug", "trace", "pod", "lonely", texts=(gang,))
    table = await until_told(ask, "debug", "cache", texts=(" matches ",))
    assert [line.split()[0] for line in table.out.splitlines()] == ["NODE", "node-0"]
    detail = await ask("debug", "cache", "node-0")
    assert "cache          predict, exact" in detail.out
    assert "computed       pfp0v001" in detail.out
    assert (await ask("debug", "cache", "none")).code == 1
    world.exporters.freeze(["node-0"])
    await world.create(pod_document("held", "1"))
    await world.until(lambda: "held" in world.by_phase("Running"))
    held = await ask("debug", "reservations", "-o", "json")
    (item,) = [
        entry for entry in msgspec.json.decode(held.out)["items"] if entry["pod"] == "default/held"
    ]
    assert item["node"] == "node-0"
    assert item["held"]["zones"][0]["amounts"]["cpu"] == "1"
    assert item["since"]
    assert "only known here default/held" in (await ask("debug", "cache", "node-0")).out
    assert "default/held" in (await ask("debug", "reservations", "node-0")).out
    result = await ask("debug", "resync", "node-0")
    assert result.code == 0, result.err
    assert "as before" in result.out
    assert (await ask("debug", "resync")).code == 2


async def test_levels_are_changed_while_it_runs(
    world: LabCluster, ask: Numakube, restored: None
) -> None:
    """For a pod, for a module, for a while; and taken back."""
    del world, restored
    assert "everything" in (await ask("debug", "loglevel")).out
    told = await ask("debug", "loglevel", "debug", "--pod", "default/late", "--for", "5m")
    assert "pod default/late" in told.out
    told = await ask("debug", "loglevel", "4", "--module", "numakube.apps.cluster_mirror")
    assert "numakube.apps.cluster_mirror" in told.out
    told = await ask("debug", "loglevel", "--reset", "--pod", "default/late")
    assert "default/late" not in told.out
    told = await ask("debug", "loglevel", "--reset", "--module", "numakube.apps.cluster_mirror")
    assert told.code == 0
    assert (await ask("debug", "loglevel", "loud")).code == 1
    assert (await ask("debug", "loglevel", "--for", "5m")).code == 2


async def test_without_the_account_nobody_gets_in(world: LabCluster, ask: Numakube) -> None:
    """And the command says what is missing."""
    accounts = SERVICE_ACCOUNTS.raw
    await world.client.delete(accounts, "numakube-scheduler-debug", namespace="numakube")
    refused = await ask("debug", "trace", "pod", "late")
    assert refused.code == 1
    assert "it wants a token: create the ServiceAccount numakube-scheduler-debug" in refused.err
