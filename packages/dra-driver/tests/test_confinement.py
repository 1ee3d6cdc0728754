"""Containers run on the CPUs of their claims, and nobody else does."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from dra_bed import NODE, Bed, offer_of, parameters, prepared, result, unprepared
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
from numakube_dra_driver.identity import COMPATIBLE, OWN, Identity
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


def confining(
    bed: Bed, ledger: Ledger, clock: Clock, identities: Sequence[Identity] = (OWN,)
) -> ClaimConfinement:
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
        bed.client,
        ledger,
        settings,
        around,
        node=NODE,
        registry=CollectorRegistry(),
        identities=identities,
    )


@pytest.fixture(params=[OWN], ids=[""])
async def node(bed: Bed, request: pytest.FixtureRequest) -> AsyncIterator[Node]:
    """A node whose runtime asks the driver."""
    identity: Identity = request.param
    bed.offer = offer_of(compatible=identity is COMPATIBLE)
    driver = bed.driver(identity=identity)
    ledger = driver._ledger
    driver._confining = confinement = confining(bed, ledger, SystemClock(), (identity,))
    tree = FakeCgroups.open(bed.folder / "sys/fs/cgroup")
    async with FakeRuntime(bed.folder / "nri.sock", request_seconds=60.0) as runtime:
        tasks = [asyncio.create_task(job) for job in confinement.jobs(asyncio.Event())]
        await runtime.connected.wait()
        world = Node(bed, tree, confinement, driver, runtime, tasks)
        yield world
        await world.end()


async def claimed(
    node: Node, name: str, uid: str, *results: dict[str, Any], config: Sequence[Any] = ()
) -> ClaimRef:
    """Have a claim prepared that is reserved for the pod *uid*."""
    ref = await node.bed.claim(name, *results, users=(uid,), config=config)
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


async def test_a_container_has_memory_of_its_claim_alone(node: Node) -> None:
    """From its first instruction, in its group, and nobody else is bound for it."""
    uid = await node.pod("p", ("a", "c0"), ())
    ref = await claimed(
        node, "a", uid,
        result("cpu-numa1", "2", request="c0"), result("memory-numa1", "1Gi", request="c0-mem"),
        config=[parameters(bundle=True)],
    )  # fmt: skip
    found = await node.asked(uid, "c0", (variable(ref, "c0"), variable(ref, "c0_mem")))
    assert (found.cpus, found.mems) == ("4,12", "1")
    groups = [node.run(uid, f"c{number}") for number in range(2)]
    await node.asked(uid, "c1")
    await node.confinement.enforcer.step()
    await node.on(groups[0], "4,12")
    assert [node.tree.mems(group) for group in groups] == ["1", ""]
    assert node.tree.mems(node.group(uid)) == ""


async def test_a_claim_of_memory_alone_binds_memory_and_nothing_else(node: Node) -> None:
    """Its CPUs are those that everybody has."""
    uid, owner = await node.pod("p", ("a",)), await node.pod("owner", ("b",))
    ref = await claimed(node, "a", uid, result("memory-numa0", "1Gi", request="mem"))
    await claimed(node, "b", owner, result("cpu-numa1", "2"))
    found = await node.asked(uid, "c0", (variable(ref, "mem"),))
    assert (found.cpus, found.mems, found.quota) == ("0-3,5-11,13-15", "0", 200000)
    group = node.run(uid, "c0")
    await node.confinement.enforcer.step()
    assert (node.tree.cpus(group), node.tree.mems(group)) == ("0-3,5-11,13-15", "0")


async def test_memory_is_bound_though_the_pod_is_not_known_yet(node: Node) -> None:
    ref = await claimed(node, "a", "unseen", result("memory-numa1", "1Gi", request="mem"))
    assert (await node.asked("unseen", "c0", (variable(ref, "mem"),))).mems == "1"


async def test_a_claim_that_is_not_exclusive_keeps_near_to_a_numa_node(node: Node) -> None:
    """On the CPUs there that nobody has for himself."""
    uid, owner = await node.pod("p", ("a",), ()), await node.pod("owner", ("b",))
    ref = await claimed(
        node, "a", uid, result("cpu-numa1", "2"), config=[parameters(cpus={"exclusive": False})]
    )
    await claimed(node, "b", owner, result("cpu-numa1", "4"))
    found = await node.asked(uid, "c0", (variable(ref),))
    assert (found.cpus, found.quota) == ("6-7,14-15", 200000)
    group, other = node.run(uid, "c0"), node.run(uid, "c1")
    await node.asked(uid, "c1")
    await node.confinement.enforcer.step()
    await node.on(group, "6-7,14-15")
    await node.on(other, "0-3,6-11,14-15")


async def test_a_claim_may_keep_the_limit_of_cpu_time(node: Node) -> None:
    uid = await node.pod("p", ("a",))
    ref = await claimed(node, "a", uid, result("cpu-numa1", "2"), config=[parameters(quota="keep")])
    found = await node.asked(uid, "c0", (variable(ref),))
    assert (found.cpus, found.quota) == ("4,12", 200000)
    group = node.run(uid, "c0")
    node.tree.files.write(group, "cpu.max", "200000 100000")
    await node.confinement.enforcer.step()
    await node.on(group, "4,12")
    assert node.tree.quota(group) == "200000 100000"


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


def cpus_of(amount: str) -> dict[str, Any]:
    """Return a result as dra-driver-cpu is allocated it."""
    found = result("cpudevnuma001", amount, driver="dra.cpu", pool=NODE)
    return {**found, "consumedCapacity": {"dra.cpu/cpu": amount}}


@pytest.mark.parametrize("node", [COMPATIBLE], indirect=True)
async def test_a_claim_of_dra_driver_cpu_is_for_one_container(node: Node) -> None:
    """Which may restart; a second one does not start, as with dra-driver-cpu."""
    uid = await node.pod("p", ("a",), ("a",))
    ref = await claimed(node, "a", uid, cpus_of("2"))
    env = (f"DRA_CPUSET_{ref.uid}=4,12",)
    for _ in range(2):
        found = await node.asked(uid, "c0", env)
        assert (found.cpus, found.quota) == ("4,12", -1)
    with pytest.raises(CallRefused, match="is used by container c0 already"):
        await node.asked(uid, "c1", env)


@pytest.mark.parametrize("node", [COMPATIBLE], indirect=True)
@pytest.mark.parametrize("text", ["malformed_claim=a-b", "x", "=4"])
async def test_a_variable_of_dra_driver_cpu_that_is_none_is_refused(text: str, node: Node) -> None:
    """Pods without such a one are not affected."""
    uid = await node.pod("p")
    with pytest.raises(CallRefused, match="is of no claim that is prepared for pod"):
        await node.asked(uid, "c0", (f"DRA_CPUSET_{text}",))
    assert (await node.asked(uid, "c1", ("DRA_CPUSET=4",))).cpus == ""


async def test_variables_of_another_driver_are_its_business(node: Node) -> None:
    uid = await node.pod("p")
    assert (await node.asked(uid, "c0", ("DRA_CPUSET_u-1=4",))).cpus == ""
