"""Kubernetes' own PodGroup, on a kube-apiserver that serves it: 1.37 or later."""

from __future__ import annotations

import asyncio
import subprocess
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from tests.apps.scheduler.test_gangs import ALMOST_A_NODE, SHAPE, create_group, placed, urgent
from tests.real.api_server import RealServer, assets
from tests.real.marks import needs_assets
from tests.sites.real_site import real_site

from numakube.api.pod_groups import INITIALLY_SCHEDULED
from numakube.apps.watched_kinds import POD_GROUPS
from numakube.testing import pod_document
from numakube_lab.testing import lab_cluster

GATES: Final = "DRAExtendedResource=true,GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
GROUP: Final = "scheduling.k8s.io"


def serves_groups() -> bool:
    """Tell whether the assets are of 1.37 or later."""
    directory = assets()
    if directory is None:
        return False
    asked = [str(directory / "kube-apiserver"), "--version"]
    told = subprocess.run(asked, check=True, capture_output=True, text=True)  # noqa: S603
    return int(told.stdout.split(".")[1]) >= 37


pytestmark = [
    needs_assets,
    pytest.mark.skipif(not serves_groups(), reason="PodGroup v1beta1 came with Kubernetes 1.37"),
    pytest.mark.timeout(400),
]


class WithGroups(RealServer):
    """A server that serves PodGroups."""

    def _server_arguments(self, port: int) -> list[str]:
        served = f"--runtime-config={GROUP}/v1beta1=true"
        return [*super()._server_arguments(port), served]


def member(name: str) -> dict[str, Any]:
    """Return a pod of the group."""
    return pod_document(name, ALMOST_A_NODE, schedulingGroup={"podGroupName": "team"})


async def test_a_group_of_kubernetes_runs_and_goes_as_a_whole(tmp_path: Path) -> None:
    """Its pods wait for it, run together as it says, and go together for one urgent pod."""
    server = WithGroups(tmp_path, gates=GATES)
    await asyncio.to_thread(server.__enter__)
    try:
        async with lab_cluster(2, shape=SHAPE, on=partial(real_site, server)) as world:
            await urgent(world)
            await world.start()
            await world.create(member("a"), member("b"), pod_document("alone", "1"))
            await world.runs("alone")
            assert placed(world) == {"alone"}
            policy = {"gang": {"minCount": 2}}
            spec = {"schedulingPolicy": policy, "disruptionMode": {"all": {}}}
            await create_group(world, GROUP, "v1beta1", "team", spec)
            await world.runs("a", "b")

            async def says_so() -> bool:
                group = await world.client.get(POD_GROUPS, "team", namespace="default")
                condition = group.condition(INITIALLY_SCHEDULED)
                return condition is not None and condition.status == "True"

            await world.until(says_so)
            await world.create(pod_document("first", ALMOST_A_NODE, priorityClassName="urgent"))

            await world.runs("first")
            left = {"alone", "first"}
            await world.until(lambda: {pod.metadata.name for pod in world.pods.store} == left)
    finally:
        await asyncio.to_thread(server.__exit__)
