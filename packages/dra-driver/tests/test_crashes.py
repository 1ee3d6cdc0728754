"""A process that dies at any point gives no CPU and no function twice, and loses none."""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from pathlib import Path

import pytest
from dra_bed import Bed, function_result, offer_of, prepared, result, unprepared

from numakube.kube.catalog import RESOURCE_CLAIMS
from numakube.node.dra_plugin import ClaimRef
from numakube.values.cpuset import CpuSet
from numakube_dra_driver.ledger import Disk
from numakube_dra_driver.preparing import ORPHAN_SECONDS, Preparer

STEPS = 12
"""No call does more to files than this."""
LIVES = int(os.environ.get("DRA_LIVES", "60"))
"""``DRA_LIVES=1000`` for the long campaign."""
FUNCTIONS = {node: [f"pci-0000-1{node}-01-{vf}" for vf in "01"] for node in "01"}
"""Virtual functions by NUMA node."""
SEED = int(os.environ.get("DRA_SEED", "11"))


class Killed(BaseException):
    """The process is gone."""


class Mortal(Disk):
    """Ends the process before one of its steps; a step that writes leaves half a file."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self) -> None:
        """Live for one more step."""
        self.left -= 1
        if self.left < 0:
            raise Killed

    def fill(self, path: Path, text: str, mode: int, *, lasting: bool = True) -> None:
        """Write, or half of it."""
        if self.left == 0:
            path.write_text(text[: len(text) // 2])
        self.step()
        super().fill(path, text, mode, lasting=lasting)

    def swap(self, new: Path, path: Path) -> None:
        """Rename."""
        self.step()
        super().swap(new, path)

    def remove(self, path: Path) -> None:
        """Remove."""
        self.step()
        super().remove(path)

    def remove_folder(self, path: Path) -> None:
        """Remove."""
        self.step()
        super().remove_folder(path)


def none_twice(bed: Bed) -> None:
    """Check that every CPU is in one claim at most."""
    counts = Counter(cpu for text in bed.held().values() for cpu in CpuSet.parse(text))
    assert [cpu for cpu, count in counts.items() if count > 1] == []
    ledger = bed.ledger()
    ledger.load()
    ids = [function.id for claim in ledger.claims.values() for function in claim.functions]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("steps", range(STEPS))
async def test_a_prepare_that_is_cut_short_is_finished_by_the_next_call(
    steps: int, bed: Bed
) -> None:
    first = await bed.claim("a", result("cpu-numa0", "4"))
    second = await bed.claim("b", result("cpu-numa0", "4"))
    try:
        await prepared(bed.driver(Mortal(steps)), first)
        assert steps >= 8
    except Killed:
        assert steps < 8
    # Another claim comes before the kubelet tries again.
    assert not (await prepared(bed.driver(), second)).error
    none_twice(bed)
    assert not (await prepared(bed.driver(), first)).error
    none_twice(bed)
    assert sorted(bed.held()) == ["a", "b"]
    assert len([*bed.cdi.glob("numakube.dev-claim_*.json")]) == 2
    assert len([*bed.cdi.glob("numakube.dev-metadata-*.json")]) == 2


@pytest.mark.parametrize("steps", range(STEPS))
async def test_an_unprepare_that_is_cut_short_is_finished_by_the_next_call(
    steps: int, bed: Bed
) -> None:
    ref = await bed.claim("a", result("cpu-numa0", "8"))
    await prepared(bed.driver(), ref)
    try:
        await unprepared(bed.driver(Mortal(steps)), ref)
        assert steps >= 5
    except Killed:
        assert steps < 5
    assert await unprepared(bed.driver(), ref) == ""
    assert bed.held() == {}
    other = await bed.claim("b", result("cpu-numa0", "8"))
    assert not (await prepared(bed.driver(), other)).error


@pytest.mark.parametrize("steps", range(STEPS))
async def test_a_sweep_that_is_cut_short_is_finished_by_the_next_one(steps: int, bed: Bed) -> None:
    await prepared(bed.driver(), await bed.claim("a", result("cpu-numa0", "8")))
    await bed.client.delete(RESOURCE_CLAIMS, "a", namespace="default")
    for disk in (Mortal(steps), Disk()):
        driver = bed.driver(disk)
        await driver.restore()
        try:
            await driver.sweep(bed.kubelet)
            await bed.clock.advance(ORPHAN_SECONDS + 1)
            await driver.sweep(bed.kubelet)
        except Killed:
            none_twice(bed)
    assert bed.held() == {}
    assert [*bed.cdi.glob("*.json")] == []


class Settling:
    """Ends the process before or after the groups of pods are written."""

    def __init__(self, disk: Mortal) -> None:
        self._disk = disk

    async def settle(self) -> str:
        """Write them."""
        self._disk.step()
        self._disk.step()
        return ""

    def runs(self, uid: str) -> bool:
        """Tell of no pod."""
        del uid
        return False


class Campaign:
    """A kubelet and a scheduler that go on whatever happens to the driver.

    Attributes:
        wanted: claims of pods that run or start.
        unwanted: claims of pods that have ended.
        forgotten: claims that went while nobody looked.
    """

    def __init__(self, bed: Bed, chance: random.Random) -> None:
        self.bed = bed
        self.chance = chance
        self.count = 0
        self.wanted: dict[str, ClaimRef] = {}
        self.unwanted: dict[str, ClaimRef] = {}
        self.forgotten: set[str] = set()
        self.sizes: dict[str, tuple[str, int]] = {}
        self.functions: dict[str, str] = {}

    async def live(self, driver: Preparer) -> None:
        """Do what a node does between two deaths of its driver."""
        await driver.restore()
        for ref in list(self.unwanted.values()):
            assert await unprepared(driver, ref) == ""
            self._ended(ref.name)
        # A kubelet that has started again asks for everything again.
        for ref in self.wanted.values():
            assert (await prepared(driver, ref)).error == ""
        for _ in range(self.chance.randrange(4)):
            await self.chance.choice((self._come, self._come, self._go, self._sweep))(driver)

    async def _come(self, driver: Preparer) -> None:
        """Let a scheduler allocate a claim that fits, and a pod start with it."""
        amount, node = self.chance.choice((2, 4)), self.chance.choice("01")
        used = sum(size for place, size in self.sizes.values() if place == node)
        if used + amount > (6 if node == "0" else 8):
            return
        self.count += 1
        name = f"c{self.count}"
        results = [
            result(f"cpu-numa{node}", str(amount)),
            result(f"memory-numa{node}", "3Gi", request="mem"),
        ]
        free = set(FUNCTIONS[node]) - set(self.functions.values())
        if free and self.chance.random() < 0.6:
            self.functions[name] = self.chance.choice(sorted(free))
            results.append(function_result(self.functions[name]))
        self.sizes[name] = node, amount
        self.wanted[name] = await self.bed.claim(name, *results)
        assert (await prepared(driver, self.wanted[name])).error == ""

    async def _go(self, driver: Preparer) -> None:
        """Let a pod end, or go by force: then nobody takes its claim back."""
        if not self.wanted:
            return
        name = self.chance.choice(sorted(self.wanted))
        ref = self.wanted.pop(name)
        if self.chance.random() < 0.3:
            await self.bed.client.delete(RESOURCE_CLAIMS, name, namespace="default")
            self.forgotten.add(name)
            return
        self.unwanted[name] = ref
        assert await unprepared(driver, ref) == ""
        self._ended(name)

    async def _sweep(self, driver: Preparer) -> None:
        """Let so much time pass that what was forgotten is taken back."""
        await driver.sweep(self.bed.kubelet)
        await self.bed.clock.advance(ORPHAN_SECONDS + 1)
        await driver.sweep(self.bed.kubelet)
        for name in self.forgotten:
            del self.sizes[name]
            self.functions.pop(name, None)
        self.forgotten.clear()

    def _ended(self, name: str) -> None:
        del self.unwanted[name], self.sizes[name]
        self.functions.pop(name, None)

    async def finish(self, driver: Preparer) -> None:
        """Check that a driver that lives gets everything right again."""
        for ref in self.unwanted.values():
            assert await unprepared(driver, ref) == ""
        for ref in self.wanted.values():
            assert (await prepared(driver, ref)).error == ""
        await self._sweep(driver)
        assert set(self.bed.held()) == set(self.wanted)
        names = {ref.uid for ref in self.wanted.values()}
        files = {path.name for path in self.bed.cdi.glob("numakube.dev-claim_*.json")}
        assert files == {f"numakube.dev-claim_{uid}.json" for uid in names}
        told = [path.name for path in (self.bed.folder / "devinfo").glob("*.json")]
        assert len(told) == len(self.functions)


async def test_many_lives_and_deaths_give_nothing_twice_and_lose_nothing(bed: Bed) -> None:
    """Claims come and go, the process dies at any step of its calls, and others try again."""
    bed.offer = offer_of(reserved=CpuSet.parse("0,8"))
    bed.use_functions()
    chance = random.Random(SEED)
    campaign = Campaign(bed, chance)
    for _ in range(LIVES):
        disk = Mortal(chance.randrange(2, 60))
        with contextlib.suppress(Killed):
            await campaign.live(bed.driver(disk, Settling(disk)))
        none_twice(bed)
    await campaign.finish(bed.driver())
