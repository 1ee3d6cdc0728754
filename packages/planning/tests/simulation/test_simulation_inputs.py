"""Clusters and workloads that simulations are made of."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import msgspec
import pytest

from numakube.api.affinity_and_taints import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
)
from numakube.api.meta import OwnerReference
from numakube.api.pod import PersistentVolumeClaimVolumeSource, Volume
from numakube.apps.cluster_file import collected_of
from numakube.errors import ConfigError, MalformedObject
from numakube.insight.facts import facts_of
from numakube.insight.node_setup import nodes_of_kinds
from numakube.kubelet.admission_outcome import Rejected
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod
from numakube.testing.pods import running
from numakube.topology.model_report import report_of, zones_of
from numakube.topology.topology_view import NodeTopology, view_of
from numakube_planning.simulation.compared_schedulers import scheduler_arm
from numakube_planning.simulation.run_measures import estimate
from numakube_planning.simulation.simulated_cluster import (
    Changes,
    changed,
    cluster_of,
    kubelet_words,
    waiting_in,
)
from numakube_planning.simulation.simulator import simulate
from numakube_planning.simulation.virtual_node import NodeFactory
from numakube_planning.simulation.workload import (
    Arrival,
    ArrivingWork,
    OwnerKind,
    check_simulated,
    workload_of_mix,
)


def test_kinds_of_nodes_become_nodes_with_names_and_settings() -> None:
    """A count, a shape and words make nodes; those that are alike share a machine."""
    nodes = nodes_of_kinds(
        ["2x 2 sockets, 4 cores, 16Gi, gpu 2; policy=restricted,scope=pod", "dgx-h100"]
    )
    assert [node.name for node in nodes] == ["a-000", "a-001", "b-000"]
    assert nodes[0].machine is nodes[1].machine
    assert nodes[0].config.topology_manager_policy == "restricted"
    assert nodes[0].config.topology_manager_scope == "pod"
    assert nodes[2].config.topology_manager_policy == "single-numa-node"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("0x 4 cores, 8Gi", "0 nodes; there may be 1 to 100000"),
        ("2x 4 cores", "memory"),
        ("2x 4 cores, 8Gi; policy=best", "best"),
        ("2x 4 cores, 8Gi; colour=red", "'colour' is unknown"),
    ],
)
def test_a_kind_that_cannot_be_read_is_named(kind: str, message: str) -> None:
    """The message has the kind and what is wrong with it."""
    with pytest.raises(ConfigError, match=message):
        list(map(NodeFactory({}).make, nodes_of_kinds([kind])))


MIX: dict[str, Any] = {
    "workloads": [
        {
            "name": "train",
            "kind": "Job",
            "count": 50,
            "arrivals": {"poisson": 3600},
            "pods": 2,
            "together": True,
            "lifetime": {"lognormal": "1m", "sigma": 1},
            "requests": {"cpu": {4: 3, 8: 1}, "memory": "8Gi"},
        },
        {
            "name": "web",
            "count": 3,
            "arrivals": {"at": "10s", "every": "30s"},
            "lifetime": {"uniform": ["1m", "2m"]},
            "requests": {"cpu": 1, "memory": "1Gi"},
            "priority": 5,
        },
    ]
}


def test_a_mix_is_drawn_the_same_way_for_the_same_seed() -> None:
    """Arrivals, sizes and life times follow the mix, and the seed alone."""
    first, again, other = (workload_of_mix(MIX, "mix.yaml", seed) for seed in (1, 1, 2))
    assert first == again != other
    assert [arrival.at for arrival in first.arrivals] == sorted(
        arrival.at for arrival in first.arrivals
    )
    web = [arrival for arrival in first.arrivals if arrival.pod.metadata.name == "web"]
    assert [arrival.at for arrival in web] == [10.0, 40.0, 70.0]
    assert all(60 <= (arrival.seconds or 0) <= 120 for arrival in web)
    assert {arrival.pod.spec.priority for arrival in web} == {5}
    jobs = [arrival for arrival in first.arrivals if arrival.owner is OwnerKind.JOB]
    sizes = Counter(PodInfo(job.pod).requests["cpu"] // 1000 for job in jobs)
    assert sizes.keys() == {4, 8}
    assert sizes[4] > sizes[8]
    assert {PodInfo(job.pod).qos_class for job in jobs} == {"Guaranteed"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": 0}, r"mix.yaml: workloads\[0\] \(x\).count: must be at least 1"),
        ({"requests": {"cpu": "many"}}, r"workloads\[0\] \(x\).requests.cpu: "),
        ({"requests": {"cpu": {2: -1}}}, r"requests.cpu: is neither a value nor a map"),
        ({"lifetime": "soon"}, r"workloads\[0\] \(x\).lifetime: "),
        ({"lifetime": {"uniform": "1m"}}, r"lifetime.uniform: is not like \[10m, 2h\]"),
        ({"arrivals": {"poisson": "often"}}, r"arrivals.poisson: 'often' is no number"),
        ({"arrivals": {"hourly": 1}}, r"arrivals.hourly: there are at, every and poisson"),
        ({"size": 3}, r"size"),
        ({"kind": "DaemonSet"}, r"DaemonSet"),
        ({"requests": {}}, r"requests: is required"),
    ],
)
def test_a_mix_that_cannot_be_read_is_named_with_its_field(
    change: dict[str, Any], message: str
) -> None:
    """The message has the file, the entry and the field."""
    entry = {"name": "x", "requests": {"cpu": 1}, **change}
    with pytest.raises(MalformedObject, match=message):
        workload_of_mix({"workloads": [entry]}, "mix.yaml", 1)


def _busy_world(seed: int) -> World:
    """Return a cluster of two nodes with gaps that pods have left."""
    dice, world = Random(seed), World()
    for name in ("node-0", "node-1"):
        kubelet = world.add_node(name)
        for number in range(12):
            one = pod(f"{name}-{number}", cpu=str(dice.randint(1, 4)), gpu=dice.randint(0, 1))
            if not isinstance(kubelet.admit(one), Rejected):
                world.pods.append(running(one, name))
            if world.pods and dice.random() < 0.4:
                gone = dice.choice(world.pods)
                world.pods.remove(gone)
                world.kubelets[gone.spec.node_name].remove(gone.metadata.uid)
    return world


@pytest.mark.parametrize("seed", range(5))
def test_a_cluster_that_is_simulated_from_its_facts_ends_where_it_is(seed: int) -> None:
    """Every pod keeps its node and what it holds there, and nothing is rejected."""
    world = _busy_world(seed)
    facts = world.facts()
    cluster = cluster_of(facts, "bundle")
    result = simulate(cluster, ArrivingWork(arrivals=()), scheduler_arm("numakube"))
    assert result.rejections == {}
    assert result.pods_by_node == tuple(len(facts.pods_on(name)) for name in sorted(facts.nodes))
    for node in cluster.nodes:
        made = NodeFactory({}).make(node)
        for one in cluster.running:
            if one.node == node.name:
                assert made.resume(PodInfo(one.pod)) is None
        view = view_of(facts.topologies[node.name])
        assert isinstance(view, NodeTopology)
        assert view.report is not None
        assert dict(report_of(made.kubelet).pods) == dict(view.report.pods)
        assert zones_of(made.kubelet) == zones_of(world.kubelets[node.name])


def _dump(world: World, *, reports: bool = True) -> list[dict[str, Any]]:
    facts = world.facts()
    topologies = facts.topologies.values() if reports else ()
    kinds = {"Node": facts.nodes.values(), "Pod": facts.pods, "NodeResourceTopology": topologies}
    return [
        {**msgspec.to_builtins(wire), "kind": kind}
        for kind, found in kinds.items()
        for wire in found
    ]


def test_a_dump_has_what_runs_and_what_waits() -> None:
    """What kubectl prints of nodes, pods and reports is a cluster and a workload."""
    world = _busy_world(1)
    world.pods.append(pod("waits", cpu="2"))
    facts = facts_of(collected_of(_dump(world), "cluster.yaml"))
    cluster = cluster_of(facts, "cluster.yaml")
    assert [node.name for node in cluster.nodes] == ["node-0", "node-1"]
    assert cluster.nodes[0].machine is cluster.nodes[1].machine
    assert len(cluster.running) == len(world.pods) - 1
    assert [arrival.pod.metadata.name for arrival in waiting_in(facts).arrivals] == ["waits"]


def test_a_dump_without_topology_is_refused_by_node_unless_a_machine_is_given() -> None:
    """The message has the file and the node."""
    documents = _dump(_busy_world(1), reports=False)
    facts = facts_of(collected_of(documents, "cluster.yaml"))
    with pytest.raises(MalformedObject, match=r"cluster.yaml: Node node-0: has no NodeResource"):
        cluster_of(facts, "cluster.yaml")
    machine = nodes_of_kinds(["2 sockets, 8 cores, 32Gi, gpu 4"])[0].machine
    others = cluster_of(facts, "x", machine=machine).nodes
    assert [node.machine for node in others] == [machine, machine]
    with pytest.raises(MalformedObject, match=r"pods.yaml: has no objects of kind Node"):
        collected_of([], "pods.yaml")


def test_changes_take_nodes_away_and_send_their_pods_elsewhere() -> None:
    """Pods of removed and drained nodes come again if something owns them."""
    world = _busy_world(2)
    owner = OwnerReference(
        api_version="apps/v1", kind="ReplicaSet", name="rs", uid="rs", controller=True
    )
    owned = [
        msgspec.structs.replace(
            one, metadata=msgspec.structs.replace(one.metadata, owner_references=(owner,))
        )
        for one in world.pods
    ]
    world.pods[:] = owned
    cluster = cluster_of(world.facts(), "x")
    there = sum(one.node == "node-0" for one in cluster.running)
    changes = Changes(
        kubelet=kubelet_words(["topologyManagerPolicy=restricted"]),
        added=["1x 2 sockets, 8 cores, smt 2, 64Gi, gpu 4"],
        drained=["node-0"],
    )
    assert str(changes) == (
        "policy=restricted, +1x 2 sockets, 8 cores, smt 2, 64Gi, gpu 4, node-0 drained"
    )
    after, workload = changed(cluster, ArrivingWork(arrivals=()), changes)
    assert [node.name for node in after.nodes] == ["node-0", "node-1", "new-a-000"]
    assert {node.config.topology_manager_policy for node in after.nodes} == {"restricted"}
    assert len(workload.arrivals) == there
    result = simulate(after, workload, scheduler_arm("numakube"))
    assert result.pods_by_node[0] == 0
    assert result.ran == there
    removed, _ = changed(
        cluster, ArrivingWork(arrivals=()), Changes(kubelet={}, removed=["node-0"])
    )
    assert [node.name for node in removed.nodes] == ["node-1"]
    with pytest.raises(ConfigError, match="there is no node 'node-9'; there are node-0, node-1"):
        changed(cluster, ArrivingWork(arrivals=()), Changes(kubelet={}, drained=["node-9"]))


def test_estimates_have_the_confidence_interval_of_student() -> None:
    """1, 2 and 3: the mean is 2, and the half width is 4.303 times 1 over the root of 3."""
    assert estimate([7.0]).half_width is None
    found = estimate([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half_width == pytest.approx(4.303 / 3**0.5)


def test_a_volume_whose_claim_is_known_of_the_cluster_can_be_simulated() -> None:
    """A pod with a PersistentVolumeClaim comes if the cluster has the claim in its namespace."""
    source = PersistentVolumeClaimVolumeSource(claim_name="data")
    one = pod("a")
    volumes = (Volume(name="data", persistent_volume_claim=source),)
    one = msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, volumes=volumes))
    workload = ArrivingWork(arrivals=(Arrival(at=0.0, pod=one),))
    check_simulated(workload, {"default/data"})
    with pytest.raises(MalformedObject, match=r"Pod default/a: spec.volumes\[0\].persistent"):
        check_simulated(workload, {"other/data"})


def test_nodes_like_another_have_its_machine_its_kubelet_and_its_daemons() -> None:
    """But not its pods, its cordon or its troubles."""
    world = World()
    shape = "2 sockets, 4 cores, smt 1, 16Gi, hugepages-1Gi 4, intel.com/sriov_netdevice 2"
    taints = (Taint(key="team", effect="NoSchedule"), Taint(key="node.kubernetes.io/not-ready"))
    world.add_node("old", "restricted", "pod", machine=shape, unschedulable=True, taints=taints)
    daemon = pod("agent", cpu="1")
    owner = OwnerReference(
        api_version="apps/v1", kind="DaemonSet", name="d", uid="d", controller=True
    )
    pinned = NodeSelectorTerm(
        match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=("old",)),)
    )
    affinity = Affinity(
        node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=(pinned,)))
    )
    daemon = msgspec.structs.replace(
        daemon,
        metadata=msgspec.structs.replace(daemon.metadata, owner_references=(owner,)),
        spec=msgspec.structs.replace(daemon.spec, affinity=affinity),
    )
    world.run(daemon, "old")
    world.run(pod("works", cpu="2"), "old")
    cluster = cluster_of(world.facts(), "cluster")
    changes = Changes(kubelet={}, added=["2x like old", "old; policy=best-effort"])
    more, workload = changed(cluster, ArrivingWork(arrivals=()), changes)
    old, *new = more.nodes
    assert [node.name for node in new] == ["new-a-000", "new-a-001", "new-b-000"]
    assert {node.labels["kubernetes.io/hostname"] for node in new} == {node.name for node in new}
    assert all(node.machine == old.machine and node.also == old.also for node in new)
    assert [node.config.topology_manager_policy for node in new] == [
        "restricted", "restricted", "best-effort",
    ]  # fmt: skip
    assert [(node.unschedulable, [taint.key for taint in node.taints]) for node in new] == [
        (False, ["team"])
    ] * 3
    assert [one.node for one in more.running] == ["old", "old", *(node.name for node in new)]
    result = simulate(more, workload, scheduler_arm("numakube"), seed=1)
    assert (result.pods, result.rejections) == (0, {})
