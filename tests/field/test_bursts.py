"""Many pods at once, alone and beside pods and jobs that come to their ends, by the scenarios' ids.

A scheduler that waits for reports to catch up, and mistakes what others do for news about its own
pods, stalls here: that is what the scenarios are about. All pods run in the end, and no kubelet
rejects one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.field.cluster import ALL, DEVICES, OTHERS, TARGET, Field, field_of, phase
from tests.field.documents import Amounts, amounts, pod, workload, zones

from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.kube.catalog import JOBS

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
SMALL = amounts("cpu=2 mem=64Mi")
BIG = amounts("cpu=7 mem=8Gi")
"""More than half of a zone: two of them never share one."""
NOISE = amounts("cpu=100m mem=256Mi")
ON_ONE_NODE = 9
"""Half as much again as a zone holds of `SMALL`."""
ON_ALL_NODES = 22
"""A quarter more than one zone of each node holds of `SMALL`."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Field]:
    """Nodes whose zones have ten and twelve CPUs to give: few pods are many to them."""
    async with field_of("container", f"2 sockets, 6 cores, smt 2, 48Gi, {DEVICES}") as found:
        yield found


def burst(count: int, asked: Amounts = SMALL, **spec: Any) -> list[dict[str, Any]]:
    """Return many pods that are alike."""
    return [pod(f"burst-{number}", [asked], **spec) for number in range(count)]


async def all_run(cluster: Field, documents: list[dict[str, Any]]) -> None:
    """All of them run, placed by our scheduler."""
    await cluster.placed(*documents)
    names = [document["metadata"]["name"] for document in documents]
    assert await cluster.scheduled_by(*names) == {SCHEDULER_NAME}
    assert cluster.world.by_phase("Failed") == set()


@pytest.mark.parametrize(
    ("id_", "asked", "requests_only"),
    [("84018", SMALL, False), ("84019", SMALL, True), ("84020", {}, False)],
)
async def test_a_burst_on_one_node_runs(
    cluster: Field, id_: str, asked: Amounts, *, requests_only: bool
) -> None:
    """84018 to 84020: guaranteed, burstable and best effort."""
    selector = {"kubernetes.io/hostname": TARGET}
    pods = burst(ON_ONE_NODE, asked, requests_only=requests_only, nodeSelector=selector)
    await all_run(cluster, pods)
    on = {cluster.world.pod(item["metadata"]["name"]).spec.node_name for item in pods}
    assert on == {TARGET}, id_


@pytest.mark.parametrize(
    ("id_", "asked", "requests_only"),
    [("84021", SMALL, False), ("84022", SMALL, True), ("84023", {}, False)],
)
async def test_a_burst_on_all_nodes_runs(
    cluster: Field, id_: str, asked: Amounts, *, requests_only: bool
) -> None:
    """84021 to 84023: guaranteed, burstable and best effort."""
    await all_run(cluster, burst(ON_ALL_NODES, asked, requests_only=requests_only))


async def test_85779_a_deployment_grows_until_it_fills_the_nodes(cluster: Field) -> None:
    """One pod for every node at first, and then one for every zone."""
    asked = amounts("cpu=7 mem=30Gi")
    await cluster.create(workload("Deployment", pod("grows", [asked]), replicas=len(ALL)))
    await cluster.complete("grows", [asked], count=len(ALL))
    await cluster.change("Deployment", "grows", {"replicas": 2 * len(ALL)})
    names = await cluster.complete("grows", [asked], count=2 * len(ALL))
    assert await cluster.scheduled_by(*names) == {SCHEDULER_NAME}


async def test_85786_four_pods_fill_four_zones_at_once(cluster: Field) -> None:
    """More than half of a zone each, so that none can be placed twice."""
    await cluster.leave({OTHERS[1]: zones("cpu=0", "cpu=0")})
    await all_run(cluster, burst(4, BIG))


@pytest.mark.parametrize(
    ("id_", "count", "asked", "every", "burstable"),
    [("85787", 8, "cpu=4 mem=4Gi", 2, False), ("85788", 16, "cpu=2 mem=2Gi", 5, True)],
)
async def test_others_place_pods_meanwhile(
    cluster: Field, id_: str, count: int, asked: str, every: int, *, burstable: bool
) -> None:
    """85787 and 85788: some are the default scheduler's; all of them run in the end."""
    await cluster.leave({OTHERS[1]: zones("cpu=0", "cpu=0")})
    pods = [
        pod(
            f"burst-{number}",
            [amounts(asked)],
            scheduler=SCHEDULER_NAME if number % every else "default-scheduler",
            requests_only=burstable and not number % every,
        )
        for number in range(count)
    ]
    await cluster.placed(*pods)
    assert cluster.world.by_phase("Failed") == set()


async def test_85789_and_85790_what_does_not_fit_waits_until_something_goes(
    cluster: Field,
) -> None:
    """The device is in one zone of two nodes only."""
    left = {node: zones("dev3=3", "dev3=0") for node in (TARGET, OTHERS[0])}
    await cluster.leave({**left, OTHERS[1]: zones("dev3=0", "dev3=0")})
    names = {f"rare-{n}" for n in range(3)}
    await cluster.world.create(
        *(pod(name, [amounts("cpu=8 mem=8Gi dev3=1")]) for name in sorted(names))
    )
    await cluster.world.until(lambda: len(cluster.world.by_phase("Running") & names) == 2)
    (waiting,) = names - cluster.world.by_phase("Running")
    await cluster.waits(waiting, "cannot align container")
    running = sorted(cluster.world.by_phase("Running") & names)
    assert len({cluster.world.pod(one).spec.node_name for one in running}) == 2
    await cluster.world.delete(running[0])
    await cluster.world.until(lambda: waiting in cluster.world.by_phase("Running"))


@pytest.mark.parametrize(
    ("id_", "containers", "init", "script", "policy"),
    [
        ("83865", 1, 1, {"run-seconds.init0": "1", "run-seconds": "1"}, "Never"),
        ("83866", 1, 1, {"run-seconds.init0": "1"}, "Never"),
        ("83867", 2, 0, {"run-seconds.c1": "1"}, "Never"),
        ("83868", 2, 0, {"run-seconds.c1": "1"}, "Always"),
    ],
)
async def test_pods_that_end_in_part_stall_nothing(
    cluster: Field, id_: str, containers: int, init: int, script: Amounts, policy: str
) -> None:
    """83865 to 83868: init containers that take a while, app containers that end before others."""
    noise = [
        pod(
            f"noise-{node}-{number}",
            [NOISE] * containers,
            init=[NOISE] * init,
            node=node,
            script=script,
            restartPolicy=policy,
        )
        for node in ALL
        for number in range(2)
    ]
    names = {item["metadata"]["name"] for item in noise}
    await cluster.world.create(*noise)
    await cluster.world.until(
        lambda: {phase(cluster.world.pod(name)) for name in names} <= {"Running", "Succeeded"}
    )
    await all_run(cluster, burst(ON_ALL_NODES))


async def done(cluster: Field, name: str, asked: Amounts, *, requests_only: bool = False) -> None:
    """Run a job of two pods for every node to its end."""
    template = pod(
        name,
        [asked],
        requests_only=requests_only,
        scheduler="default-scheduler",
        script={"run-seconds": "0.1"},
        restartPolicy="Never",
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": name}},
            }
        ],
    )
    count = 2 * len(ALL)
    await cluster.create(workload("Job", template, completions=count, parallelism=count))

    async def is_complete() -> bool:
        found = await cluster.world.client.get(JOBS, name, namespace="default")
        conditions = found.get("status", {}).get("conditions", [])
        return any(
            condition["type"] == "Complete" and condition["status"] == "True"
            for condition in conditions
        )

    await cluster.world.until(is_complete)


@pytest.mark.parametrize(
    ("id_", "asked", "requests_only"),
    [
        ("85780", {}, False),
        ("85781", NOISE, True),
        ("85782", NOISE, False),
        ("85783", amounts("cpu=1 mem=256Mi"), False),
    ],
)
async def test_jobs_that_have_ended_stall_nothing(
    cluster: Field, id_: str, asked: Amounts, *, requests_only: bool
) -> None:
    """85780 to 85783: noise of best-effort, burstable and guaranteed jobs."""
    await done(cluster, f"noise-{id_}", asked, requests_only=requests_only)
    await all_run(cluster, burst(4, BIG))


@pytest.mark.parametrize(("id_", "requests_only"), [("85784", False), ("85785", True)])
async def test_a_burst_after_a_job_runs(cluster: Field, id_: str, *, requests_only: bool) -> None:
    """85784 and 85785: guaranteed and burstable pods after a job."""
    await done(cluster, f"noise-{id_}", {})
    await all_run(cluster, burst(ON_ALL_NODES, requests_only=requests_only))
