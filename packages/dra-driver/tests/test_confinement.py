"""Containers run on the CPUs of their claims, and nobody else does."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dra_bed import NODE, Bed, prepared, result, unprepared
from prometheus_client import CollectorRegistry

from numakube.apps.host.process_life import Surroundings
from numakube.kube.catalog import PODS
from numakube.kube.clock import Clock, SystemClock
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.cgroups import container_group, pod_group
from numakube.node.cgroups.fake_groups import FakeCgroups
from numakube.node.dra_plugin import ClaimRef
from numakube.node.nri.fake_runtime import FakeRuntime
from numakube.node.nri.nri_objects import CpuLimits, NriContainer, Sandbox
from numakube.node.nri.ttrpc import CallRefused
from numakube.node.sysfs_machine import write_tree
from numakube.testing import until
from numakube_dra_driver.confinement import ClaimConfinement
from numakube_dra_driver.ledger import Ledger
from numakube_dra_driver.preparing import Preparer
from numakube_dra_driver.settings import SETTINGS
from numakube_lab.nodes.node_cgroups import PARENT, make_tree

SHAPE = "2 sockets, 4 cores, smt 2, 16Gi"
ALL = "0-15"


@dataclass
class Node:
    """A node with groups, a runtime, and a driver that confines."""

    bed: Bed
    tree: FakeCgroups
    confinement: ClaimConfinement
    driver: Preparer
    runtime: FakeRuntime
    tasks: list[asyncio.Task[None]]

    async def end(self) -> None:
        """End the process."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.confinement.close()

    async def pod(self, name: str, *claims: tuple[str, ...], status: bool = True) -> str:
        """Create a pod whose containers c0, c1, ... use *claims*, by claim and request."""
        entries = sorted({claim[0] for claim in claims if claim})
        containers: list[dict[str, Any]] = []
        for number, use in enumerate(claims or ((),)):
            wanted = [{"name": use[0], **({"request": use[1]} if use[1:] else {})}] if use else []
            resources = {"claims": wanted} if wanted else {}
            containers.append({"name": f"c{number}", "image": "i", "resources": resources})
        spec = {
            "nodeName": NODE,
            "containers": containers,
            "resourceClaims": [{"name": entry, "resourceClaimName": entry} for entry in entries],
        }
        document = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        made = await self.bed.client.create(PODS.raw, document)
        uid = str(made["metadata"]["uid"])
        self.tree.add(self.group(uid))
        return uid

    def group(self, uid: str) -> str:
        """Return the group of a pod."""
        return pod_group(PARENT, "BestEffort", uid)

    def run(self, uid: str, name: str) -> str:
        """Let a container have a group; return it."""
        group = container_group(self.group(uid), f"containerd://{identity(uid, name)}")
        self.tree.add(group)
        return group

    async def asked(self, uid: str, name: str, env: tuple[str, ...] = ()) -> CpuLimits:
        """Have the runtime ask about a container that it is about to make."""
        sandbox = Sandbox(id=f"s-{uid}", uid=uid, namespace="default", name="p")
        container = NriContainer(
            id=identity(uid, name), sandbox_id=sandbox.id, name=name, env=env,
            cpu=CpuLimits(quota=200000, period=100000),
        )  # fmt: skip
        return await self.runtime.create(sandbox, container)

    async def on(self, group: str, cpus: str) -> None:
        """Wait until a group has *cpus*."""
        await until(lambda: self.tree.cpus(group), lambda found: found == cpus)


def identity(uid: str, name: str) -> str:
    """Return the id of a container."""
    return hashlib.sha256(f"{uid}/{name}".encode()).hexdigest()


def confining(bed: Bed, ledger: Ledger, clock: Clock) -> ClaimConfinement:
    """Return what confines the containers of a node of two NUMA nodes."""
    machine, sysfs = from_shape(SHAPE), bed.folder / "sys"
    if not sysfs.exists():
        write_tree(machine, sysfs)
        make_tree(machine, sysfs)

    def locate(path: str) -> Path:
        return bed.folder / path.lstrip("/")

    around = Surroundings(env={}, root=bed.folder, locate=locate, clock=clock)
    flags = {"state_dir": "/state", "nri_socket": "/nri.sock", "nri": "on"}
    settings = SETTINGS.resolve(env={}, flags=flags)
    return ClaimConfinement(
        bed.client, ledger, settings, around, node=NODE, registry=CollectorRegistry()
    )


@pytest.fixture
async def node(bed: Bed) -> AsyncIterator[Node]:
    """A node whose runtime asks the driver."""
    driver = bed.driver()
    driver._confining = confinement = confining(bed, driver._ledger, SystemClock())
    tree = FakeCgroups.open(bed.folder / "sys/fs/cgroup")
    async with FakeRuntime(bed.folder / "nri.sock", request_seconds=60.0) as runtime:
        tasks = [asyncio.create_task(job) for job in confinement.jobs(asyncio.Event())]
        await runtime.connected.wait()
        world = Node(bed, tree, confinement, driver, runtime, tasks)
        yield world
        await world.end()


async def claimed(node: Node, name: str, uid: str, *results: dict[str, Any]) -> ClaimRef:
    """Have a claim prepared that is reserved for the pod *uid*."""
    ref = await node.bed.claim(name, *results, users=(uid,))
    assert (await prepared(node.driver, ref)).error == ""
    return ref


def variable(ref: ClaimRef, request: str = "cpus") -> str:
    """Return the variable of a request, with a value that nobody believes."""
    return f"NUMAKUBE_CLAIM_{ref.uid}_{request}=cpus:0-15".replace("-", "_")


async def test_others_have_left_when_a_claim_is_prepared(node: Node) -> None:
    other = await node.pod("other")
    group = node.run(other, "c0")
    uid = await node.pod("p", ("a",))
    ref = await claimed(node, "a", uid, result("cpu-numa0", "4"))
    assert node.tree.cpus(node.group(other)) == "2-7,10-15"
    assert node.tree.cpus(node.group(uid)) == "0-1,8-9"
    await unprepared(node.driver, ref)
    assert node.tree.cpus(node.group(other)) in ("", ALL)
    assert node.tree.cpus(group) in ("", ALL)


async def test_a_container_starts_with_the_cpus_of_its_claim_and_no_quota(node: Node) -> None:
    """What its variable says does not count, but the ledger."""
    uid = await node.pod("p", ("a",))
    ref = await claimed(node, "a", uid, result("cpu-numa1", "4"))
    found = await node.asked(uid, "c0", ("PATH=/bin", variable(ref)))
    assert (found.cpus, found.quota) == ("4-5,12-13", -1)


async def test_each_container_has_the_request_that_it_names(node: Node) -> None:
    uid = await node.pod("p", ("a", "x"), ("a", "y"), ())
    ref = await claimed(
        node, "a", uid,
        result("cpu-numa0", "2", request="x"), result("cpu-numa0", "2", request="y"),
    )  # fmt: skip
    assert (await node.asked(uid, "c0", (variable(ref, "x"),))).cpus == "0,8"
    groups = [node.run(uid, f"c{number}") for number in range(3)]
    # The runtime tells of them all, as it would for containers that were made without us.
    for number in (1, 2):
        await node.asked(uid, f"c{number}")
    await node.confinement.enforcer.step()
    for group, cpus in zip(groups, ("0,8", "1,9", "2-7,10-15"), strict=True):
        await node.on(group, cpus)
    assert node.tree.cpus(node.group(uid)) == ALL


@pytest.mark.parametrize("name", ["NUMAKUBE_CLAIM_x_cpus", "NUMAKUBE_CLAIM_"])
async def test_a_container_with_a_claim_that_is_not_known_does_not_start(
    name: str, node: Node
) -> None:
    uid = await node.pod("p")
    with pytest.raises(CallRefused, match="is of no claim that is prepared for pod"):
        await node.asked(uid, "c0", (f"{name}=cpus:0",))


async def test_the_claim_of_another_pod_gives_nothing(node: Node) -> None:
    owner, thief = await node.pod("owner", ("a",)), await node.pod("thief")
    ref = await claimed(node, "a", owner, result("cpu-numa1", "4"))
    with pytest.raises(CallRefused, match="is of no claim that is prepared for pod"):
        await node.asked(thief, "c0", (variable(ref),))
    assert (await node.asked(owner, "c0", (variable(ref),))).cpus == "4-5,12-13"


async def test_containers_without_claims_always_start(node: Node) -> None:
    """Whatever state the ledger is in."""
    (node.bed.state / "state.json").write_text("{")
    assert (await node.asked(await node.pod("p"), "c0")).cpus == ""


async def test_a_container_with_a_claim_does_not_start_without_a_ledger(node: Node) -> None:
    uid = await node.pod("p", ("a",))
    ref = await claimed(node, "a", uid, result("cpu-numa1", "4"))
    (node.bed.state / "state.json").write_text("{")
    with pytest.raises(CallRefused, match="--forget-state"):
        await node.asked(uid, "c0", (variable(ref),))


async def test_a_pod_that_the_api_has_not_told_of_keeps_others_off(node: Node) -> None:
    other = await node.pod("other")
    await claimed(node, "a", "pod-unseen", result("cpu-numa0", "8"))
    assert node.tree.cpus(node.group(other)) == "4-7,12-15"


async def test_what_the_kubelet_changes_later_keeps_the_cpus(node: Node) -> None:
    uid = await node.pod("p", ("a",))
    ref = await claimed(node, "a", uid, result("cpu-numa1", "4"))
    await node.asked(uid, "c0", (variable(ref),))
    node.run(uid, "c0")
    await node.confinement.enforcer.step()
    sandbox = Sandbox(id=f"s-{uid}", uid=uid, namespace="default", name="p")
    container = NriContainer(id=identity(uid, "c0"), sandbox_id=sandbox.id, name="c0")
    changed = await node.runtime.update(sandbox, container, CpuLimits(cpus="0-15", quota=100))
    assert (changed.cpus, changed.quota) == ("4-5,12-13", -1)


async def test_no_claim_is_given_before_pods_are_known(bed: Bed) -> None:
    """Half of them would leave the others on its CPUs."""
    confinement = confining(bed, bed.ledger(), bed.clock)
    settling = asyncio.create_task(confinement.settle())
    await bed.clock.timeouts()
    await bed.clock.advance(6)
    assert await settling == "the pods of the node are not known yet"


async def test_only_one_process_of_a_node_answers_the_runtime(node: Node) -> None:
    """Two plugins that set the same of a container would make the runtime refuse it."""
    second = confining(node.bed, node.bed.ledger(), SystemClock())
    tasks = [asyncio.create_task(job) for job in second.jobs(asyncio.Event())]
    await until(second._pods.synced.is_set)
    await asyncio.wait(tasks, timeout=0.3)
    assert len(node.runtime.registered) == 1
    await node.end()
    await until(lambda: len(node.runtime.registered) == 2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    second.close()
