"""PCI functions of pools, offered to claims and given to one claim at a time."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from dra_bed import PCI_POOL, Bed, function_result, offer_of, prepared, result, unprepared

from numakube.api.codec import to_tree
from numakube.errors import ConfigError
from numakube.kube.catalog import RESOURCE_CLAIMS
from numakube.node.dra_plugin import ClaimRef
from numakube_dra_driver.device_health import device_health
from numakube_dra_driver.dry_run import printed
from numakube_dra_driver.ledger import Ledger, StateError

VF = "pci-0000-10-01-0"
ADDRESS = "0000:10:01.0"


def offered(bed: Bed) -> dict[str, str]:
    """Return what is wrong with each function, by the names of their devices."""
    assert bed.offer.functions is not None
    return {name: one.trouble for name, one in bed.offer.functions.by_name.items()}


def edits(bed: Bed, ref: ClaimRef) -> dict[str, Any]:
    """Return what containers get of a claim, by the requests."""
    tree = json.loads((bed.cdi / f"numakube.dev-claim_{ref.uid}.json").read_text())
    return {
        device["name"].removeprefix(f"{ref.uid}-"): device["containerEdits"]
        for device in tree["devices"]
    } | {"version": tree["cdiVersion"]}


def variables(edit: dict[str, Any]) -> dict[str, str]:
    """Return the variables of a container that tell of its devices."""
    pairs = (text.partition("=") for text in edit["env"])
    return {name: value for name, _, value in pairs if name.startswith("PCIDEVICE")}


def health(bed: Bed) -> dict[str, str]:
    """Return what the kubelet hears of devices that claims have."""
    ledger = bed.ledger()
    ledger.load()
    found = device_health(bed.offer, {}, list(ledger.claims.values()), seconds=0)
    return {one.device: one.trouble for one in found}


def test_functions_are_devices_with_the_attributes_that_all_drivers_use(bed: Bed) -> None:
    pci = bed.use_functions()
    pci.vfs("0000:10:00.0", 0)
    pci.place(ADDRESS, "pci0000:0f", "0000:0f:01.0", "0000:0f:02.0", "0000:0f:03.0")
    pci.vfs("0000:10:00.0", 1)
    pci.rdma(pci.folder(ADDRESS), "mlx5_2", number=2)
    bed.look()
    assert bed.offer.functions is not None
    device = to_tree(bed.offer.functions.by_name[VF].device)
    assert device == {
        "name": VF,
        "attributes": {
            "resource.kubernetes.io/pciBusID": {"string": ADDRESS},
            "resource.kubernetes.io/pcieRoot": {"string": "pci0000:0f"},
            "resource.kubernetes.io/numaNode": {"int": 0},
            "dra.cpu/numaNodeID": {"int": 0},
            "dra.net/numaNode": {"int": 0},
            "numakube.dev/kind": {"string": "pci"},
            "numakube.dev/pool": {"string": "intel.com/nic"},
            "numakube.dev/vendor": {"string": "8086"},
            "numakube.dev/device": {"string": "1889"},
            "numakube.dev/driver": {"string": "iavf"},
            "numakube.dev/pf": {"string": "ens0f0"},
            "numakube.dev/pfAddress": {"string": "0000:10:00.0"},
            "numakube.dev/vf": {"int": 0},
            "numakube.dev/linkType": {"string": "ether"},
            "numakube.dev/rdma": {"bool": True},
            "numakube.dev/switch": {"string": "0000:0f:02.0"},
            "k8s.cni.cncf.io/deviceID": {"string": ADDRESS},
            "k8s.cni.cncf.io/resourceName": {"string": "intel.com/nic"},
        },
    }


def test_a_function_that_is_near_no_numa_node_says_none(bed: Bed) -> None:
    pci = bed.use_functions()
    pci.write(pci.folder(ADDRESS) / "numa_node", "-1")
    bed.look()
    assert bed.offer.functions is not None
    attributes = bed.offer.functions.by_name[VF].device.attributes
    assert not [name for name in attributes if "numa" in name.rpartition("/")[2].lower()]


async def test_a_container_gets_the_files_and_variables_of_its_function(bed: Bed) -> None:
    pci = bed.use_functions({"resourceName": "dpdk", "selectors": {"drivers": ["vfio-pci"]}})
    pci.bind(ADDRESS, "vfio-pci")
    pci.iommu_group(ADDRESS, 17)
    bed.look()
    ref = await bed.claim("a", result("cpu-numa0", "2"), function_result(VF))
    answer = await prepared(bed.driver(), ref)
    assert answer.error == ""
    assert {(one.pool, one.device) for one in answer.devices} >= {(PCI_POOL, VF)}
    found = edits(bed, ref)
    assert found["version"] == "0.5.0"
    paths = [(node["path"], node["hostPath"]) for node in found["vf"]["deviceNodes"]]
    assert paths == [("/dev/vfio/vfio",) * 2, ("/dev/vfio/17",) * 2]
    assert variables(found["vf"])["PCIDEVICE_INTEL_COM_DPDK"] == ADDRESS
    told = json.loads(variables(found["vf"])["PCIDEVICE_INTEL_COM_DPDK_INFO"])
    assert told[ADDRESS]["vfio"] == {"dev-mount": "/dev/vfio/17", "mount": "/dev/vfio/vfio"}
    assert "deviceNodes" not in found["cpus"]
    info = bed.folder / "devinfo" / f"intel.com-dpdk-{ADDRESS}-device.json"
    assert json.loads(info.read_text())["pci"] == {"pci-address": ADDRESS}
    assert await unprepared(bed.driver(), ref) == ""
    assert not info.exists()
    assert bed.held() == {}


async def test_several_functions_of_one_request_are_one_variable(bed: Bed) -> None:
    bed.use_functions()
    ref = await bed.claim("a", function_result(VF), function_result("pci-0000-10-01-1"))
    assert not (await prepared(bed.driver(), ref)).error
    assert (
        variables(edits(bed, ref)["vf"])["PCIDEVICE_INTEL_COM_NIC"] == "0000:10:01.0,0000:10:01.1"
    )


async def test_a_function_is_given_to_one_claim_and_to_one_request(bed: Bed) -> None:
    bed.use_functions()
    first, second = [await bed.claim(name, function_result(VF)) for name in "ab"]
    twice = await bed.claim("c", function_result(VF), function_result(VF, request="other"))
    assert not (await prepared(bed.driver(), first)).error
    assert (await prepared(bed.driver(), second)).error == (
        f"request vf: {VF} ({ADDRESS}) belongs to claim default/a"
    )
    await unprepared(bed.driver(), first)
    assert "another request of this claim" in (await prepared(bed.driver(), twice)).error
    assert not (await prepared(bed.driver(), second)).error


async def test_what_a_device_plugin_offers_is_not_offered_nor_given(bed: Bed) -> None:
    """The plugin came after the scheduler had allocated the function."""
    bed.use_functions()
    ref = await bed.claim("a", result("cpu-numa0", "2"), function_result(VF))
    bed.kubelet.plugins[ADDRESS] = "intel.com/nic"
    why = "is offered by a device plugin as intel.com/nic: a node has the plugin or the DRA driver"
    assert why in (await prepared(bed.driver(), ref)).error
    assert bed.held() == {}
    bed.look()
    assert why in offered(bed)[VF]
    assert offered(bed)["pci-0000-10-01-1"] == ""
    # The plugin goes, but a pod still has what it was given.
    bed.kubelet.plugins.clear()
    bed.kubelet.has[ADDRESS] = "older"
    await bed.functions_known()
    assert "belongs to pod default/older" in (await prepared(bed.driver(), ref)).error
    bed.kubelet.has.clear()
    await bed.functions_known()
    assert not (await prepared(bed.driver(), ref)).error
    # It comes back: what a claim has stays with the claim, unless another pod has it, too.
    bed.kubelet.plugins[ADDRESS] = "intel.com/nic"
    await bed.functions_known()
    assert not (await prepared(bed.driver(), ref)).error
    bed.kubelet.has[ADDRESS] = "other"
    assert "belongs to pod default/other" in (await prepared(bed.driver(), ref)).error


async def test_nothing_is_given_while_it_is_not_known_what_plugins_have(bed: Bed) -> None:
    bed.use_functions()
    bed.kubelet.answers = False
    with_function = await bed.claim("a", function_result(VF))
    without = await bed.claim("b", result("cpu-numa0", "2"))
    assert "the kubelet is away" in (await prepared(bed.driver(), with_function)).error
    assert not (await prepared(bed.driver(), without)).error


async def test_a_function_that_vanishes_is_refused_or_unhealthy_and_given_back(bed: Bed) -> None:
    pci = bed.use_functions()
    held = await bed.claim("a", function_result(VF))
    late = await bed.claim("b", function_result("pci-0000-10-01-1"))
    assert not (await prepared(bed.driver(), held)).error
    pci.remove(ADDRESS)
    pci.remove("0000:10:01.1")
    # Nobody has looked since.
    assert (
        "0000:10:01.1 of pool intel.com/nic is gone" in (await prepared(bed.driver(), late)).error
    )
    assert health(bed) == {VF: ""}
    bed.look()
    assert health(bed) == {VF: f"{ADDRESS} is gone"}
    assert "is gone" in (await prepared(bed.driver(), late)).error
    # Forgotten by the host, and still held.
    await bed.clock.advance(400)
    bed.look()
    assert VF not in offered(bed)
    assert health(bed) == {VF: f"{ADDRESS} is gone, or in no pool any more"}
    assert await unprepared(bed.driver(), held) == ""
    assert health(bed) == {}


async def test_a_function_without_a_link_is_not_given_and_stays_with_who_has_it(bed: Bed) -> None:
    pci = bed.use_functions()
    held = await bed.claim("a", function_result(VF))
    other = await bed.claim("b", function_result("pci-0000-10-01-1"))
    assert not (await prepared(bed.driver(), held)).error
    pci.interface("0000:10:00.0", "ens0f0", operstate="down")
    bed.look()
    assert "has no link" in (await prepared(bed.driver(), other)).error
    assert "has no link" in health(bed)[VF]
    # The kubelet has started again, and asks for everything again.
    assert not (await prepared(bed.driver(), held)).error


async def test_files_that_are_with_the_pod_now_are_remembered(bed: Bed) -> None:
    """RDMA devices go with their interface; a driver that starts again does not see them."""
    pci = bed.use_functions({"resourceName": "rdma", "selectors": {"isRdma": True}})
    pci.rdma(pci.folder(ADDRESS), "mlx5_2", number=2)
    bed.look()
    ref = await bed.claim("a", function_result(VF))
    assert not (await prepared(bed.driver(), ref)).error
    nodes = [node["path"] for node in edits(bed, ref)["vf"]["deviceNodes"]]
    assert "/dev/infiniband/uverbs2" in nodes
    pci.move_interfaces_away(ADDRESS)
    shutil.rmtree(pci.folder(ADDRESS) / "infiniband")
    for path in bed.cdi.glob("*"):
        path.unlink()
    bed.look()
    await bed.driver().restore()
    assert [node["path"] for node in edits(bed, ref)["vf"]["deviceNodes"]] == nodes
    assert not (await prepared(bed.driver(), ref)).error
    assert [node["path"] for node in edits(bed, ref)["vf"]["deviceNodes"]] == nodes


def test_a_configuration_that_makes_no_sense_leaves_the_last_good_one(bed: Bed) -> None:
    bed.use_functions()
    before = offered(bed)
    bed.pools({"resourceName": "a", "deviceType": "nonsense"})
    bed.look()
    assert offered(bed) == before
    assert bed.offer.functions is not None
    assert 'unsupported "nonsense"' in bed.offer.functions.trouble
    bed.pools({"resourceName": "other", "selectors": {}})
    bed.look()
    assert bed.offer.functions.trouble == ""


def test_a_driver_does_not_start_with_a_configuration_that_makes_no_sense(bed: Bed) -> None:
    with pytest.raises(ConfigError, match="unsupported"):
        bed.use_functions({"resourceName": "a", "deviceType": "nonsense"})


def test_what_of_sysfs_is_half_there_is_not_offered_and_keeps_nothing_else_back(bed: Bed) -> None:
    pci = bed.use_functions()
    (pci.folder(ADDRESS) / "modalias").unlink()
    shutil.rmtree(pci.folder("0000:11:01.0"))
    (pci.folder("0000:11:01.0")).mkdir()
    bed.look()
    found = offered(bed)
    assert "has no modalias" in found[VF]
    assert "has no modalias" in found["pci-0000-11-01-0"]
    assert found["pci-0000-10-01-1"] == found["pci-0000-11-01-1"] == ""
    shutil.rmtree(pci.sysfs / "bus")
    bed.look()
    assert bed.offer.functions is not None
    assert "No such file" in bed.offer.functions.trouble
    assert all(offered(bed).values())


async def test_a_ledger_in_which_two_claims_have_a_function_is_refused(bed: Bed) -> None:
    bed.use_functions()
    ref = await bed.claim("a", function_result(VF))
    assert not (await prepared(bed.driver(), ref)).error
    file = bed.state / "state.json"
    tree = json.loads(file.read_text())
    tree["claims"].append({**tree["claims"][0], "uid": "other"})
    file.write_text(json.dumps(tree))
    ledger: Ledger = bed.ledger()
    with pytest.raises(StateError, match=f"{ADDRESS} of claim default/a is another claim's"):
        ledger.load()


async def test_the_claims_status_names_the_function(bed: Bed) -> None:
    bed.use_functions()
    ref = await bed.claim("a", function_result(VF))
    driver = bed.driver()
    assert not (await prepared(driver, ref)).error
    await driver._write_status(next(iter(driver._untold.values())))
    claim = await bed.client.get(RESOURCE_CLAIMS, "a", namespace="default")
    (device,) = claim["status"]["devices"]
    assert device["data"]["deviceID"] == ADDRESS
    assert device["data"]["resourceName"] == "intel.com/nic"


def test_a_dry_run_lists_functions_and_says_which_are_not_offered(bed: Bed) -> None:
    pci = bed.use_functions()
    pci.interface("0000:11:00.0", "ens1f0", operstate="down")
    bed.look()
    lines = printed(bed.offer, "table").splitlines()
    assert f"{VF}  -          intel.com/nic  -     0     no" in lines
    assert any(
        line.startswith("# pci-0000-11-01-0 is not offered: 0000:11:01.0 physical function")
        for line in lines
    )


async def test_a_folder_of_cni_plugins_that_is_gone_keeps_nobody_from_what_he_has(bed: Bed) -> None:
    """As when the pools were taken away, and the folder with them, while a claim has a function."""
    bed.use_functions()
    ref = await bed.claim("a", result("cpu-numa0", "2"), function_result(VF))
    late = await bed.claim("b", function_result("pci-0000-10-01-1"))
    assert not (await prepared(bed.driver(), ref)).error
    shutil.rmtree(bed.folder / "devinfo")
    (bed.folder / "devinfo").write_text("")
    await bed.driver().restore()
    assert "devinfo" in (await prepared(bed.driver(), late)).error
    assert list(bed.held()) == ["a"]
    assert await unprepared(bed.driver(), ref) == ""
    assert bed.held() == {}


async def test_a_driver_without_pools_keeps_and_gives_back_what_claims_have(bed: Bed) -> None:
    bed.use_functions()
    ref = await bed.claim("a", result("cpu-numa0", "2"), function_result(VF))
    assert not (await prepared(bed.driver(), ref)).error
    bed.functions, bed.offer = None, offer_of()
    await bed.driver().restore()
    assert health(bed)[VF] == f"{ADDRESS} is gone, or in no pool any more"
    assert "no pools of PCI functions any more" in (await prepared(bed.driver(), ref)).error
    assert list(bed.held()) == ["a"]
    assert await unprepared(bed.driver(), ref) == ""
    assert bed.held() == {}
