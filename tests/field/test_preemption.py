"""Priority-based placement: who makes room for whom, and that nobody does in vain."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.field.cluster import Field
from tests.field.documents import amounts, pod

from numakube.kube.catalog import PRIORITY_CLASSES

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
PRIORITIES = {"field-low": 100, "field-medium": 200, "field-high": 300}
CRITICAL = "system-node-critical"
WIDE = amounts("cpu=20 mem=8Gi")
"""What two of do not fit in a zone."""


@pytest_asyncio.fixture(loop_scope="module")
async def target(cluster: Field) -> AsyncIterator[Field]:
    """The cluster with a single node that takes pods, and with classes of priority."""
    for name, value in PRIORITIES.items():
        document = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        await cluster.world.client.apply(PRIORITY_CLASSES, document, field_manager="field")
    cordon = {"spec": {"unschedulable": True}}
    async with cluster.changed(node_1=cordon, node_2=cordon):
        yield cluster


@pytest.mark.parametrize(
    ("filler", "newcomer", "evicts"),
    [
        ("", "", False),
        ("", CRITICAL, True),
        (CRITICAL, "", False),
        (CRITICAL, CRITICAL, False),
        ("field-low", "field-medium", True),
        ("field-medium", "field-low", False),
    ],
)
async def test_priority_decides_who_makes_room(
    target: Field, filler: str, newcomer: str, *, evicts: bool
) -> None:
    """The six lines of priority-based placement: exactly one filler goes, or none."""
    fillers = {f"filler-{n}" for n in range(2)}
    for name in sorted(fillers):
        await target.placed(pod(name, [WIDE], **_priority(filler)))
    await target.world.create(pod("new", [WIDE], **_priority(newcomer)))
    if evicts:
        await target.world.runs("new")
        await target.world.until(lambda: len(target.world.by_phase("Running") & fillers) == 1)
    else:
        await target.waits("new", "Preemption is not helpful for scheduling")
        assert fillers <= target.world.by_phase("Running")


async def test_room_on_the_node_that_is_in_no_zone_evicts_nobody(target: Field) -> None:
    """Should remain pending when the new pod is not priority enough despite room on the node.

    Two small pods of no priority and two wide ones of a medium one are in the zones. Without the
    small ones the node has room for a pod, but no zone has; only one of the wide ones makes some.
    """
    small, wanted = amounts("cpu=2 mem=1Gi"), amounts("cpu=10 mem=4Gi")
    for zone in (0, 1):
        cell = amounts(f"cell{zone}=1")
        await target.placed(pod(f"small-{zone}", [small | cell, small]))
        await target.placed(pod(f"wide-{zone}", [WIDE | cell], **_priority("field-medium")))
    await target.world.create(pod("low", [wanted], **_priority("field-low")))
    await target.waits("low", "Preemption is not helpful for scheduling")
    assert target.world.by_phase("Running") == {"small-0", "small-1", "wide-0", "wide-1"}
    await target.remove("low")
    await target.world.create(pod("high", [wanted], **_priority("field-high")))
    await target.world.runs("high")
    wide = {"wide-0", "wide-1"}
    await target.world.until(lambda: len(target.world.by_phase("Running") & wide) == 1)
    assert target.world.by_phase("Running") >= {"small-0", "small-1"}


async def test_a_burst_that_fits_evicts_nobody(target: Field) -> None:
    """Should not falsely evict pods because the cache is not yet updated."""
    asked = amounts("cpu=4 mem=1Gi")
    pods = [
        pod(f"burst-{n}", [asked], **_priority("field-low" if n < 10 else "field-high"))
        for n in range(12)
    ]
    await target.placed(*pods)
    assert len(target.world.by_phase("Running")) == len(pods)


def _priority(name: str) -> dict[str, Any]:
    return {"priorityClassName": name} if name else {}
