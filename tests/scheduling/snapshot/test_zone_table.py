"""The table of zones always equals what was last believed of each node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeStatus
from numakube.api.nrt import NodeResourceTopology
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.zone_table import (
    LARGEST_AMOUNT,
    UNKNOWN_DISTANCE,
    ToldPolicy,
    ZoneTable,
)
from numakube.topology.topology_view import NodeTopology, ZoneView
from numakube.values.topology_policy import NO_DATA, TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.values.resources import Amounts


_NO_REPORT = NodeResourceTopology()


@dataclass(frozen=True)
class Belief:
    """What a cache without reservations believes."""

    topology: NodeTopology | None
    available: tuple[Amounts, ...] = ()
    blocked: str = ""
    nrt: NodeResourceTopology = _NO_REPORT

    def model(self) -> KubeletNode | None:
        """Return nothing: counts only."""
        return None

    def without(self, uids: Iterable[str]) -> Belief:
        """Return the same: places are not known."""
        return self


def zone(numa_id: int, cpu: int, **more: int) -> ZoneView:
    """A zone of which everything is free."""
    amounts = {"cpu": cpu, **more}
    return ZoneView(
        id=numa_id,
        name=f"node-{numa_id}",
        capacity={name: amount + 1 for name, amount in amounts.items()},
        allocatable=amounts,
        available=amounts,
        costs={numa_id: 10},
    )


SINGLE = TopologyPolicy.SINGLE_NUMA_NODE


def belief(*zones: ZoneView, blocked: str = "", policy: TopologyPolicy = SINGLE) -> Belief:
    """What is believed right after a report."""
    topology = NodeTopology(node="n", zones=zones, policy=policy, cpu_manager_policy="static")
    return Belief(topology, tuple(zone.available for zone in zones), blocked)


def test_zones_stand_by_ascending_id_with_their_amounts() -> None:
    """Ids may have holes, positions have none."""
    table = ZoneTable()
    table.write(3, belief(zone(0, 8), zone(2, 4, memory=7)))
    assert table.present[:, 3].tolist() == [True, True]
    assert table.zone_id[:, 3].tolist() == [0, 2]
    assert table.available("cpu")[:, 3].tolist() == [8, 4]
    assert table.capacity("memory")[:, 3].tolist() == [0, 8]
    assert table.reports("memory")[:, 3].tolist() == [False, True]
    assert table.distance[:, :, 3].tolist() == [[10, UNKNOWN_DISTANCE], [UNKNOWN_DISTANCE, 10]]


def test_the_kubelets_configuration_is_told_by_numbers() -> None:
    """Unknown stays unknown."""
    table = ZoneTable()
    table.write(0, belief(zone(0, 8)))
    assert table.policy[0] == SINGLE.code
    assert table.scope[0] == TopologyScope.CONTAINER.code
    assert table.max_zones[0] == 8
    assert (table.cpu_static[0], table.memory_static[0]) == (ToldPolicy.YES, ToldPolicy.UNKNOWN)
    assert table.policy[1] == NO_DATA


def test_a_report_that_cannot_be_used_leaves_no_data() -> None:
    """What was known before is not believed any longer."""
    table = ZoneTable()
    table.write(0, belief(zone(0, 8), zone(1, 8)))
    table.write(0, Belief(None, blocked="odd"))
    assert table.policy[0] == NO_DATA
    assert not table.present[:, 0].any()
    assert not table.available("cpu")[:, 0].any()
    assert table.blocked[0]
    assert table.revision[0] > 0


def test_readers_cannot_change_the_table() -> None:
    """A plugin that tries gets an error."""
    table = ZoneTable()
    table.write(0, belief(zone(0, 8)))
    with pytest.raises(ValueError, match="read-only"):
        table.available("cpu")[0, 0] = 9
    with pytest.raises(ValueError, match="read-only"):
        table.available("never seen")[0, 0] = 9


def test_a_reservation_keeps_the_revision_and_a_report_changes_it() -> None:
    """What depends on the report alone need not be computed again."""
    table = ZoneTable()
    first = belief(zone(0, 8))
    table.write(0, first)
    revision = int(table.revision[0])
    table.write(0, replace(first, available=({"cpu": 5},)))
    assert table.available("cpu")[0, 0] == 5
    assert table.revision[0] == revision
    table.write(0, belief(zone(0, 8)))
    assert table.revision[0] > revision
    assert table.available("cpu")[0, 0] == 8


def test_nodes_of_one_kind_share_a_shape_and_forgotten_shapes_go() -> None:
    """However often distances change, the table does not grow."""
    table = ZoneTable()
    table.write(0, belief(zone(0, 8), zone(1, 4)))
    table.write(1, belief(zone(0, 2), zone(1, 6)))
    assert table.shape[0] == table.shape[1]
    for cost in range(1000):
        table.write(1, belief(replace(zone(0, 2), costs={0: cost})))
    assert table.shape.max() <= 2 * table.room
    assert table.shape_at(int(table.shape[0])).ids == (0, 1)
    assert table.shape_at(int(table.shape[1])).distances == ((999,),)


def test_amounts_beyond_any_machine_cannot_overflow_sums() -> None:
    """64 zones may be added up."""
    table = ZoneTable()
    table.write(0, belief(zone(0, 2**62), zone(1, 2**62)))
    assert table.available("cpu")[:, 0].tolist() == [LARGEST_AMOUNT, LARGEST_AMOUNT]


def test_the_cluster_keeps_the_table_in_step_with_its_nodes() -> None:
    """Reports may come before their node and outlive it."""
    cluster = Cluster()
    cluster.suppose("n", belief(zone(0, 8)))
    info = cluster.set_node(Node(metadata=ObjectMeta(name="n"), status=NodeStatus()))
    assert cluster.snapshot().zones.available("cpu")[0, info.row] == 8
    cluster.remove_node("n")
    assert not cluster.zones.present.any()
    info = cluster.set_node(Node(metadata=ObjectMeta(name="n"), status=NodeStatus()))
    assert cluster.zones.available("cpu")[0, info.row] == 8
    cluster.suppose("n", None)
    assert not cluster.zones.present.any()
    assert not cluster.zones.available("cpu").any()


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), st.integers(0, 5))


@st.composite
def beliefs(draw: st.DrawFn) -> Belief:
    """Any belief."""
    ids = sorted(draw(st.sets(st.integers(0, 63), min_size=1, max_size=5)))
    zones = []
    for numa_id in ids:
        available = draw(amounts)
        allocatable = {name: amount + draw(st.integers(0, 3)) for name, amount in available.items()}
        costs = draw(st.dictionaries(st.sampled_from(ids), st.integers(1, 255)))
        zones.append(
            ZoneView(
                id=numa_id, name=f"node-{numa_id}", capacity=allocatable, allocatable=allocatable,
                available=available, costs=costs,
            )
        )  # fmt: skip
    made = belief(*zones, blocked=draw(st.sampled_from(["", "why"])))
    taken = tuple({name: max(0, a - 1) for name, a in zone.available.items()} for zone in zones)
    return replace(made, available=taken) if draw(st.booleans()) else made


@given(st.lists(st.tuples(st.integers(0, 130), st.none() | beliefs()), max_size=12))
def test_any_sequence_of_writes_leaves_what_a_fresh_table_would_hold(
    writes: list[tuple[int, Belief | None]],
) -> None:
    """Nothing of an earlier belief remains anywhere."""
    table, last = ZoneTable(), dict[int, Belief]()
    for row, one in writes:
        table.reserve(row + 1)
        if one is None:
            last.pop(row, None)
            table.clear(row)
        else:
            last[row] = one
            table.write(row, one)
    fresh = ZoneTable()
    fresh.reserve(131)
    table.reserve(131)
    for row, one in last.items():
        fresh.write(row, one)
    width = fresh.width
    for name in ("policy", "scope", "max_zones", "count", "blocked"):
        assert np.array_equal(getattr(table, name), getattr(fresh, name)), name
    for name in ("present", "zone_id"):
        assert np.array_equal(getattr(table, name)[:width], getattr(fresh, name)), name
        assert not getattr(table, name)[width:].any()
    assert np.array_equal(table.distance[:width, :width], fresh.distance)
    for resource in table.resources():
        for kind in ("available", "allocatable", "capacity", "reports"):
            ours, wanted = getattr(table, kind)(resource), getattr(fresh, kind)(resource)
            assert np.array_equal(ours[:width], wanted), (kind, resource)
    for row, one in last.items():
        assert one.topology is not None
        shape = table.shape_at(int(table.shape[row]))
        assert shape.ids == tuple(zone.id for zone in one.topology.zones)
