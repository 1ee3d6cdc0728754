"""What people do on OpenShift, on a lab with its kinds: samples for OLM, pools, must-gather."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from release.olm import bundle
from tests.apps.operator.test_on_the_lab import (
    IMAGE,
    in_state,
    install_operator,
    kinds_served,
    label,
    message_of,
    remove_definition,
    wanted_exporters,
    wanted_scheduler,
)

from numakube.api.yaml_text import load_manifests
from numakube.apps.operator.controller import OPERATORS, SCHEDULERS
from numakube.errors import ApiError
from numakube.kube.catalog import DAEMON_SETS, NAMESPACES
from numakube.kube.client import Client, merge_patch
from numakube.kube.resource_types import Resource
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import until
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.openshift_kinds import DEFINITIONS, install_openshift_kinds
from numakube_lab.testing import LabSite, SiteOptions, lab_site

pytestmark = pytest.mark.timeout(240)

GATHER = Path(__file__).parents[3] / "release" / "gather"
SELECTOR = {"matchLabels": {"pools.operator.machineconfiguration.openshift.io/worker": ""}}


@pytest.fixture
async def site() -> AsyncIterator[LabSite]:
    """A lab of two workers."""
    plans = uniform_plans(2, from_shape("2 sockets, 4 cores, smt 2, 16Gi"), "", "1.35")
    async with lab_site(SiteOptions(plans=plans, exporters=False)) as site:
        await remove_definition(site.client)
        for name in ("node-0", "node-1"):
            await label(site.client, name, "node-role.kubernetes.io/worker")
        yield site


async def create(client: Client, document: dict[str, Any]) -> None:
    """Create an object of a custom kind, or of a built-in one."""
    group, _, version = document["apiVersion"].rpartition("/")
    namespace = document["metadata"].get("namespace", "")
    resource = Resource(
        group=group,
        version=version,
        plural=f"{document['kind'].lower()}s",
        kind=document["kind"],
        namespaced=bool(namespace),
        object_type=dict[str, Any],
    )
    await client.create(resource, document, namespace=namespace)


def sample(name: str) -> list[dict[str, Any]]:
    """Return the objects of a sample."""
    return list(load_manifests(bundle()[f"samples/{name}.yaml"], name))


async def workers(site: LabSite) -> int:
    """Return on how many nodes exporters are ready, once they are."""
    await in_state(site.client, OPERATORS, "Available")
    (found,) = (await site.client.list(DAEMON_SETS)).items
    ready: int = found["status"]["numberReady"]
    return ready


async def test_the_samples_of_olm_are_taken_by_a_cluster_that_knows_its_kinds(
    site: LabSite,
) -> None:
    """A11, A12: Namespace, OperatorGroup and Subscription, and the catalog they name."""
    await install_openshift_kinds(site.client)
    short = {name for each in DEFINITIONS for name in each["spec"]["names"].get("shortNames", ())}
    assert {"mcp", "csv", "sub", "og", "scc"} <= short, "as `oc get csv,mcp` names them"
    await site.client.create(NAMESPACES, {"metadata": {"name": "openshift-marketplace"}})
    (catalog,) = sample("catalog-source")
    group = sample("operator")
    for document in (catalog, *group):
        await create(site.client, document)
    assert [item["kind"] for item in group] == ["Namespace", "OperatorGroup", "Subscription"]
    wish = group[-1]["spec"]
    assert (wish["source"], wish["sourceNamespace"]) == ("numakube", "openshift-marketplace")
    del wish["source"]
    group[-1]["metadata"]["name"] = "incomplete"
    with pytest.raises(ApiError, match=r"spec.source: Required value"):
        await create(site.client, group[-1])


async def test_a_selector_of_pools_works_on_openshift(site: LabSite) -> None:
    """A13: the pool worker has the label, and the nodes of that role.

    Exporters wait for a certificate there, which the lab has nobody to make.
    """
    await install_openshift_kinds(site.client)
    await install_operator(site.client)
    (wanted,) = sample("nrop")
    await create(site.client, wanted)

    async def scheduled() -> list[int]:
        found = (await site.client.list(DAEMON_SETS)).items
        return [
            entry["status"].get("desiredNumberScheduled", 0) for entry in found if "status" in entry
        ]

    await until(scheduled, lambda found: found == [2])
    found = await in_state(site.client, OPERATORS, "Progressing")
    assert [
        machineconfigpool["name"] for machineconfigpool in found["status"]["machineconfigpools"]
    ] == ["worker"]


async def test_a_selector_of_pools_works_without_pools(site: LabSite) -> None:
    """A13: the same object, on plain Kubernetes."""
    await install_operator(site.client)
    await create(site.client, wanted_exporters(machineConfigPoolSelector=SELECTOR))
    assert await workers(site) == 2


async def test_an_object_that_names_the_go_scheduler_says_what_to_write(site: LabSite) -> None:
    """A17: as every object of the NUMA Resources Operator does."""
    await install_operator(site.client)
    await kinds_served(site.client)
    image = "registry.redhat.io/openshift4/noderesourcetopology-scheduler-rhel9:v4.18"
    await create(site.client, wanted_scheduler(imageSpec=image))
    found = await in_state(site.client, SCHEDULERS, "Degraded")
    assert "write spec.imageSpec: " in message_of(found, "Degraded")
    ours = merge_patch({"spec": {"imageSpec": IMAGE}})
    await site.client.patch(SCHEDULERS.raw, "numaresourcesscheduler", ours)
    await in_state(site.client, SCHEDULERS, "Available")


async def test_must_gather_brings_a_bundle_and_what_doctor_says(
    site: LabSite, tmp_path: Path
) -> None:
    """L12: by the file that the image has at /usr/bin/gather."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    env = {
        "PATH": path,
        "HOME": str(tmp_path),
        "KUBECONFIG": str(site.kubeconfig),
        "BASE_COLLECTION_PATH": str(tmp_path / "must-gather"),
    }
    process = await asyncio.create_subprocess_exec("sh", str(GATHER), env=env)
    assert await process.wait() == 0
    found = {path.name for path in (tmp_path / "must-gather").iterdir()}
    assert found == {"version", "numakube-bundle.tar.gz", "gather.log", "doctor.txt"}
    assert "NUMA-" in (tmp_path / "must-gather" / "doctor.txt").read_text("utf-8")
