"""Slices are what they should be, whoever removes or changes them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from dra_bed import NODE, POOL, Bed, offer_of
from prometheus_client import CollectorRegistry

from kube_lab_server import ApiServer
from numakube.api.resource_slices import Device
from numakube.errors import NotFound
from numakube.kube.catalog import NODES, RESOURCE_SLICES
from numakube.kube.client import Client
from numakube_dra_driver.devices import DRIVER
from numakube_dra_driver.metrics import DraMetrics
from numakube_dra_driver.slices import MOST_DEVICES, SlicePublisher
from numakube_lab.inprocess_transport import InProcess


def publisher(client: Client) -> SlicePublisher:
    """Return a publisher of a process that has just been started."""
    metrics = DraMetrics(CollectorRegistry())
    return SlicePublisher(client, driver=DRIVER, node=NODE, pool=POOL, metrics=metrics)


@pytest.fixture
async def client(bed: Bed) -> Client:
    """A client of a server that has the node."""
    await bed.client.create(NODES.raw, {"metadata": {"name": NODE}})
    return bed.client


async def stored(client: Client) -> list[dict[str, Any]]:
    """Return the slices by name."""
    found = (await client.list(RESOURCE_SLICES)).items
    return sorted(found, key=lambda one: str(one["metadata"]["name"]))


async def versions(client: Client) -> list[str]:
    """Return what changes when a slice is written."""
    return [item["metadata"]["resourceVersion"] for item in await stored(client)]


def devices(count: int, first: int = 0) -> list[Device]:
    """Return devices without anything."""
    return [Device(name=f"d{number}") for number in range(first, first + count)]


async def test_a_node_has_a_slice_that_is_its_own(client: Client) -> None:
    await publisher(client).publish(offer_of().devices)
    (found,) = await stored(client)
    node = await client.get(NODES, NODE)
    assert found["metadata"]["name"].startswith(f"00000-{DRIVER}-{NODE}-")
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Node", node.metadata.uid, True)
    spec = found["spec"]
    assert (spec["driver"], spec["nodeName"]) == (DRIVER, NODE)
    assert spec["pool"] == {"name": POOL, "generation": 1, "resourceSliceCount": 1}
    assert [device["name"] for device in spec["devices"]] == [
        "cpu-numa0",
        "cpu-numa1",
        "memory-numa0",
        "memory-numa1",
    ]


async def test_what_is_right_is_not_written_again(client: Client) -> None:
    await publisher(client).publish(offer_of().devices)
    before = await versions(client)
    await publisher(client).publish(offer_of().devices)
    assert await versions(client) == before


async def test_one_change_keeps_the_generation(client: Client) -> None:
    """Schedulers allocate nothing from a pool whose slices are of several generations."""
    await publisher(client).publish(devices(3))
    await publisher(client).publish(devices(2))
    (found,) = await stored(client)
    assert found["spec"]["pool"]["generation"] == 1
    assert len(found["spec"]["devices"]) == 2


async def test_many_devices_have_several_slices_in_order(client: Client) -> None:
    one = publisher(client)
    await one.publish(devices(2 * MOST_DEVICES + 1))
    found = await stored(client)
    assert [piece["metadata"]["name"][:6] for piece in found] == ["00000-", "00001-", "00002-"]
    pools = [piece["spec"]["pool"] for piece in found]
    assert [(pool["generation"], pool["resourceSliceCount"]) for pool in pools] == [(1, 3)] * 3
    await one.publish(devices(2 * MOST_DEVICES + 1))
    await one.publish(devices(2 * MOST_DEVICES, first=1))
    pools = [piece["spec"]["pool"] for piece in await stored(client)]
    assert [(pool["generation"], pool["resourceSliceCount"]) for pool in pools] == [(2, 2)] * 2


async def test_a_slice_that_is_deleted_or_spoilt_comes_back(client: Client) -> None:
    one = publisher(client)
    await one.publish(offer_of().devices)
    (found,) = await stored(client)
    await client.delete(RESOURCE_SLICES, found["metadata"]["name"])
    await one.publish(offer_of().devices)
    (found,) = await stored(client)
    found["spec"]["devices"][0]["attributes"] = {}
    await client.update(RESOURCE_SLICES, found)
    await one.publish(offer_of().devices)
    (found,) = await stored(client)
    assert found["spec"]["devices"][0]["attributes"]


async def test_slices_that_are_none_of_it_are_deleted(client: Client) -> None:
    """Of another pool, and twice for the same place; those of other drivers and nodes stay."""

    def document(name: str, driver: str, node: str, pool: str) -> dict[str, Any]:
        place = {"name": pool, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "nodeName": node, "pool": place}
        return {"metadata": {"name": name}, "spec": spec}

    for one in (
        document("old", DRIVER, NODE, NODE),
        document("00000-a", DRIVER, NODE, POOL),
        document("00000-b", DRIVER, NODE, POOL),
        document("other-driver", "gpu.example", NODE, NODE),
        document("other-node", DRIVER, "n2", "n2/compute"),
    ):
        await client.create(RESOURCE_SLICES, one)
    await publisher(client).publish(offer_of().devices)
    names = [item["metadata"]["name"] for item in await stored(client)]
    assert names == ["00000-a", "other-driver", "other-node"]


async def test_a_pool_without_devices_is_an_empty_slice(client: Client) -> None:
    await publisher(client).publish(())
    (found,) = await stored(client)
    assert not found["spec"].get("devices")


async def test_a_node_that_is_not_there_has_no_slices(bed: Bed) -> None:
    with pytest.raises(NotFound):
        await publisher(bed.client).publish(offer_of().devices)
    assert await stored(bed.client) == []


async def test_a_server_that_drops_fields_is_not_asked_again_and_again(bed: Bed) -> None:
    """Its gate is off; what it kept is what is right then."""
    async with ApiServer(now=bed.clock.now, rng=Random(7)) as server:
        client = Client(InProcess(server), clock=bed.clock, rng=Random(7), rate=0)
        await client.create(NODES.raw, {"metadata": {"name": NODE}})
        one = publisher(client)
        await one.publish(offer_of().devices)
        before = await versions(client)
        assert "DRAConsumableCapacity is off" in one.lost
        await one.publish(offer_of().devices)
        assert await versions(client) == before
        await one.publish(offer_of(can_share=False).devices)
        assert one.lost == ""
