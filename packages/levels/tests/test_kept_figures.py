"""Figures of domains that are kept up to date are those of a fresh look, whatever changes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from packages.levels.tests.test_domain_protection import NODE, Protected, small
from packages.levels.tests.test_level_search import RACK, REQUIRED, SMALL

from numakube.api.affinity_and_taints import Taint
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import pod
from numakube_levels.aligned_counts import AlignedCounts, Deciding
from numakube_levels.domain_protection import DomainProtection
from numakube_levels.domain_states import LevelSummary, states_of, summary_of
from numakube_levels.domain_tree import domains_in

if TYPE_CHECKING:
    from numakube.api.nodes import Node

GANG = "pod-group.scheduling.sigs.k8s.io/name"
LABELS = {GANG: "g", "pod-group.scheduling.sigs.k8s.io/min-available": "1"}
MACHINES = (SMALL, NODE, NODE.replace("gpu 4", "gpu 8"), NODE.replace("1 socket", "2 sockets"))
CHANGES = ("label", "cordon", "taint", "delete", "give_back", "unreport", "report", "rebuild")


class Changing(Protected):
    """Racks of which nodes, labels, reports and machines change, and pods come and go."""

    def __init__(self, rng: random.Random, count: int, size: int) -> None:
        super().__init__(count, count, count, size=size, loose=1)
        self.rng = rng
        (self.runtime,) = self.engine.runtimes.values()

    def change(self, number: int) -> str:
        """Let something happen; return what."""
        # In an order that does not depend on what was rebuilt.
        name, rng = self.rng.choice(sorted(self.world.nodes)), self.rng
        doing = rng.choice((*CHANGES, "single", "single", "gang", "gone", "gone"))
        if doing == "single":
            self.place(pod(f"p{number}", rng.choice("236"), "1Gi"))
        elif doing == "gang":
            self.place(small(f"p{number}", labels=LABELS, annotations={REQUIRED: RACK}))
        elif doing == "gone":
            self.end_one()
        else:
            getattr(self, doing)(name)
        return f"{doing} {name}"

    def put(self, node: Node) -> None:
        """Write a node; one that is deleted stays so."""
        self.world.nodes[node.metadata.name] = node
        if self.engine.cluster.node(node.metadata.name) is not None:
            self.engine.cluster.set_node(node)

    def spec(self, name: str, **fields: Any) -> None:
        """Write fields of a node's spec."""
        node = self.world.nodes[name]
        self.put(msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, **fields)))

    def label(self, name: str) -> None:
        """Put a node into another rack, or none."""
        node, rack = self.world.nodes[name], self.rng.choice(("r00", "r01", "r02", "new", ""))
        others = {key: value for key, value in node.metadata.labels.items() if key != RACK}
        labels = others | ({RACK: rack} if rack else {})
        meta = msgspec.structs.replace(node.metadata, labels=labels)
        self.put(msgspec.structs.replace(node, metadata=meta))

    def cordon(self, name: str) -> None:
        """Cordon a node, or open it again."""
        self.spec(name, unschedulable=not self.world.nodes[name].spec.unschedulable)

    def taint(self, name: str) -> None:
        """Taint a node, or take its taint away."""
        has_some = self.world.nodes[name].spec.taints
        self.spec(name, taints=() if has_some else (Taint(key="x", effect="NoSchedule"),))

    def delete(self, name: str) -> None:
        """Delete a node; its pods wait for its return."""
        self.engine.cluster.remove_node(name)

    def give_back(self, name: str) -> None:
        """Create a node again."""
        self.engine.cluster.set_node(self.world.nodes[name])

    def unreport(self, name: str) -> None:
        """Delete the report of a node."""
        self.engine.cluster.take(self.engine.cache.remove_report(name), self.engine.cache)

    def report(self, name: str) -> None:
        """Report a node as it is."""
        changes = self.engine.cache.set_report(self.world.report(name))
        self.engine.cluster.take(changes, self.engine.cache)

    def rebuild(self, name: str) -> None:
        """Let a node have another machine, or another policy."""
        labels = self.world.nodes[name].metadata.labels
        del self.world.nodes[name], self.world.kubelets[name]
        policy = self.rng.choice(("none", "restricted", "single-numa-node"))
        self.world.add_node(name, policy, machine=self.rng.choice(MACHINES), labels=labels)
        self.put(self.world.nodes[name])
        self.report(name)

    def end_one(self) -> None:
        """Let one of the pods go."""
        there = [one.uid for node in self.engine.cluster.nodes() for one in node.pods.values()]
        if there:
            uid = self.rng.choice(there)
            changes = self.engine.cache.pod_gone(uid)
            self.engine.cluster.remove_pod(uid)
            self.engine.cluster.take(changes, self.engine.cache)

    @property
    def plugin(self) -> DomainProtection:
        """What keeps the figures."""
        found = self.runtime.profile.plugins()[DomainProtection.name]
        assert isinstance(found, DomainProtection)
        return found

    @property
    def kept(self) -> LevelSummary:
        """What is kept."""
        ((_, _, found),) = self.plugin.summaries(self.engine.cluster.snapshot())
        return found

    @property
    def fresh(self) -> LevelSummary:
        """What somebody sees who has never looked before."""
        snapshot = self.engine.cluster.snapshot()
        protected = self.plugin.protected(snapshot)
        assert protected is not None
        tree, level, (shape,) = protected
        deciding = Deciding(self.engine.cluster, self.engine.nominations, self.runtime)
        domains = domains_in(snapshot, tree)
        return summary_of(
            states_of(domains, level, shape, (deciding, AlignedCounts()), asks_for_levels)
        )


def asks_for_levels(one: PodInfo) -> bool:
    """Tell whether a pod is of the gang."""
    return GANG in one.pod.metadata.labels


@pytest.mark.parametrize("seed", range(8))
def test_kept_figures_are_those_of_a_fresh_look(seed: int) -> None:
    """Labels, taints, nodes, reports and machines change, and pods come and go."""
    rng = random.Random(seed)
    racks, done = Changing(rng, 2, rng.randint(1, 3)), list[str]()
    for number in range(40):
        done.append(racks.change(number))
        assert racks.kept == racks.fresh, done


def test_a_node_that_is_drained_closes_no_other() -> None:
    """What a cordoned node takes is no measure for empty ones like it."""
    racks = Changing(random.Random(0), 2, 2)
    racks.cordon("r00-00")
    racks.engine.cluster.place(one := PodInfo(small("a")), "r00-00")
    racks.engine.cluster.place(other := PodInfo(small("b")), "r01-00")
    assert racks.kept.by_state["whole"] == 2
    racks.engine.cluster.remove_pod(one.uid)
    assert racks.kept == racks.fresh
    racks.engine.cluster.remove_pod(other.uid)

    assert racks.kept == racks.fresh
    assert racks.kept.by_state["whole"] == 3
