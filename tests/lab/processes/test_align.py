"""A container that looks at its own place, in a lab: what it says is what its kubelet gave it."""

from __future__ import annotations

from tests.lab.processes.build import log_with, pod_document, pod_in

from numakube.kube.catalog import PODS
from numakube_lab.lab_cluster import Lab


async def test_a_container_with_its_own_cpus_says_that_it_is_aligned(lab: Lab) -> None:
    """And goes on holding them until it is ended."""
    limits = {"cpu": "2", "memory": "1Gi"}
    document = pod_document(
        "own", "check", "container", "--stay", container={"resources": {"limits": limits}}
    )
    await lab.client.create(PODS, document)

    await pod_in(lab.client, "own", "Running")
    log = await log_with(lab.client, "own", "aligned")

    (held,) = (
        resource
        for resource in lab.pool.kubelet("node-0").pod_resources()
        if resource.name == "own"
    )
    first, *_, last = held.containers[0].cpu_ids
    assert log.startswith("CPUs    ")
    assert str(first) in log
    assert str(last) in log
    assert "aligned on NUMA node 0" in log


async def test_a_container_in_the_shared_pool_says_that_it_is_not(lab: Lab) -> None:
    """Its exit code says so, too."""
    await lab.client.create(PODS, pod_document("shared", "align", restart="Never"))

    pod = await pod_in(lab.client, "shared", "Failed")

    assert pod.status.container_statuses[0].state.terminated.exit_code == 1
    assert "not aligned: the CPUs" in await log_with(lab.client, "shared", "aligned")
