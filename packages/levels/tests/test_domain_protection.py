"""Single pods break no more domains than they must; it is known which are broken, and by whom."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest
from packages.levels.tests.test_level_search import RACK, REQUIRED, SMALL

from numakube.api.meta import OwnerReference
from numakube.insight.how_many_fit import book
from numakube.scheduling.cycle import Chosen, Cycle, Refused
from numakube.scheduling.framework.status import Status
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod
from numakube_lab.testing import without_election
from numakube_levels.domain_protection import DomainProtection
from numakube_levels.domain_report import domain_report
from numakube_levels.domain_states import damages, summary_of

if TYPE_CHECKING:
    from numakube.api.pod import Pod
    from numakube.scheduling.assembly import Engine
    from numakube_levels.domain_states import DomainState, LevelSummary

NODE = "1 socket, 8 cores, smt 1, 16Gi, nvidia.com/gpu 4"
WHOLE_NODE = {"cpu": "6", "memory": "1Gi", "nvidia.com/gpu": "4"}


class Protected:
    """Racks of equal nodes, and a scheduler whose gangs take whole nodes."""

    def __init__(
        self, *racks: int, strength: str = "Prefer", size: int = 0, loose: int = 0
    ) -> None:
        self.world = World()
        for number in range(max(racks)):
            for rack, count in enumerate(racks):
                if number < count:
                    name = f"r{rack:02}-{number:02}"
                    self.world.add_node(name, machine=NODE, labels={RACK: f"r{rack:02}"})
        for number in range(loose):
            self.world.add_node(f"loose-{number}", machine=SMALL)
        args = {
            "level": RACK,
            "strength": strength,
            "shapes": [{"requests": WHOLE_NODE, "count": size or max(racks)}],
        }
        config = without_election(DomainProtection=args)
        self.engine: Engine = self.world.scheduler(config).engine
        self.cycle = Cycle(self.engine.cluster, self.engine.nominations, np.random.default_rng(1))

    def place(self, one: Pod) -> str:
        """Place a pod as the scheduler does; return its node, or why it has none."""
        info = PodInfo(one)
        runtime = self.engine.runtime_for(info.scheduler_name)
        decision = self.cycle.decide(info, runtime)
        if not isinstance(decision, Chosen):
            return decision.why
        status: Status = book(self.engine, runtime, decision.state, info, decision.node)
        assert status.ok
        return decision.node

    @property
    def states(self) -> list[DomainState]:
        """All racks."""
        (runtime,) = self.engine.runtimes.values()
        plugin = runtime.profile.plugins()[DomainProtection.name]
        assert isinstance(plugin, DomainProtection)
        ((_, _, found),) = plugin.states(self.engine.cluster.snapshot())
        return found

    @property
    def summary(self) -> LevelSummary:
        """All racks added up."""
        return summary_of(self.states)


def small(name: str, **more: Any) -> Pod:
    """Return a pod without devices that needs most of a node."""
    return pod(name, "6", "1Gi", **more)


def test_small_pods_stay_in_the_rack_that_is_broken() -> None:
    """Three of them break one rack of four, and the others stay whole."""
    racks = Protected(4, 4, 4)
    assert len({racks.place(small(f"s{n}"))[:3] for n in range(3)}) == 1
    assert racks.summary.by_state == {"whole": 2, "claimed": 0, "full": 0, "broken": 1}
    (broken,) = [one for one in racks.states if one.state == "broken"]
    assert broken.broken_by == ("default/s0", "default/s1", "default/s2")
    assert (broken.takes, broken.could_take) == (1, 4)


def test_without_protection_they_lie_about() -> None:
    racks = Protected(4, 4, 4, strength="Off")
    assert len({racks.place(small(f"s{n}"))[:3] for n in range(3)}) > 1


def test_nodes_in_no_domain_go_first() -> None:
    racks = Protected(4, 4, loose=1)
    assert racks.place(small("s0")) == "loose-0"
    assert racks.summary.by_state["whole"] == 2


def test_room_beyond_whole_gangs_goes_first() -> None:
    """Gangs of three leave a node over in each rack of four: pods there cost nothing."""
    racks = Protected(4, 4, size=3)
    assert {racks.place(small(f"s{n}"))[:3] for n in range(2)} == {"r00", "r01"}
    assert racks.summary.largest == 3


def test_refuse_keeps_whole_racks_for_gangs() -> None:
    """A pod waits rather than break one; a gang's pods and daemons are exempt."""
    racks = Protected(2, 2, strength="Refuse")
    assert "node(s) in whole domains, which are kept for gangs" in racks.place(small("s0"))
    ignoring = small("s1", annotations={"numakube.dev/protection": "Ignore"})
    first = racks.place(ignoring)
    assert first.startswith("r0")
    assert racks.place(small("s2")).startswith(first[:3])


@pytest.mark.parametrize("strength", ["Off", "Prefer"])
def test_refusals_are_remembered_where_nothing_is_refused(strength: str) -> None:
    """A pod that came and went leaves each node as it was, and the filter has no say."""
    racks = Protected(2, 2, strength=strength)
    (runtime,) = racks.engine.runtimes.values()
    assert isinstance(racks.cycle.decide(PodInfo(pod("large", "9")), runtime), Refused)
    racks.engine.cluster.place(PodInfo(small("s0")), "r00-00")
    racks.engine.cluster.remove_pod(PodInfo(small("s0")).uid)
    again = racks.cycle.decide(PodInfo(pod("again", "9")), runtime)
    assert isinstance(again, Refused)
    assert again.remembered


def test_devices_that_no_gang_can_have_are_unreachable() -> None:
    racks = Protected(2, 2)
    racks.place(small("s0"))
    assert (racks.summary.idle, racks.summary.unreachable) == (16, 8)


def test_damage_is_counted_in_whole_gangs() -> None:
    """Of 18 places for gangs of 16, two can go without loss."""
    takes, ids = np.array([18, 16, 5]), np.array([0, 1, 2, -1])
    losses = np.array([1, 1, 1, 1])
    assert damages(takes, ids, losses, 16).tolist() == [0, 16, 0, 0]


def test_the_report_learns_shapes_from_gangs() -> None:
    """Their level, what their pods request, and how many belong together."""
    world = World()
    for number in range(4):
        world.add_node(f"n{number}", machine=NODE, labels={RACK: f"r{number // 2}"})
    labels = {
        "pod-group.scheduling.sigs.k8s.io/name": "g",
        "pod-group.scheduling.sigs.k8s.io/min-available": "2",
    }
    gpus = {"nvidia.com/gpu": "4"}
    for number in range(2):
        member = pod(f"g{number}", "6", labels=labels, annotations={REQUIRED: RACK}, also=gpus)
        world.run(member, f"n{number}")
    (report,) = domain_report(world.facts())
    assert report.shape == "4 nvidia.com/gpu x 2"
    assert [(one.name, one.state) for one in report.domains] == [("r0", "claimed"), ("r1", "whole")]
    assert report.summary == (
        "example.com/rack, gangs of 4 nvidia.com/gpu x 2: 1 whole, 1 claimed, 0 full, 0 broken;"
        " the largest gang is 2; 0 of 8 idle nvidia.com/gpu are unreachable"
    )


@pytest.mark.parametrize(
    ("strength", "size", "whole", "gangs"), [("Prefer", 18, 8, 8), ("Prefer", 16, None, 9)]
)
def test_a_job_without_devices_leaves_racks_for_gangs(
    strength: str, size: int, whole: int | None, gangs: int
) -> None:
    """64 pods on 12 racks of 18 nodes: eight gangs of 18 fit still, or nine of 16."""
    racks = Protected(*[18] * 12, strength=strength, size=size)
    for number in range(64):
        racks.place(small(f"s{number}"))
    assert sum(one.takes // size for one in racks.states) == gangs
    if whole is not None:
        assert racks.summary.by_state["whole"] == whole
        assert racks.summary.unreachable == 288


@pytest.mark.parametrize("seed", range(6))
def test_figures_kept_up_to_date_are_those_of_a_fresh_look(seed: int) -> None:
    """Whatever comes and goes: single pods, daemons, pods of gangs; also how many are whole."""
    rng = random.Random(seed)
    racks = Protected(*(rng.randint(1, 4) for _ in range(4)), size=rng.randint(1, 3))
    (runtime,) = racks.engine.runtimes.values()
    plugin = runtime.profile.plugins()[DomainProtection.name]
    assert isinstance(plugin, DomainProtection)
    cluster = racks.engine.cluster
    labels = {
        "pod-group.scheduling.sigs.k8s.io/name": "g",
        "pod-group.scheduling.sigs.k8s.io/min-available": "1",
    }
    daemon = (OwnerReference(api_version="apps/v1", kind="DaemonSet", name="d", uid="d"),)
    for number in range(25):
        running = [one for node in cluster.nodes() for one in node.pods.values()]
        kind = rng.choice(("single", "gang", "daemon", "gone", "gone"))
        if kind == "gone" and running:
            uid = rng.choice(running).uid
            changes = racks.engine.cache.pod_gone(uid)
            cluster.remove_pod(uid)
            cluster.take(changes, racks.engine.cache)
        elif kind == "gang":
            racks.place(small(f"p{number}", labels=labels, annotations={REQUIRED: RACK}))
        else:
            one = pod(f"p{number}", rng.choice("236"), "1Gi")
            if kind == "daemon":
                meta = msgspec.structs.replace(one.metadata, owner_references=daemon)
                one = msgspec.structs.replace(one, metadata=meta)
            racks.place(one)
        snapshot = cluster.snapshot()
        ((_, _, kept),) = plugin.summaries(snapshot)
        assert kept == racks.summary
