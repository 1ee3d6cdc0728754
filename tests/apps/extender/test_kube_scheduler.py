"""A real kube-scheduler works with the extender unchanged, by the configuration that we print."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from packages.placement.tests.plugins.test_scheduling import SHAPE, SINGLE, aligned, given
from tests.real.kube_scheduler import (
    GATES,
    kube_scheduler,
    needs_device_scheduler,
    needs_scheduler,
)

from numakube.apps.extender.process import ExtenderOptions, ExtenderProcess
from numakube.apps.host.http_serving import Listen, TlsFiles
from numakube.apps.watched_kinds import RESOURCE_CLAIMS
from numakube.kube.catalog import LEASES, NAMESPACES, PRIORITY_CLASSES
from numakube.kubelet.config_from_words import UNALIGNED
from numakube.kubelet.machines.shape_text import from_shape
from numakube.manifests.extender import SCHEDULER_NAME, ExtenderManifest
from numakube.testing import GPU, pod_document, refusal_of
from numakube_lab.exporters import Skew
from numakube_lab.testing import LabCluster, Opener, lab_cluster, uniform_plans

pytestmark = [needs_scheduler, pytest.mark.timeout(240)]


@contextlib.asynccontextmanager
async def extended(
    world: LabCluster,
    folder: Path,
    *arguments: str,
    token: str = "",
    replicas: int = 1,
    tls: bool = False,
) -> AsyncIterator[list[ExtenderProcess]]:
    """Run extenders, and a kube-scheduler with *arguments* that calls the first of them."""
    await world.client.create(NAMESPACES, {"metadata": {"name": "numakube"}})
    check: Callable[[], str] | None = (lambda: token) if token else None
    options = replace(ExtenderOptions.default(), token=check)
    stop = asyncio.Event()
    processes = [ExtenderProcess(options, world.connect()) for _ in range(replicas)]
    listen = Listen(tls=await certificates(folder) if tls else None)
    tasks = [asyncio.create_task(process.run(stop, listen)) for process in processes]
    for process in processes:
        await process.serving.wait()
        await process.mirror.synced()
    url = processes[0].url
    if token:
        url = url.replace("http://", f"http://numakube:{token}@")
    config = configuration(url, world.site.kubeconfig, folder if tls else None)
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    try:
        async with kube_scheduler(folder, f"--config={path}", "-v=3", *arguments):
            yield processes
    finally:
        stop.set()
        await asyncio.gather(*tasks)


def configuration(url: str, kubeconfig: Path, secret: Path | None) -> dict[str, Any]:
    """Return what we print for a second kube-scheduler, outside of a cluster.

    Its certificate is in the folder *secret*, if it has one.
    """
    manifest = ExtenderManifest(tls=secret is not None, url_prefix=url, kubeconfig=str(kubeconfig))
    config = manifest.configuration()
    if secret is not None:
        files = {"caFile": "ca.crt", "certFile": "client.crt", "keyFile": "client.key"}
        told = config["extenders"][0]["tlsConfig"]
        assert files.keys() <= told.keys()
        told |= {key: str(secret / name) for key, name in files.items()}
    return config


async def certificates(folder: Path) -> TlsFiles:
    """Make certificates by the commands that we print, all but the Secrets."""
    commands = "kubectl() { :; }\n" + ExtenderManifest().certificates()
    made = await asyncio.create_subprocess_exec(
        "sh", "-ec", commands, cwd=folder, stderr=asyncio.subprocess.DEVNULL
    )
    assert await made.wait() == 0
    return TlsFiles(
        certificate=folder / "server.crt",
        key=folder / "server.key",
        client_authority=folder / "ca.crt",
    )


def pod(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    """Return a pod for that kube-scheduler."""
    return pod_document(name, cpu, **{"schedulerName": SCHEDULER_NAME, **spec})


async def test_pods_run_where_they_are_aligned_and_the_rest_waits(
    sites: Opener, tmp_path: Path
) -> None:
    """No kubelet rejects one, and those that wait are not tried without end."""
    async with (
        lab_cluster(3, on=sites) as world,
        extended(world, tmp_path, token="secret", replicas=2) as (extender, _),
    ):
        await world.create(*(pod(f"p{number}", "6") for number in range(15)))
        await world.until(lambda: len(world.by_phase("Running")) == 12)
        # One that lost the race for a zone is tried once more, and refused then.
        refusal = "3 NUMA: cannot align container main (cpu)"
        await world.until(
            lambda: all(refusal in refusal_of(world.pod(n)) for n in world.by_phase("Pending"))
        )
        assert world.by_phase("Failed") == set()
        calls = extender.metrics.requests.labels("filter", "200")._value.get()
        assert calls < 200
        placed = {one.spec.node_name for one in world.pods.store if one.spec.node_name}
        leases = (await world.client.list(LEASES, namespace="numakube")).items
        names = {lease.metadata.name for lease in leases}
        assert {f"numakube-extender.{node}" for node in placed} <= names
        # Room on one zone: whichever of them is woken runs, and nobody is rejected.
        gone = min(world.by_phase("Running"))
        await world.delete(gone)
        await world.until(lambda: len(world.by_phase("Running") - {gone}) == 12)
        assert world.by_phase("Failed") == set()


@needs_device_scheduler
async def test_devices_of_claims_are_left_to_kube_scheduler(sites: Opener, tmp_path: Path) -> None:
    """The extender finds the zone for the CPUs, whoever serves the GPUs of a node."""
    machine = from_shape("2 sockets, 8 cores, smt 2, 32Gi, gpu 1")
    plugin, driver = uniform_plans(2, machine, "policy=single-numa-node", "1.35")
    async with (
        lab_cluster(plans=(plugin, driver.with_claimable(GPU)), on=sites) as world,
        extended(world, tmp_path, f"--feature-gates={GATES}"),
    ):
        await world.create(*(pod(f"p{number}", "10", also={GPU: "1"}) for number in range(5)))
        await world.until(lambda: len(world.by_phase("Running")) == 4)
        claims = (await world.client.list(RESOURCE_CLAIMS, namespace="default")).items
        assert sum(claim.status.allocation is not None for claim in claims) == 2
        assert world.by_phase("Failed") == set()
        (waiting,) = world.by_phase("Pending")
        await world.delete(next(iter(world.by_phase("Running"))))
        await world.runs(waiting)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
async def test_kube_scheduler_shows_its_certificate(sites: Opener, tmp_path: Path) -> None:
    """As we configure it, with certificates that are made as we say."""
    async with (
        lab_cluster(1, on=sites) as world,
        extended(world, tmp_path, tls=True) as (extender,),
    ):
        assert extender.url.startswith("https://")
        await world.create(pod("p", "6"))
        await world.runs("p")
        await world.until(lambda: extender.metrics.bindings.labels("bound")._value.get() == 1)


async def test_a_zone_is_cleared_for_an_important_pod(sites: Opener, tmp_path: Path) -> None:
    """By eviction of both pods of one zone, and of no others."""
    async with lab_cluster(2, on=sites) as world, extended(world, tmp_path):
        urgent = {"metadata": {"name": "urgent"}, "value": 1000}
        await world.client.create(PRIORITY_CLASSES, urgent)
        await world.create(*(pod(f"p{number}", "7") for number in range(8)))
        await world.until(lambda: len(world.by_phase("Running")) == 8)
        await world.create(pod("vip", "14", priorityClassName="urgent"))
        await world.runs("vip")
        await world.until(lambda: len(world.by_phase("Running")) == 7)
        assert world.by_phase("Failed") == set()


async def test_a_report_alone_brings_a_refused_pod_back(sites: Opener, tmp_path: Path) -> None:
    """kube-scheduler itself would look at it again after five minutes, or when a node changes.

    A node that changes at that very moment may be faster, so several pods are tried.
    """
    async with lab_cluster(1, on=sites) as world, extended(world, tmp_path) as (extender,):
        for name in ("first", "second", "third", "fourth", "fifth"):
            world.exporters.skew(["node-0"], Skew(amounts={"cpu": -10}))
            await world.until(lambda: _most_free_cpus(extender, "node-0") <= 6)
            await world.create(pod(name, "12"))
            await world.refuses(name)
            world.exporters.clear()
            await world.runs(name)
            if extender.metrics.woken._value.get():
                break
            await world.delete(name)
        assert extender.metrics.woken._value.get() > 0


async def test_e12_pods_are_placed_by_their_annotations(sites: Opener, tmp_path: Path) -> None:
    """On nodes whose kubelets align nothing: the binding that we do writes what each is given."""
    async with (
        lab_cluster(2, SHAPE, UNALIGNED, on=sites) as world,
        extended(world, tmp_path, replicas=2),
    ):
        names = {f"p{number}" for number in range(4)}
        wishes = [aligned(name, "5", SINGLE, schedulerName=SCHEDULER_NAME) for name in names]
        await world.create(*wishes)
        await world.until(lambda: world.by_phase("Running") == names)
        taken: dict[str, int] = {}
        for name in names:
            share, node = given(world, name).total, world.pod(name).spec.node_name
            assert (share.cpus.bit_count(), share.mask.bit_count()) == (5, 1)
            assert not taken.get(node, 0) & share.cpus
            taken[node] = taken.get(node, 0) | share.cpus
        await world.create(aligned("late", "4", SINGLE, schedulerName=SCHEDULER_NAME))
        await world.refuses("late", "2 NUMA: ")
        await world.delete("p0")
        await world.runs("late")


async def test_every_replica_of_a_workload_is_filtered_and_rated(
    sites: Opener, tmp_path: Path
) -> None:
    """kube-scheduler 1.35 and later takes equal pods in batches, but not with an extender."""
    async with lab_cluster(3, on=sites) as world, extended(world, tmp_path) as (extender,):
        await world.create(*(pod(f"p{number}", "12") for number in range(6)))
        await world.until(lambda: len(world.by_phase("Running")) == 6)
        assert world.by_phase("Failed") == set()
        requests = extender.metrics.requests
        assert requests.labels("filter", "200")._value.get() >= 6
        # The last one has a single node left, which needs no rating.
        assert requests.labels("prioritize", "200")._value.get() >= 5


def _most_free_cpus(extender: ExtenderProcess, name: str) -> float:
    node = extender.mirror.cluster.node(name)
    assert node is not None
    assert node.numa is not None
    return max(zone["cpu"] for zone in node.numa.available) / 1000
