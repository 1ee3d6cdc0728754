"""Pods that fit one node's zones only, and pods that fit no zone: the field's tables, by id."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tests.field.cluster import OTHERS, TARGET, Field, on_others
from tests.field.documents import Amounts, Zones, amounts, pod, workload, zones

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table.

    Attributes:
        unsuitable: what other nodes have left.
        target: what the target has left; what the containers ask for, in turn, if not given.
        burstable: whether only requests are given.
        message: why the pod is not scheduled; empty if it is.
    """

    id: str
    scope: str
    containers: tuple[str, ...]
    unsuitable: tuple[str, str]
    target: tuple[str, str] | None = None
    init: tuple[str, ...] = ()
    message: str = ""

    def asked(self) -> list[Amounts]:
        """Return what the containers ask for."""
        return [amounts(text) for text in self.containers]

    def left(self) -> Zones:
        """Return what the target has left."""
        if self.target is not None:
            return zones(*self.target)
        first, second = self.containers
        return zones(first, second)


TWO = "cpu=4 mem=4Gi hp2=32Mi hp1=1Gi"
FITTING = (
    Row(
        "47575",
        "container",
        ("cpu=6 mem=6Gi", "cpu=12 mem=8Gi"),
        ("cpu=2 mem=2Gi", "cpu=16 mem=12Gi"),
    ),
    Row(
        "47577",
        "pod",
        ("cpu=6 mem=4Gi", "cpu=8 mem=12Gi"),
        ("cpu=14 mem=6Gi", "cpu=10 mem=20Gi"),
        ("cpu=2 mem=2Gi", "cpu=14 mem=16Gi"),
    ),
    Row(
        "50183",
        "container",
        ("cpu=6 mem=6Gi hp2=96Mi", "cpu=12 mem=8Gi hp2=128Mi"),
        ("cpu=2 mem=2Gi", "cpu=16 mem=12Gi hp2=192Mi"),
    ),
    Row(
        "50184",
        "pod",
        ("cpu=6 mem=4Gi hp2=32Mi", "cpu=8 mem=12Gi hp2=128Mi"),
        ("cpu=14 mem=10Gi hp2=32Mi", "cpu=10 mem=16Gi hp2=144Mi"),
        ("cpu=2 mem=2Gi", "cpu=14 mem=16Gi hp2=160Mi"),
    ),
    Row(
        "85000",
        "container",
        ("cpu=4 mem=4Gi", "cpu=4 mem=4Gi", "cpu=8 mem=4Gi"),
        ("cpu=12 mem=8Gi", "cpu=4 mem=4Gi"),
        ("cpu=8 mem=8Gi", "cpu=8 mem=4Gi"),
    ),
    Row(
        "85001",
        "container",
        (TWO, TWO),
        ("cpu=1 mem=4Gi hp2=32Mi hp1=1Gi", "cpu=7 mem=4Gi hp2=32Mi hp1=1Gi"),
    ),
    Row(
        "85002",
        "container",
        (TWO, TWO),
        ("cpu=4 mem=1Gi hp2=32Mi hp1=1Gi", "cpu=4 mem=7Gi hp2=32Mi hp1=1Gi"),
    ),
    Row(
        "85003",
        "container",
        (TWO, TWO),
        ("cpu=1 mem=4Gi hp2=16Mi hp1=1Gi", "cpu=7 mem=4Gi hp2=48Mi hp1=1Gi"),
    ),
    Row(
        "85004",
        "container",
        (TWO, TWO),
        ("cpu=1 mem=4Gi hp2=32Mi hp1=0", "cpu=7 mem=4Gi hp2=32Mi hp1=2Gi"),
    ),
    Row(
        "54021",
        "container",
        ("cpu=4 mem=4Gi dev1=2 dev3=1", "cpu=4 mem=4Gi dev2=2"),
        ("cpu=1 mem=4Gi dev1=1 dev3=1", "cpu=7 mem=4Gi dev1=1 dev2=2"),
    ),
    Row(
        "85005",
        "container",
        ("cpu=4 mem=4Gi", "cpu=4 mem=4Gi", "cpu=8 mem=4Gi"),
        ("cpu=12 mem=8Gi", "cpu=4 mem=4Gi"),
        ("cpu=8 mem=8Gi", "cpu=8 mem=4Gi"),
        init=("cpu=2 mem=2Gi",),
    ),
    Row(
        "85006",
        "container",
        ("cpu=4 mem=4Gi", "cpu=4 mem=4Gi", "cpu=8 mem=4Gi"),
        ("cpu=12 mem=8Gi", "cpu=4 mem=4Gi"),
        ("cpu=8 mem=8Gi", "cpu=8 mem=4Gi"),
        init=("cpu=8 mem=4Gi",) * 3,
    ),
    Row(
        "54018",
        "container",
        ("cpu=6 mem=6Gi dev1=3", "cpu=12 mem=8Gi dev1=4"),
        ("cpu=6 mem=2Gi dev1=2", "cpu=12 mem=12Gi dev1=3"),
    ),
    Row(
        "54016",
        "pod",
        ("cpu=8 mem=4Gi dev1=5",),
        ("cpu=6 mem=4Gi dev1=3", "cpu=6 mem=4Gi dev1=3"),
        ("cpu=1 mem=1Gi", "cpu=8 mem=4Gi dev1=5"),
    ),
    Row(
        "54025",
        "container",
        ("dev1=5 dev2=2", "dev2=1 dev3=3"),
        ("cpu=6 mem=4Gi dev1=1", "cpu=6 mem=4Gi dev1=1"),
        ("dev1=1 dev2=3", "dev1=5 dev2=2"),
    ),
    Row(
        "55431",
        "pod",
        ("dev1=5 dev2=2",),
        ("cpu=6 mem=4Gi dev1=1", "cpu=6 mem=4Gi dev1=1"),
        ("dev2=1", "dev1=5 dev2=2"),
    ),
    Row(
        "55450",
        "pod",
        ("cpu=1 dev2=2 dev3=3 eph=32Mi", "eph=32Mi"),
        ("cpu=6 mem=4Gi dev2=1", "cpu=6 mem=4Gi dev2=1"),
        ("dev2=2 dev3=3", "dev2=1"),
    ),
    Row(
        "54024",
        "container",
        ("cpu=1 dev1=5 dev2=2 eph=32Mi", "dev2=1 dev3=3 eph=32Mi"),
        ("cpu=6 mem=4Gi dev1=1", "cpu=6 mem=4Gi dev1=1"),
        ("dev2=1 dev3=3", "dev1=5 dev2=2"),
    ),
)
CONTAINER, POD = "cannot align container", "cannot align pod"
FIVE = "cpu=5 mem=4Gi hp2=32Mi hp1=1Gi"
SEVEN = "cpu=4 mem=7Gi hp2=32Mi hp1=1Gi"
NOT_FITTING = (
    Row(
        "85007",
        "container",
        (FIVE, FIVE),
        ("cpu=1", "cpu=4"),
        ("cpu=1", "cpu=9"),
        message=CONTAINER,
    ),
    Row(
        "74257",
        "pod",
        ("cpu=4300m hp2=32Mi", "cpu=10", "cpu=3500m mem=4Gi"),
        ("cpu=1", "cpu=1"),
        ("cpu=8 mem=12Gi hp2=128Mi", "cpu=7 mem=12Gi hp2=128Mi"),
        message="Insufficient cpu",
    ),
    Row(
        "85008",
        "container",
        (SEVEN, SEVEN),
        ("cpu=1 mem=1Gi", "cpu=4 mem=7Gi"),
        ("cpu=4 mem=1Gi", "cpu=4 mem=13Gi"),
        message=CONTAINER,
    ),
    Row(
        "85009",
        "container",
        ("cpu=4 mem=4Gi hp2=16Mi hp1=1Gi", "cpu=4 mem=4Gi hp2=48Mi hp1=1Gi"),
        ("cpu=1 hp2=32Mi", "cpu=4 hp2=32Mi"),
        ("hp2=32Mi", "hp2=32Mi"),
        message=CONTAINER,
    ),
    Row(
        "85011",
        "container",
        ("cpu=4 mem=4Gi hp2=32Mi", "cpu=4 mem=4Gi hp2=32Mi hp1=2Gi"),
        ("cpu=1 hp1=1Gi", "cpu=4 hp1=1Gi"),
        ("hp1=1Gi", "hp1=1Gi"),
        message=CONTAINER,
    ),
    Row(
        "54020",
        "container",
        ("cpu=4 mem=4Gi dev2=2", "cpu=4 mem=4Gi dev1=2 dev3=2"),
        ("cpu=1 mem=4Gi", "cpu=4 mem=4Gi"),
        ("cpu=4 mem=4Gi dev1=1 dev3=2", "cpu=4 mem=4Gi dev1=1 dev2=2"),
        message=CONTAINER,
    ),
    Row(
        "54019",
        "container",
        ("cpu=5 mem=4Gi dev1=3", "cpu=5 mem=4Gi dev1=2"),
        ("cpu=1 mem=2Gi", "cpu=2 mem=4Gi"),
        ("cpu=5 mem=4Gi dev1=1", "cpu=5 mem=4Gi dev1=4"),
        message=CONTAINER,
    ),
    Row(
        "54017",
        "pod",
        ("cpu=8 mem=4Gi dev1=3", "cpu=8 mem=4Gi dev2=2"),
        ("cpu=1 mem=2Gi", "cpu=2 mem=3Gi"),
        ("cpu=8 mem=4Gi dev1=3", "cpu=8 mem=4Gi dev2=2"),
        message=POD,
    ),
    Row(
        "55430",
        "pod",
        ("dev1=3 dev2=4",),
        ("cpu=1 mem=1Gi dev1=1 dev2=1", "cpu=1 mem=1Gi dev1=1 dev2=1"),
        ("dev1=1 dev2=2", "dev1=2 dev2=2"),
        message=POD,
    ),
    Row(
        "55429",
        "pod",
        ("cpu=1 dev1=3 dev2=4",),
        ("cpu=1 mem=1Gi dev1=1 dev2=1", "cpu=1 mem=1Gi dev1=1 dev2=1"),
        ("cpu=4 mem=4Gi dev1=1 dev2=2", "cpu=4 mem=4Gi dev1=2 dev2=2"),
        message=POD,
    ),
    Row(
        "54023",
        "container",
        ("dev2=2", "dev1=2 dev3=2"),
        ("cpu=1 mem=4Gi dev1=1", "cpu=4 mem=4Gi dev1=1"),
        ("dev1=1 dev3=2", "dev1=1 dev2=2"),
        message=CONTAINER,
    ),
    Row(
        "54022",
        "container",
        ("cpu=4 dev2=2", "dev1=2 dev3=2"),
        ("cpu=1 mem=4Gi dev2=1", "cpu=4 mem=4Gi dev2=1"),
        ("dev1=1 dev3=2", "dev1=1 dev2=2"),
        message=CONTAINER,
    ),
)


def rows(table: tuple[Row, ...], scope: str) -> list[object]:
    """Return the lines of a table that are about a scope."""
    return [pytest.param(row, id=row.id) for row in table if row.scope == scope]


async def prepare(cluster: Field, row: Row) -> None:
    """Leave on every node what the line says."""
    others = {node: zones(*row.unsuitable) for node in OTHERS}
    await cluster.leave({**others, TARGET: row.left()})


async def is_placed(cluster: Field, row: Row) -> None:
    """The pod runs on the target, put there by our scheduler, and nothing stays behind."""
    await prepare(cluster, row)
    init = tuple(amounts(text) for text in row.init)
    await cluster.placed(pod("test", row.asked(), init=init))
    await cluster.is_on_target("test")


async def is_refused(cluster: Field, row: Row) -> None:
    """The pod waits, and its event says why."""
    await prepare(cluster, row)
    await cluster.world.create(pod("test", row.asked()))
    await cluster.waits("test", row.message)
    assert cluster.world.by_phase("Failed") == set()


@pytest.mark.parametrize("row", rows(FITTING, "container"))
async def test_containers_go_where_each_has_a_zone(cluster: Field, row: Row) -> None:
    """Though other nodes have as much in all."""
    await is_placed(cluster, row)


@pytest.mark.parametrize("row", rows(FITTING, "pod"))
async def test_pods_go_where_a_zone_has_room_for_all_of_them(pod_scope: Field, row: Row) -> None:
    """Though other nodes have as much in all."""
    await is_placed(pod_scope, row)


@pytest.mark.parametrize("row", rows(NOT_FITTING, "container"))
async def test_containers_wait_where_no_zone_has_room(cluster: Field, row: Row) -> None:
    """Though the node as a whole has."""
    await is_refused(cluster, row)


@pytest.mark.parametrize("row", rows(NOT_FITTING, "pod"))
async def test_pods_wait_where_no_zone_has_room(pod_scope: Field, row: Row) -> None:
    """Though the node as a whole has."""
    await is_refused(pod_scope, row)


ONE_ZONE = {"": "cpu=4 mem=4Gi", "hugepages": "cpu=4 mem=4Gi hp2=256Mi"}
TOO_LITTLE = {"": "cpu=3 mem=3Gi", "hugepages": "cpu=3 mem=3Gi hp2=192Mi"}


async def needs_a_zone(cluster: Field, kind: str, more: str) -> None:
    """A pod, or a workload of one, goes where a zone has room for it."""
    asked = amounts(ONE_ZONE[more])
    await cluster.leave(on_others(TOO_LITTLE[more]))
    before = await cluster.reported()
    document, names = pod("test", [asked]), ["test"]
    if kind == "Pod":
        await cluster.placed(document)
    else:
        await cluster.create(workload(kind, document))
        names = await cluster.complete("test", [asked])
    await cluster.is_on_target(*names)
    await cluster.until_taken(before, {TARGET: (asked,)})


@pytest.mark.parametrize(
    ("id_", "kind", "more"),
    [
        ("48713", "Pod", ""),
        ("47583", "Deployment", ""),
        ("50158", "Pod", "hugepages"),
        ("50165", "Deployment", "hugepages"),
    ],
)
async def test_what_needs_a_zone_goes_where_one_has_room(
    cluster: Field, id_: str, kind: str, more: str
) -> None:
    """Though other nodes have as much in all: 48713, 47583, 50158, 50165."""
    await needs_a_zone(cluster, kind, more)


@pytest.mark.parametrize(
    ("id_", "kind", "more"),
    [
        ("50156", "Pod", ""),
        ("50159", "Deployment", ""),
        ("50157", "Pod", "hugepages"),
        ("50182", "Deployment", "hugepages"),
    ],
)
async def test_in_pod_scope_as_well(pod_scope: Field, id_: str, kind: str, more: str) -> None:
    """50156, 50159, 50157, 50182."""
    await needs_a_zone(pod_scope, kind, more)


async def test_74256_fractions_of_cpus_are_not_aligned_so_the_pod_runs(pod_scope: Field) -> None:
    """Counting by zone refuses it; the kubelet gives such containers shared CPUs, and admits it."""
    row = Row(
        "74256",
        "pod",
        ("cpu=4300m mem=4Gi hp2=32Mi", "cpu=7500m mem=4Gi hp2=32Mi", "cpu=2500m mem=4Gi"),
        ("cpu=1", "cpu=1"),
        ("cpu=11 mem=12Gi hp2=128Mi", "cpu=6 mem=12Gi hp2=128Mi"),
    )
    await is_placed(pod_scope, row)
