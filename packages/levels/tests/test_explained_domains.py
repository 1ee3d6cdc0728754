"""An explanation of a gang shows the domains from which it chooses, and what is in the way."""

from __future__ import annotations

from dataclasses import replace

from packages.levels.tests.test_level_search import RACK, SLICES, SMALL

from numakube.insight.explain.workload_explanation import (
    ExplainedWorkload,
    explain_workload,
    render_workload,
)
from numakube.insight.scheduler_engine import engine_of
from numakube.scheduling.plugins.pod_gangs import Gang, gang_of
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod

LABELS = {
    "pod-group.scheduling.sigs.k8s.io/name": "g",
    "pod-group.scheduling.sigs.k8s.io/min-available": "4",
}


def told_of(world: World, cpus: tuple[str, ...], *, reported: bool = True) -> list[str]:
    """Return the explanation of a gang with slices of two, whose pods want so many CPUs each."""
    members = tuple(
        pod(f"g{number}", cpu, labels=LABELS, annotations={SLICES: f"{RACK}=2"})
        for number, cpu in enumerate(cpus)
    )
    gang = gang_of(PodInfo(members[0]), world.objects)
    assert isinstance(gang, Gang)
    workload = ExplainedWorkload(
        kind="PodGroup",
        namespace="default",
        name="g",
        sample=members[0],
        waiting=members,
        gang=gang,
    )
    facts = world.facts() if reported else replace(world.facts(), topologies={})
    return render_workload(explain_workload(facts, engine_of, workload)).splitlines()


def test_domains_are_a_table_with_what_holds_them() -> None:
    """Two slices of two: the second rack has one node left."""
    world = World()
    for number in range(4):
        world.add_node(f"n{number}", machine=SMALL, labels={RACK: f"r{number // 2}"})
    world.run(pod("held", "6"), "n3")
    told = told_of(world, ("6", "6", "6", "6"))
    assert told[1].endswith(
        "The gang needs 4 at a time, so none is bound: 1 of 2 slices of 2 fits at"
        " example.com/rack; the next best domain, r1, takes 1."
    )
    assert told[2:5] == [
        "Domains, and how many of these pods each takes:",
        "  example.com/rack r0: 2 (2 nodes)",
        "  example.com/rack r1: 1 (2 nodes; 1 node takes none: default/held)",
    ]


def test_pods_that_fit_one_by_one_are_not_said_to_fit_as_a_gang() -> None:
    """Slices are of equal pods; without any domain to choose, each would find a place alone."""
    world = World()
    for number in range(4):
        world.add_node(f"n{number}", machine=SMALL, labels={RACK: f"r{number // 2}"})
    assert told_of(world, ("6", "6", "6", "5"))[1] == (
        "One by one 4 of 4 would have a place: 1 on n0, 1 on n1, 1 on n2, 1 on n3. As a gang they"
        " do not fit, so none is bound: its pods are of several kinds: gang-sub-groups says which"
        " have slices."
    )


def test_a_gang_that_is_refused_by_amounts_alone_is_not_called_unknown() -> None:
    """Nodes without a report are judged by their amounts, and its wish cannot be had even so."""
    world = World()
    for number in range(4):
        world.add_node(f"n{number}", machine=SMALL, labels={RACK: f"r{number // 2}"})
    assert told_of(world, ("6", "6", "6", "5"), reported=False)[1].endswith(
        "As a gang they do not fit, so none is bound: its pods are of several kinds:"
        " gang-sub-groups says which have slices."
    )
