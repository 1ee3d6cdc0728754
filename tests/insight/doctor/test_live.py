"""On a live lab with real exporters and our scheduler: no false alarms on any machine."""

from __future__ import annotations

import pytest
from tests.apps.exporter.test_machines import SHAPES
from tests.apps.scheduler.world import NAME, pod_document, world_of
from tests.insight.doctor.world import reported

from numakube.apps.gathering import gather
from numakube.apps.scheduler.settings import default_configuration
from numakube.insight.doctor.registry import diagnose
from numakube.insight.facts import facts_of
from numakube.kubelet.machines.synthetic import from_shape
from numakube.lab.cluster import uniform_plans

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
    async with world_of(0, plans=tuple(plans)) as world:
        await world.start(default_configuration(NAME))
        await world.create(*(pod_document(f"web-{number}", cpu="2") for number in range(12)))
        await world.until(lambda: len(world.by_phase("Running")) == 12)
        await reported(world)
        facts = facts_of(await gather(world.client))

    assert len(facts.topologies) == len(plans)
    assert len(facts.kubelet_configs) == len(plans)
    assert [(entry.rule.id, entry.findings) for entry in diagnose(facts).entries] == []
