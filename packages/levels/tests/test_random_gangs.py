"""On random clusters: what is placed keeps every promise, and what is refused fits nowhere."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from packages.levels.tests.brute_force import best_cost
from packages.levels.tests.test_level_search import (
    BALANCE,
    BLOCK,
    LEVELS,
    PREFERRED,
    RACK,
    REQUIRED,
    SLICES,
    SMALL,
)

from numakube.insight.how_many_fit import EngineBooks
from numakube.scheduling.gang_placements import GangRequest
from numakube.scheduling.gang_planning import GangPlan, GangPlanner
from numakube.scheduling.plugins.pod_gangs import Gang, gang_of
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod
from numakube_lab.testing import without_election
from numakube_levels.placement_wish import Area, Balance, Slices, Wish

_RUNS = int(os.environ.get("LEVELS_WORLDS", "20"))
"""How many random clusters; a thousand take ten minutes of a core."""
_FREE_CPUS = 7
_CPUS = 3


@dataclass
class Case:
    """A cluster, and what a gang asks of it.

    Attributes:
        takes: pods that each node takes, by block, rack and node.
    """

    rng: random.Random
    takes: dict[tuple[str, str, str], int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    wish: Wish = field(default_factory=lambda: Wish(needed=1, wanted=1))

    def __post_init__(self) -> None:
        """Draw it."""
        rng = self.rng
        for block in "AB"[: rng.randint(1, 2)]:
            for rack in range(rng.randint(1, 3)):
                for number in range(rng.randint(1, 3)):
                    node = f"{block}-{rack}-{number}"
                    used = rng.choice((0, 0, 0, 2, 6))
                    self.held[node] = used
                    self.takes[block, f"r{rack}", node] = (_FREE_CPUS - used) // _CPUS
        self._ask()

    def _ask(self) -> None:
        rng = self.rng
        needed = rng.randint(1, 6)
        more: dict[str, Any] = {}
        kind = rng.choice(("required", "preferred", "slices", "both", "balanced"))
        if kind in {"required", "both"}:
            level = rng.choice((0, 1)) if kind == "required" else 0
            more["required"] = level
            self.annotations[REQUIRED] = ("block", "rack")[level]
        if kind in {"preferred", "both", "balanced"}:
            more["preferred"] = frozenset({0, 1})
            self.annotations[PREFERRED] = "rack"
        if kind == "slices":
            size = rng.randint(1, 3)
            needed = size * rng.randint(1, 2)
            more["slices"] = (Slices(1, size),)
            self.annotations[SLICES] = f"rack={size}"
        if kind == "balanced":
            more["balance"] = Balance.FEWEST
            self.annotations[BALANCE] = "Fewest"
        self.wish = Wish(needed=needed, wanted=needed, **more)

    def whole(self) -> Area:
        """Return the cluster as the oracle sees it."""
        blocks: dict[str, dict[str, int]] = {}
        for (block, rack, _), takes in self.takes.items():
            racks = blocks.setdefault(block, {})
            racks[rack] = racks.get(rack, 0) + takes
        made = tuple(
            Area(0, b, sum(racks.values()), tuple(Area(1, f"{b}/{r}", n) for r, n in racks.items()))
            for b, racks in blocks.items()
        )
        return Area(-1, "", sum(one.takes for one in made), made)

    def planned(self, *, backwards: bool = False) -> tuple[GangPlan, Counter[str], Counter[str]]:
        """Return the plan, pods by rack, and what is left on nodes once it is undone."""
        world = World()
        for block, rack, node in sorted(self.takes, reverse=backwards):
            world.add_node(node, machine=SMALL, labels={BLOCK: block, RACK: rack})
            if self.held[node]:
                world.run(pod(f"held-{node}", str(self.held[node])), node)
        engine = world.scheduler(without_election(TopologyLevels=LEVELS)).engine
        labels = {
            "pod-group.scheduling.sigs.k8s.io/name": "g",
            "pod-group.scheduling.sigs.k8s.io/min-available": str(self.wish.needed),
        }
        pods = [
            PodInfo(pod(f"p{n}", str(_CPUS), labels=labels, annotations=self.annotations))
            for n in range(self.wish.needed)
        ]
        gang = gang_of(pods[0], engine.cluster.objects)
        assert isinstance(gang, Gang)
        planner = GangPlanner(engine, EngineBooks(engine))
        plan = planner.plan(GangRequest(gang, pods, self.wish.needed))
        rack_of = {node: f"{block}/{rack}" for block, rack, node in self.takes}
        racks = Counter(rack_of[chosen.node] for _, chosen in plan.placements)
        if plan.fitting >= self.wish.needed:
            planner.undo(plan)
        left = Counter(
            one.name
            for node in engine.cluster.nodes()
            for one in node.pods.values()
            if not one.name.startswith("held-")
        )
        return plan, racks, left


def cost_of(case: Case, racks: Counter[str]) -> tuple[object, ...]:
    """Return what a placement costs by the oracle's own rule, leftovers aside."""
    blocks = {name.partition("/")[0] for name in racks}
    level = case.wish.required if case.wish.required is not None else -1
    numbers = [*racks.values()]
    if case.wish.slices:
        numbers = [one // case.wish.slices[0].size for one in numbers]
    uneven = max(max(numbers) - min(numbers) - 1, 0) if case.wish.balance else 0
    if not case.wish.preferred and not case.wish.slices:
        return (), (1, 0)
    return (len(blocks),) if level < 0 and case.wish.preferred else (), (len(racks), uneven)


@pytest.mark.parametrize("seed", range(_RUNS))
def test_a_random_gang_is_placed_as_the_oracle_would(seed: int) -> None:
    """Refused only if nothing fits, at the least cost, and without a trace once it is undone."""
    case = Case(random.Random(seed))
    plan, racks, left = case.planned()
    expected = best_cost(case.whole(), case.wish)
    assert (plan.fitting >= case.wish.needed) == (expected is not None)
    assert not left
    if expected is None:
        assert plan.short
        return
    assert cost_of(case, racks) == expected[:2]
    if case.wish.required is not None:
        names = {"/".join(name.split("/")[: case.wish.required + 1]) for name in racks}
        assert len(names) == 1
    for one in case.wish.slices:
        assert all(count % one.size == 0 for count in racks.values())
    _, again, _ = case.planned(backwards=True)
    assert again == racks
