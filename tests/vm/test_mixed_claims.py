"""Pods with claims and CPUs of their own on a real kubelet: both are on one NUMA node."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.vm import namespace
from tests.vm.cluster import Cluster, cluster, verdict_of
from tests.vm.conftest import Settings
from tests.vm.dra_driver import NAME, FakeDraDriver
from tests.vm.kubelets import Choice
from tests.vm.machines import opener_of
from tests.vm.namespace import NamespaceNode
from tests.vm.pods import PodMaker

from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, RESOURCE_CLAIMS
from numakube.node.pci.fake_pci import FakePci
from numakube.topology.nrt_names import PCI_ANNOTATION

pytestmark = [
    pytest.mark.vm,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not namespace.can_be_had(), reason=namespace.NEEDS),
]
POLICIES = ("single-numa-node", "restricted", "best-effort", "none")
WITHIN_SECONDS = 60.0


async def test_devices_of_claims_are_near_the_cpus(short_folder: Path, settings: Settings) -> None:
    """Under every policy; pods that insist wait while the kubelet would choose otherwise.

    The driver says only the PCI address of every other device; the exporter finds its place.
    """
    opener = opener_of("namespace", "four", numakube=settings.numakube)
    async with cluster(short_folder / "c", opener, numakube=settings.numakube) as running:
        node = running.node
        assert isinstance(node, NamespaceNode)
        places = tuple(numa_node.id for numa_node in node.machine.nodes for _ in range(2))
        driver = FakeDraDriver(running.client, node.state, node.name, places)
        pci, tally = FakePci(node.folder / "sys"), Counter[str]()
        for number, place in enumerate(places):
            pci.function(driver.address(number), numa_node=place)
        async with driver.serving():
            for policy in POLICIES:
                await running.configure(Choice(policy=policy))
                await driver.publish()
                await running.until(lambda: _unreported(running), within=WITHIN_SECONDS)
                await _fill(running, places, Random(settings.seed), policy, tally)
        print(dict(tally), f"prepared {len(driver.prepared)}")
        assert not tally["rejected"]
        assert not tally["misaligned"]
        assert tally["aligned"] >= len(POLICIES)


async def _unreported(running: Cluster) -> str:
    report = await running.client.get(NODE_RESOURCE_TOPOLOGIES, running.node.name)
    return "" if PCI_ANNOTATION in report.metadata.annotations else "no places of PCI functions"


async def _fill(
    running: Cluster, places: tuple[int, ...], rng: Random, policy: str, tally: Counter[str]
) -> None:
    for number in range(8):
        name = f"{policy}-{number}"
        await _create(running, name, cpus=rng.choice((1, 2, 3)))

        async def undecided(name: str = name) -> str:
            verdict, _ = verdict_of((await running.pods()).get(name))
            return "" if verdict != "unknown" else "undecided"

        await running.until(undecided, within=WITHIN_SECONDS)
        verdict, _ = verdict_of((await running.pods())[name])
        tally[verdict] += 1
        if verdict == "admitted":
            tally["aligned" if await _is_aligned(running, name, places) else "misaligned"] += 1


async def _create(running: Cluster, name: str, *, cpus: int) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": NAME}}
    claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    await running.client.create(RESOURCE_CLAIMS, claim, namespace="default")
    pod: dict[str, Any] = PodMaker(running.node.machine, Random(0)).plain(name)
    (container,) = pod["spec"]["containers"]
    amounts = {"cpu": str(cpus), "memory": "64Mi"}
    uses = [{"name": "gpu"}]
    container["resources"] = {"requests": amounts, "limits": amounts, "claims": uses}
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    pod["metadata"]["annotations"] = {"numakube.dev/claim-alignment": "Required"}
    await running.create(pod)


async def _is_aligned(running: Cluster, name: str, places: tuple[int, ...]) -> bool:
    """Compare the CPUs that the kubelet lists with the device that the claim has."""
    claim = await running.client.get(RESOURCE_CLAIMS, name, namespace="default")
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    place = places[int(result["device"].removeprefix("gpu-"))]
    listed = {resource.name: resource for resource in await running.node.pod_resources()}
    cpus = {cpu for container in listed[name].containers for cpu in container.cpu_ids}
    zones = {
        node.id
        for node in running.node.machine.nodes
        for core in node.cores
        for cpu in core.threads
        if cpu in cpus
    }
    return place in zones
