"""Hard spread constraints in the lab, beside the plugin that was checked against kube-scheduler."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.lab.controllers.kit import bench
from tests.lab.controllers.scheduler.test_scheduler import pod, scheduled, why

from numakube.api.core import Node, NodeSpec, ObjectMeta, Pod, PodSpec, Taint
from numakube.api.meta import LabelSelector
from numakube.api.placement import TopologySpreadConstraint
from numakube.kube.catalog import NODES, PODS
from numakube.kube.clock import ManualClock
from numakube.scheduling.plugins.pod_topology_spread.spread_constraints import own_constraints
from numakube.scheduling.plugins.pod_topology_spread.spread_filter import filter_state
from numakube.scheduling.snapshot.cluster import Snapshot
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo
from numakube_lab.controllers.scheduler.pending import LONGEST_PAUSE
from numakube_lab.controllers.scheduler.scheduler import DefaultScheduler
from numakube_lab.controllers.scheduler.spreading import HARD, barred_nodes

WEB = {"app": "web"}
# Mostly what matters, so that most examples are uneven.
LABELS = st.sampled_from([WEB, WEB, {**WEB, "hash": "1"}, {**WEB, "hash": "2"}, {"app": "db"}, {}])
SELECTORS = st.sampled_from([WEB, WEB, WEB, {}, {"app": "db"}])
TAINTS = st.lists(st.just(Taint(key="t", effect="NoSchedule")), max_size=1).map(tuple)


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    """A few nodes in a few zones; some have no zone, some a taint."""
    zones = draw(st.lists(st.sampled_from(["", "a", "b", "c"]), min_size=1, max_size=5))
    return [
        Node(
            metadata=ObjectMeta(
                name=f"n{number}", labels={"host": f"n{number}", **({"zone": zone} if zone else {})}
            ),
            spec=NodeSpec(taints=draw(TAINTS)),
        )
        for number, zone in enumerate(zones)
    ]


CONSTRAINTS = st.builds(
    TopologySpreadConstraint,
    max_skew=st.integers(1, 2),
    topology_key=st.sampled_from(["zone", "host"]),
    when_unsatisfiable=st.sampled_from([HARD, HARD, "ScheduleAnyway"]),
    label_selector=st.one_of(
        st.none(), SELECTORS.map(lambda labels: LabelSelector(match_labels=labels))
    ),
    min_domains=st.sampled_from([None, 2, 4]),
    node_affinity_policy=st.sampled_from([None, "Honor", "Ignore"]),
    node_taints_policy=st.sampled_from([None, "Honor", "Ignore"]),
    match_label_keys=st.sampled_from([(), ("hash",)]),
)


@given(
    nodes=nodes(),
    labels=LABELS,
    constraints=st.lists(CONSTRAINTS, min_size=1, max_size=2).map(tuple),
    selector=st.sampled_from([{}, {"zone": "a"}]),
    others=st.lists(
        st.tuples(
            LABELS,
            st.integers(0, 2),
            st.sampled_from([False, False, False, True]),
            st.sampled_from("ddde"),
        ),
        min_size=2,
        max_size=10,
    ),
)
def test_the_lab_keeps_pods_from_the_same_nodes_as_the_plugin(
    nodes: list[Node],
    labels: dict[str, str],
    constraints: tuple[TopologySpreadConstraint, ...],
    selector: dict[str, str],
    others: list[tuple[dict[str, str], int, bool, str]],
) -> None:
    """And says the same of each."""
    new = Pod(
        metadata=ObjectMeta(name="new", namespace="d", uid="new", labels=labels),
        spec=PodSpec(topology_spread_constraints=constraints, node_selector=selector),
    )
    infos = {one.metadata.name: NodeInfo(one) for one in nodes}
    placed: list[tuple[Pod, str]] = []
    for number, (other, place, going, namespace) in enumerate(others):
        name = nodes[place % len(nodes)].metadata.name
        metadata = ObjectMeta(
            name=f"p{number}",
            namespace=namespace,
            uid=f"p{number}",
            labels=other,
            deletion_timestamp="2026-01-01T00:00:00Z" if going else None,
        )
        one = Pod(metadata=metadata, spec=PodSpec(node_name=name))
        placed.append((one, name))
        infos[name].add_pod(PodInfo(one))
    info = PodInfo(new)
    state = filter_state(info, own_constraints(info, HARD), Snapshot.of(infos.values()))
    expected = {}
    for name, node in infos.items():
        verdicts = [domains.judge(node) for domains in state.domains]
        if reasons := [text for verdict in verdicts for text in verdict.reasons]:
            expected[name] = max(reasons, key=len)
    assert barred_nodes(new, nodes, placed) == expected


async def test_a_pod_waits_for_the_node_that_evens_out_the_spread() -> None:
    """It is told so, and gets its turn when the node is open again."""
    clock = ManualClock()
    spread: dict[str, Any] = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": HARD,
        "labelSelector": {"matchLabels": {"app": "web"}},
    }

    def web(name: str) -> dict[str, Any]:
        document = pod(name, topologySpreadConstraints=[spread])
        document["metadata"]["labels"] = {"app": "web"}
        return document

    async with bench(DefaultScheduler, nodes=("a", "b"), assign="", clock=clock) as lab:
        await lab.change(NODES, "b", {"spec": {"unschedulable": True}})
        await lab.apply(PODS, web("first"))
        await lab.sees(PODS, "first", scheduled)
        await lab.apply(PODS, web("second"))
        waiting = await lab.sees(PODS, "second", lambda one: bool(why(one)))
        assert why(waiting) == (
            "0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, "
            "1 node(s) were unschedulable."
        )
        await lab.change(NODES, "b", {"spec": {"unschedulable": None}})
        while not scheduled(lab.get(PODS, "second")):
            await clock.advance(LONGEST_PAUSE)
        assert lab.get(PODS, "second").spec.node_name == "b"
