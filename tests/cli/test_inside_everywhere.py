"""Our scheduler is found and asked however it was deployed, with a replica that stands by."""

from __future__ import annotations

import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_inside import Numakube, ask

from numakube.kube.catalog import DEPLOYMENTS, NAMESPACES, SERVICE_ACCOUNTS, resource_of
from numakube.manifests.components import Choices, objects_of
from numakube.manifests.secondary_scheduler import SecondaryScheduler
from numakube.testing import pod_document, refusal_of
from numakube_lab.testing import LabCluster, lab_cluster

pytestmark = pytest.mark.timeout(240)

__all__ = ["ask"]  # a fixture

NAME = "named-by-nobody-else"
IMAGE = "registry.example/numakube:1"


def by_deployer() -> list[dict[str, Any]]:
    """Return what ``numakube deploy scheduler``, the chart and the files create."""
    return objects_of(["scheduler"], Choices(image=IMAGE, scheduler_name=NAME))


def by_operator() -> list[dict[str, Any]]:
    """Return what the operator creates, and the namespace that it lives in."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "numaresources"}}
    scheduler = SecondaryScheduler(
        namespace="numaresources", image=IMAGE, profiles={NAME: {}}, replicas=2
    )
    return [namespace, *scheduler.objects()]


@pytest.fixture(params=[by_deployer, by_operator])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[LabCluster]:
    """A cluster with two replicas of a scheduler, and a pod that it has refused."""
    async with lab_cluster(2, shape="2 sockets, 6 cores, smt 2, 16Gi", rbac=True) as world:
        for document in request.param():
            resource = NAMESPACES if document["kind"] == "Namespace" else resource_of(document)
            await world.client.create(resource, document)

        async def is_ready() -> bool:
            found = await world.client.list(DEPLOYMENTS)
            return [(entry.get("status") or {}).get("readyReplicas") for entry in found.items] == [
                2
            ]

        await world.until(is_ready)
        await world.create(pod_document("late", "20", schedulerName=NAME))
        await world.until(lambda: bool(refusal_of(world.pod("late"))))
        yield world


async def test_every_command_asks_both_replicas_and_says_who_leads(
    world: LabCluster, ask: Numakube, tmp_path: Path
) -> None:
    """What one that stands by believes of a pod is not told as if it were so."""
    del world
    queue = await ask("queue")
    assert queue.code == 0, queue.err
    assert queue.out.count("default/late") == 1
    traced = (await ask("debug", "trace", "pod", "late")).out.splitlines()
    (now,) = [line for line in traced if line.startswith("now:")]
    assert " after 0 attempts" not in now
    assert "which leads)" in now
    rows = [line.split() for line in (await ask("debug", "cache")).out.splitlines()[1:]]
    assert sorted((row[0], row[2]) for row in rows) == [
        ("node-0", "no"),
        ("node-0", "yes"),
        ("node-1", "no"),
        ("node-1", "yes"),
    ]
    detail = (await ask("debug", "cache", "node-0")).out
    assert "sees it, which leads" in detail
    assert "sees it, which stands by" in detail
    assert (await ask("debug", "reservations")).code == 0
    assert (await ask("debug", "loglevel")).out.count("everything") == 2
    assert (await ask("debug", "resync", "node-0")).out.count("as before") == 2
    explained = await ask("explain", "pod", "late")
    assert "which decides by itself" not in explained.out
    assert "Note: " not in explained.out
    file = tmp_path / "bundle.tar.gz"
    bundled = await ask("bundle", "-o", str(file))
    assert "scheduler" not in bundled.err
    with tarfile.open(file) as bundle:
        assert sum(name.endswith("/queue.json") for name in bundle.getnames()) == 2
    assert "NUMA-ACCESS-SCHEDULER" not in (await ask("doctor", "--exit-zero")).out


async def test_what_could_not_be_asked_is_said(
    world: LabCluster, ask: Numakube, tmp_path: Path
) -> None:
    """By doctor, bundle and explain; equal reasons are told once."""
    for deployment in (await world.client.list(DEPLOYMENTS)).items:
        meta = deployment["metadata"]
        account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
        await world.client.delete(
            SERVICE_ACCOUNTS.raw, f"{account}-debug", namespace=meta["namespace"]
        )
    refused = await ask("queue")
    assert refused.code == 1
    assert refused.err.count("it wants a token: create the ServiceAccount") == 1
    assert "NUMA-ACCESS-SCHEDULER" in (await ask("doctor", "--exit-zero")).out
    assert "not in it: scheduler/" in (await ask("bundle", "-o", str(tmp_path / "b"))).err
    explained = (await ask("explain", "pod", "late")).out
    assert f"The pod asks for the scheduler {NAME}, of which nothing is known" in explained
    assert explained.count("it wants a token") == 1
