"""On a live lab with real exporters and our scheduler: no false alarms on any machine."""

from __future__ import annotations

import pytest
from tests.apps.exporter.test_numa_hardware_machines import SHAPES
from tests.insight.doctor.documents import reported

from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.apps.deployer.apply_and_remove import DeployEngine
from numakube.apps.gathering import gather
from numakube.insight.doctor.all_checks import diagnose
from numakube.insight.facts import facts_of
from numakube.kube.catalog import CLUSTER_ROLE_BINDINGS
from numakube.kube.client import Client
from numakube.kubelet.machines.shape_text import from_shape
from numakube.manifests.components import DEFAULT, Choices, objects_of
from numakube.scheduling.assembly import default_configuration
from numakube.testing import pod_document
from numakube.testing.waiting import PATIENCE_SECONDS, until
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.testing import lab_cluster

pytestmark = pytest.mark.timeout(300)
KUBELETS = ("policy=single-numa-node", "policy=restricted,scope=pod", "policy=best-effort")


async def test_a_lab_of_all_machines_is_well() -> None:
    """Each with a policy of its own, and pods on some of them."""
    plans = [
        plan
        for place, shape in enumerate(SHAPES)
        for kubelet in [KUBELETS[place % len(KUBELETS)]]
        for plan in uniform_plans(1, from_shape(shape), kubelet, "1.35", first=place)
    ]
    assert len(plans) >= 20
    async with lab_cluster(0, plans=tuple(plans)) as world:
        await world.start(default_configuration(SCHEDULER_NAME))
        await world.create(*(pod_document(f"web-{number}", cpu="2") for number in range(12)))
        await world.until(lambda: len(world.by_phase("Running")) == 12)
        await reported(world)
        facts = facts_of(await gather(world.client))

    assert len(facts.topologies) == len(plans)
    assert len(facts.kubelet_configs) == len(plans)
    # The scheduler is no pod here that could be asked.
    found = diagnose(facts, skip=["NUMA-ACCESS-SCHEDULER"])
    assert [(entry.rule.id, entry.findings) for entry in found.entries] == []


async def test_a_lab_with_everything_deployed_is_well_until_a_right_is_taken_away() -> None:
    """Exporters and schedulers run as pods with the rights that their manifests give."""
    shape = "2 sockets, 4 cores, smt 2, 16Gi"
    async with (
        lab_cluster(2, shape, rbac=True, exporters=False) as cluster,
        # Schedulers are asked through the API server, which takes HTTP.
        cluster.connect() as reader,
    ):
        engine = DeployEngine(client=cluster.client, tell=lambda _: None)
        documents = objects_of(DEFAULT, Choices(image="registry.example/numakube:1"))
        await engine.deploy(documents)
        assert await engine.wait_ready(documents, PATIENCE_SECONDS, lambda _: None) == ""
        await finds(reader)

        await cluster.client.delete(CLUSTER_ROLE_BINDINGS, "numakube-scheduler")
        await finds(reader, "NUMA-RBAC-MISSING", only="NUMA-RBAC")


async def finds(client: Client, *ids: str, only: str = "NUMA") -> None:
    """Wait until just these are the ids of what is found."""

    async def found() -> tuple[str, ...]:
        facts = facts_of(await gather(client))
        return tuple(entry.rule.id for entry in diagnose(facts, only=[only]).entries)

    await until(found, lambda found: found == ids)
