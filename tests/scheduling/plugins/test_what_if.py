"""Taking pods away and adding them in thought gives what a cluster like that would give."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from tests.strategies.clusters import Scene, pod, scenes

from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import Filter, Plugin, PreFilter
from numakube.scheduling.framework.status import Status
from numakube.scheduling.plugins.default_plugins import default_plugins
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

PLUGINS = [plugin for plugin in default_plugins() if isinstance(plugin, Filter)]


def verdicts(plugin: Plugin, state: CycleState, cluster: Cluster, new: PodInfo) -> list[Status]:
    """What the plugin says of every node."""
    assert isinstance(plugin, Filter)
    return [plugin.filter(state, new, node) for node in cluster.nodes()]


def fresh(plugin: Plugin, cluster: Cluster, new: PodInfo) -> CycleState | None:
    """The state of a new cycle, unless the plugin has nothing to do in it."""
    state = CycleState()
    if isinstance(plugin, PreFilter):
        result = plugin.pre_filter(state, new, cluster.snapshot())
        if not result.status.ok:
            return None
    return state


def shown(statuses: list[Status]) -> list[object]:
    """What a user sees of statuses."""
    return [(status.code, status.reasons) for status in statuses]


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda one: one.name)
@settings(max_examples=75)
@given(scene=scenes())
def test_a_pod_taken_away_in_thought_is_as_if_it_were_gone(plugin: Plugin, scene: Scene) -> None:
    """Preemption relies on it; the state it started from stays as it was."""
    cluster, new = scene.cluster, scene.pod
    nodes = [node for node in cluster.nodes() if node.pods]
    state = fresh(plugin, cluster, new)
    if not nodes or state is None:
        return
    before = shown(verdicts(plugin, state, cluster, new))
    node = nodes[0].clone()
    victim = next(iter(node.pods.values()))
    thought = state.clone()
    node.remove_pod(victim.uid)
    if isinstance(plugin, PreFilter):
        plugin.remove_pod(thought, new, victim, node)
    assert isinstance(plugin, Filter)
    imagined = plugin.filter(thought, new, node)
    assert shown(verdicts(plugin, state, cluster, new)) == before

    cluster.remove_pod(victim.uid)
    real_state = fresh(plugin, cluster, new)
    real = Status()
    if real_state is not None:
        real = plugin.filter(real_state, new, nodes[0])
    assert shown([imagined]) == shown([real])


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda one: one.name)
@settings(max_examples=75)
@given(scene=scenes())
def test_a_pod_added_in_thought_is_as_if_it_were_there(plugin: Plugin, scene: Scene) -> None:
    """Pods that are nominated to a node count there before they arrive."""
    cluster, new = scene.cluster, scene.pod
    state = fresh(plugin, cluster, new)
    if state is None:
        return
    other = PodInfo(pod(Random(scene.seed + 1), "nominated"))
    first = next(cluster.nodes())
    node = first.clone()
    node.add_pod(other)
    if isinstance(plugin, PreFilter):
        plugin.add_pod(state, new, other, node)
    assert isinstance(plugin, Filter)
    imagined = plugin.filter(state, new, node)

    cluster.place(other, first.name)
    real_state = fresh(plugin, cluster, new)
    if real_state is not None:
        assert shown([imagined]) == shown([plugin.filter(real_state, new, first)])
