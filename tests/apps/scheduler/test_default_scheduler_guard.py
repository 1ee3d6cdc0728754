"""Pods of default-scheduler are ours only while we hold kube-scheduler's lease (B16, C25)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from numakube.api.meta import Lease, LeaseSpec, ObjectMeta
from numakube.api.scheduler_config import (
    KubeSchedulerConfiguration,
    LeaderElectionConfig,
    numa_configuration,
)
from numakube.api.yaml_text import dump_yaml, load_manifests
from numakube.apps.host.http_serving import Elsewhere, Listen
from numakube.apps.host.process_life import LOST
from numakube.apps.scheduler.process import SchedulerProcess
from numakube.errors import NotFound
from numakube.kube.catalog import (
    CORE_EVENTS,
    LEASES,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    resource_of,
)
from numakube.kube.client import Client
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import request_token
from numakube.manifests.scheduler import SchedulerManifest
from numakube.manifests.static_pods import StaticPods, main_configuration
from numakube.scheduling.config.read_configuration import read_configuration
from numakube.testing import pod_document, until
from numakube.values.times import format_micro_time
from numakube_lab.testing import LabCluster, Opener, lab_cluster

pytestmark = pytest.mark.timeout(240)

SCHEDULER = shutil.which(
    "kube-scheduler", path=os.environ.get("KUBEBUILDER_ASSETS", os.environ["PATH"])
)
NAMESPACE, NAME = "kube-system", "kube-scheduler"
HOLDER = "master-1_0c5f"
QUICK = {"lease_duration": "3s", "renew_deadline": "2s", "retry_period": "0.1s"}


def configuration(*names: str, **election: Any) -> KubeSchedulerConfiguration:
    """Return one with profiles of these names."""
    told = LeaderElectionConfig(**{"leader_elect": False, **QUICK, **election})
    return msgspec.structs.replace(numa_configuration(names), leader_election=told)


def pod(name: str, scheduler: str) -> dict[str, Any]:
    """Return a pod that names a scheduler."""
    return pod_document(name, schedulerName=scheduler)


@pytest.fixture
async def world(sites: Opener) -> AsyncIterator[LabCluster]:
    """A cluster in which nobody else schedules, with the lease of a kube-scheduler."""
    async with lab_cluster(2, on=sites, default_scheduler=False) as world:
        now = format_micro_time(world.client.clock.now())
        spec = LeaseSpec(
            holder_identity=HOLDER, lease_duration_seconds=3600, renew_time=now, acquire_time=now
        )
        lease = Lease(metadata=ObjectMeta(name=NAME, namespace=NAMESPACE), spec=spec)
        with contextlib.suppress(NotFound):
            await world.client.delete(LEASES, NAME, namespace=NAMESPACE)
        await world.client.create(LEASES, lease)
        yield world


async def holder(world: LabCluster) -> str:
    """Return who holds kube-scheduler's lease."""
    lease = await world.client.get(LEASES, NAME, namespace=NAMESPACE)
    return lease.spec.holder_identity or ""


async def give_up(world: LabCluster, identity: str = "") -> None:
    """Let *identity*, or nobody, hold the lease."""
    lease = await world.client.get(LEASES, NAME, namespace=NAMESPACE)
    spec = msgspec.structs.replace(lease.spec, holder_identity=identity)
    await world.client.update(LEASES, msgspec.structs.replace(lease, spec=spec))


async def events(world: LabCluster) -> dict[str, str]:
    """Return the texts of the events about the lease, by reason."""
    found = (await world.client.list(CORE_EVENTS, namespace=NAMESPACE)).items
    return {event.reason: event.message for event in found if event.involved_object.name == NAME}


async def test_ours_waits_for_the_lease_while_pods_of_other_profiles_go_on(
    world: LabCluster,
) -> None:
    """B16: nothing of default-scheduler is bound before kube-scheduler has stopped."""
    running = await world.start(configuration("default-scheduler", "numa"))
    await world.create(pod("main", "default-scheduler"), pod("own", "numa"))
    await world.runs("own")
    told = await until(lambda: events(world), lambda found: "DefaultSchedulerHeld" in found)
    assert f"held by {HOLDER}: pods of default-scheduler" in told["DefaultSchedulerHeld"]
    assert not world.pod("main").spec.node_name

    await give_up(world)
    await world.runs("main")
    assert await holder(world) == running.process.identity
    await until(lambda: events(world), lambda found: "DefaultSchedulerTaken" in found)
    # A pod that comes later is ours from the start, and the lease is given back at the end.
    await world.create(pod("later", "default-scheduler"))
    await world.runs("later")
    assert await running.end() == 0
    assert await holder(world) == ""


async def test_who_loses_the_lease_ends_as_a_leader_does(world: LabCluster) -> None:
    """B16: what took the lease by force schedules these pods from then on."""
    await give_up(world)
    running = await world.start(configuration("default-scheduler"))
    await world.create(pod("main", "default-scheduler"))
    await world.runs("main")
    await give_up(world, HOLDER)
    assert await running.task == LOST
    assert await holder(world) == HOLDER
    await running.client.aclose()


async def test_under_kube_schedulers_own_lease_ours_waits_as_a_whole(world: LabCluster) -> None:
    """C25: as a static pod in its place does; it is a replica like any other."""
    config = configuration("default-scheduler", "numa", leader_elect=True)
    running = await world.start(config)
    await world.create(pod("main", "default-scheduler"), pod("own", "numa"))
    await until(lambda: events(world), lambda found: "DefaultSchedulerHeld" in found)
    assert not any(world.pod(name).spec.node_name for name in ("main", "own"))
    await give_up(world)
    await world.runs("main", "own")
    assert await holder(world) == running.process.identity


async def test_readyz_says_who_holds_the_lease(world: LabCluster) -> None:
    """B16: until it is ours."""
    client, stop = world.connect(), asyncio.Event()
    process = SchedulerProcess(configuration("default-scheduler"), client)
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    told = Elsewhere(move=False, announce=lambda _, url: address.set_result(url))
    task = asyncio.create_task(process.run(stop, Listen(elsewhere=told)))
    async with aiohttp.ClientSession(await address) as session:

        async def ready() -> tuple[int, str]:
            async with session.get("/readyz?verbose") as response:
                return response.status, await response.text()

        code, text = await until(ready, lambda found: HOLDER in found[1])
        assert code == 503
        assert f"the lease kube-system/kube-scheduler is held by {HOLDER}" in text
        await give_up(world)
        await until(ready, lambda found: found[0] == 200)
    stop.set()
    assert await task == 0
    await client.aclose()


async def as_account(world: LabCluster, *rights: dict[str, Any]) -> Client:
    """Return a client of the scheduler's account, which has *rights* and no others."""
    account = {"name": "numakube-scheduler", "namespace": "numakube"}
    await world.client.create(NAMESPACES, {"metadata": {"name": "numakube"}})
    await world.client.create(SERVICE_ACCOUNTS, {"metadata": account}, namespace="numakube")
    for document in rights:
        if "subjects" in document:
            document["subjects"] = [{"kind": "ServiceAccount", **account}]
        if document["apiVersion"].startswith("rbac."):
            namespace = document["metadata"].get("namespace", "")
            await world.client.create(resource_of(document), document, namespace=namespace)
    key = ObjectKey("numakube", "numakube-scheduler")
    return world.site.connect(token=(await request_token(world.client, key)).token)


@pytest.mark.parametrize("main", ["deployed", "static pod"])
async def test_the_rights_that_we_ship_are_enough_for_a_main_scheduler(
    sites: Opener, main: str
) -> None:
    """B16, C25: those of ``deploy``, and those beside the static pod."""
    deployed = SchedulerManifest(scheduler_name="default-scheduler").objects()
    static = load_manifests(StaticPods().files("scheduler")["objects.yaml"], "objects")
    config = read_configuration(main_configuration())
    if main == "deployed":
        own = {"resource_name": "default-scheduler", "resource_namespace": "numakube"}
        config = configuration("default-scheduler", leader_elect=True, **own)
    async with lab_cluster(1, on=sites, rbac=True, default_scheduler=False) as world:
        client = await as_account(world, *(deployed if main == "deployed" else static))
        running = await world.start(config, client=client)
        await world.create(pod("main", "default-scheduler"))
        await world.runs("main")
        assert await holder(world) == running.process.identity


@pytest.mark.skipif(SCHEDULER is None, reason="needs kube-scheduler on the PATH")
async def test_beside_a_real_kube_scheduler_ours_takes_over_when_it_dies(
    sites: Opener, tmp_path: Path
) -> None:
    """B16: killed without giving the lease back, which expires."""
    times = {"leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}
    async with lab_cluster(2, on=sites, default_scheduler=False) as world:
        tree = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(world.site.kubeconfig)},
            "leaderElection": {"leaderElect": True, **times},
        }
        (tmp_path / "config.yaml").write_text(dump_yaml(tree), encoding="utf-8")
        with (tmp_path / "log").open("wb") as log:
            assert SCHEDULER is not None
            process = await asyncio.create_subprocess_exec(
                *(SCHEDULER, f"--config={tmp_path}/config.yaml", "--secure-port=0"),
                stdout=log,
                stderr=log,
            )
            try:
                await until(lambda: holder(world), bool)
                running = await world.start(configuration("default-scheduler"))
                await world.create(pod("theirs", "default-scheduler"))
                await world.runs("theirs")
                assert await holder(world) != running.process.identity
            finally:
                process.kill()
                await process.wait()
        await world.create(pod("ours", "default-scheduler"))
        await world.runs("ours")
        assert await holder(world) == running.process.identity
