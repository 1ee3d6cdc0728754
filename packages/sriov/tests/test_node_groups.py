"""The field ``sriov`` of an operator's node groups: device plugins where the exporters are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from tests.apps.operator.test_exporters_plan import SETUP, applied, daemon_set, planned, wanted
from tests.apps.operator.test_on_the_lab import (
    NAMESPACE,
    in_state,
    install_operator,
    remove_definition,
    wanted_exporters,
)
from tests.sites.plugin import shared_server, sites

from numakube.api.affinity_and_taints import Toleration
from numakube.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from numakube.api.numaresources import (
    MachineConfigPool,
    MachineConfigPoolSpec,
    NodeGroup,
    NodeGroupConfig,
    SriovGroup,
)
from numakube.apps.operator.controller import OPERATORS
from numakube.apps.operator.exporters_plan import Seen
from numakube.apps.operator.planned_actions import PlannedState, Remove
from numakube.kube.catalog import (
    CONFIG_MAPS,
    DAEMON_SETS,
    NODE_RESOURCE_TOPOLOGIES,
    SERVICE_ACCOUNTS,
)
from numakube.kube.client import Client, merge_patch
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import until
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.testing import Opener, Site, SiteOptions

pytestmark = pytest.mark.timeout(240)
__all__ = ["shared_server", "sites"]  # fixtures

RESOURCE: dict[str, Any] = {"resourceName": "vfs", "selectors": {"isRdma": False}}
PLUGIN = "numaresources-sriov-worker"


def group(*resources: dict[str, Any], **more: Any) -> NodeGroup:
    """Return a group whose nodes offer devices."""
    sriov = SriovGroup(resources=resources or (RESOURCE,))
    return NodeGroup(pool_name="worker", sriov=sriov, **more)


def test_a_group_with_devices_gets_a_plugin_where_its_exporters_are() -> None:
    """With its own configuration and an account without rights."""
    taint = Toleration(key="dedicated", operator="Exists")
    plan = planned(Seen(object=wanted(group(config=NodeGroupConfig(tolerations=(taint,))))))
    assert "numaresources-sriov" in applied(plan, "ServiceAccount")
    assert '"resourceName": "vfs"' in applied(plan, "ConfigMap")[PLUGIN]["data"]["config.json"]
    pod = applied(plan, "DaemonSet")[PLUGIN]["spec"]["template"]["spec"]
    exporter = applied(plan, "DaemonSet")["numaresourcesoperator-worker"]["spec"]["template"][
        "spec"
    ]
    assert pod["affinity"]["nodeAffinity"] == exporter["affinity"]["nodeAffinity"]
    assert (
        pod["tolerations"]
        == exporter["tolerations"]
        == [{"key": "dedicated", "operator": "Exists"}]
    )
    (container,) = pod["containers"]
    assert (container["image"], container["imagePullPolicy"]) == (SETUP.image, "IfNotPresent")


def test_nodes_by_labels_and_conditions_get_plugins_too() -> None:
    """Two groups share the account."""
    selector = LabelSelector(
        match_labels={"net": "fast"},
        match_expressions=(LabelSelectorRequirement(key="old", operator="DoesNotExist"),),
    )
    other = NodeGroup(node_selector=selector, sriov=SriovGroup(resources=(RESOURCE,), cdi=True))
    plan = planned(Seen(object=wanted(group(), other)))
    plugins = {
        name: one["spec"]["template"]["spec"]
        for name, one in applied(plan, "DaemonSet").items()
        if name.startswith("numaresources-sriov-")
    }
    assert len(plugins) == 2
    fast = next(one for name, one in plugins.items() if name != PLUGIN)
    assert fast["nodeSelector"] == {"net": "fast"}
    assert "--use-cdi" in fast["containers"][0]["args"]
    names = [
        action.document["metadata"]["name"]
        for action in plan.actions
        if not isinstance(action, Remove)
    ]
    assert names.count("numaresources-sriov") == 1


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ([{"resourceName": "no spaces"}], "no spaces"),
        ([RESOURCE, RESOURCE], "vfs"),
        ([{"resourceName": "x", "deviceType": "toaster"}], "toaster"),
        ([{"resourceName": "x", "selectors": {"vendors": "8086"}}], "vendors"),
        ([{"resourceName": "x", "selectors": {"vender": ["8086"]}}], "vender"),
    ],
)
def test_a_plugin_that_would_not_start_is_told_before(
    resources: list[dict[str, Any]], message: str
) -> None:
    """With the number of the group; nothing is touched."""
    plan = planned(Seen(object=wanted(group(*resources))))
    assert plan.verdict.state is PlannedState.DEGRADED
    assert plan.verdict.reason == "ValidationErrorUnderNodeGroups"
    assert plan.verdict.message.startswith("node group 0: sriov: ")
    assert message in plan.verdict.message
    assert plan.actions == ()


def test_a_group_is_ready_with_its_plugin() -> None:
    """And the plugin is among the related objects."""
    exporter = daemon_set()
    for ready, state in ((False, PlannedState.PROGRESSING), (True, PlannedState.AVAILABLE)):
        sets = {one.metadata.name: one for one in (exporter, daemon_set(PLUGIN, ready=ready))}
        plan = planned(Seen(object=wanted(group()), daemon_sets=sets))
        assert plan.verdict.state is state
        related = [entry.get("name") for entry in plan.status["relatedObjects"]]
        assert PLUGIN in related
        assert [daemonset["name"] for daemonset in plan.status["daemonsets"]] == [
            exporter.metadata.name
        ]


def test_openshift_lets_the_plugin_see_its_host() -> None:
    """By the same constraints as exporters."""
    spec = MachineConfigPoolSpec(node_selector=LabelSelector(match_labels={"a": "b"}))
    pool = MachineConfigPool(metadata=ObjectMeta(name="worker"), spec=spec)
    plan = planned(Seen(object=wanted(group()), machine_config_pools=(pool,)))
    (constraints,) = applied(plan, "SecurityContextConstraints").values()
    assert constraints["users"] == [
        "system:serviceaccount:ns:rte",
        "system:serviceaccount:ns:numaresources-sriov",
    ]


@pytest.fixture
async def site(sites: Opener) -> AsyncIterator[Site]:
    """A cluster of one node with virtual functions, that asks for rights, and an operator."""
    (plan,) = uniform_plans(1, from_shape("2 sockets, 4 cores, smt 2, 16Gi"), "", "1.35")
    plans = (replace(plan, virtual_functions=2),)
    async with sites(SiteOptions(plans=plans, exporters=False, rbac=True)) as site:
        await remove_definition(site.client)
        await install_operator(site.client)
        yield site


async def of_plugins(client: Client) -> list[str]:
    """Return the names of everything that plugins take in the namespace."""
    found: list[Any] = []
    kinds: tuple[Any, ...] = (SERVICE_ACCOUNTS, CONFIG_MAPS, DAEMON_SETS)
    for kind in kinds:
        found += (await client.list(kind, namespace=NAMESPACE)).items
    names = [str(item["metadata"]["name"]) for item in found]
    return [name for name in names if name.startswith("numaresources-sriov")]


async def test_devices_are_offered_until_they_are_switched_off(site: Site) -> None:
    """With no more than their own rights; exporters stay."""
    client = site.client
    everywhere: dict[str, Any] = {"nodeSelector": {"matchLabels": {}}}
    asked = wanted_exporters(**everywhere, sriov={"resources": [RESOURCE]})
    await client.create(OPERATORS.raw, asked)
    exporters = await in_state(client, OPERATORS, "Available")
    related = {entry["name"] for entry in exporters["status"]["relatedObjects"]}
    assert any(name.startswith("numaresources-sriov-nodes-") for name in related)
    assert len(await of_plugins(client)) == 3

    async def offered() -> bool:
        report = await client.get(NODE_RESOURCE_TOPOLOGIES, "node-0")
        return any(part.name == "intel.com/vfs" for zone in report.zones for part in zone.resources)

    await until(offered)
    without = merge_patch({"spec": {"nodeGroups": [everywhere]}})
    await client.patch(OPERATORS.raw, "numaresourcesoperator", without)

    async def gone() -> bool:
        return await of_plugins(client) == []

    await until(gone)
    await in_state(client, OPERATORS, "Available")
