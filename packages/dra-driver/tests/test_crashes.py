"""A process that dies at any point gives no CPU twice, and loses none."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from dra_bed import Bed, prepared, result, unprepared

from numakube.kube.catalog import RESOURCE_CLAIMS
from numakube.node.dra_plugin import ClaimRef
from numakube.values.cpuset import CpuSet
from numakube_dra_driver.ledger import Disk
from numakube_dra_driver.preparing import ORPHAN_SECONDS

STEPS = 12
"""No call does more to files than this."""
LIVES = 150


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

    def sync(self, folder: Path) -> None:
        """Flush."""
        self.step()
        super().sync(folder)

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


@pytest.mark.parametrize("steps", range(STEPS))
async def test_a_prepare_that_is_cut_short_is_finished_by_the_next_call(
    steps: int, bed: Bed
) -> None:
    first = await bed.claim("a", result("cpu-numa0", "4"))
    second = await bed.claim("b", result("cpu-numa0", "4"))
    try:
        await prepared(bed.driver(Mortal(steps)), first)
        assert steps >= 10
    except Killed:
        assert steps < 10
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
        assert steps >= 6
    except Killed:
        assert steps < 6
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


async def test_many_lives_and_deaths_lose_nothing(bed: Bed) -> None:
    """Claims come and go, the process dies at random, and the kubelet tries again."""
    chance = random.Random(11)
    wanted: dict[str, ClaimRef] = {}
    unwanted: dict[str, ClaimRef] = {}
    for life in range(LIVES):
        driver = bed.driver(Mortal(chance.randrange(2, 22)))
        try:
            await driver.restore()
            for ref in list(unwanted.values()):
                assert await unprepared(driver, ref) == ""
                del unwanted[ref.name]
            for ref in wanted.values():
                assert not (await prepared(driver, ref)).error
            if len(wanted) < 3:
                name = f"c{life}"
                amount = str(chance.choice((2, 4)))
                wanted[name] = await bed.claim(name, result("cpu-numa0", amount))
                if sum(map(len, map(CpuSet.parse, bed.held().values()))) + int(amount) > 8:
                    del wanted[name]
                else:
                    assert not (await prepared(driver, wanted[name])).error
            if wanted and chance.random() < 0.5:
                name = chance.choice(sorted(wanted))
                unwanted[name] = wanted.pop(name)
                assert await unprepared(driver, unwanted[name]) == ""
                del unwanted[name]
        except Killed:
            pass
        none_twice(bed)
    driver = bed.driver()
    for ref in (*wanted.values(), *unwanted.values()):
        assert await unprepared(driver, ref) == ""
    assert bed.held() == {}
