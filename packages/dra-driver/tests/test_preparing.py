"""Claims are prepared once, whatever is called how often, and taken back."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
from dra_bed import Bed, parameters, prepared, result, unprepared

from numakube.errors import KubeletUnavailable, NumakubeError
from numakube.kube.catalog import RESOURCE_CLAIMS
from numakube.node.dra_plugin import ClaimRef, PreparedDevice
from numakube.testing import until
from numakube.version import VERSION
from numakube_dra_driver.ledger import FILE, Disk
from numakube_dra_driver.preparing import ORPHAN_SECONDS, Preparer


async def test_a_claim_gets_cpus_and_the_runtime_can_look_them_up(bed: Bed) -> None:
    ref = await bed.claim("a", result("cpu-numa1", "4", shareID="s"))
    (device,) = (await prepared(bed.driver(), ref)).devices
    assert device == PreparedDevice(
        requests=("cpus",),
        pool="n1/compute",
        device="cpu-numa1",
        cdi_devices=(
            f"numakube.dev/claim={ref.uid}-cpus",
            f"numakube.dev/metadata={ref.uid}_cpus",
        ),
        share="s",
    )
    assert bed.held() == {"a": "4-5,12-13"}
    file = json.loads((bed.cdi / f"numakube.dev-claim_{ref.uid}.json").read_text())
    variable = f"NUMAKUBE_CLAIM_{ref.uid}_cpus".replace("-", "_")
    assert file == {
        "cdiVersion": "0.3.0",
        "kind": "numakube.dev/claim",
        "devices": [
            {
                "name": f"{ref.uid}-cpus",
                "containerEdits": {"env": [f"{variable}=cpus:4-5,12-13"]},
            }
        ],
    }


async def test_a_claim_says_which_cpus_it_has(bed: Bed) -> None:
    """As soon as that can be written; nobody waits for it."""
    share = "3f98e277-4cbd-47ad-9c90-a9587403e430"
    ref = await bed.claim("a", result("cpu-numa1", "4", shareID=share))
    driver = bed.driver()
    telling = asyncio.create_task(driver.tell())
    assert not (await prepared(driver, ref)).error

    async def devices() -> list[Any]:
        claim = await bed.client.get(RESOURCE_CLAIMS, "a", namespace="default")
        return list(claim["status"].get("devices", []))

    (told,) = await until(devices)
    assert (told["shareID"], told["data"]) == (
        share,
        {"cpus": "4-5,12-13", "exclusive": True, "driverVersion": VERSION},
    )
    assert told["conditions"][0]["type"] == "Ready"
    telling.cancel()
    await asyncio.gather(telling, return_exceptions=True)


async def test_a_second_call_gives_the_same(bed: Bed) -> None:
    """Also from another process, after the machine was started again: CDI files are gone then."""
    ref = await bed.claim("a", result("cpu-numa0", "2"))
    first = await prepared(bed.driver(), ref)
    for file in bed.cdi.iterdir():
        file.unlink()
    assert await prepared(bed.driver(), ref) == first
    assert len([*bed.cdi.iterdir()]) == 2


async def test_files_are_there_again_before_anybody_asks(bed: Bed) -> None:
    await prepared(bed.driver(), await bed.claim("a", result("cpu-numa0", "2")))
    files = [*bed.cdi.iterdir()]
    for file in files:
        file.unlink()
    await bed.driver().restore()
    assert len(files) == 2
    assert all(file.exists() for file in files)


async def test_claims_have_different_cpus(bed: Bed) -> None:
    driver = bed.driver()
    for name in "abcd":
        ref = await bed.claim(name, result("cpu-numa0", "2"))
        assert not (await prepared(driver, ref)).error
    assert bed.held() == {"a": "0,8", "b": "1,9", "c": "2,10", "d": "3,11"}


async def test_two_processes_give_nothing_twice(bed: Bed) -> None:
    drivers = bed.driver(), bed.driver()
    for number in range(8):
        ref = await bed.claim(f"c{number}", result(f"cpu-numa{number // 4}", "2"))
        assert (await prepared(drivers[number % 2], ref)).error == (
            "" if number < 7 else "no CPUs would be left for pods without claims; reserve some"
        )
    assert len(set(bed.held().values())) == 7


async def test_one_claim_that_is_refused_does_not_keep_others_back(bed: Bed) -> None:
    good = await bed.claim("good", result("cpu-numa0", "2"))
    bad = await bed.claim("bad", result("cpu-numa9", "2"))
    found = await bed.driver().prepare([bad, good])
    assert "cpu-numa9 is not offered" in found[bad.uid].error
    assert not found[good.uid].error
    assert bed.held() == {"good": "0,8"}


async def test_what_was_taken_back_is_free(bed: Bed) -> None:
    driver = bed.driver()
    a, b = (
        await bed.claim("a", result("cpu-numa0", "8")),
        await bed.claim("b", result("cpu-numa0", "8")),
    )
    await prepared(driver, a)
    assert "has 0 of 8 CPUs free" in (await prepared(driver, b)).error
    assert await unprepared(driver, a) == ""
    assert bed.held() == {}
    assert [*bed.cdi.iterdir()] == []
    assert not (await prepared(driver, b)).error


async def test_a_claim_that_is_not_known_has_nothing(bed: Bed) -> None:
    assert await unprepared(bed.driver(), ClaimRef("default", "never", "u-1")) == ""


async def test_taking_back_needs_no_api_server(bed: Bed) -> None:
    driver = bed.driver()
    ref = await bed.claim("a", result("cpu-numa0", "2"))
    await prepared(driver, ref)
    await bed.client.delete(RESOURCE_CLAIMS, "a", namespace="default")
    assert await unprepared(driver, ref) == ""
    assert bed.held() == {}


@pytest.mark.parametrize("uid", ["../../../etc/passwd", "", "a/b", "a" * 65])
async def test_a_uid_that_is_none_touches_no_file(uid: str, bed: Bed) -> None:
    assert "is not a uid" in await unprepared(bed.driver(), ClaimRef("default", "a", uid))


async def test_a_claim_that_was_replaced_is_refused(bed: Bed) -> None:
    ref = await bed.claim("a", result("cpu-numa0", "2"))
    other = ClaimRef(ref.namespace, ref.name, "another")
    found = await bed.driver().prepare([other])
    assert "was replaced by one with uid" in found["another"].error


async def test_a_claim_that_is_not_there_or_not_allocated_is_refused(bed: Bed) -> None:
    document = {"metadata": {"name": "a", "namespace": "default"}, "spec": {"devices": {}}}
    made = await bed.client.create(RESOURCE_CLAIMS, document)
    ref = ClaimRef("default", "a", made["metadata"]["uid"])
    assert (await prepared(bed.driver(), ref)).error == "claim default/a is not allocated"
    gone = ClaimRef("default", "b", "u")
    assert '"b" not found' in (await prepared(bed.driver(), gone)).error


async def test_the_pool_of_another_node_is_refused(bed: Bed) -> None:
    ref = await bed.claim("a", result("cpu-numa0", "2", pool="n2/compute"))
    assert "pool n2/compute is not this node's" in (await prepared(bed.driver(), ref)).error


async def test_results_of_other_drivers_are_left_to_them(bed: Bed) -> None:
    gpu = {"request": "gpu", "driver": "gpu.example", "pool": "n1", "device": "g0"}
    both = await bed.claim("a", gpu, result("cpu-numa0", "2"))
    assert [device.requests for device in (await prepared(bed.driver(), both)).devices] == [
        ("cpus",)
    ]
    alone = await bed.claim("b", gpu)
    assert "nothing of this driver" in (await prepared(bed.driver(), alone)).error


async def test_another_allocation_of_a_prepared_claim_is_refused(bed: Bed) -> None:
    ref = await bed.claim("a", result("cpu-numa0", "2"))
    driver = bed.driver()
    await prepared(driver, ref)
    claim = await bed.client.get(RESOURCE_CLAIMS, "a", namespace="default")
    results = [result("cpu-numa1", "2")]
    claim["status"]["allocation"] = None
    claim["status"]["reservedFor"] = None
    claim = await bed.client.update(RESOURCE_CLAIMS, claim, subresource="status")
    claim["status"] = {"allocation": {"devices": {"results": results}}}
    await bed.client.update(RESOURCE_CLAIMS, claim, subresource="status")
    assert "prepared with another allocation" in (await prepared(driver, ref)).error
    assert bed.held() == {"a": "0,8"}


async def test_parameters_that_make_no_sense_refuse_the_claim_alone(bed: Bed) -> None:
    bad = await bed.claim("bad", result("cpu-numa0", "2"), config=[parameters(cups={})])
    good = await bed.claim("good", result("cpu-numa0", "2"))
    found = await bed.driver().prepare([bad, good])
    assert "unknown field `cups`" in found[bad.uid].error
    assert not found[good.uid].error


async def test_a_broken_ledger_refuses_everything(bed: Bed) -> None:
    ref = await bed.claim("a", result("cpu-numa0", "2"))
    bed.state.mkdir()
    (bed.state / FILE).write_text("{")
    assert "--forget-state" in (await prepared(bed.driver(), ref)).error
    assert "--forget-state" in await unprepared(bed.driver(), ref)
    with pytest.raises(NumakubeError, match="--forget-state"):
        await bed.driver().restore()


class NoCdi(Disk):
    """Can write the ledger alone."""

    def fill(self, path: Path, text: str, mode: int, *, lasting: bool = True) -> None:
        """Fail for specifications."""
        if "claim_" in path.name:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        super().fill(path, text, mode, lasting=lasting)


async def test_a_claim_without_its_file_is_not_kept(bed: Bed) -> None:
    ref = await bed.claim("a", result("cpu-numa0", "2"))
    assert "Read-only" in (await prepared(bed.driver(NoCdi()), ref)).error
    assert bed.held() == {}


class Confined:
    """Says what the groups would say."""

    def __init__(self) -> None:
        self.trouble = ""
        self.alive: set[str] = set()

    async def settle(self) -> str:
        """Return the trouble."""
        return self.trouble

    def runs(self, uid: str) -> bool:
        """Tell whether the pod is alive."""
        return uid in self.alive


async def test_a_claim_whose_cpus_others_do_not_leave_is_refused(bed: Bed) -> None:
    ref, confined = await bed.claim("a", result("cpu-numa0", "2")), Confined()
    confined.trouble = "there is no group kubepods of pods yet"
    driver = bed.driver(confining=confined)
    assert (await prepared(driver, ref)).error == confined.trouble
    assert bed.held() == {}
    confined.trouble = ""
    assert not (await prepared(driver, ref)).error


async def swept(bed: Bed, driver: Preparer) -> dict[str, str]:
    """Sweep, wait until orphans are old, sweep again; return what is held."""
    await driver.sweep(bed.kubelet)
    await bed.clock.advance(ORPHAN_SECONDS + 1)
    await driver.sweep(bed.kubelet)
    return bed.held()


async def test_a_claim_that_nobody_knows_is_taken_back(bed: Bed) -> None:
    driver = bed.driver()
    await prepared(driver, await bed.claim("a", result("cpu-numa0", "2")))
    await bed.client.delete(RESOURCE_CLAIMS, "a", namespace="default")
    await driver.sweep(bed.kubelet)
    assert bed.held() == {"a": "0,8"}
    assert await swept(bed, driver) == {}


async def test_a_claim_that_somebody_knows_is_kept(bed: Bed) -> None:
    confined = Confined()
    driver = bed.driver(confining=confined)
    for name in ("allocated", "listed", "running"):
        await prepared(driver, await bed.claim(name, result("cpu-numa0", "2")))
    for name in ("listed", "running"):
        await bed.client.delete(RESOURCE_CLAIMS, name, namespace="default")
    bed.kubelet.knows, confined.alive = ["listed"], {"pod-running"}
    assert set(await swept(bed, driver)) == {"allocated", "listed", "running"}
    bed.kubelet.knows, confined.alive = [], set()
    assert set(await swept(bed, driver)) == {"allocated"}


async def test_a_claim_that_comes_to_be_known_again_is_not_taken_back_at_once(bed: Bed) -> None:
    driver = bed.driver()
    await prepared(driver, await bed.claim("a", result("cpu-numa0", "2")))
    await bed.client.delete(RESOURCE_CLAIMS, "a", namespace="default")
    await driver.sweep(bed.kubelet)
    bed.kubelet.knows = ["a"]
    await bed.clock.advance(ORPHAN_SECONDS + 1)
    await driver.sweep(bed.kubelet)
    bed.kubelet.knows = []
    await driver.sweep(bed.kubelet)
    assert bed.held() == {"a": "0,8"}


async def test_nothing_is_taken_back_while_the_kubelet_does_not_answer(bed: Bed) -> None:
    driver = bed.driver()
    await prepared(driver, await bed.claim("a", result("cpu-numa0", "2")))
    await bed.client.delete(RESOURCE_CLAIMS, "a", namespace="default")

    class Silent:
        async def list_pods(self) -> list[object]:
            raise KubeletUnavailable("no kubelet")

    for _ in range(2):
        with pytest.raises(NumakubeError):
            await driver.sweep(Silent())  # type: ignore[arg-type]
        await bed.clock.advance(ORPHAN_SECONDS + 1)
    assert bed.held() == {"a": "0,8"}


async def test_files_of_claims_that_nobody_has_are_removed(bed: Bed) -> None:
    bed.cdi.mkdir()
    stale, other = bed.cdi / "numakube.dev-claim_gone.json", bed.cdi / "vendor.json"
    stale.write_text("{}")
    other.write_text("{}")
    await bed.driver().sweep(bed.kubelet)
    assert [*bed.cdi.iterdir()] == [other]
