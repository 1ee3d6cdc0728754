"""Nothing is said of no nodes."""

from __future__ import annotations

import pytest

from numakube.api.scheduler_config import numa_configuration
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import VectorFilter, VectorScore
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod


@pytest.mark.parametrize("mode", ["upstream", "native"])
@pytest.mark.parametrize("scope", ["container", "pod"])
def test_a_filter_and_a_score_of_no_nodes_are_empty(mode: str, scope: str) -> None:
    """Other filters may have refused all of them."""
    world = World()
    world.add_node("n0", scope=scope)
    scheduler = world.scheduler(numa_configuration(("numa",), {"mode": mode}))
    plugin = scheduler.runtime.profile.plugins()["NodeResourceTopologyMatch"]
    assert isinstance(plugin, VectorFilter)
    assert isinstance(plugin, VectorScore)
    snapshot, one = scheduler.engine.cluster.snapshot(), PodInfo(pod("p", "2"))
    none = snapshot.rows[:0]
    verdicts = plugin.filter_all(CycleState(), one, snapshot, none)
    assert verdicts is None or len(verdicts.ok) == 0
    assert len(plugin.score_all(CycleState(), one, snapshot, none)) == 0
