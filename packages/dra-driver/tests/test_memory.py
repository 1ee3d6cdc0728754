"""Memory and hugepages by NUMA node: what is offered of them, and what claims have."""

from __future__ import annotations

from typing import Any

import pytest
from dra_bed import Bed, offer_of, parameters, prepared, result, unprepared

from numakube.api.codec import convert, to_tree
from numakube.api.kubelet_config import KubeletConfiguration
from numakube.api.resource_claims import DeviceAllocationResult
from numakube.kubelet.machines.shape_text import from_shape
from numakube.values.resources import quantities_of
from numakube_dra_driver.assignment import ClaimRefusal, assign
from numakube_dra_driver.ledger import GivenDevice, Held

SHAPE = "2 sockets, 4 cores, smt 2, 8Gi, hugepages-2Mi 512, hugepages-1Gi 1"
GIB = 1 << 30
NOTHING = KubeletConfiguration(eviction_hard={"memory.available": "0%"})


def sizes(shape: str = SHAPE, **config: Any) -> dict[str, str]:
    """Return the size of each device of memory."""
    kubelet = convert(KubeletConfiguration, {"evictionHard": {"memory.available": "0%"}, **config})
    pools = offer_of(shape, kubelet).memory.values()
    return {pool.name: quantities_of({"memory": pool.size_bytes})["memory"] for pool in pools}


def assigned(
    *results: dict[str, Any], config: tuple[dict[str, Any], ...] = (), held: int = 0
) -> tuple[GivenDevice, ...] | ClaimRefusal:
    """Return what each result has, while so much of memory-numa0 is held."""
    allocation = convert(DeviceAllocationResult, {"results": list(results), "config": list(config)})
    return assign(allocation, offer_of(SHAPE, NOTHING), Held(amounts={"memory-numa0": held}))


def given(
    *results: dict[str, Any], config: tuple[dict[str, Any], ...] = ()
) -> tuple[GivenDevice, ...]:
    """Return what each result has."""
    found = assigned(*results, config=config)
    assert not isinstance(found, ClaimRefusal), found.why
    return found


def test_every_numa_node_offers_its_memory_and_its_hugepages_of_each_size() -> None:
    assert sizes() == {
        "memory-numa0": "6Gi",
        "hugepages-2mi-numa0": "1Gi",
        "hugepages-1gi-numa0": "1Gi",
        "memory-numa1": "6Gi",
        "hugepages-2mi-numa1": "1Gi",
        "hugepages-1gi-numa1": "1Gi",
    }


def test_what_the_kubelet_reserves_on_a_numa_node_is_not_offered_there() -> None:
    reserved = [{"numaNode": 0, "limits": {"memory": "1Gi", "hugepages-2Mi": "512Mi"}}]
    found = sizes(reservedMemory=reserved)
    assert (found["memory-numa0"], found["memory-numa1"]) == ("5Gi", "6Gi")
    assert found["hugepages-2mi-numa0"] == "512Mi"


def test_a_reservation_without_a_place_is_everywhere_in_proportion() -> None:
    found = sizes("2 sockets, 4 cores, 6Gi/2Gi", systemReserved={"memory": "1Gi"})
    assert found == {"memory-numa0": "5376Mi", "memory-numa1": "1792Mi"}


def test_what_is_left_of_a_step_is_not_offered() -> None:
    assert sizes("1 socket, 4 cores, 8Gi", systemReserved={"memory": "1500Ki"}) == {
        "memory-numa0": "8190Mi"
    }


def test_a_numa_node_that_reserves_more_than_it_has_offers_none() -> None:
    reserved = [{"numaNode": 0, "limits": {"memory": "7Gi"}}]
    assert "memory-numa0" not in sizes(reservedMemory=reserved)


def test_a_numa_node_without_cpus_offers_memory_alone() -> None:
    """As of superchips, and of CXL."""
    offer = offer_of("1 socket, 4 cores, 8Gi, cxl 16Gi", NOTHING)
    assert [device.name for device in offer.devices] == [
        "cpu-numa0",
        "memory-numa0",
        "memory-numa1",
    ]
    assert "numakube.dev/socket" not in offer.devices[-1].attributes


def test_a_static_memory_manager_keeps_its_memory() -> None:
    config = KubeletConfiguration(memory_manager_policy="Static")
    offer = offer_of(config=config)
    assert offer.groups
    assert not offer.memory
    assert "set memoryManagerPolicy to None" in offer.refused


def test_memory_is_offered_beside_a_static_cpu_manager() -> None:
    offer = offer_of(config=KubeletConfiguration(cpu_manager_policy="static"))
    assert not offer.groups
    assert offer.memory


def test_where_claims_cannot_have_parts_of_devices_no_memory_is_offered() -> None:
    offer = offer_of(can_share=False)
    assert not offer.memory
    assert "core-0001" in offer.groups


def test_a_device_says_where_it_is_and_how_it_is_claimed() -> None:
    devices = {device.name: to_tree(device) for device in offer_of(SHAPE, NOTHING).devices}
    assert devices["hugepages-2mi-numa1"] == {
        "name": "hugepages-2mi-numa1",
        "allowMultipleAllocations": True,
        "attributes": {
            "numakube.dev/kind": {"string": "hugepages"},
            "numakube.dev/pageSize": {"string": "2m"},
            "numakube.dev/socket": {"int": 1},
            "resource.kubernetes.io/numaNode": {"int": 1},
            "dra.cpu/numaNodeID": {"int": 1},
            "dra.cpu/socketID": {"int": 1},
            "dra.net/numaNode": {"int": 1},
        },
        "capacity": {
            "numakube.dev/hugepages": {
                "value": "1Gi",
                "requestPolicy": {"default": "1Gi", "validRange": {"min": "2Mi", "step": "2Mi"}},
            }
        },
    }
    one_page = devices["hugepages-1gi-numa0"]["capacity"]["numakube.dev/hugepages"]
    assert one_page["requestPolicy"] == {"default": "1Gi", "validValues": ["1Gi"]}


def test_a_claim_has_memory_of_the_numa_node_that_the_scheduler_has_chosen() -> None:
    found = given(
        result("cpu-numa1", "4", request="c0"),
        result("memory-numa1", "4Gi", request="c0-mem"),
        result("hugepages-2mi-numa1", "512Mi", request="c0-huge"),
    )
    assert [(one.cpus, one.mems, one.resource, one.amount) for one in found] == [
        ("4-5,12-13", "", "cpu", 4000),
        ("", "1", "memory", 4 * GIB),
        ("", "1", "hugepages-2Mi", GIB // 2),
    ]


@pytest.mark.parametrize(
    ("memory", "mems"), [("bind", ["", "0"]), ("near", ["", "0"]), ("any", ["", ""])]
)
def test_a_claim_may_say_that_its_memory_comes_from_anywhere(memory: str, mems: list[str]) -> None:
    config = (parameters(memory=memory),)
    found = given(result("cpu-numa0", "2"), result("memory-numa0", "1Gi"), config=config)
    assert [one.mems for one in found] == mems


def test_a_claim_without_memory_may_have_it_near_its_cpus() -> None:
    config = (parameters(memory="near"),)
    (found,) = given(result("cpu-numa1", "2"), config=config)
    assert found.mems == "1"


@pytest.mark.parametrize(
    ("results", "held", "words"),
    [
        ([result("memory-numa0", "7Gi")], 0, "memory-numa0 has 6Gi of 6Gi free, and 7Gi are"),
        ([result("memory-numa0", "3Gi")], 4 * GIB, "memory-numa0 has 2Gi of 6Gi free, and 3Gi"),
        ([result("memory-numa0", "4Gi")] * 2, 0, "memory-numa0 has 2Gi of 6Gi free, and 4Gi are"),
        ([result("hugepages-2mi-numa0", "3Mi")], 0, "3145728 bytes are not a multiple of 2Mi"),
        ([result("memory-numa0", "0")], 0, "0 bytes are not a multiple of 1Mi"),
        ([result("memory-numa0", "-1Gi")], 0, "are not a multiple of 1Mi"),
        ([result("memory-numa0")], 0, "says no numakube.dev/memory"),
        ([result("memory-numa7", "1Gi")], 0, "device memory-numa7 is not offered by this node"),
    ],
)
def test_memory_that_cannot_be_promised_is_refused_with_the_reason(
    results: list[dict[str, Any]], held: int, words: str
) -> None:
    found = assigned(*results, held=held)
    assert isinstance(found, ClaimRefusal)
    assert words in found.why


def test_requests_go_with_others_by_name_or_by_a_word() -> None:
    """A container names one request of a claim, and has what goes with it."""
    results = [
        result("cpu-numa0", "2", request="c0"),
        result("memory-numa0", "1Gi", request="c0-mem"),
        result("memory-numa0", "1Gi", request="other"),
    ]
    named: dict[str, Any] = {"with": ["c0"]}
    found = given(*results, config=(parameters(bundle=True), parameters("other", **named)))
    assert [one.goes_with for one in found] == [(), ("c0",), ("c0",)]
    alone = given(*results)
    assert [one.goes_with for one in alone] == [(), (), ()]
    named = {"with": ["c9"]}
    wrong = assigned(*results, config=(parameters("other", **named),))
    assert wrong == ClaimRefusal("request other: with: the claim has no request c9")


async def test_what_claims_have_of_memory_is_counted_until_they_end(bed: Bed) -> None:
    bed.offer = offer_of(SHAPE, NOTHING)
    driver = bed.driver()
    first, second = [
        await bed.claim(name, result("memory-numa0", "4Gi", request="mem")) for name in "ab"
    ]
    (device,) = (await prepared(driver, first)).devices
    assert device.cdi_devices[0] == f"numakube.dev/claim={first.uid}-mem"
    assert "has 2Gi of 6Gi free" in (await prepared(bed.driver(), second)).error
    assert not await unprepared(driver, first)
    assert not (await prepared(driver, second)).error


async def test_a_container_hears_of_its_cpus_and_its_memory(bed: Bed) -> None:
    bed.offer = offer_of(SHAPE, NOTHING)
    ref = await bed.claim(
        "a",
        result("cpu-numa1", "2", request="c0"),
        result("memory-numa1", "1Gi", request="c0-mem"),
        config=[parameters(bundle=True)],
    )
    devices = (await prepared(bed.driver(), ref)).devices
    assert [device.requests for device in devices] == [("c0",), ("c0-mem", "c0")]
    (file,) = bed.cdi.glob("numakube.dev-claim_*")
    text = file.read_text()
    assert "_c0=cpus:4,12" in text
    assert "_c0_mem=mems:1" in text


def test_devices_of_a_large_machine_fit_into_one_slice() -> None:
    machine = from_shape("2 sockets, 4 numa each, 24 cores, smt 2, 96Gi, hugepages-2Mi 512")
    assert len(offer_of(machine, NOTHING).devices) == 24
