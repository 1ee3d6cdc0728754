"""What programs in containers can read about the devices of their claims."""

from __future__ import annotations

import json
from typing import Any

from dra_bed import Bed, offer_of, parameters, prepared, result, unprepared

from numakube.kube.catalog import RESOURCE_CLAIMS
from numakube_dra_driver.assignment import POD_CLAIM
from numakube_dra_driver.devices import Grouping

FOLDER = "plugins/numakube.dev/dra-device-metadata"


def documents(bed: Bed, claim: str, request: str) -> list[dict[str, Any]]:
    """Return what a file says, the newest version first."""
    text = (bed.folder / FOLDER / f"default_{claim}" / request / "metadata.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


async def test_a_request_has_a_file_with_its_devices_and_its_cpus(bed: Bed) -> None:
    ref = await bed.claim(
        "a", result("cpu-numa1", "4", request="c0"), result("memory-numa1", "1Gi", request="mem")
    )
    devices = (await prepared(bed.driver(), ref)).devices
    newest, older = documents(bed, "a", "c0")
    assert newest["apiVersion"] == "metadata.resource.k8s.io/v1beta1"
    assert older == {**newest, "apiVersion": "metadata.resource.k8s.io/v1alpha1"}
    assert newest["kind"] == "DeviceMetadata"
    assert newest["metadata"]["uid"] == ref.uid
    ((device,),) = [request["devices"] for request in newest["requests"]]
    assert (device["driver"], device["name"]) == ("numakube.dev", "cpu-numa1")
    attributes = device["attributes"]
    assert attributes["resource.kubernetes.io/numaNode"] == {"int": 1}
    assert attributes["numakube.dev/cpuset"] == {"string": "4-5,12-13"}
    assert attributes["dra.cpu/allocatedNumCPUs"] == {"int": 4}
    (memory,) = documents(bed, "a", "mem")[0]["requests"]
    assert memory["devices"][0]["attributes"]["numakube.dev/mems"] == {"string": "1"}
    # The runtime finds what mounts it by the names that the kubelet is told.
    file = json.loads((bed.cdi / f"numakube.dev-metadata-{ref.uid}.json").read_text())
    names = [f"{file['kind']}={one['name']}" for one in file["devices"]]
    assert names == [device.cdi_devices[1] for device in devices]
    (mount,) = file["devices"][0]["containerEdits"]["mounts"]
    inside = "/var/run/kubernetes.io/dra-device-attributes"
    assert mount["containerPath"] == f"{inside}/resourceclaims/a/c0/numakube.dev-metadata.json"
    assert mount["options"] == ["ro", "bind"]


async def annotated(bed: Bed, claim: str, pod_claim: str) -> None:
    """Let a claim have what its pod calls it."""
    found = await bed.client.get(RESOURCE_CLAIMS, claim, namespace="default")
    found["metadata"]["annotations"] = {POD_CLAIM: pod_claim}
    await bed.client.update(RESOURCE_CLAIMS, found)


async def test_a_claim_from_a_template_is_found_by_the_name_that_the_pod_has_for_it(
    bed: Bed,
) -> None:
    ref = await bed.claim("a-x7", result("cpu-numa1", "2"))
    await annotated(bed, "a-x7", "numa")
    await prepared(bed.driver(), ref)
    assert documents(bed, "a-x7", "cpus")[0]["podClaimName"] == "numa"
    text = (bed.cdi / f"numakube.dev-metadata-{ref.uid}.json").read_text()
    assert "/resourceclaimtemplates/numa/cpus/" in text


async def test_a_name_that_is_none_makes_no_path(bed: Bed) -> None:
    """Whoever may write claims may write their annotations."""
    ref = await bed.claim("a", result("cpu-numa1", "2"))
    await annotated(bed, "a", "../../etc")
    await prepared(bed.driver(), ref)
    assert ".." not in (bed.cdi / f"numakube.dev-metadata-{ref.uid}.json").read_text()


async def test_a_long_set_of_cpus_has_several_attributes(bed: Bed) -> None:
    """None may have more than 64 bytes."""
    shape = "1 socket, 64 cores, smt 2, numbering adjacent, 64Gi"
    bed.offer = offer_of(shape, grouping=Grouping.MACHINE)
    config = [parameters(cpus={"take": "one-per-core"})]
    ref = await bed.claim("a", result("cpu-machine", "40"), config=config)
    assert not (await prepared(bed.driver(), ref)).error
    ((device,),) = [one["devices"] for one in documents(bed, "a", "cpus")[0]["requests"]]
    texts = [
        value["string"]
        for name, value in device["attributes"].items()
        if name.startswith("numakube.dev/cpuset")
    ]
    assert len(texts) > 1
    assert max(map(len, texts)) <= 64
    assert ",".join(texts) == bed.held()["a"]


async def test_files_go_with_the_claim_and_come_back_with_the_driver(bed: Bed) -> None:
    driver = bed.driver()
    ref = await bed.claim("a", result("cpu-numa1", "2"))
    await prepared(driver, ref)
    path = bed.folder / FOLDER / "default_a" / "cpus" / "metadata.json"
    path.unlink()
    await bed.driver().restore()
    assert path.exists()
    assert await unprepared(driver, ref) == ""
    assert not path.parent.parent.exists()
    assert [*bed.cdi.iterdir()] == []


async def test_files_of_claims_that_nobody_has_are_removed(bed: Bed) -> None:
    stale = bed.folder / FOLDER / "default_gone" / "cpus"
    stale.mkdir(parents=True)
    await bed.driver().sweep(bed.kubelet)
    assert not stale.parent.exists()
