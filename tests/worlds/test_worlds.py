"""In worlds drawn from all features everything holds, and defects that are put back are found."""

from __future__ import annotations

import os
from random import Random

import pytest
from tests.worlds.__main__ import commands_of, outcome, rows
from tests.worlds.covering import covered, covering_array, wanted
from tests.worlds.features import FEATURES, Feature
from tests.worlds.play import Play
from tests.worlds.quiet_loop import run
from tests.worlds.virtual_lab import virtual_lab

WORLDS = int(os.environ.get("WORLDS", "32"))
"""How many worlds are played; ``make worlds`` plays any number."""
SEED = int(os.environ.get("WORLDS_SEED", "1"))
_STEP = 23
"""From one world that is played to the next: neighbours in the array have much in common."""


@pytest.mark.parametrize("number", [one * _STEP for one in range(WORLDS)])
def test_everything_holds_in_every_world(number: int) -> None:
    """Whatever meets in it; the failure shows the smallest world in which it does not."""
    found = outcome(number, SEED)
    assert not found.findings, f"{found.script}\n----\n" + "\n".join(map(str, found.findings))
    assert found.pods


def test_a_world_is_the_same_every_time() -> None:
    """Its pods start on the same nodes at the same moments; the machine has no say in it."""
    number = 5 * _STEP
    assert run(_history(number)) == run(_history(number)) != run(_history(number + 1))


async def _history(number: int) -> dict[str, tuple[float, set[str]]]:
    async with virtual_lab(number) as lab:
        play = Play(lab)
        for command in commands_of(number, SEED):
            await play.do(command)
        return {uid: (lab.seen.bound_at[uid], nodes) for uid, nodes in lab.seen.nodes.items()}


def test_every_combination_that_is_wanted_is_in_some_world() -> None:
    """All pairs of values, and all triples of which two change state."""
    met = {one for row in rows(SEED) for one in covered(row)}
    assert wanted(FEATURES) <= met
    for row in rows(SEED):
        assert {name: row[name] in feature.values for name, feature in _by_name().items()} == (
            dict.fromkeys(_by_name(), True)
        )


def test_a_covering_array_is_smaller_than_all_combinations() -> None:
    """And has triples of features that change state."""
    features = [
        Feature("a", ("1", "2", "3")),
        Feature("b", ("1", "2", "3")),
        Feature("c", ("1", "2", "3"), changes=True),
        Feature("d", ("1", "2", "3"), changes=True),
    ]
    array = list(covering_array(features, Random(1)))
    met = {one for row in array for one in covered(row)}
    assert frozenset({("a", "1"), ("c", "2"), ("d", "3")}) in met
    assert len(array) < 60


def _by_name() -> dict[str, Feature]:
    return {feature.name: feature for feature in FEATURES}
