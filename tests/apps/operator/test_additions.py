"""What is ours in the object of the scheduler: an extender, and controllers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.apps.operator.test_exporters_plan import applied
from tests.apps.operator.test_on_the_lab import (
    IMAGE,
    NAMESPACE,
    in_state,
    install_operator,
    remove_definition,
    wanted_exporters,
    wanted_scheduler,
)
from tests.apps.operator.test_scheduler_plan import SCHEDULER_SETUP, scheduler_plan

from numakube.api.meta import ObjectMeta, OwnerReference
from numakube.api.numaresources import (
    AdmissionCheckFields,
    ExtenderSpec,
    NUMAResourcesScheduler,
    RebalancerSpec,
    SchedulerSpec,
)
from numakube.api.workloads import Deployment, DeploymentCondition, DeploymentStatus
from numakube.api.yaml_text import load_yaml
from numakube.apps.operator.controller import OPERATORS, SCHEDULERS
from numakube.apps.operator.planned_actions import Made, PlannedState, Remove
from numakube.apps.operator.scheduler_plan import SchedulerSeen, plan_scheduler
from numakube.kube.catalog import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from numakube.kube.client import Client, merge_patch
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import until
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.testing import Opener, Site, SiteOptions

pytestmark = pytest.mark.timeout(240)

EXTENDER = "numaresources-extender"
OTHERS = ("numakube-rebalancer", "numakube-admission-check")


def test_an_extender_comes_with_the_configuration_that_a_kube_scheduler_needs() -> None:
    """By default two of them, and encrypted."""
    plan = scheduler_plan(extender=ExtenderSpec())
    deployment = applied(plan, "Deployment")[EXTENDER]
    assert deployment["spec"]["replicas"] == 2
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/numakube:1"
    assert not any(one == "--insecure-serving" for one in container["args"])
    text = applied(plan, "ConfigMap")[EXTENDER]["data"]["kube-scheduler.yaml"]
    configuration = load_yaml(text, "configuration")
    assert isinstance(configuration, dict)
    (extender,) = configuration["extenders"]
    assert extender["urlPrefix"] == f"https://{EXTENDER}.ns.svc:10263"
    assert [entry.get("name") for entry in plan.status["relatedObjects"]][-1] == EXTENDER
    plain = scheduler_plan(extender=ExtenderSpec(replicas=1, tls="Disabled"))
    (container,) = applied(plain, "Deployment")[EXTENDER]["spec"]["template"]["spec"]["containers"]
    assert "--insecure-serving" in container["args"]


def test_controllers_come_when_they_are_asked_for() -> None:
    """As the object says, and they ask the operator's own scheduler."""
    assert not set(OTHERS) & applied(scheduler_plan(), "Deployment").keys()
    rebalancer = RebalancerSpec(moves_per_hour=3, quiet_hours="08:00-18:00", dry_run=True)
    plan = scheduler_plan(rebalancer=rebalancer, admission_check=AdmissionCheckFields(replicas=1))
    made = applied(plan, "Deployment")
    (container,) = made[OTHERS[0]]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example/numakube:1"
    told = ["--moves-per-hour=3", "--quiet-hours=08:00-18:00", "--dry-run"]
    assert container["args"][-3:] == told
    assert [made[name]["spec"]["replicas"] for name in OTHERS] == [2, 1]
    for name in OTHERS:
        tokens = [rule for rule in applied(plan, "Role")[name]["rules"] if "resourceNames" in rule]
        assert tokens[-1]["resourceNames"] == ["secondary-scheduler-debug"]
    assert [entry.get("name") for entry in plan.status["relatedObjects"]][-2:] == list(OTHERS)
    assert plan.verdict.state is PlannedState.PROGRESSING


def deployment(name: str, *, available: bool = True, owner: str = "s") -> Deployment:
    """Return a Deployment that an operator has made."""
    condition = DeploymentCondition(type="Available", status=str(available))
    reference = OwnerReference(api_version="x", kind="y", name="z", uid=owner)
    metadata = ObjectMeta(
        name=name, namespace="ns", uid=f"uid-{name}", owner_references=(reference,)
    )
    return Deployment(metadata=metadata, status=DeploymentStatus(conditions=(condition,)))


def seen(extender: Deployment, spec: ExtenderSpec | None) -> SchedulerSeen:
    """Return a state with a scheduler that runs, and an extender."""
    own = NUMAResourcesScheduler(
        metadata=ObjectMeta(name="numaresourcesscheduler", uid="s"),
        spec=SchedulerSpec(image_spec=IMAGE, extender=spec),
    )
    made = Made(api_version="apps/v1", kind="Deployment", metadata=extender.metadata)
    scheduler = deployment("secondary-scheduler")
    return SchedulerSeen(
        object=own, deployment=scheduler, companions={EXTENDER: extender}, made=(made,)
    )


def test_the_scheduler_is_available_with_its_extender() -> None:
    """Until then the condition names what is missing."""
    missing = plan_scheduler(
        seen(deployment(EXTENDER, available=False), ExtenderSpec()), SCHEDULER_SETUP
    )
    assert missing is not None
    assert missing.verdict.state is PlannedState.PROGRESSING
    assert missing.verdict.message == f"ns/{EXTENDER} is updating"
    there = plan_scheduler(seen(deployment(EXTENDER), ExtenderSpec()), SCHEDULER_SETUP)
    assert there is not None
    assert there.verdict.state is PlannedState.AVAILABLE


def test_an_extender_that_is_switched_off_is_removed() -> None:
    """One of somebody else's is not."""
    for owner, count in (("s", 1), ("somebody", 0)):
        plan = plan_scheduler(seen(deployment(EXTENDER, owner=owner), None), SCHEDULER_SETUP)
        assert plan is not None
        removed = [action.name for action in plan.actions if isinstance(action, Remove)]
        assert removed == [EXTENDER] * count
        assert plan.verdict.state is PlannedState.AVAILABLE


@pytest.fixture
async def site(sites: Opener) -> AsyncIterator[Site]:
    """A cluster of one node that asks for rights, and an operator."""
    (plan,) = uniform_plans(1, from_shape("2 sockets, 4 cores, smt 2, 16Gi"), "", "1.35")
    async with sites(SiteOptions(plans=(plan,), exporters=False, rbac=True)) as site:
        await remove_definition(site.client)
        await install_operator(site.client)
        yield site


async def of_companions(client: Client) -> list[str]:
    """Return the names of everything that extender and controllers take in the namespace."""
    found: list[Any] = []
    kinds: tuple[Any, ...] = (
        *(SERVICE_ACCOUNTS, CONFIG_MAPS, DAEMON_SETS),
        *(DEPLOYMENTS, SERVICES, POD_DISRUPTION_BUDGETS),
    )
    for kind in kinds:
        found += (await client.list(kind, namespace=NAMESPACE)).items
    names = [str(item["metadata"]["name"]) for item in found]
    return [name for name in names if name.startswith((EXTENDER, *OTHERS))]


async def test_an_extender_and_controllers_run_until_they_are_switched_off(
    site: Site,
) -> None:
    """Each with no more than its own rights; exporters and scheduler stay."""
    client = site.client
    await client.create(OPERATORS.raw, wanted_exporters(nodeSelector={"matchLabels": {}}))
    extender = {"replicas": 1, "tls": "Disabled"}
    more = {"rebalancer": {"replicas": 1, "dryRun": True}, "admissionCheck": {"replicas": 1}}
    await client.create(SCHEDULERS.raw, wanted_scheduler(extender=extender, **more))
    await in_state(client, OPERATORS, "Available")
    await in_state(client, SCHEDULERS, "Available")
    assert len(await of_companions(client)) == 12
    without = merge_patch({"spec": {"extender": None, **dict.fromkeys(more)}})
    await client.patch(SCHEDULERS.raw, "numaresourcesscheduler", without)

    async def gone() -> bool:
        return await of_companions(client) == []

    await until(gone)
    await in_state(client, OPERATORS, "Available")
    await in_state(client, SCHEDULERS, "Available")
