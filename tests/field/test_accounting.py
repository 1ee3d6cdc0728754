"""What nodes report about pods, and resources that belong to no zone, by the scenarios' ids."""

from __future__ import annotations

from typing import Any

import pytest
from tests.field.cluster import TARGET, Field, on_others
from tests.field.documents import Amounts, amounts, pod, workload, zones

from numakube.api.scheduler_config import SCHEDULER_NAME

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
MOST_OF_A_NODE = amounts("cpu=50 mem=60Gi")


async def test_49068_room_that_appears_is_used(cluster: Field) -> None:
    """A pod waits until a placeholder in the right zone goes."""
    left = on_others("cpu=2 mem=4Gi")
    await cluster.leave({**left, TARGET: zones("cpu=4 mem=8Gi", "cpu=4 mem=8Gi")})
    before = await cluster.reported()
    for zone in (0, 1):
        held = amounts(f"cpu=1 mem=1Gi cell{zone}=1")
        await cluster.placed(pod(f"held-{zone}", [held], node=TARGET))
    asked = amounts("cpu=4 mem=8Gi")
    await cluster.world.create(pod("test", [asked]))
    await cluster.waits("test", "cannot align container")
    await cluster.world.delete("held-1")
    await cluster.world.until(lambda: "test" in cluster.world.by_phase("Running"))
    await cluster.is_on_target("test")
    await cluster.until_taken(before, {TARGET: (amounts("cpu=1 mem=1Gi cell0=1"), asked)})


@pytest.mark.parametrize(
    ("id_", "asked", "requests_only"),
    [("48685", {}, False), ("48686", MOST_OF_A_NODE, True)],
)
async def test_pods_without_exclusive_resources_take_from_no_zone(
    cluster: Field, id_: str, asked: Amounts, *, requests_only: bool
) -> None:
    """48685 and 48686: best effort and burstable."""
    await cluster.leave(on_others("cpu=0"))
    before = await cluster.reported()
    name = f"shared-{id_}"
    await cluster.placed(pod(name, [asked], requests_only=requests_only))
    assert await cluster.scheduled_by(name) == {SCHEDULER_NAME}
    await cluster.unchanged(before)


@pytest.mark.parametrize(
    ("id_", "kind", "spec"),
    [
        ("47618", "Deployment", {}),
        ("49071", "DaemonSet", {"nodeSelector": {"kubernetes.io/hostname": TARGET}}),
    ],
)
async def test_workloads_without_exclusive_resources_take_from_no_zone(
    cluster: Field, id_: str, kind: str, spec: dict[str, Any]
) -> None:
    """47618 and 49071: burstable pods that want most of the target."""
    await cluster.leave(on_others("cpu=0"))
    before = await cluster.reported()
    template = pod(f"shared-{id_}", [MOST_OF_A_NODE], requests_only=True, **spec)
    await cluster.create(workload(kind, template))
    await cluster.is_on_target(*await cluster.complete(f"shared-{id_}", [MOST_OF_A_NODE]))
    await cluster.unchanged(before)


async def has_limits_in_part(cluster: Field, second: Amounts | None = None) -> None:
    """One container wants a zone and is limited to it, another has requests alone."""
    await cluster.leave(on_others("cpu=0"))
    before = await cluster.reported()
    whole = [amounts(f"cpu={zone['cpu']}m mem={zone['memory']}") for zone in before[TARGET]]
    document = pod("mixed", [whole[0], {}])
    document["spec"]["containers"][1]["resources"] = {"requests": second or whole[1]}
    await cluster.placed(document)
    await cluster.is_on_target("mixed")
    status = cluster.world.pod("mixed").status
    assert status is not None
    assert status.qos_class == "Burstable"
    await cluster.unchanged(before)


async def test_85768_a_container_with_limits_makes_no_pod_guaranteed(cluster: Field) -> None:
    """So nothing is pinned, and both zones are as they were."""
    await has_limits_in_part(cluster)


async def test_85768_nor_in_pod_scope(pod_scope: Field) -> None:
    """The second asks for little, as one zone has to have room by the scenario."""
    await has_limits_in_part(pod_scope, amounts("mem=5Mi"))


async def test_47620_a_burstable_pod_keeps_a_guaranteed_one_out(cluster: Field) -> None:
    """At the level of the node; and the zones show nothing of it."""
    await cluster.leave(on_others("cpu=0"))
    before = await cluster.reported()
    asked = amounts("cpu=20 mem=1Gi")
    await cluster.placed(pod("burstable", [amounts("cpu=50 mem=1Gi")], requests_only=True))
    await cluster.world.create(pod("test", [asked]))
    await cluster.waits("test", "Insufficient cpu")
    await cluster.unchanged(before)
    await cluster.world.delete("burstable")
    await cluster.world.until(lambda: "test" in cluster.world.by_phase("Running"))
    await cluster.until_taken(before, {TARGET: (asked,)})
    await cluster.remove("test")
    await cluster.until_taken(before, {})


HOST = "eph=256Mi"


@pytest.mark.parametrize(
    ("id_", "containers", "requests_only", "quality"),
    [
        ("84015", [f"cpu=2 mem=256Mi {HOST}"], False, "Guaranteed"),
        ("84016", [f"cpu=2 mem=256Mi {HOST}"], True, "Burstable"),
        ("84017", [HOST], False, "BestEffort"),
        ("74249", [f"cpu=2 mem=256Mi {HOST}"] * 4, False, "Guaranteed"),
        (
            "74250",
            [f"cpu={cpu} mem=256Mi {HOST}" for cpu in ("3000m", "2", "1500m", "2")],
            False,
            "Guaranteed",
        ),
        (
            "74251",
            [f"cpu={cpu} mem=384Mi {HOST}" for cpu in ("1200m", "1200m", "1600m", "2")],
            True,
            "Burstable",
        ),
        ("74252", [HOST, "eph=16777216"], False, "BestEffort"),
    ],
)
async def test_resources_of_the_host_do_not_matter_to_zones(
    cluster: Field, id_: str, containers: list[str], quality: str, *, requests_only: bool
) -> None:
    """84015 to 84017 and 74249 to 74252."""
    name = f"host-{id_}"
    asked: list[Amounts] = [amounts(text) for text in containers]
    await cluster.placed(pod(name, asked, requests_only=requests_only))
    assert await cluster.scheduled_by(name) == {SCHEDULER_NAME}
    status = cluster.world.pod(name).status
    assert status is not None
    assert status.qos_class == quality


@pytest.mark.parametrize(
    ("id_", "asked", "requests_only"),
    [
        ("74253", "cpu=2 mem=256Mi eph=100Ti", False),
        ("74254", "cpu=2 mem=256Mi eph=100Ti", True),
        ("74255", "dev1=2 eph=100Ti", False),
    ],
)
async def test_too_little_of_a_resource_of_the_host_is_told(
    cluster: Field, id_: str, asked: str, *, requests_only: bool
) -> None:
    """74253 to 74255."""
    await cluster.world.create(pod(f"host-{id_}", [amounts(asked)], requests_only=requests_only))
    await cluster.waits(f"host-{id_}", "3 Insufficient ephemeral-storage")
