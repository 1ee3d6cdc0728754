"""All nodes at once are judged and rated as each alone, on a few nodes that differ on purpose."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from numakube.api.pod import Pod
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.numa.alignment_refusal import (
    AlignmentRefusal,
    AlignmentRefusalGroup,
    Kind,
)
from numakube.scheduling.numa.native.native_engine import NativeEngine
from numakube.scheduling.numa.native.native_options import NativeOptions
from numakube.scheduling.numa.native.pod_wants import wants_of
from numakube.scheduling.numa.native.reference_alignment_score import (
    TypicalPods,
    kept_whole,
    kept_whole_all,
)
from numakube.scheduling.snapshot.cluster import Snapshot
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import GPU, Scheduler, World, kubelet_settings, pod
from numakube.topology.nrt_names import TOPOLOGY_OPTION_PREFIX, option_attribute

POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
TYPICAL = TypicalPods.weighted([({"cpu": 4000, GPU: 1}, 3), ({"cpu": 8000}, 1)])


@cache
def snapshot_of(policy: str, *, closest: bool = False) -> Snapshot:
    """Return machines of several sizes, idle and in use."""
    world = World()
    options = {"prefer-closest-numa-nodes": "true"} if closest else {}
    for number, shape in enumerate(
        (
            "2 sockets, 4 cores, smt 2, 16Gi, gpu 2",
            "2 sockets, 8 cores, smt 1, 32Gi, gpu 1",
            "4 sockets, 4 cores, smt 1, 8Gi, gpu 2",
            "4 sockets, 2 cores, smt 2, 16Gi",
            "2 sockets, 2 numa each, 4 cores, smt 1, 8Gi",
        )
    ):
        for used in ("", "2", "4"):
            settings = kubelet_settings(policy, topology_options=options)
            name = f"n{number}-{used or 'idle'}"
            world.add_node(name, machine=shape, settings=settings)
            if used:
                world.run(pod(f"on-{name}", used), name)
    # Exporters write the options of the Topology Manager.
    written = {option_attribute(TOPOLOGY_OPTION_PREFIX, one): text for one, text in options.items()}
    facts = world.facts(attributes=dict.fromkeys(world.nodes, written))
    return Scheduler.of(facts).engine.cluster.snapshot()


def pods() -> dict[str, Pod]:
    """Return pods that fit everywhere, exactly, nowhere, or need no place at all."""
    wanted: dict[str, dict[str, Any]] = {
        "small": {"cpu": "1"},
        "a zone": {"cpu": "8"},
        "all but one": {"cpu": "15"},
        "exactly what two zones have": {"cpu": "13"},
        "eleven": {"cpu": "11"},
        "six": {"cpu": "6"},
        "five": {"cpu": "5"},
        "seven and some memory": {"cpu": "7", "memory": "9Gi"},
        "huge": {"cpu": "90"},
        "memory of two zones": {"cpu": "1", "memory": "20Gi"},
        "cpus and memory disagree": {"cpu": "10", "memory": "10Gi"},
        "a device": {"cpu": "2", "gpu": 1},
        "devices of two zones": {"cpu": "2", "gpu": 3},
        "devices and cpus disagree": {"cpu": "12", "gpu": 1},
        "burstable": {"cpu": "500m", "guaranteed": False},
        "none of a device": {"cpu": "2", "gpu": 0},
    }
    return {name: pod("p", **more) for name, more in wanted.items()}


@pytest.mark.parametrize("closest", [False, True])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", pods())
def test_verdicts_groups_and_scores_are_those_of_each_node(
    name: str, policy: str, closest: bool
) -> None:
    """Refused for the same reason, and in groups of equal reasons."""
    snapshot, info = snapshot_of(policy, closest=closest), PodInfo(pods()[name])
    engine = NativeEngine()
    rows = snapshot.rows
    together = engine.filter_all(CycleState(), info, snapshot, rows)
    alone = [engine.judge(info, snapshot.at(int(row))) for row in rows]
    refused = np.array([isinstance(one, AlignmentRefusal) for one in alone])
    if together is None:
        assert not refused.any()
        passed = rows
    else:
        assert together.ok.tolist() == (~refused).tolist()
        passed = rows[together.ok]
        groups: dict[object, int] = {}
        for position, one in enumerate(alone):
            if isinstance(one, AlignmentRefusal):
                groups[one.key] = groups.get(one.key, 0) + 1
                detail = together.status(position).detail
                assert isinstance(detail, AlignmentRefusalGroup)
                assert detail.closest.key == one.key
        for position, one in enumerate(alone):
            detail = together.status(position).detail
            if isinstance(one, AlignmentRefusal) and isinstance(detail, AlignmentRefusalGroup):
                assert detail.nodes == groups[one.key]
    for scoring in (engine, NativeEngine(NativeOptions(typical=TYPICAL))):
        if len(passed):
            each = [scoring.score(CycleState(), info, snapshot.at(int(row))) for row in passed]
            assert scoring.score_all(CycleState(), info, snapshot, passed).tolist() == each


def test_a_node_with_exactly_enough_in_all_zones_is_refused_for_its_zones() -> None:
    """Not for having too little."""
    snapshot = snapshot_of("single-numa-node")
    row = snapshot.row_of["n0-idle"]
    info = PodInfo(pod("p", "15"))
    verdicts = NativeEngine().filter_all(CycleState(), info, snapshot, np.array([row]))
    assert verdicts is not None
    detail = verdicts.status(0).detail
    assert isinstance(detail, AlignmentRefusalGroup)
    assert detail.closest.kind is Kind.ALIGN


@pytest.mark.parametrize("wanted", [{"cpu": 4000, GPU: 1}, {"cpu": 8000}, {"cpu": 1000}, {GPU: 2}])
def test_what_a_placement_keeps_whole_is_rated_alike_in_both_forms(wanted: dict[str, int]) -> None:
    """Gains and losses of several sizes."""
    zones = [{"cpu": cpu, GPU: gpu} for cpu in (0, 3000, 8000, 16000) for gpu in (0, 1, 4)]
    reported = {"cpu", GPU}
    each = [kept_whole(zone, wanted, TYPICAL, reported) for zone in zones]
    free = {name: np.array([[float(zone[name]) for zone in zones]]) for name in ("cpu", GPU)}
    together = kept_whole_all(free, [wanted], TYPICAL, reported)
    assert together[0].tolist() == pytest.approx(each)


def test_nothing_of_a_resource_is_not_wanted() -> None:
    """A container may name it all the same."""
    (step,) = wants_of(pod("p", "2", gpu=0)).steps
    assert step.want.devices == ()
    assert [name for name, _ in step.want.parts] == ["cpu", "memory"]
