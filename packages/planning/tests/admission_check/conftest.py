"""A cluster with a scheduler and an admission check that asks it all the time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from tests.apps.scheduler.served import served
from tests.apps.shipped_rights import with_shipped_rights

from numakube.api.kueue import GROUP
from numakube.apps.host.common_settings import LeaseSettings
from numakube.apps.host.process_life import Surroundings
from numakube.errors import NotFound
from numakube.kube.catalog import CUSTOM_RESOURCE_DEFINITIONS
from numakube.kube.client import merge_patch
from numakube.kube.resource_types import Document, Resource
from numakube.testing import until
from numakube_lab.testing import LabCluster, Opener, lab_cluster
from numakube_planning.admission_check.process import AdmissionCheckProcess, AdmissionCheckSettings
from numakube_planning.manifests import AdmissionCheckManifest

SHAPE = "2 sockets, 4 cores, smt 1, 16Gi"
KINDS = {"workloads": "Workload", "admissionchecks": "AdmissionCheck"}
KINDS["resourceflavors"] = "ResourceFlavor"


def definition(plural: str, version: str) -> Document:
    """Return the definition of a kind of Kueue, with any fields and a status of its own."""
    kind = KINDS[plural]
    served_version = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        },
    }
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced" if plural == "workloads" else "Cluster",
            "names": names,
            "versions": [served_version],
        },
    }


@dataclass(slots=True)
class Kueue:
    """What Kueue does to its objects, done by hand."""

    world: LabCluster
    version: str = "v1beta2"

    def kind(self, plural: str) -> Resource[Document]:
        """Return one of its kinds."""
        return Resource(
            group=GROUP,
            version=self.version,
            plural=plural,
            kind=KINDS[plural],
            namespaced=plural == "workloads",
            object_type=dict[str, Any],
        )

    async def install(self) -> None:
        """Create the definitions, and an admission check of ours."""
        for plural in KINDS:
            document = definition(plural, self.version)
            await self.world.client.create(CUSTOM_RESOURCE_DEFINITIONS.raw, document)
            await until(partial(self._is_served, plural))
        spec = {"controllerName": "numakube.dev/admission-check"}
        await self.create("admissionchecks", {"metadata": {"name": "aligned"}, "spec": spec})

    async def _is_served(self, plural: str) -> bool:
        """Tell whether objects of a kind can be written; a real server takes a while."""
        with suppress(NotFound):
            await self.world.client.list(self.kind(plural))
            return True
        return False

    async def create(self, plural: str, document: Document, namespace: str = "") -> None:
        """Create an object."""
        kind = self.kind(plural)
        typed = {"apiVersion": kind.api_version, "kind": kind.kind, **document}
        await self.world.client.create(kind, typed, namespace=namespace)

    async def queue(self, name: str, template: Document, count: int, **assigned: Any) -> None:
        """Queue a workload, and give it quota; *assigned* is what else its pods were given."""
        spec = {"podSets": [{"name": "main", "count": count, "template": template}]}
        await self.create("workloads", {"metadata": {"name": name}, "spec": spec}, "default")
        await self.reserve(name, **assigned)

    async def reserve(self, name: str, *, quota: bool = True, **more: Any) -> None:
        """Give a workload quota, or take it away."""
        time = "2026-01-01T00:00:00Z"
        assigned = {"name": "main", "flavors": {"cpu": "usual"}, **more}
        status = {
            "conditions": [
                {"type": "QuotaReserved", "status": str(quota), "lastTransitionTime": time}
            ],
            "admission": {"clusterQueue": "q", "podSetAssignments": [assigned]} if quota else None,
            "admissionChecks": [
                {"name": "another", "state": "Ready", "message": "", "lastTransitionTime": time},
                {"name": "aligned", "state": "Pending", "message": "", "lastTransitionTime": time},
            ],
        }
        await self.world.client.patch(
            self.kind("workloads"),
            name,
            merge_patch({"status": status}),
            namespace="default",
            subresource="status",
        )

    async def check_of(self, name: str) -> Document:
        """Return what is said of a workload."""
        found = await self.world.client.get(self.kind("workloads"), name, namespace="default")
        check: Document = found["status"]["admissionChecks"][1]
        return check

    async def says(self, name: str, state: str, words: str = "") -> Document:
        """Wait until the check says this of a workload."""

        async def is_said() -> bool:
            check = await self.check_of(name)
            return check["state"] == state and words in check["message"]

        await until(is_said)
        return await self.check_of(name)


@asynccontextmanager
async def checking(
    world: LabCluster, *, patience: float = 0.0, requeue: float = 60.0, url: str = ""
) -> AsyncIterator[None]:
    """Run an admission check that asks the scheduler of *world*, or who serves at *url*."""
    async with (
        served(world.running[-1]) as own,
        with_shipped_rights(world, AdmissionCheckManifest) as client,
    ):
        told = AdmissionCheckSettings(
            scheduler_url=url or own,
            lease=LeaseSettings(leader_elect=False),
            interval=0.02,
            patience=patience,
            requeue=requeue,
        )
        around = Surroundings(env={}, serve=False)
        process, stop = AdmissionCheckProcess(told, around, client), asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(process.run(stop))
            try:
                yield
            finally:
                stop.set()


@pytest.fixture
async def world(sites: Opener) -> AsyncIterator[LabCluster]:
    """Two nodes with two NUMA nodes of four CPUs each."""
    async with lab_cluster(2, shape=SHAPE, on=sites, rbac=True) as world:
        await world.start()
        yield world


@pytest.fixture
async def kueue(world: LabCluster) -> Kueue:
    """Its kinds, and a check of ours."""
    kueue = Kueue(world)
    await kueue.install()
    return kueue
