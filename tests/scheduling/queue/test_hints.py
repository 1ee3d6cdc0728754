"""What the profiles say of waiting pods: which events cannot help them."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from msgspec.structs import replace
from tests.scheduling.conftest import MakeNode, MakePod
from tests.strategies.clusters import Scene, node, scene, scenes

from numakube.api.affinity_and_taints import Taint
from numakube.api.nodes import NodeSpec
from numakube.scheduling.cycle import Cycle, Refused
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.framework.nominations import Nominations
from numakube.scheduling.framework.profile import profile_of
from numakube.scheduling.framework.runtime import Runtime
from numakube.scheduling.plugins.default_plugins import default_plugins, default_weights
from numakube.scheduling.queue.queueing_hints import ProfileHints
from numakube.scheduling.snapshot.cluster import Cluster

NAME = "default-scheduler"
FIT = frozenset({"NodeResourcesFit"})


def runtime() -> Runtime:
    """The default profile."""
    return Runtime(profile_of(NAME, default_plugins(), default_weights()))


def hints_of(cluster: Cluster, nominations: Nominations | None = None) -> ProfileHints:
    """Return hints for pods of the default profile."""
    return ProfileHints({NAME: runtime()}, cluster, nominations or Nominations())


def outcome(one: Scene) -> Refused | None:
    """Try the pod of a scene, without memory of earlier attempts."""
    cycle = Cycle(one.cluster, Nominations(), np.random.default_rng(1))
    decision = cycle.decide(one.pod, runtime())
    return decision if isinstance(decision, Refused) else None


def change(one: Scene, rng: Random) -> ClusterEvent | None:
    """Take a pod away, or alter a node; return the event."""
    cluster = one.cluster
    placed = [(uid, info.name) for info in cluster.nodes() for uid in info.pods]
    if placed and rng.random() < 0.6:
        uid, name = rng.choice(placed)
        gone = cluster.remove_pod(uid)
        info = cluster.node(name)
        return ClusterEvent(kind=EventKind.POD_DELETED, node=name, node_info=info, pod=gone)
    before = cluster.nodes_generation
    info = cluster.set_node(node(rng, rng.randrange(len(cluster.row_of))))
    if cluster.nodes_generation == before:
        return None
    return ClusterEvent(kind=EventKind.NODE_UPDATED, node=info.name, node_info=info)


def check(one: Scene) -> bool:
    """Check one scene; tell whether an event was ruled out."""
    refused = outcome(one)
    event = None if refused is None else change(one, Random(one.seed))
    if refused is None or event is None:
        return False
    out = hints_of(one.cluster).rules_out(one.pod, refused.diagnosis.plugins(), event)
    assert not out or outcome(one) is not None
    return out


@given(scenes())
def test_a_pod_for_which_an_event_is_ruled_out_fits_nowhere_still(one: Scene) -> None:
    """To leave it alone changes no decision."""
    check(one)


def test_many_events_are_ruled_out() -> None:
    """The property above does not hold for want of cases."""
    assert sum(check(scene(seed)) for seed in range(300)) > 20


def small(cluster: Cluster, make_node: MakeNode) -> ClusterEvent:
    """A pod went from a node that is too small for large ones."""
    info = cluster.set_node(make_node("n1", 4))
    return ClusterEvent(kind=EventKind.POD_DELETED, node="n1", node_info=info)


def test_a_node_that_is_too_small_helps_nobody(make_node: MakeNode, make_pod: MakePod) -> None:
    """Nor does one that other plugins keep the pod off, no matter which refused it elsewhere."""
    cluster = Cluster()
    event, hints = small(cluster, make_node), hints_of(cluster)
    assert hints.rules_out(make_pod("large", "8"), FIT, event)
    assert not hints.rules_out(make_pod("fits", "2"), FIT, event)
    tainted = NodeSpec(taints=(Taint(key="gpu", value="", effect="NoSchedule"),))
    cluster.set_node(replace(make_node("n1", 4), spec=tainted))
    assert hints.rules_out(make_pod("fits", "2"), FIT | {"TaintToleration"}, event)


def test_a_pod_that_can_evict_others_is_tried(make_node: MakeNode, make_pod: MakePod) -> None:
    """It may gain room on any node."""
    cluster = Cluster()
    event, hints = small(cluster, make_node), hints_of(cluster)
    cluster.place(make_pod("low", priority=-1), "n1")
    assert not hints.rules_out(make_pod("large", "8"), FIT, event)
    polite = make_pod("polite", "8", preemption_policy="Never")
    assert hints.rules_out(polite, FIT, event)


def test_while_room_is_kept_for_others_everybody_is_tried(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    """It may be kept no longer."""
    cluster, nominations = Cluster(), Nominations()
    event = small(cluster, make_node)
    nominations.nominate(make_pod("urgent", priority=9), "n1")
    assert not hints_of(cluster, nominations).rules_out(make_pod("large", "8"), FIT, event)


def test_a_refusal_that_depends_on_other_nodes_is_never_ruled_out(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    """A pod that goes from one node may open a whole zone."""
    cluster = Cluster()
    event = small(cluster, make_node)
    by = FIT | {"PodTopologySpread"}
    assert not hints_of(cluster).rules_out(make_pod("large", "8"), by, event)
