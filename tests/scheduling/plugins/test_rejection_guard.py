"""Pods stay away from kubelets that have just rejected pods like them."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from tests.scheduling.conftest import MakeNode, MakePod

from numakube.api.meta import ObjectMeta, OwnerReference
from numakube.api.nrt import Attribute, NodeResourceTopology, Zone, ZoneResource
from numakube.api.pod import PodStatus
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import Code
from numakube.scheduling.numa.caches.passthrough import Passthrough
from numakube.scheduling.plugins.rejection_guard import RejectionGuard
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

OWNER = OwnerReference(
    api_version="apps/v1", kind="ReplicaSet", name="web", uid="rs", controller=True
)


def owned(pod: PodInfo, *, node: str = "", reason: str = "", phase: str = "") -> PodInfo:
    """Return *pod* of a ReplicaSet, on *node*, with a status."""
    meta = msgspec.structs.replace(pod.pod.metadata, owner_references=(OWNER,))
    spec = msgspec.structs.replace(pod.pod.spec, node_name=node)
    status = PodStatus(phase=phase, reason=reason)
    return PodInfo(msgspec.structs.replace(pod.pod, metadata=meta, spec=spec, status=status))


def rejected(make_pod: MakePod, node: str, cpu: str = "1") -> PodInfo:
    """Return a pod that the kubelet of *node* refused."""
    pod = make_pod("failed", cpu)
    return owned(pod, node=node, reason="TopologyAffinityError", phase="Failed")


def judge(guard: RejectionGuard, pod: PodInfo, make_node: MakeNode) -> dict[str, bool]:
    """Return which nodes pass, after making sure that both forms of the filter agree."""
    cluster = Cluster()
    for name in ("n1", "n2"):
        cluster.set_node(make_node(name))
    snapshot = cluster.snapshot()
    verdicts = guard.filter_all(CycleState(), pod, snapshot, snapshot.rows)
    ok = np.ones(2, dtype=np.bool_) if verdicts is None else verdicts.ok
    alone = [guard.filter(CycleState(), pod, node).ok for node in snapshot.nodes()]
    assert list(ok) == alone
    return {node.name: bool(good) for node, good in zip(snapshot.nodes(), ok, strict=True)}


def test_a_node_is_spared_pods_of_the_shape_that_it_rejected(
    make_pod: MakePod, make_node: MakeNode
) -> None:
    """Other nodes and other shapes are not affected."""
    guard = RejectionGuard()
    guard.rejected(rejected(make_pod, "n1"), 100.0)
    same = rejected(make_pod, "")
    assert judge(guard, same, make_node) == {"n1": False, "n2": True}
    assert judge(guard, rejected(make_pod, "", "2"), make_node) == {"n1": True, "n2": True}


def test_the_ban_ends_and_doubles_when_repeated(make_pod: MakePod, make_node: MakeNode) -> None:
    """30 seconds, then 60."""
    guard, like = RejectionGuard(), rejected(make_pod, "")
    guard.rejected(rejected(make_pod, "n1"), 100.0)
    assert guard.next_change() == 130.0
    assert not guard.advance(129.0)
    assert guard.advance(130.0)
    assert judge(guard, like, make_node)["n1"]
    guard.rejected(rejected(make_pod, "n1"), 131.0)
    assert guard.next_change() == 191.0
    assert not judge(guard, like, make_node)["n1"]


def test_each_node_is_free_again_in_its_own_time(make_pod: MakePod) -> None:
    """Pods that wait are told of the first, too."""
    guard = RejectionGuard()
    for node, now in (("n1", 100.0), ("n2", 110.0)):
        guard.rejected(rejected(make_pod, node), now)
    assert [guard.advance(now) for now in (129.0, 130.0, 139.0, 140.0)] == [
        False,
        True,
        False,
        True,
    ]


def test_a_workload_that_is_rejected_everywhere_is_held_back(make_pod: MakePod) -> None:
    """Three rejections in ten minutes make a runaway; its owner is named once."""
    guard = RejectionGuard()
    owners = [guard.rejected(rejected(make_pod, f"n{number}"), 10.0) for number in range(5)]
    assert owners == [None, None, OWNER, None, None]
    assert guard.runaways == 1
    held = guard.pre_enqueue(owned(make_pod("next")))
    assert held.code is Code.PENDING
    assert held.message == "kubelets rejected 5 pods of ReplicaSet web lately"
    assert guard.pre_enqueue(make_pod("other")).ok
    assert guard.advance(10.0 + 60.0)
    assert guard.pre_enqueue(owned(make_pod("next"))).ok


def test_old_rejections_are_forgotten(make_pod: MakePod) -> None:
    """Nothing is kept for ever."""
    guard = RejectionGuard()
    for number in range(3):
        guard.rejected(rejected(make_pod, f"n{number}"), 10.0)
    guard.advance(10_000.0)
    assert guard.next_change() is None
    assert guard.rejected(rejected(make_pod, "n1"), 10_001.0) is None
    assert guard.next_change() == 10_031.0


def report(free: tuple[str, str], policy: str = "restricted") -> NodeResourceTopology:
    """Return a report of n1: the CPUs that its two zones have left."""
    zones = tuple(
        Zone(name=f"node-{number}", type="Node", resources=(cpus(left),))
        for number, left in enumerate(free)
    )
    policy_told = Attribute(name="topologyManagerPolicy", value=policy)
    return NodeResourceTopology(
        metadata=ObjectMeta(name="n1"), zones=zones, attributes=(policy_told,)
    )


def cpus(left: str) -> ZoneResource:
    """Return eight CPUs, some of which are left."""
    return ZoneResource(name="cpu", capacity="8", allocatable="8", available=left)


@pytest.mark.parametrize(
    ("after", "may_pass"),
    [
        (report(("2", "2")), False),
        (report(("1", "2")), False),
        (report(("1", "3")), True),
        (report(("2", "2"), policy="best-effort"), True),
    ],
    ids=["the same", "less room", "more room in a zone", "another policy"],
)
def test_a_report_of_more_room_or_another_configuration_lifts_the_ban(
    make_pod: MakePod, make_node: MakeNode, after: NodeResourceTopology, may_pass: bool
) -> None:
    """What the kubelet said was about another state."""
    guard, cache, cluster = RejectionGuard(), Passthrough(), Cluster()
    cluster.set_node(make_node("n1"))
    cluster.take(cache.set_report(report(("2", "2"))), cache)
    node = cluster.node("n1")
    assert node is not None
    assert node.numa is not None
    guard.rejected(rejected(make_pod, "n1"), 100.0, report=node.numa.topology)
    like = rejected(make_pod, "")
    assert not guard.filter(CycleState(), like, node).ok
    cluster.take(cache.set_report(after), cache)
    snapshot = cluster.snapshot()
    assert guard.filter(CycleState(), like, node).ok is may_pass
    verdicts = guard.filter_all(CycleState(), like, snapshot, snapshot.rows)
    assert (verdicts is None or bool(verdicts.ok[0])) is may_pass
