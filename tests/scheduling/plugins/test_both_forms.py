"""Judging all nodes at once gives what judging one after the other gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from tests.strategies.clusters import GPU, ZONE, Scene, scenes

from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import (
    Filter,
    NormalizesScores,
    Plugin,
    PreFilter,
    PreScore,
    Score,
    VectorFilter,
    VectorScore,
)
from numakube.scheduling.framework.status import Status
from numakube.scheduling.plugins.default_plugins import default_plugins
from numakube.scheduling.plugins.node_resources_fit import NodeResourcesFit
from numakube.scheduling.plugins.pod_topology_spread import PodTopologySpread

RESOURCES = [
    {"name": "cpu", "weight": 2},
    {"name": "memory", "weight": 1},
    {"name": GPU, "weight": 5},
]
SHAPE = [
    {"utilization": 0, "score": 0},
    {"utilization": 50, "score": 10},
    {"utilization": 100, "score": 3},
]
OTHERS: list[Plugin] = [
    NodeResourcesFit.from_args(
        {"scoringStrategy": {"type": "MostAllocated", "resources": RESOURCES}}
    ),
    NodeResourcesFit.from_args(
        {
            "scoringStrategy": {
                "type": "RequestedToCapacityRatio",
                "resources": RESOURCES,
                "requestedToCapacityRatio": {"shape": SHAPE},
            }
        }
    ),
    PodTopologySpread.from_args(
        {
            "defaultingType": "List",
            "defaultConstraints": [
                {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"},
                {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"},
            ],
        }
    ),
]
PLUGINS = [*default_plugins(), *OTHERS]
FILTERS = [
    plugin for plugin in PLUGINS if isinstance(plugin, Filter) and isinstance(plugin, VectorFilter)
]
SCORES = [
    plugin for plugin in PLUGINS if isinstance(plugin, Score) and isinstance(plugin, VectorScore)
]


def prepared(plugin: Plugin, scene: Scene) -> CycleState | None:
    """The state after the plugin's pre-filter, unless that refuses or skips."""
    state = CycleState()
    if isinstance(plugin, PreFilter):
        result = plugin.pre_filter(state, scene.pod, scene.cluster.snapshot())
        if not result.status.ok:
            return None
    return state


def in_words(status: Status) -> tuple[object, ...]:
    """What a user sees of a status."""
    return status.code, status.reasons


@pytest.mark.parametrize("plugin", FILTERS, ids=lambda one: one.name)
@settings(max_examples=100)
@given(scene=scenes())
def test_filters_agree(plugin: Plugin, scene: Scene) -> None:
    """Code and reasons of every node are the same."""
    assert isinstance(plugin, Filter)
    assert isinstance(plugin, VectorFilter)
    state, snapshot = prepared(plugin, scene), scene.cluster.snapshot()
    if state is None:
        return
    verdicts = plugin.filter_all(state, scene.pod, snapshot, snapshot.rows)
    for position, row in enumerate(snapshot.rows):
        alone = plugin.filter(state, scene.pod, snapshot.at(int(row)))
        together = Status() if verdicts is None else verdicts.status(position)
        assert in_words(alone) == in_words(together)


@pytest.mark.parametrize("plugin", SCORES, ids=lambda one: one.name)
@settings(max_examples=100)
@given(scene=scenes())
def test_scores_agree(plugin: Plugin, scene: Scene) -> None:
    """The raw score of every node is the same, and normalised ones are within the scale."""
    assert isinstance(plugin, Score)
    assert isinstance(plugin, VectorScore)
    state, snapshot = CycleState(), scene.cluster.snapshot()
    rows = snapshot.rows[:: 1 + len(snapshot.rows) // 4]
    if isinstance(plugin, PreScore) and not plugin.pre_score(state, scene.pod, snapshot, rows).ok:
        return
    together = plugin.score_all(state, scene.pod, snapshot, rows)
    alone = [plugin.score(state, scene.pod, snapshot.at(int(row))) for row in rows]
    assert together.tolist() == alone
    if isinstance(plugin, NormalizesScores):
        together = plugin.normalize(state, scene.pod, together.astype(np.int64))
    assert np.all((together >= 0) & (together <= 100))
