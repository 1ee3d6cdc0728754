"""Kubelets that die, come back, fall silent or never saw their pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random

import msgspec
import pytest
from tests.lab.nodes.build import Lab

from kube_lab_server import ApiServer
from numakube.api.kubelet_config import MemoryReservation
from numakube.errors import ConfigError, KubeletStartError
from numakube.kube.catalog import LEASES, NODES, PODS
from numakube.kube.client import Client, strategic_patch
from numakube.kube.clock import ManualClock
from numakube.kube.connection.transport import Request, Response
from numakube.kubelet.config_from_words import overridden
from numakube.testing import until
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.nodes.node_pool import NodePool


def booked(lab: Lab) -> int:
    """Return the memory in MiB that is booked on all NUMA nodes."""
    manager = lab.model().memory
    assert manager is not None
    return sum(book.tables["memory"].reserved for book in manager.books.values()) // 1024**2


async def test_a_restart_keeps_every_placement(lab: Lab) -> None:
    """Pods stay where they are, and newcomers get what is free."""
    await lab.node()
    for name in ("a", "b"):
        await lab.create(name, cpu="4")
        await lab.runs(name)
    before = list(lab.pool.kubelet("n1").pod_resources())
    statuses = [(await lab.get(name)).status for name in ("a", "b")]
    await lab.clock.advance(5)
    await lab.pool.restart("n1")
    assert list(lab.pool.kubelet("n1").pod_resources()) == before
    assert [(await lab.get(name)).status for name in ("a", "b")] == statuses
    await lab.create("c", cpu="4")
    await lab.runs("c")
    held = [set(lab.cpus(name)) for name in ("a", "b", "c")]
    assert sum(map(len, held)) == len(set.union(*held)) == 12


async def test_a_restart_books_the_memory_of_finished_init_containers_again(lab: Lab) -> None:
    """As a real kubelet does; when the container starts again, the memory is free again."""
    reserved = (MemoryReservation(numa_node=0, limits={"memory": "1Gi"}),)
    await lab.node(
        memory_manager_policy="Static",
        reserved_memory=reserved,
        kube_reserved={"memory": "924Mi"},
    )
    limits = {"cpu": "2", "memory": "200Mi"}
    init = [{"name": "setup", "image": "i", "resources": {"limits": limits}}]
    await lab.create("a", memory="192Mi", initContainers=init)
    await lab.runs("a")
    assert booked(lab) == 192

    await lab.pool.restart("n1")

    assert booked(lab) == 392
    await lab.create("b", memory="100Mi")
    await lab.runs("b")
    assert booked(lab) == 492


async def test_what_ended_while_the_kubelet_was_away_is_reported_and_freed(lab: Lab) -> None:
    """Containers end whether somebody watches or not."""
    await lab.node()
    await lab.create("a", cpu="4", restart="Never", annotations={"run-seconds": "10"})
    await lab.create("b", cpu="2")
    await lab.runs("a")
    await lab.runs("b")
    await lab.pool.kill("n1")
    await lab.clock.advance(60)
    await lab.client.delete(PODS, "b", namespace="default", grace_seconds=0)
    assert await lab.phase("a") == "Running"
    await lab.settle()
    await lab.pool.start("n1")
    pod = await lab.reaches("a", "Succeeded")
    assert pod.status.container_statuses[0].state.terminated.finished_at == "2026-01-01T00:00:10Z"
    assert list(lab.model().pods) == []
    assert len(lab.model().shared_cpus) == 16


async def test_a_deletion_asked_for_while_the_kubelet_was_away_is_carried_out(lab: Lab) -> None:
    """A terminating pod still ends in order."""
    await lab.node()
    await lab.create("a", annotations={"termination-seconds": "5"})
    await lab.runs("a")
    await lab.pool.kill("n1")
    await lab.client.delete(PODS, "a", namespace="default")
    await lab.clock.advance(20)
    await lab.pool.start("n1")
    assert await lab.phase("a") == "Running"
    await lab.clock.advance(6)
    await lab.reaches("a", "")


async def test_a_paused_node_is_silent_and_catches_up(lab: Lab) -> None:
    """Neither pods nor lease move; afterwards everything does, and the node is well again."""
    await lab.node()
    await lab.clock.advance(15)
    lab.pool.pause("n1")
    lease = await lab.client.get(LEASES, "n1", namespace="kube-node-lease")
    await lab.create("a")
    await lab.clock.advance(60)
    assert await lab.phase("a") == "Pending"
    assert await lab.client.get(LEASES, "n1", namespace="kube-node-lease") == lease
    unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    change = strategic_patch({"status": {"conditions": [unknown]}})
    await lab.client.patch(NODES, "n1", change, subresource="status")
    await lab.settle()
    lab.pool.resume("n1")
    await lab.runs("a")
    await lab.clock.advance(21)
    ready = next(
        condition
        for condition in (await lab.node_document())["status"]["conditions"]
        if condition["type"] == "Ready"
    )
    assert (ready["status"], ready["reason"]) == ("True", "KubeletReady")
    assert await lab.client.get(LEASES, "n1", namespace="kube-node-lease") != lease


async def test_a_node_taken_for_dead_contradicts(lab: Lab) -> None:
    """A kubelet that runs corrects its Ready condition."""
    await lab.node()
    unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    change = strategic_patch({"status": {"conditions": [unknown]}})
    await lab.client.patch(NODES, "n1", change, subresource="status")
    await lab.settle()
    conditions = {
        condition["type"]: condition["status"]
        for condition in (await lab.node_document())["status"]["conditions"]
    }
    assert conditions["Ready"] == "True"


async def test_a_removed_node_leaves_the_api(lab: Lab) -> None:
    """Node and lease are deleted; another node may take the name."""
    await lab.node()
    await lab.pool.remove("n1")
    assert not (await lab.client.list(NODES)).items
    assert not (await lab.client.list(LEASES, namespace="kube-node-lease")).items
    with pytest.raises(ConfigError, match="no node 'n1' in this lab; there are: none"):
        lab.pool.kubelet("n1")
    await lab.node()


async def test_a_node_that_comes_back_goes_on_with_the_pods_that_stayed_behind(lab: Lab) -> None:
    """It has its old address, which the server does not let pods change."""
    await lab.node("n0")
    await lab.node()
    await lab.create("a", restart="Never", annotations={"run-seconds": "60"})
    before = await lab.runs("a")
    await lab.pool.remove("n0")
    await lab.pool.remove("n1")
    await lab.node()
    await lab.settle()
    await lab.clock.advance(61)
    after = await lab.reaches("a", "Succeeded")
    assert after.status.host_ip == before.status.host_ip


async def test_a_kubelet_that_would_not_start_says_why(lab: Lab) -> None:
    """The words are the kubelet's."""
    with pytest.raises(KubeletStartError, match="unknown policy"):
        await lab.node(cpu_manager_policy="dynamic")
    assert not lab.pool.kubelets


class Gate:
    """A transport that holds back status writes of pods until it is opened."""

    def __init__(self, inner: InProcess) -> None:
        self._inner = inner
        self.open_ = asyncio.Event()
        self.held = 0
        self.open = inner.open
        self.aclose = inner.aclose

    async def send(self, request: Request) -> Response:
        """Send, or wait."""
        if request.method == "PATCH" and "/pods/" in request.path and not self.open_.is_set():
            self.held += 1
            await self.open_.wait()
        return await self._inner.send(request)


@pytest.fixture
async def gated() -> AsyncIterator[tuple[Lab, Gate]]:
    """A lab whose kubelets cannot write statuses until the gate is opened."""
    clock = ManualClock()
    async with ApiServer(now=clock.now, rng=Random(7)) as server:
        gate = Gate(InProcess(server))
        client = Client(InProcess(server), clock=clock, rng=Random(7), rate=0)
        kubelets = Client(gate, clock=clock, rng=Random(7), rate=0)
        async with NodePool(kubelets) as pool:
            yield Lab(server, client, clock, pool), gate


async def test_a_kubelet_killed_before_it_could_write_loses_and_doubles_nothing(
    gated: tuple[Lab, Gate],
) -> None:
    """What was given out is in the files; the pod gets the same CPUs again, once."""
    lab, gate = gated
    await lab.node()
    await lab.create("a", cpu="4")
    await until(lambda: gate.held == 1)
    before = lab.cpus("a")
    assert len(before) == 4
    await lab.pool.kill("n1")
    gate.open_.set()
    await lab.settle()
    assert await lab.phase("a") == "Pending"
    await lab.pool.start("n1")
    await lab.runs("a")
    assert lab.cpus("a") == before
    assert len(lab.model().shared_cpus) == 12


async def test_a_rejection_is_written_until_the_api_has_it(gated: tuple[Lab, Gate]) -> None:
    """A pod that was refused is not admitted by a second look."""
    lab, gate = gated
    await lab.node()
    await lab.create("a", cpu="9")
    await until(lambda: gate.held == 1)
    gate.open_.set()
    assert (await lab.fails("a"))[0] == "TopologyAffinityError"
    assert list(lab.model().pods) == []


async def test_another_configuration_takes_effect_and_state_of_the_older_one_is_gone(
    lab: Lab,
) -> None:
    """As an administrator does it; pods that are there are admitted again."""
    await lab.node()
    await lab.create("a", cpu="4")
    await lab.runs("a")
    plan = lab.pool.kubelet("n1").plan
    words = {"policy": "restricted", "scope": "pod"}
    config = overridden(plan.config, plan.machine, words)
    await lab.pool.reconfigure("n1", replace(plan, config=config, kubernetes="1.36"))
    settings = lab.model().settings
    assert (settings.topology_policy, settings.topology_scope) == ("restricted", "pod")
    node = await lab.client.get(NODES, "n1")
    assert node.status.node_info is not None
    assert node.status.node_info.kubelet_version == "v1.36.0"
    assert len(lab.cpus("a")) == 4


async def test_a_configuration_that_no_kubelet_starts_with_leaves_the_node_alone(lab: Lab) -> None:
    """Before anything is stopped."""
    await lab.node()
    plan = lab.pool.kubelet("n1").plan
    wrong = msgspec.structs.replace(plan.config, reserved_system_cpus="", kube_reserved={})
    with pytest.raises(KubeletStartError):
        await lab.pool.reconfigure("n1", replace(plan, config=wrong))
    assert lab.pool.kubelet("n1").is_up
    await lab.create("a", cpu="4")
    await lab.runs("a")
