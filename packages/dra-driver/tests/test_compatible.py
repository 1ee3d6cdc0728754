"""In the place of dra-driver-cpu: what its users see, and what its claims had stays theirs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from dra_bed import NODE, Bed, offer_of, prepared, result, unprepared

from numakube.api.codec import to_tree
from numakube.api.kubelet_config import KubeletConfiguration
from numakube.kube.catalog import PODS
from numakube.node.dra_plugin import ClaimRef
from numakube.values.cpuset import CpuSet
from numakube_dra_driver.adopting import adopt, hold
from numakube_dra_driver.devices import DRA_CPU, DRA_CPU_CAPACITY, Grouping
from numakube_dra_driver.identity import COMPATIBLE
from numakube_dra_driver.preparing import ORPHAN_SECONDS, Preparer


def cpus_of(device: str, amount: str | None = "2", *, request: str = "cpus") -> dict[str, Any]:
    """Return a result as dra-driver-cpu is allocated it."""
    found = result(device, amount, request=request, driver=DRA_CPU, pool=NODE)
    if amount is not None:
        found["consumedCapacity"] = {DRA_CPU_CAPACITY: amount}
    return found


def cpuset(text: str, request: str = "cpus", source: str = "FromClaim") -> dict[str, Any]:
    """Return a config that names CPUs."""
    said = {"apiVersion": "v1alpha1", "cpuConfig": {"cpuset": text}}
    opaque = {"driver": DRA_CPU, "parameters": said}
    return {"source": source, "requests": [request], "opaque": opaque}


@pytest.fixture
def driver(bed: Bed) -> Preparer:
    """A driver that stands in for dra-driver-cpu."""
    bed.offer = offer_of(compatible=True)
    return bed.driver(identity=COMPATIBLE)


def names(grouping: Grouping, reserved: str = "") -> dict[str, str]:
    """Return the CPUs of each device."""
    offer = offer_of(compatible=True, grouping=grouping, reserved=CpuSet.parse(reserved))
    return {name: str(CpuSet(group.cpus)) for name, group in offer.groups.items()}


def test_devices_have_its_names() -> None:
    assert names(Grouping.NUMA) == {"cpudevnuma000": "0-3,8-11", "cpudevnuma001": "4-7,12-15"}
    assert names(Grouping.SOCKET, "0") == {
        "cpudevsocket000": "1-3,8-11",
        "cpudevsocket001": "4-7,12-15",
    }
    assert names(Grouping.MACHINE, "0,8") == {"cpudevmachine": "1-7,9-15"}


def test_single_cpus_are_numbered_through_the_cores() -> None:
    """A CPU that is reserved has no number, and so those after it have others."""
    assert list(names(Grouping.CPU).items())[:4] == [
        ("cpudev000", "0"),
        ("cpudev001", "8"),
        ("cpudev002", "1"),
        ("cpudev003", "9"),
    ]
    assert list(names(Grouping.CPU, "0").items())[:3] == [
        ("cpudev000", "1"),
        ("cpudev001", "9"),
        ("cpudev002", "2"),
    ]


def test_a_group_has_its_attributes_and_no_policy() -> None:
    device = to_tree(offer_of(compatible=True).cpu_devices[1])
    assert device == {
        "name": "cpudevnuma001",
        "allowMultipleAllocations": True,
        "attributes": {
            "resource.kubernetes.io/numaNode": {"int": 1},
            "dra.cpu/socketID": {"int": 1},
            "dra.cpu/numCPUs": {"int": 8},
            "dra.cpu/smtEnabled": {"bool": True},
            "dra.cpu/numaNodeID": {"int": 1},
            "dra.net/numaNode": {"int": 1},
        },
        "capacity": {"dra.cpu/cpu": {"value": "8"}},
    }
    (machine,) = offer_of(compatible=True, grouping=Grouping.MACHINE).cpu_devices
    assert sorted(machine.attributes) == ["dra.cpu/numCPUs", "dra.cpu/smtEnabled"]
    socket = offer_of(compatible=True, grouping=Grouping.SOCKET).cpu_devices[0]
    assert sorted(socket.attributes) == [
        "dra.cpu/numCPUs",
        "dra.cpu/smtEnabled",
        "dra.cpu/socketID",
    ]


def test_a_single_cpu_has_its_attributes() -> None:
    shape = "2 sockets, 4 cores, smt 2, uncore 2, 16Gi"
    device = to_tree(offer_of(shape, compatible=True, grouping=Grouping.CPU).cpu_devices[3])
    assert device == {
        "name": "cpudev003",
        "attributes": {
            "dra.cpu/cpuID": {"int": 9},
            "dra.cpu/coreID": {"int": 1},
            "dra.cpu/cacheL3ID": {"int": 0},
            "dra.cpu/socketID": {"int": 0},
            "dra.cpu/coreType": {"string": "standard"},
            "dra.cpu/smtEnabled": {"bool": True},
            "dra.cpu/numaNodeID": {"int": 0},
            "dra.net/numaNode": {"int": 0},
            "resource.kubernetes.io/numaNode": {"int": 0},
        },
    }


@pytest.mark.parametrize(
    ("grouping", "mapping"),
    [
        (Grouping.NUMA, {"capacityKey": "dra.cpu/cpu", "capacityMultiplier": "1"}),
        (Grouping.CPU, {"deviceMultiplier": "1"}),
    ],
)
def test_what_claims_take_is_mapped_to_the_node_only_when_told(
    grouping: Grouping, mapping: dict[str, str]
) -> None:
    silent = offer_of(compatible=True, grouping=grouping).cpu_devices[0]
    assert not silent.node_allocatable_resources
    device = offer_of(compatible=True, grouping=grouping, node_allocatable=True).cpu_devices[0]
    assert to_tree(device)["nodeAllocatableResources"] == {"cpu": {"mapping": mapping}}


def test_each_name_offers_what_is_its_own() -> None:
    offer = offer_of(config=KubeletConfiguration(), compatible=True)
    ours, theirs = offer.of("numakube.dev"), offer.of(DRA_CPU)
    assert [one.name for one in theirs.devices] == ["cpudevnuma000", "cpudevnuma001"]
    assert [one.name for one in ours.devices] == ["memory-numa0", "memory-numa1"]


async def test_a_claim_has_one_device_and_its_variable(bed: Bed, driver: Preparer) -> None:
    """All requests share it, as its users expect."""
    ref = await bed.claim(
        "a", cpus_of("cpudevnuma000", request="x"), cpus_of("cpudevnuma000", request="y")
    )
    first, second = (await prepared(driver, ref)).devices
    assert (first.requests, second.requests) == (("x",), ("y",))
    assert first.cdi_devices[0] == second.cdi_devices[0] == f"dra.k8s.io/cpu=claim-{ref.uid}"
    file = json.loads((bed.cdi / f"dra.k8s.io-cpu_claim-{ref.uid}.json").read_text())
    assert file["kind"] == "dra.k8s.io/cpu"
    assert file["devices"] == [
        {
            "name": f"claim-{ref.uid}",
            "containerEdits": {"env": [f"DRA_CPUSET_{ref.uid}=0-1,8-9"]},
        }
    ]
    assert await unprepared(driver, ref) == ""
    assert bed.held() == {}
    assert [*bed.cdi.iterdir()] == []


async def test_a_claim_names_its_cpus_as_it_does_there(bed: Bed) -> None:
    """As Slurm and other schedulers of CPUs do."""
    bed.offer = offer_of(compatible=True, grouping=Grouping.MACHINE, reserved=CpuSet.parse("0"))
    driver = bed.driver(identity=COMPATIBLE)
    for name, text in (("a", "2-5"), ("b", "6-7,14-15")):
        ref = await bed.claim(name, cpus_of("cpudevmachine", "4"), config=[cpuset(text)])
        assert not (await prepared(driver, ref)).error
        assert bed.held()[name] == text


@pytest.mark.parametrize(
    ("device", "amount", "config", "words"),
    [
        ("cpudevmachine", "2", [], "a claim of cpudevmachine names its CPUs"),
        ("cpudevmachine", "2", [cpuset("1-3")], "cpuset 1-3: 3 CPUs, and 2 are allocated"),
        ("cpudevmachine", "2", [cpuset("0-1")], "cpudevmachine does not offer CPUs 0"),
        ("cpudevmachine", "2", [cpuset("98-99")], "does not offer CPUs 98-99"),
        ("cpudevmachine", "2", [cpuset("14-15")], "CPUs 14-15 belong to others"),
        ("cpudevmachine", "2", [cpuset("1-2")] * 2, "2 configs name its CPUs"),
        ("cpudevmachine", "2", [cpuset("1-2", source="FromClass")], "not by classes"),
        ("cpudevmachine", "2", [cpuset("a-b")], "cpuset 'a-b'"),
        ("cpudevmachine", "2", [cpuset("")], "cpuConfig.cpuset is missing"),
        ("cpudevmachine", "1500m", [cpuset("1-2")], "1500m is not a whole number of CPUs"),
        ("cpudevnuma000", "2", [], "device cpudevnuma000 is not offered"),
    ],
)
async def test_what_cannot_be_is_refused_with_words(
    device: str, amount: str, config: list[dict[str, Any]], words: str, bed: Bed
) -> None:
    bed.offer = offer_of(compatible=True, grouping=Grouping.MACHINE, reserved=CpuSet.parse("0"))
    driver = bed.driver(identity=COMPATIBLE)
    first = await bed.claim("a", cpus_of("cpudevmachine", "2"), config=[cpuset("14-15")])
    assert not (await prepared(driver, first)).error
    ref = await bed.claim("b", cpus_of(device, amount), config=config)
    assert words in (await prepared(driver, ref)).error
    assert bed.held() == {"a": "14-15"}


async def test_an_unknown_version_of_its_config_is_refused(bed: Bed, driver: Preparer) -> None:
    config = cpuset("0-1")
    config["opaque"]["parameters"]["apiVersion"] = "v1beta9"
    ref = await bed.claim("a", cpus_of("cpudevnuma000"), config=[config])
    assert "apiVersion v1beta9 is not known" in (await prepared(driver, ref)).error


async def test_cpus_of_both_names_are_given_once(bed: Bed) -> None:
    """One ledger holds what either gives."""
    own = bed.driver()
    ref = await bed.claim("a", result("cpu-numa0", "4"))
    assert not (await prepared(own, ref)).error
    bed.offer = offer_of(compatible=True)
    other = await bed.claim("b", cpus_of("cpudevnuma000", "4"))
    assert not (await prepared(bed.driver(identity=COMPATIBLE), other)).error
    assert bed.held() == {"a": "0-1,8-9", "b": "2-3,10-11"}


def leave(bed: Bed, ref: ClaimRef, cpus: str) -> None:
    """Leave what dra-driver-cpu leaves of a claim that it has prepared."""
    bed.cdi.mkdir(exist_ok=True)
    edits = {"env": [f"DRA_CPUSET_{ref.uid}={cpus}"]}
    file = {
        "cdiVersion": "0.8.0",
        "kind": "dra.k8s.io/cpu",
        "devices": [{"name": f"claim-{ref.uid}", "containerEdits": edits}],
    }
    (bed.cdi / f"dra.k8s.io-cpu_claim-{ref.uid}.json").write_text(json.dumps(file))


async def run_pod(bed: Bed, name: str) -> None:
    """Have a pod on the node that uses the claim of this name."""
    claims = [{"name": "mine", "resourceClaimName": name}]
    container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "mine"}]}}
    spec = {"nodeName": NODE, "resourceClaims": claims, "containers": [container]}
    await bed.client.create(
        PODS.raw, {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
    )


async def test_claims_of_dra_driver_cpu_keep_their_cpus(bed: Bed, driver: Preparer) -> None:
    """Whatever it has chosen, and whether a container runs or not."""
    ref = await bed.claim("a", cpus_of("cpudevnuma000", "4"), users=("pod-a",))
    await run_pod(bed, "a")
    leave(bed, ref, "1-2,9-10")
    ledger = driver._ledger
    async with ledger.locked():
        hold(ledger, bed.cdi)
    await driver.restore()
    # Nobody else gets them from the first moment on.
    other = await bed.claim("b", cpus_of("cpudevnuma000", "4"))
    assert not (await prepared(driver, other)).error
    assert bed.held()["b"] == "0,3,8,11"
    assert await adopt(bed.client, ledger, bed.offer, NODE) == 0
    (entry,) = [one for one in ledger.claims.values() if one.name == "a"]
    assert (entry.consumers, str(entry.cpu_set)) == (("pod-a",), "1-2,9-10")
    # The kubelet may ask again: for it nothing has changed.
    assert (await prepared(driver, ref)).devices[0].device == "cpudevnuma000"
    assert await unprepared(driver, ref) == ""
    assert sorted(bed.held()) == ["b"]


async def test_a_kubelet_that_asks_first_gets_what_was_left(bed: Bed, driver: Preparer) -> None:
    ref = await bed.claim("a", cpus_of("cpudevnuma001", "2"))
    leave(bed, ref, "7,15")
    async with driver._ledger.locked():
        hold(driver._ledger, bed.cdi)
    assert not (await prepared(driver, ref)).error
    assert bed.held() == {"a": "7,15"}


async def test_what_agrees_with_no_claim_stays_held_while_it_may_run(
    bed: Bed, driver: Preparer
) -> None:
    """Its CPUs may be in use; a claim that nobody knows is given back after a while."""
    odd = await bed.claim("odd", cpus_of("cpudevnuma000", "4"))
    await run_pod(bed, "odd")
    leave(bed, odd, "0,8")
    leave(bed, ClaimRef("default", "gone", "gone-1"), "7,15")
    ledger = driver._ledger
    async with ledger.locked():
        hold(ledger, bed.cdi)
    await adopt(bed.client, ledger, bed.offer, NODE)
    assert "another allocation" in (await prepared(driver, odd)).error
    bed.kubelet.knows = ["odd"]
    await driver.sweep(bed.kubelet)
    await bed.clock.advance(ORPHAN_SECONDS + 1)
    await driver.sweep(bed.kubelet)
    assert bed.held() == {"odd": "0,8"}


ODD = {"devices": [{"containerEdits": {"env": ["A=1"]}}]}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"devices": []}', json.dumps(ODD)])
async def test_a_file_that_makes_no_sense_stops_nothing(
    text: str, bed: Bed, driver: Preparer
) -> None:
    bed.cdi.mkdir()
    (bed.cdi / "dra.k8s.io-cpu_claim-x.json").write_text(text)
    (bed.cdi / "dra.k8s.io-cpu_claim-..json").write_text(text)
    async with driver._ledger.locked():
        hold(driver._ledger, bed.cdi)
    assert bed.held() == {}
