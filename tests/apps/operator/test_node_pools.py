"""Node groups: which mistakes are told, and which nodes a group stands for."""

from __future__ import annotations

import pytest

from numakube.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from numakube.api.nodes import Node
from numakube.api.numaresources import (
    MachineConfigPool,
    MachineConfigPoolSpec,
    NodeGroup,
    NodeGroupConfig,
)
from numakube.apps.operator.node_pools import BadGroups, Pools, pools_of

WORKER = LabelSelector(match_labels={"pool": "worker"})
FAST = LabelSelector(match_labels={"fast": ""})


def node(name: str, **labels: str) -> Node:
    """Return a node with labels."""
    return Node(metadata=ObjectMeta(name=name, labels=labels))


def machine_pool(name: str, *, paused: bool = False, **labels: str) -> MachineConfigPool:
    """Return a pool of OpenShift whose nodes have its name as a label."""
    selector = LabelSelector(match_labels={"pool": name})
    spec = MachineConfigPoolSpec(node_selector=selector, paused=paused)
    return MachineConfigPool(metadata=ObjectMeta(name=name, labels=labels), spec=spec)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ((NodeGroup(),), "node group 0 missing any pool specifier"),
        (
            (NodeGroup(pool_name="a"), NodeGroup(pool_name="b", node_selector=FAST)),
            "node group 1 must have only a single specifier set: either PoolName or"
            " MachineConfigPoolSelector",
        ),
        ((NodeGroup(pool_name=""),), "pool name for pool #0 cannot be empty"),
        (
            (NodeGroup(pool_name="a"), NodeGroup(pool_name="a"), NodeGroup(pool_name="a")),
            'the pool name "a" has duplicates\nthe pool name "a" has duplicates',
        ),
        (
            (NodeGroup(pool_name="a", annotations={str(n): "" for n in range(9)}),),
            "pool #0 has too many annotations 9 max 8",
        ),
        (
            (NodeGroup(node_selector=FAST), NodeGroup(node_selector=FAST)),
            'the node group with the nodeSelector "fast=" has duplicates',
        ),
        (
            (
                NodeGroup(
                    node_selector=LabelSelector(
                        match_expressions=(LabelSelectorRequirement(key="a", operator="Near"),)
                    )
                ),
            ),
            'node group 0: nodeSelector: "Near" is not a valid label selector operator',
        ),
    ],
)
def test_mistakes_are_named_with_their_group(groups: tuple[NodeGroup, ...], message: str) -> None:
    """In the words of the NUMA Resources Operator where it has them."""
    assert pools_of(groups, machine_config_pools=None) == BadGroups(message)


def test_eight_annotations_are_not_too_many() -> None:
    """The limit itself is allowed."""
    group = NodeGroup(pool_name="a", annotations={str(n): "" for n in range(8)})
    assert isinstance(pools_of((group,), machine_config_pools=None), Pools)


def test_without_pools_a_name_is_a_role_and_a_selector_chooses_nodes() -> None:
    """The name made from a selector stays the same, and differs from that of another."""
    groups = (NodeGroup(pool_name="worker"), NodeGroup(node_selector=FAST))
    found = pools_of(groups, machine_config_pools=None)
    assert isinstance(found, Pools)
    worker, fast = found.pools
    assert worker.name == "worker"
    assert worker.has(node("a", **{"node-role.kubernetes.io/worker": ""}))
    assert not worker.has(node("b"))
    assert fast.has(node("c", fast=""))
    again = pools_of((NodeGroup(node_selector=FAST),), machine_config_pools=None)
    assert isinstance(again, Pools)
    assert again.pools[0].name == fast.name
    assert fast.name.startswith("fast-")
    other = LabelSelector(match_labels={"other/fast": ""})
    third = pools_of((NodeGroup(node_selector=other),), machine_config_pools=None)
    assert isinstance(third, Pools)
    assert third.pools[0].name != fast.name


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"pools.operator.machineconfiguration.openshift.io/worker": ""}, "worker"),
        ({"machineconfiguration.openshift.io/role": "worker"}, "worker"),
        ({"node-role.kubernetes.io/worker": ""}, ""),
    ],
)
def test_without_pools_a_selector_of_pools_means_the_nodes_that_those_usually_have(
    labels: dict[str, str], name: str
) -> None:
    """A13: by role, or by the same label."""
    group = NodeGroup(machine_config_pool_selector=LabelSelector(match_labels=labels))
    nodes = (node("a", **{"node-role.kubernetes.io/worker": ""}), node("b"))
    found = pools_of((group,), machine_config_pools=None, nodes=nodes)
    assert isinstance(found, Pools)
    (pool,) = found.pools
    assert [one.metadata.name for one in nodes if pool.has(one)] == ["a"]
    assert pool.name == name or not name
    assert found.doubt == ""


def test_without_pools_a_selector_that_means_no_node_is_told() -> None:
    """A13: with what to write, since labels of pools need not be labels of nodes."""
    group = NodeGroup(machine_config_pool_selector=WORKER)
    found = pools_of((group,), machine_config_pools=None, nodes=(node("a"),))
    assert isinstance(found, Pools)
    assert found.doubt == (
        "node group 0: this cluster has no MachineConfigPools, and no node is selected by"
        " pool=worker; use nodeSelector or poolName"
    )


def test_a_node_in_two_groups_is_told_and_both_are_served() -> None:
    """The exporter of the second group would not start there."""
    groups = (NodeGroup(node_selector=FAST), NodeGroup(node_selector=WORKER))
    nodes = (node("a", fast=""), node("b", fast="", pool="worker"))
    found = pools_of(groups, machine_config_pools=None, nodes=nodes)
    assert isinstance(found, Pools)
    assert len(found.pools) == 2
    assert found.doubt.startswith('node "b" is selected by node groups ')


def test_on_openshift_groups_are_pools() -> None:
    """By name or by labels; with what the pool says of its nodes."""
    machines = (machine_pool("worker", kind="w"), machine_pool("infra", paused=True))
    groups = (
        NodeGroup(machine_config_pool_selector=LabelSelector(match_labels={"kind": "w"})),
        NodeGroup(pool_name="infra", config=NodeGroupConfig(info_refresh_period="3s")),
    )
    found = pools_of(groups, machine_config_pools=machines)
    assert isinstance(found, Pools)
    assert [(pool.name, pool.paused) for pool in found.pools] == [
        ("worker", False),
        ("infra", True),
    ]
    assert found.pools[0].has(node("a", pool="worker"))
    assert found.pools[1].config.info_refresh_period == "3s"
    assert found.pools[1].config.info_refresh_mode == "Periodic"


def test_on_openshift_what_stands_for_no_pool_or_for_two_is_told() -> None:
    """Two pools are served nevertheless, and allowed if the user says so."""
    machines = (machine_pool("a", kind="w"), machine_pool("b", kind="w"))
    missing = pools_of((NodeGroup(pool_name="c"),), machine_config_pools=machines)
    assert missing == BadGroups("failed to find MachineConfigPool for the node group c")
    both = NodeGroup(machine_config_pool_selector=LabelSelector(match_labels={"kind": "w"}))
    found = pools_of((both,), machine_config_pools=machines)
    assert isinstance(found, Pools)
    assert found.doubt == (
        "found multiple pools matches for node group kind=w but expected one. Pools found [a b]"
    )
    allowed = pools_of((both,), machine_config_pools=machines, several_pools_allowed=True)
    assert isinstance(allowed, Pools)
    assert (len(allowed.pools), allowed.doubt) == (2, "")
    twice = pools_of((both, NodeGroup(pool_name="a")), machine_config_pools=machines)
    assert twice == BadGroups('the MachineConfigPool "a" selected by at least two node groups')
