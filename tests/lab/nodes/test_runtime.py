"""Something other than the simulation can run the containers."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from random import Random

from tests.lab.nodes.build import Lab, pod_document

from kube_lab_server import ApiServer
from numakube.api.pod import Pod
from numakube.kube.catalog import PODS
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import bind_pod
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.nodes.container_timeline import ContainerRun, Ended, PodRun, Stop
from numakube_lab.nodes.node_pool import NodePool


class Switch:
    """A runtime whose containers end when the test says so."""

    def __init__(self) -> None:
        self.off = False
        self.forgotten: list[str] = []

    def observe(self, pod: Pod, *, begun: datetime, now: datetime, stop: Stop | None) -> PodRun:
        """Return what the switch says."""
        ended = Ended(started=begun, finished=now) if self.off or stop else None
        run = ContainerRun(started=None if ended else begun, ended=ended)
        return PodRun(containers={container.name: run for container in pod.spec.containers})

    def forget(self, uid: str) -> None:
        """Keep the record."""
        self.forgotten.append(uid)

    def retain(self, node: str, uids: Collection[str]) -> None:
        """Do nothing: no kubelet misses anything here."""


async def test_a_runtime_says_how_containers_fare() -> None:
    """The kubelet looks when told, reports, and says when a pod is gone."""
    clock, switch = ManualClock(), Switch()
    async with ApiServer(now=clock.now, rng=Random(7)) as server:
        client = Client(InProcess(server), clock=clock, rng=Random(7), rate=0)
        async with NodePool(client, runtime=switch) as pool:
            lab = Lab(server, client, clock, pool)
            await lab.node()
            await lab.create("a")
            pod = await lab.runs("a")
            switch.off = True
            pool.look_again(ObjectKey("default", "a"))
            await lab.reaches("a", "Succeeded")
            await client.delete(PODS, "a", namespace="default")
            await lab.reaches("a", "")
            await lab.settle()
            assert switch.forgotten == [pod.metadata.uid]


async def test_a_pod_runs_once_it_is_bound(lab: Lab) -> None:
    """Scheduling is somebody else's decision; the kubelet acts on it."""
    await lab.node()
    document = pod_document("a")
    del document["spec"]["nodeName"]
    await lab.client.create(PODS, document)
    await lab.settle()
    assert await lab.phase("a") == "Pending"
    await bind_pod(lab.client, ObjectKey("default", "a"), "n1")
    await lab.runs("a")
