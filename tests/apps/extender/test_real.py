"""A real kube-scheduler, two replicas of the extender and a real kube-apiserver."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchmarks._fleet import create_fleet, plans_of
from tests.apps.extender.test_kube_scheduler import SCHEDULER, configuration, kube_scheduler
from tests.apps.scheduler.world import pod_document, refusal_of
from tests.real.api_server import needs_assets, real_server

from numakube.api.yamls import dump_yaml
from numakube.apps.extender.process import ExtenderOptions, ExtenderProcess
from numakube.apps.serving import Listen
from numakube.kube.catalog import LEASES, NAMESPACES, PODS, SERVICE_ACCOUNTS
from numakube.kube.config import load_config
from numakube.kube.connect import connect
from numakube.lab.replay.run import TOKENS
from numakube.manifests.extender import SCHEDULER_NAME

pytestmark = [
    needs_assets,
    pytest.mark.skipif(SCHEDULER is None, reason="needs kube-scheduler"),
    pytest.mark.timeout(240),
]

SHAPE = "2 sockets, 8 cores, smt 2, 32Gi"
REFUSAL = "3 NUMA: cannot align container main (cpu)"


def pod(name: str, cpu: str) -> dict[str, Any]:
    """Return a pod for that kube-scheduler."""
    return pod_document(name, cpu, schedulerName=SCHEDULER_NAME)


async def test_pods_are_bound_where_zones_have_room(tmp_path: Path) -> None:
    """Four of 6 CPUs on each node, two for each zone; the others are told why they wait."""
    async with real_server(tmp_path) as server:
        kubeconfig = tmp_path / "kubeconfig"
        cluster = {"server": server.url, "certificate-authority": str(server.ca)}
        document = {
            "current-context": "real",
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": TOKENS["admin"]}}],
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
        }
        kubeconfig.write_text(dump_yaml(document))
        found = load_config(kubeconfig=kubeconfig, env={})
        async with connect(found, rate=0) as client, connect(found, rate=0) as other:
            await create_fleet(client, plans_of(3, SHAPE, "policy=single-numa-node"))
            await client.create(NAMESPACES, {"metadata": {"name": "numakube"}})
            account = {"metadata": {"name": "default", "namespace": "default"}}
            await client.create(SERVICE_ACCOUNTS, account)
            stop = asyncio.Event()
            options = ExtenderOptions.default()
            replicas = [ExtenderProcess(options, one) for one in (client, other)]
            tasks = [asyncio.create_task(one.run(stop, Listen())) for one in replicas]
            for one in replicas:
                await one.serving.wait()
                await one.mirror.synced()
            config = tmp_path / "config.yaml"
            config.write_text(yaml.safe_dump(configuration(replicas[0].url, kubeconfig)))
            async with kube_scheduler(tmp_path, config), asyncio.timeout(120):
                for number in range(14):
                    await client.create(PODS.raw, pod(f"p{number}", "6"), namespace="default")
                while True:
                    pods = (await client.list(PODS)).items
                    waiting = [each for each in pods if not each.spec.node_name]
                    # One that lost the race for a zone is tried once more, and refused then.
                    if len(waiting) == 2 and all(REFUSAL in refusal_of(each) for each in waiting):
                        break
                    await asyncio.sleep(0.1)
                placed = Counter(each.spec.node_name for each in pods if each.spec.node_name)
                assert set(placed.values()) == {4}
                leases = (await client.list(LEASES, namespace="numakube")).items
                names = {lease.metadata.name for lease in leases}
                assert {f"numakube-extender.{node}" for node in placed} <= names
            stop.set()
            await asyncio.gather(*tasks)
