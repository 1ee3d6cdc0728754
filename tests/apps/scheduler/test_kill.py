"""Schedulers as processes that are killed with SIGKILL, at any moment."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from random import Random

import pytest
from tests.apps.scheduler.invariants import Ledger, assert_invariants

from numakube.kube.catalog import LEASES
from numakube.kube.client import merge_patch
from numakube.testing import pod_document, until
from numakube_lab.testing import LabCluster, Opener, lab_cluster

PROGRAM = Path(sys.executable).with_name("numakube")
KILLS = 2
LEASE = "numakube-scheduler"
CONFIG = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaseDuration: 60s
  renewDeadline: 50s
  retryPeriod: 500ms
  resourceName: {LEASE}
  resourceNamespace: kube-system
profiles:
- schedulerName: numakube-scheduler
  plugins: {{multiPoint: {{enabled: [{{name: NodeResourceTopologyMatch}}]}}}}
"""
"""A leader that is slow does not lose its lease; that of one which was killed is shortened."""


async def launch(world: LabCluster) -> asyncio.subprocess.Process:
    """Start the program."""
    config = world.site.folder / "config.yaml"
    config.write_text(CONFIG)
    words = ["scheduler", "--config", str(config), "--kubeconfig", str(world.site.kubeconfig)]
    words += ["--bind-address", "127.0.0.1:0", "--log-level", "error"]
    return await asyncio.create_subprocess_exec(PROGRAM, *words)


async def leader(world: LabCluster) -> str:
    """Return who leads as soon as somebody does."""

    async def holder() -> str:
        leases = (await world.client.list(LEASES, namespace="kube-system")).items
        held = [lease for lease in leases if lease.metadata.name == LEASE]
        return held[0].spec.holder_identity or "" if held else ""

    return await until(holder)


def placed(world: LabCluster, prefix: str) -> int:
    """Return how many of the pods with such names are on nodes."""
    return sum(
        pod.metadata.name.startswith(prefix) and bool(pod.spec.node_name)
        for pod in world.pods.store
    )


@pytest.mark.timeout(240)
async def test_killing_the_leader_at_any_moment_loses_nothing(sites: Opener) -> None:
    """The other one takes over; no pod is bound twice, lost or rejected."""
    rng = Random(3)
    async with lab_cluster(3, shape="2 sockets, 8 cores, smt 2, 64Gi", on=sites) as world:
        ledger = Ledger.of(world)
        processes = [await launch(world)]
        try:
            await leader(world)
            for turn in range(KILLS):
                processes.append(await launch(world))
                pods = [pod_document(f"p{turn}-{n}", "2", "512Mi") for n in range(12)]
                creating = asyncio.create_task(world.create(*pods))
                moment = rng.randrange(len(pods))
                await world.until(lambda: placed(world, f"p{turn}-") >= moment)  # noqa: B023
                processes[turn].kill()
                await processes[turn].wait()
                soon = merge_patch({"spec": {"leaseDurationSeconds": 1}})
                await world.client.patch(LEASES, LEASE, soon, namespace="kube-system")
                await creating
            total = KILLS * 12
            await world.until(lambda: len(world.by_phase("Running")) == total)
            await assert_invariants(world, ledger)
        finally:
            for process in processes:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
