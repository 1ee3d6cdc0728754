"""The score that keeps pods off zones which are fuller than the books say."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from numakube.annexes import Group, load
from numakube.errors import ConfigError
from numakube.insight.scheduler_engine import engine_of
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod
from numakube_measured.measurement import (
    ANNOTATION,
    MeasuredZone,
    Measurement,
    write_measurement,
)
from numakube_measured.score_plugin import MeasuredRoom


def rating(
    first: float | None, second: float | None = 1.0, *, enough: float = 0.2, memory: str = "1Gi"
) -> int:
    """Return the score of a node whose zones have these shares of memory left."""
    world = World()
    world.add_node("node")
    facts = world.facts()
    if first is not None:
        zones = tuple(
            MeasuredZone(id=number, total_mi=1000, available_mi=round(1000 * (share or 0)))
            for number, share in enumerate((first, second))
        )
        report = facts.topologies["node"]
        text = write_measurement(Measurement(zones=zones))
        annotations = {**report.metadata.annotations, ANNOTATION: text}
        metadata = msgspec.structs.replace(report.metadata, annotations=annotations)
        facts = replace(
            facts, topologies={"node": msgspec.structs.replace(report, metadata=metadata)}
        )
    node = engine_of(facts).cluster.node("node")
    assert node is not None
    return MeasuredRoom(enough).score(
        CycleState(), PodInfo(pod("db", cpu="2", memory=memory)), node
    )


@pytest.mark.parametrize(
    ("first", "second", "score"),
    [(1.0, 1.0, 100), (0.2, 0.9, 100), (0.1, 1.0, 75), (0.0, 0.0, 0), (0.0, 1.0, 50)],
)
def test_a_full_zone_costs_its_part_of_the_score(first: float, second: float, score: int) -> None:
    assert rating(first, second) == score


def test_a_node_that_is_not_measured_is_neither_avoided_nor_preferred() -> None:
    assert rating(None) == 50


def test_zones_without_room_by_the_books_do_not_count() -> None:
    """The kubelet will not choose them."""
    assert rating(0.0, 0.0, memory="10000Gi") == 50


def test_what_is_enough_can_be_said() -> None:
    assert rating(0.25, 0.25, enough=0.5) == 50


@pytest.mark.parametrize("enough", [0, -1, 2, "much", True, None])
def test_an_argument_that_makes_no_sense_is_refused(enough: object) -> None:
    with pytest.raises(ConfigError, match="MeasuredRoom"):
        MeasuredRoom.make({"enough": enough}, None)


def test_profiles_find_it_by_its_name() -> None:
    assert load(Group.PLUGINS, "MeasuredRoom")({}, None).name == "MeasuredRoom"
