"""What the API knows of a node: uids of listed pods, and what the Node tells of the kubelet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.api.mirrors import MIRROR, SOURCE

from kube_lab_server import ApiServer
from numakube.api.checkpoints import (
    CpuManagerState,
    DeviceManagerState,
    MemoryManagerState,
    PodDevices,
)
from numakube.apps.exporter.api_objects import WAIT_SECONDS, NodeObject, WatchedPods
from numakube.apps.exporter.kubelet_checkpoints import Checkpoints, held_uids, with_api_uids
from numakube.kube.catalog import NODES, PODS
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock
from numakube.testing import turns
from numakube.values.cpuset import CpuSet
from numakube_lab.inprocess_transport import InProcess

A = ("default", "a")


class Node:
    """A node's pods in the API, and the book of them."""

    def __init__(self, client: Client, clock: ManualClock) -> None:
        self.client = client
        self.clock = clock
        self.changes = 0
        self.book = WatchedPods(client, "n1", self.note)

    def note(self) -> None:
        """Count changes."""
        self.changes += 1

    async def create(self, name: str, **metadata: Any) -> str:
        """Create a pod on the node; return its uid."""
        container = {"name": "main", "image": "web"}
        document = {
            "metadata": {"name": name, **metadata},
            "spec": {"nodeName": "n1", "containers": [container]},
        }
        made = await self.client.create(PODS.raw, document, namespace="default")
        return str(made["metadata"]["uid"])

    async def delete(self, name: str) -> None:
        """Delete a pod on the spot, whatever the node does."""
        await self.client.delete(PODS, name, namespace="default", grace_seconds=0)
        await self.clock.advance(0)

    async def report(self, name: str, status: dict[str, Any]) -> None:
        """Write the status of a pod, as a kubelet does."""
        document = await self.client.get(PODS.raw, name, namespace="default")
        document["status"].update(status)
        await self.client.update(PODS.raw, document, subresource="status")
        await self.clock.advance(0)

    async def uids(self, *held: str) -> dict[tuple[str, str], str]:
        """Return the uids if the kubelet lists the pod *a* only."""
        await self.clock.advance(0)
        return dict(await self.book.uids([A], held))


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    """A node without pods, watched."""
    clock = ManualClock()
    async with ApiServer(now=clock.now) as server:
        node = Node(Client(InProcess(server), clock=clock, rate=0), clock)
        task = asyncio.create_task(node.book.run())
        await node.book.known()
        yield node
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_pods_are_known_and_their_changes_noted(node: Node) -> None:
    """The watch is a trigger too."""
    uid = await node.create("a")
    assert await node.uids() == {A: uid}
    assert node.changes >= 1


async def test_a_pod_that_left_the_api_is_known_while_the_kubelet_lists_it(node: Node) -> None:
    """After a deletion by force the node still works on it."""
    uid = await node.create("a")
    await node.uids()
    await node.delete("a")
    assert await node.uids() == {A: uid}
    await node.book.uids([], ())
    task = asyncio.create_task(node.book.uids([A], ()))
    await node.clock.timeouts()
    await node.clock.advance(WAIT_SECONDS)
    assert await task == {}


async def test_of_two_pods_of_the_same_name_the_state_files_tell_which_is_meant(
    node: Node,
) -> None:
    """A StatefulSet's pod comes back under its old name."""
    old = await node.create("a")
    await node.uids()
    await node.delete("a")
    new = await node.create("a")
    assert await node.uids(old) == {A: old}
    assert await node.uids(old, new) == {A: new}
    assert await node.uids() == {A: new}


async def test_a_pod_that_the_watch_has_not_brought_yet_is_waited_for(node: Node) -> None:
    """So that exact data does not come and go."""
    task = asyncio.create_task(node.book.uids([A], ()))
    await node.clock.timeouts()
    uid = await node.create("a")
    await node.clock.advance(0)
    assert await task == {A: uid}


async def test_what_never_comes_is_waited_for_once(node: Node) -> None:
    """A static pod without an image in the API does not slow every scan down."""
    task = asyncio.create_task(node.book.uids([A], ()))
    await node.clock.timeouts()
    await node.clock.advance(WAIT_SECONDS)
    assert await task == {}
    assert await node.book.uids([A], ()) == {}


async def test_pods_that_are_done(node: Node) -> None:
    """By their phase."""
    uid = await node.create("a")
    assert node.book.terminal() == frozenset()
    await node.report("a", {"phase": "Succeeded"})
    assert node.book.terminal() == {A}
    assert node.book.expected({uid}) == frozenset()


async def test_a_pod_that_a_starting_kubelet_rejected_is_not_waited_for(node: Node) -> None:
    """It tells of it ten seconds later: until then the pod has a start time and no conditions."""
    uid = await node.create("a")
    status = {"phase": "Pending", "startTime": "2026-01-01T00:00:00Z", "conditions": []}
    await node.report("a", status)
    assert not node.book.started()
    assert node.book.expected(()) == frozenset()
    assert node.book.expected({uid}) == frozenset({A})
    admitted = {"type": "Initialized", "status": "False"}
    await node.report("a", {**status, "conditions": [admitted]})
    assert node.book.started() == {uid}
    assert node.book.expected(()) == frozenset({A})


async def test_static_pods_have_the_uid_of_their_image_in_the_api(node: Node) -> None:
    """State files know them by the kubelet's own."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n", "controller": True}
    marks = {MIRROR: "hash", SOURCE: "file"}
    uid = await node.create("a", annotations=marks, ownerReferences=[owner])
    # Anybody can write the annotation, and all marks too, of a pod that is there.
    await node.create("liar", annotations={MIRROR: "other"})
    await node.create("forger", annotations={**marks, MIRROR: uid}, ownerReferences=[owner])
    await node.clock.advance(0)
    aliases = node.book.aliases()
    assert aliases == {"hash": uid}
    cpus = {"hash": {"main": CpuSet.parse("1-2")}}
    state = Checkpoints(
        cpu=CpuManagerState(policy="static", default_cpus=CpuSet.parse("0"), entries=cpus),
        memory=MemoryManagerState(policy_name="Static", entries={"hash": {"main": ()}}),
        devices=DeviceManagerState(pod_device_entries=(PodDevices(pod_uid="hash"),)),
    )
    renamed = with_api_uids(state, aliases)
    assert held_uids(renamed) == {uid}
    assert renamed.cpu is not None
    assert renamed.cpu.entries == {uid: cpus["hash"]}
    files = (Checkpoints(cpu=state.cpu), Checkpoints(memory=state.memory))
    for alone in (*files, Checkpoints(devices=state.devices)):
        assert held_uids(with_api_uids(alone, aliases)) == {uid}
    assert with_api_uids(state, {"other": "x"}) is state


async def test_all_pods_are_known_only_after_the_first_list() -> None:
    """Until then nobody can say which pods the kubelet has to list."""
    async with ApiServer() as server:
        node = Node(Client(InProcess(server), rate=0), ManualClock())
        uid = await node.create("a")
        known = asyncio.create_task(node.book.known())
        await turns(10)
        assert not known.done()
        assert node.book.expected([]) is None
        watching = asyncio.create_task(node.book.run())
        await known
        assert [pod.metadata.uid for pod in node.book.objects()] == [uid]
        assert node.book.expected([]) is not None
        watching.cancel()


# What the Node object tells of the kubelet.


IP = {"type": "InternalIP", "address": "10.0.0.1"}
PORTS = {"kubeletEndpoint": {"Port": 10250}}


@pytest.mark.parametrize(
    ("status", "url"),
    [
        ({"addresses": [IP], "daemonEndpoints": PORTS}, "https://10.0.0.1:10250"),
        (
            {"addresses": [{**IP, "address": "fd00::1"}], "daemonEndpoints": PORTS},
            "https://[fd00::1]:10250",
        ),
        (
            {"addresses": [{**IP, "type": "ExternalIP"}], "daemonEndpoints": PORTS},
            "https://10.0.0.1:10250",
        ),
        ({"addresses": [{**IP, "type": "Hostname"}], "daemonEndpoints": PORTS}, None),
        ({"addresses": [IP]}, None),
        ({"addresses": [IP], "daemonEndpoints": {}}, None),
        ({"daemonEndpoints": PORTS}, None),
    ],
)
async def test_the_kubelet_is_where_address_and_port_say(
    bare: Client, status: dict[str, Any], url: str | None
) -> None:
    """Both are needed."""
    node = NodeObject(bare, "n1")
    assert (node.kubelet_url, node.is_known, node.owner) == (None, False, None)
    await bare.create(NODES.raw, {"metadata": {"name": "n1"}, "status": status})
    await node.refresh()
    assert (node.kubelet_url, node.is_known) == (url, True)


async def test_a_node_that_is_gone_is_not_known_any_more(bare: Client) -> None:
    """Its uid would be that of nothing."""
    info = {"kubeletVersion": "v1.35.7"}
    made = await bare.create(
        NODES.raw,
        {"metadata": {"name": "n1", "annotations": {"a": "b"}}, "status": {"nodeInfo": info}},
    )
    node = NodeObject(bare, "n1")
    await node.refresh()
    assert node.owner is not None
    assert node.owner.uid == made["metadata"]["uid"]
    assert (node.kubelet_version, node.annotations) == ("v1.35.7", {"a": "b"})
    await bare.delete(NODES, "n1")
    await node.refresh()
    assert not node.is_known
    assert (node.kubelet_version, node.annotations) == (None, {})
