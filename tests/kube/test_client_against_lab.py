"""The client and the lab's API server understand each other, over sockets and inside a process."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from kube_lab_server import ApiServer
from numakube.api.meta import Lease, ObjectMeta
from numakube.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Invalid,
    NotFound,
    UnsupportedMediaType,
)
from numakube.kube.catalog import (
    CONFIG_MAPS,
    CORE_EVENTS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
)
from numakube.kube.client import Client, Patch, json_patch, merge_patch, strategic_patch
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import ClusterConfig
from numakube.kube.connection.transport import Request
from numakube.kube.event_recorder import EventRecorder, reference_to
from numakube.kube.leader_election import LeaderElection
from numakube.kube.reflector import Reflector, reflecting
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import bind_pod, evict_pod
from numakube.kube.watch import ObjectEvent, open_watch
from numakube_lab.inprocess_transport import InProcess

NS = "default"


@pytest.fixture
async def lab() -> AsyncIterator[ApiServer]:
    """The lab's API server."""
    async with ApiServer() as server:
        yield server


@pytest.fixture(params=["http", "inprocess"])
async def client(request: pytest.FixtureRequest, lab: ApiServer) -> AsyncIterator[Client]:
    """A client of the lab, over each of the transports."""
    if request.param == "http":
        async with connect(ClusterConfig(server=lab.url)) as client:
            yield client
    else:
        async with Client(InProcess(lab), rate=0) as client:
            yield client


def config_map(name: str, **data: str) -> dict[str, Any]:
    """Return a ConfigMap."""
    return {"metadata": {"name": name, "namespace": NS}, "data": data}


def pod(name: str) -> dict[str, Any]:
    """Return a pod with one container."""
    return {
        "metadata": {"name": name, "namespace": NS},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    }


async def test_objects_are_created_read_replaced_and_deleted(client: Client) -> None:
    """With optimistic locking and preconditions."""
    created = await client.create(CONFIG_MAPS, config_map("a", k="1"))
    assert created["metadata"]["uid"]
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, config_map("a"))

    updated = await client.update(CONFIG_MAPS, {**created, "data": {"k": "2"}})
    assert (await client.get(CONFIG_MAPS, "a", namespace=NS))["data"] == {"k": "2"}
    with pytest.raises(Conflict):
        await client.update(CONFIG_MAPS, {**created, "data": {"k": "3"}})
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, "a", namespace=NS, uid="another")
    await client.delete(
        CONFIG_MAPS, "a", namespace=NS, resource_version=updated["metadata"]["resourceVersion"]
    )
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "a", namespace=NS)


@pytest.mark.parametrize(
    "patch",
    [
        merge_patch({"data": {"k": "2", "gone": None}}),
        strategic_patch({"data": {"k": "2", "gone": None}}),
        json_patch(
            [
                {"op": "replace", "path": "/data/k", "value": "2"},
                {"op": "remove", "path": "/data/gone"},
            ]
        ),
    ],
    ids=["merge", "strategic", "json"],
)
async def test_every_kind_of_patch_is_understood(client: Client, patch: Patch) -> None:
    """They all say the same here."""
    await client.create(CONFIG_MAPS, config_map("a", k="1", gone="x"))

    patched = await client.patch(CONFIG_MAPS, "a", patch, namespace=NS)

    assert patched["data"] == {"k": "2"}


async def test_an_unknown_kind_of_patch_is_refused(client: Client) -> None:
    """With its own error."""
    await client.create(CONFIG_MAPS, config_map("a"))

    with pytest.raises(UnsupportedMediaType):
        await client.patch(CONFIG_MAPS, "a", Patch("application/odd", b"{}"), namespace=NS)


async def test_an_invalid_object_lists_its_faults(client: Client) -> None:
    """Field by field."""
    with pytest.raises(Invalid) as caught:
        await client.create(PODS, {**pod("Not A Name"), "spec": {"containers": []}})

    assert {"metadata.name", "spec.containers"} <= {each.field for each in caught.value.causes}


async def test_lists_are_paged_and_survive_compaction(client: Client, lab: ApiServer) -> None:
    """Selectors apply; a forgotten continuation is replaced by a list of everything."""
    for number in range(7):
        label = {"labels": {"odd": str(number % 2)}}
        document = config_map(f"c{number}")
        document["metadata"] |= label
        await client.create(CONFIG_MAPS, document)

    paged = await client.list(CONFIG_MAPS, namespace=NS, labels="odd=1", page_size=1)
    assert [each["metadata"]["name"] for each in paged.items] == ["c1", "c3", "c5"]
    assert paged.resource_version.isdecimal()
    assert paged.resource_version == await client.latest_version(CONFIG_MAPS)
    await client.delete_collection(CONFIG_MAPS, namespace=NS, labels="odd=0")
    assert len((await client.list(CONFIG_MAPS, namespace=NS, labels="odd")).items) == 3


async def test_a_watch_brings_changes_and_expires(client: Client) -> None:
    """A version that has been compacted is a 410."""
    start = await client.latest_version(PODS)
    await client.create(PODS, pod("a"))
    await client.delete(PODS, "a", namespace=NS, grace_seconds=0)
    async with open_watch(client, PODS, since=start, timeout_seconds=1) as watch:
        events = aiter(watch)
        kinds = []
        while "DELETED" not in kinds:
            event = await anext(events)
            if isinstance(event, ObjectEvent):
                kinds.append(event.type)
    assert kinds[0] == "ADDED"


@pytest.mark.parametrize("streaming", [False, True])
async def test_a_reflector_follows(client: Client, streaming: bool) -> None:
    """Listing or streaming."""
    await client.create(LEASES, Lease(metadata=ObjectMeta(name="a", namespace=NS)))
    reflector = Reflector(client, LEASES, namespace=NS, streaming=streaming)
    changes: asyncio.Queue[str] = asyncio.Queue()
    reflector.store.subscribe(
        lambda change: changes.put_nowait(f"{type(change).__name__} {change.object.metadata.name}")
    )
    async with reflecting(reflector):
        assert await changes.get() == "Added a"
        await client.create(LEASES, Lease(metadata=ObjectMeta(name="b", namespace=NS)))
        assert await changes.get() == "Added b"
        change = merge_patch({"spec": {"holderIdentity": "me"}})
        await client.patch(LEASES, "b", change, namespace=NS)
        assert await changes.get() == "Updated b"
        await client.delete(LEASES, "b", namespace=NS)
        assert await changes.get() == "Removed b"


async def test_a_pod_is_bound_once_and_evicted(client: Client) -> None:
    """By its uid."""
    await client.create(NODES, {"metadata": {"name": "n1"}})
    created = await client.create(PODS, pod("a"))
    key = ObjectKey(NS, "a")
    with pytest.raises(Conflict):
        await bind_pod(client, key, "n1", uid="another")
    await bind_pod(client, key, "n1", uid=created.metadata.uid, annotations={"zone": "0"})
    with pytest.raises(Conflict):
        await bind_pod(client, key, "n1")

    bound = await client.get(PODS, "a", namespace=NS)
    assert (bound.spec.node_name, bound.metadata.annotations) == ("n1", {"zone": "0"})
    await evict_pod(client, key, grace_seconds=0, uid=bound.metadata.uid)
    with pytest.raises(NotFound):
        await client.get(PODS, "a", namespace=NS)


async def test_a_status_is_written_on_its_own(client: Client) -> None:
    """Through the sub-resource."""
    await client.create(PODS, pod("a"))
    change = merge_patch({"status": {"phase": "Running"}, "metadata": {"labels": {"x": "y"}}})

    patched = await client.patch(PODS, "a", change, namespace=NS, subresource="status")

    assert patched.status is not None
    assert patched.status.phase == "Running"


async def test_a_leader_is_elected_and_gives_the_lease_back(client: Client) -> None:
    """With times the server accepts."""

    async def lead() -> str:
        return "led"

    election = LeaderElection(client, ObjectKey(NS, "leader"), identity="one")
    assert await election.run(lead) == "led"

    lease = await client.get(LEASES, "leader", namespace=NS)
    assert (lease.spec.holder_identity or "", lease.spec.lease_transitions) == ("", 0)
    second = LeaderElection(client, ObjectKey(NS, "leader"), identity="two")
    assert await second.try_acquire_or_renew()
    assert await second.try_acquire_or_renew()
    lease = await client.get(LEASES, "leader", namespace=NS)
    assert (lease.spec.holder_identity, lease.spec.lease_transitions) == ("two", 1)


@pytest.mark.parametrize("form", ["core", "events"])
async def test_events_are_accepted_in_both_forms(client: Client, form: Any) -> None:
    """And read in either."""
    created = await client.create(PODS, pod("a"))
    recorder = EventRecorder(client, component="numakube-scheduler", instance="me", form=form)
    task = asyncio.create_task(recorder.run())
    about = reference_to(PODS, created)
    recorder.normal(about, "Scheduled", "assigned", action="Binding")
    recorder.normal(about, "Scheduled", "assigned", action="Binding")
    recorder.warning(reference_to(NODES, created), "Odd", "node")
    await recorder.flush()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert recorder.dropped == 0
    core = (await client.list(CORE_EVENTS, namespace=NS, fields="reason=Scheduled")).items
    modern = (await client.list(EVENTS, namespace=NS)).items
    assert len(core) == 1
    assert (core[0].message, core[0].involved_object.name) == ("assigned", "a")
    assert (core[0].count or (core[0].series and core[0].series.count)) == 2
    assert {each.note for each in modern} == {"assigned", "node"}


async def test_cluster_wide_documents_are_read(client: Client) -> None:
    """Without a namespace."""
    names = {each["metadata"]["name"] for each in (await client.list(NAMESPACES)).items}

    assert {"default", "kube-system"} <= names


async def test_an_expired_version_is_expired(client: Client, lab: ApiServer) -> None:
    """However the server says it."""
    old = await client.latest_version(PODS)
    await client.create(PODS, pod("a"))
    await client.create(PODS, pod("b"))
    async with connect(ClusterConfig(server=lab.url)) as http:
        await http.request(Request(method="POST", path="/lab/v1/compact"))
        await http.create(PODS, pod("c"))

    async def read() -> None:
        async with open_watch(client, PODS, since=old, timeout_seconds=1) as watch:
            async for _ in watch:
                pass

    with pytest.raises(Expired):
        await read()
