"""A cluster and a pod in it, to be explained, and the list of all such cases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from numakube.insight.explain import Subject, pod_subject
from numakube.insight.facts import ClusterFacts
from numakube.testing import World, pod


@dataclass(frozen=True)
class Case:
    """A cluster and a pod in it."""

    facts: ClusterFacts
    subject: Subject


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    """Register a case under the name of its function."""
    CASES[make.__name__.replace("_", "-")] = make
    return make


def crowded(policy: str, scope: str, *, exact: bool = True) -> Case:
    """Two nodes, each zone half taken; the pod fits on a node, but not as the policy wants."""
    world = World()
    for name in ("node-a", "node-b"):
        world.add_node(name, policy, scope)
        for number in range(2):
            world.run(pod(f"{name}-{number}", cpu="4", memory="6Gi"), name)
    return Case(world.facts(exact=exact), pod_subject(pod("wide", cpu="6", memory="2Gi")))
