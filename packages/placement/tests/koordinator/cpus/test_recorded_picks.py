"""Picks of Koordinator's own code, recorded, against ours."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from packages.placement.tests.strategies.nodes import cpus, layout_of

from numakube.topology.allotments import CpuExclusive
from numakube.values.cpuset import CpuSet
from numakube_placement.koordinator.annotation_values import BindPolicy, Strategy
from numakube_placement.koordinator.cpu_pick import pick

RECORDED = Path(__file__).parents[2] / "vectors" / "koordinator-cpu-picks.txt"
BINDS = {"full": BindPolicy.FULL_PCPUS, "spread": BindPolicy.SPREAD_BY_PCPUS}
STRATEGIES = {"most": Strategy.MOST_ALLOCATED, "least": Strategy.LEAST_ALLOCATED}
EXCLUSIVES = {
    "-": CpuExclusive.NONE,
    "core": CpuExclusive.PCPU_LEVEL,
    "numa": CpuExclusive.NUMA_NODE_LEVEL,
}


class Row(NamedTuple):
    """A recorded pick; fields as the file's head tells."""

    shape: str
    bind: str
    strategy: str
    exclusive: str
    held: str
    free: str
    need: str
    picked: str


def recorded() -> list[Row]:
    """Return all rows."""
    lines = RECORDED.read_text().splitlines()
    return [Row(*line.split()) for line in lines if not line.startswith("#")]


def picked(row: Row) -> str:
    """Return our pick."""
    exclusive = EXCLUSIVES[row.exclusive]
    got = pick(
        layout_of(row.shape),
        free=cpus(row.free),
        count=int(row.need),
        bind=BINDS[row.bind],
        strategy=STRATEGIES[row.strategy],
        exclusive=exclusive,
        held={exclusive: cpus("" if row.held == "-" else row.held)},
    )
    assert got is not None
    return str(CpuSet(got))


# With NUMANodeLevel, Koordinator's last pass avoids the NUMA nodes that the pod itself is on
# already. We do not keep a pod away from itself.
OUR_WAY = {
    Row(*line.split()): ours
    for line, ours in (
        ("2x2x4x2 full most numa - 0,2,4-7,12-14,19,23-27,29 12 4-7,12-13,19,23-27",
         "0,4-7,12-14,24-27"),
        ("2x2x4x2 full most numa - 1-15,17-29,31 19 2-15,18-21,31",
         "1-15,18-21"),
        ("2x4x2x2 full least numa 7 0-6,8-12,14-30 28 0-6,8-11,14-30",
         "0-5,8-12,14-30"),
        ("2x4x2x2 full most numa 8-9,14,21,25 0-7,11-12,16-17,19,22-23,26-27,29 16 "
         "0-7,11,16-17,22-23,26-27,29",
         "0-7,16-17,19,22-23,26-27,29"),
    )
}  # fmt: skip


def test_picks_are_those_that_koordinator_makes() -> None:
    """Four hundred of them, but for a few that make no sense."""
    rows = recorded()
    assert len(rows) == 400
    others = [" ".join(row) for row in rows if row not in OUR_WAY and picked(row) != row.picked]
    assert others == []


@pytest.mark.parametrize(("row", "ours"), OUR_WAY.items())
def test_a_pod_is_not_kept_away_from_itself(row: Row, ours: str) -> None:
    """It stays on NUMA nodes that it is on, rather than to spread over more."""
    assert row in recorded()
    assert picked(row) == ours
