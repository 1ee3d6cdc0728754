"""What is deployed of the driver, and its field in an operator's node groups."""

from __future__ import annotations

from dataclasses import replace as plan_with
from json import loads as load_json
from typing import Any

import pytest
from tests.apps.operator.test_exporters_plan import SETUP, applied, planned, wanted
from tests.apps.operator.test_on_the_lab import (
    in_state,
    install_operator,
    remove_definition,
    wanted_exporters,
)
from tests.manifests.test_files import is_up_to_date, namespace
from tests.sites.plugin import shared_server, sites

from numakube.api.affinity_and_taints import Toleration
from numakube.api.meta import LabelSelector, ObjectMeta
from numakube.api.numaresources import (
    DraGroup,
    MachineConfigPool,
    MachineConfigPoolSpec,
    NodeGroup,
    NodeGroupConfig,
)
from numakube.apps.operator.controller import OPERATORS
from numakube.apps.operator.exporters_plan import Seen
from numakube.apps.operator.planned_actions import Remove
from numakube.kube.catalog import DAEMON_SETS, DEVICE_CLASSES, RESOURCE_SLICES
from numakube.kube.client import merge_patch
from numakube.kubelet.config_from_words import UNALIGNED
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import until
from numakube_dra_driver.manifest import DraManifest
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.testing import Opener, SiteOptions

__all__ = ["shared_server", "sites"]  # fixtures

pytestmark = pytest.mark.timeout(240)
DRIVER = "numaresources-dra-worker"
RESOURCE: dict[str, Any] = {"resourceName": "vfs", "selectors": {"isRdma": False}}


def group(dra: DraGroup | None = None, **more: Any) -> NodeGroup:
    """Return a group whose nodes run the driver."""
    return NodeGroup(pool_name="worker", dra=dra or DraGroup(), **more)


def test_the_file_is_up_to_date() -> None:
    manifest = DraManifest()
    documents = [namespace(manifest.namespace), *manifest.objects()]
    assert is_up_to_date("dra.yaml", documents)


def test_a_driver_has_no_right_and_no_capability_that_it_does_not_use() -> None:
    by_kind = {item["kind"]: item for item in DraManifest().objects()}
    rights = {
        (resource, verb)
        for rule in by_kind["ClusterRole"]["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert {verb for resource, verb in rights if resource.startswith("resourceclaims")} == {
        "get",
        "patch",
        "associated-node:patch",
    }
    assert not {resource for resource, _ in rights} & {"secrets", "configmaps", "pods/status"}
    pod = by_kind["DaemonSet"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "privileged" not in container["securityContext"]
    assert not {"hostPID", "hostNetwork", "hostIPC"} & pod.keys()


def test_a_group_with_claims_gets_a_driver_where_its_exporters_are() -> None:
    taint = Toleration(key="dedicated", operator="Exists")
    asked = DraGroup(cpu_devices="l3", reserved_cpus="0-1")
    seen = Seen(object=wanted(group(asked, config=NodeGroupConfig(tolerations=(taint,)))))
    plan = planned(seen)
    template = applied(plan, "DaemonSet")[DRIVER]["spec"]["template"]
    exporter = applied(plan, "DaemonSet")["numaresourcesoperator-worker"]["spec"]["template"]
    nodes = [one["spec"]["affinity"]["nodeAffinity"] for one in (template, exporter)]
    assert nodes[0] == nodes[1]
    assert template["spec"]["tolerations"] == exporter["spec"]["tolerations"]
    (container,) = template["spec"]["containers"]
    assert container["image"] == SETUP.image
    assert container["args"][-2:] == ["--cpu-devices=l3", "--reserved-cpus=0-1"]
    policies = applied(plan, "ValidatingAdmissionPolicy")
    assert "numaresources-dra" in str(policies["numaresources-dra-own-node"]["spec"])
    assert "annotations" not in template["metadata"]


def test_a_group_with_pools_gets_a_driver_that_offers_their_functions() -> None:
    """From the group's own ConfigMap; the class of a pool that two groups have is made once."""
    selector = LabelSelector(match_labels={"net": "fast"})
    other = NodeGroup(
        node_selector=selector,
        dra=DraGroup(resources=(RESOURCE, {**RESOURCE, "resourceName": "b"})),
    )
    plan = planned(Seen(object=wanted(group(DraGroup(resources=(RESOURCE,))), other)))
    pod = applied(plan, "DaemonSet")[DRIVER]["spec"]["template"]["spec"]
    assert {"name": "config", "configMap": {"name": DRIVER}} in pod["volumes"]
    (container,) = pod["containers"]
    assert "--pci-config-file=/etc/pcidp/config.json" in container["args"]
    assert "/etc/pcidp" in {mount["mountPath"] for mount in container["volumeMounts"]}
    maps = applied(plan, "ConfigMap")
    assert load_json(maps.pop(DRIVER)["data"]["config.json"]) == {"resourceList": [RESOURCE]}
    assert [name for name in maps if name.startswith("numaresources-dra-")]
    classes = [
        action.document["metadata"]["name"]
        for action in plan.actions
        if not isinstance(action, Remove) and action.document["kind"] == "DeviceClass"
    ]
    assert [name for name in classes if "." in name] == ["vfs.intel.com", "b.intel.com"]
    extended = applied(plan, "DeviceClass")["vfs.intel.com"]["spec"]["extendedResourceName"]
    assert extended == "intel.com/vfs"


def test_a_group_without_pools_has_a_driver_that_sees_no_devices() -> None:
    plan = planned(Seen(object=wanted(group())))
    pod = applied(plan, "DaemonSet")[DRIVER]["spec"]["template"]["spec"]
    assert not {"dev", "proc", "config", "device-info"} & {one["name"] for one in pod["volumes"]}
    assert not [name for name in applied(plan, "ConfigMap") if "dra" in name]
    assert not [name for name in applied(plan, "DeviceClass") if "." in name]


def test_on_openshift_drivers_may_be_as_unconfined_as_they_have_to_be() -> None:
    pool = MachineConfigPool(
        metadata=ObjectMeta(name="worker"),
        spec=MachineConfigPoolSpec(node_selector=LabelSelector(match_labels={"role": "worker"})),
    )
    plan = planned(Seen(object=wanted(group()), machine_config_pools=(pool,)))
    constraints = applied(plan, "SecurityContextConstraints")["numaresources-dra"]
    assert constraints["seLinuxContext"]["seLinuxOptions"] == {"type": "spc_t"}
    assert constraints["users"] == ["system:serviceaccount:ns:numaresources-dra"]
    template = applied(plan, "DaemonSet")[DRIVER]["spec"]["template"]
    assert template["metadata"]["annotations"] == {"openshift.io/required-scc": "numaresources-dra"}


@pytest.mark.parametrize(
    ("dra", "words"),
    [
        (DraGroup(cpu_devices="gpu"), "gpu"),
        (DraGroup(cpu_step="halves"), "halves"),
        (DraGroup(reserved_cpus="0-x"), "reservedCPUs"),
        (DraGroup(resources=({"resourceName": "no spaces"},)), "no spaces"),
        (DraGroup(resources=({"resourceName": "x", "selectors": {"vender": []}},)), "vender"),
        (
            DraGroup(
                resources=(RESOURCE | {"resourceName": "v_f"}, RESOURCE | {"resourceName": "v-f"})
            ),
            "pools intel.com/v_f and intel.com/v-f: one class v-f.intel.com for two",
        ),
    ],
)
def test_a_driver_that_would_not_start_is_not_deployed(dra: DraGroup, words: str) -> None:
    plan = planned(Seen(object=wanted(group(dra))))
    assert not applied(plan, "DaemonSet")
    assert "node group 0: dra:" in plan.verdict.message
    assert words in plan.verdict.message


async def test_an_operator_offers_the_functions_of_pools_to_claims(sites: Opener) -> None:
    """With no more than their own rights, from the object's field to the slices and the classes."""
    (plan,) = uniform_plans(1, from_shape("2 sockets, 4 cores, smt 2, 16Gi"), UNALIGNED, "1.36")
    plans = (plan_with(plan, virtual_functions=2),)
    async with sites(SiteOptions(plans=plans, exporters=False, rbac=True)) as site:
        client = site.client
        await remove_definition(client)
        await install_operator(client)
        everywhere: dict[str, Any] = {"nodeSelector": {"matchLabels": {}}}
        asked = wanted_exporters(**everywhere, dra={"resources": [RESOURCE]})
        await client.create(OPERATORS.raw, asked)

        async def offered() -> set[str]:
            slices = (await client.list(RESOURCE_SLICES)).items
            devices = [device for one in slices for device in one["spec"].get("devices", ())]
            pools = [device["attributes"].get("numakube.dev/pool") for device in devices]
            return {pool["string"] for pool in pools if pool}

        await until(offered, lambda pools: pools == {"intel.com/vfs"})
        await in_state(client, OPERATORS, "Available")
        assert await client.get(DEVICE_CLASSES, "vfs.intel.com")
        without = merge_patch({"spec": {"nodeGroups": [{**everywhere, "dra": {}}]}})
        await client.patch(OPERATORS.raw, "numaresourcesoperator", without)
        await until(offered, lambda pools: pools == set())
        await in_state(client, OPERATORS, "Available")


async def test_an_operator_runs_drivers_until_they_are_switched_off(sites: Opener) -> None:
    """With no more than their own rights; exporters stay."""
    plans = uniform_plans(1, from_shape("2 sockets, 4 cores, smt 2, 16Gi"), UNALIGNED, "1.36")
    async with sites(SiteOptions(plans=plans, exporters=False, rbac=True)) as site:
        client = site.client
        await remove_definition(client)
        await install_operator(client)
        everywhere: dict[str, Any] = {"nodeSelector": {"matchLabels": {}}}
        await client.create(OPERATORS.raw, wanted_exporters(**everywhere, dra={}))

        async def offered() -> list[str]:
            slices = (await client.list(RESOURCE_SLICES)).items
            return [one["spec"]["nodeName"] for one in slices]

        await until(offered, lambda nodes: nodes == ["node-0"])
        assert await client.get(DEVICE_CLASSES, "numa-cpus")
        await in_state(client, OPERATORS, "Available")
        without = merge_patch({"spec": {"nodeGroups": [everywhere]}})
        await client.patch(OPERATORS.raw, "numaresourcesoperator", without)

        async def left() -> list[str]:
            sets = (await client.list(DAEMON_SETS)).items
            return [one["metadata"]["name"] for one in sets if "dra" in one["metadata"]["name"]]

        await until(left, lambda names: names == [])
        await in_state(client, OPERATORS, "Available")
