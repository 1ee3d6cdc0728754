"""The operator at trial: what its two objects ask for is there, stays so, and goes with them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from tests.worlds.oracles import Finding
from tests.worlds.virtual_lab import Lab

from numakube.apps.operator.controller import OPERATORS, SCHEDULERS
from numakube.apps.operator.exporters_plan import Setup
from numakube.apps.operator.process import OperatorProcess
from numakube.apps.operator.scheduler_plan import SchedulerSetup
from numakube.kube.catalog import (
    CLUSTER_ROLES,
    DAEMON_SETS,
    DEPLOYMENTS,
    PODS,
    SERVICE_ACCOUNTS,
    resource_of,
)
from numakube.kube.client import json_patch, strategic_patch
from numakube.kube.resource_types import Document, Resource
from numakube.manifests.operator import OperatorManifest

_SPACE: Final = "numaresources"
_IMAGE: Final = "registry.example/numakube:test"
_EXPORTERS: Final = "numaresourcesoperator"
_SCHEDULER: Final = "numaresourcesscheduler"
_WAIT_SECONDS: Final = 60
_OWN_PODS: Final = "numaresources-controller-manager"
"""The deployment of the operator itself, in whose place a task of this process works."""


@dataclass(slots=True)
class Operation:
    """An operator at trial in a lab.

    Attributes:
        findings: what does not hold.
    """

    lab: Lab
    findings: list[Finding] = field(default_factory=list)

    async def tried(self) -> list[Finding]:
        """Install an operator, let it work, get in its way, and let it take everything away."""
        client = self.lab.client
        documents = OperatorManifest(namespace=_SPACE, image=_IMAGE).objects()
        for document in documents:
            space = document["metadata"].get("namespace", "")
            await client.create(resource_of(document), document, namespace=space)
        stop = asyncio.Event()
        task = asyncio.create_task(self._process().run(stop))
        await self.lab.pass_time(5)
        await client.create(OPERATORS.raw, _wanted_exporters())
        await client.create(SCHEDULERS.raw, _wanted_scheduler())
        await self._let_it_work()
        await self._look("after it was asked")
        await self._get_in_its_way()
        await self._let_it_work()
        await self._look("after somebody changed and deleted what it has made")
        await client.delete(OPERATORS, _EXPORTERS)
        await client.delete(SCHEDULERS, _SCHEDULER)
        await self.lab.pass_time(_WAIT_SECONDS)
        self.findings += await self.lab.found_in_the_end(self._outliving)
        stop.set()
        await self.lab.through(task)
        for document in reversed(documents):
            metadata = document["metadata"]
            space = metadata.get("namespace", "")
            await client.delete(resource_of(document), metadata["name"], namespace=space)
        await self.lab.pass_time(_WAIT_SECONDS)
        return self.findings

    async def _let_it_work(self) -> None:
        """Let time pass; exporters say whether they work, as programs in pods do."""
        await self.lab.pass_time(_WAIT_SECONDS)
        met = self.lab.rng.choice(("True", "True", "False"))
        for pod in self.lab.pods:
            if pod.metadata.namespace == _SPACE and (gates := pod.spec.readiness_gates):
                told = [{"type": gate.condition_type, "status": met} for gate in gates]
                change = strategic_patch({"status": {"conditions": told}})
                await self.lab.client.patch(
                    PODS, pod.metadata.name, change, namespace=_SPACE, subresource="status"
                )
        await self.lab.pass_time(_WAIT_SECONDS)

    def _process(self) -> OperatorProcess:
        exporters = Setup(namespace=_SPACE, image=_IMAGE, pull_policy="IfNotPresent")
        scheduler = SchedulerSetup(namespace=_SPACE, pull_policy="IfNotPresent")
        return OperatorProcess(self.lab.connect(), exporters, scheduler)

    async def _get_in_its_way(self) -> None:
        client = self.lab.client
        (exporters,) = await self._listed(DAEMON_SETS)
        path = "/spec/template/spec/containers/0/image"
        other = json_patch([{"op": "replace", "path": path, "value": "somebody/else:1"}])
        await client.patch(DAEMON_SETS, exporters["metadata"]["name"], other, namespace=_SPACE)
        (scheduler,) = await self._listed(DEPLOYMENTS)
        await client.delete(DEPLOYMENTS, scheduler["metadata"]["name"], namespace=_SPACE)
        await client.delete(CLUSTER_ROLES, "rte")

    async def _look(self, when: str) -> None:
        self.findings += await self.lab.found_in_the_end(partial(self._wrong, when))

    async def _wrong(self, when: str) -> list[Finding]:
        """Return where not both are there with the image that was asked for, and said to be so."""
        found = []
        for resource, kind, name in (
            (DAEMON_SETS, OPERATORS, _EXPORTERS),
            (DEPLOYMENTS, SCHEDULERS, _SCHEDULER),
        ):
            made = await self._listed(resource)
            if [_image(one) for one in made] != [_IMAGE]:
                found.append(
                    _finding(f"{when}: {[_image(one) for one in made]} of {resource.plural}")
                )
                continue
            owner = await self.lab.through(self.lab.client.get(kind.raw, name))
            told = {
                condition["type"]: condition["status"]
                for condition in owner["status"]["conditions"]
            }
            if (told.get("Available") == "True") != _is_ready(made[0]):
                found.append(
                    _finding(
                        f"{when}: {name} says {told}, its {resource.plural}: {made[0]['status']}"
                    )
                )
        roles = await self.lab.through(self.lab.client.list(CLUSTER_ROLES))
        if "rte" not in {role["metadata"]["name"] for role in roles.items}:
            found.append(_finding(f"{when}: exporters have no role"))
        return found

    async def _outliving(self) -> list[Finding]:
        """Return what is still there of what nobody asks for any more."""
        left = [
            f"{resource.plural} {item['metadata']['name']}"
            for resource in (DAEMON_SETS, DEPLOYMENTS)
            for item in await self._listed(resource)
        ]
        accounts = await self.lab.through(self.lab.client.list(SERVICE_ACCOUNTS, namespace=_SPACE))
        names = {account["metadata"]["name"] for account in accounts.items}
        left += [f"the account {name}" for name in ("rte", "secondary-scheduler") if name in names]
        return [_finding(f"{what} outlives its owner") for what in left]

    async def _listed(self, resource: Resource[Any]) -> list[Document]:
        listed = await self.lab.through(self.lab.client.list(resource.raw, namespace=_SPACE))
        return [item for item in listed.items if item["metadata"]["name"] != _OWN_PODS]


def _finding(text: str) -> Finding:
    return Finding("the_operator_does_what_is_asked", text)


def _image(document: Document) -> str:
    image: str = document["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


def _is_ready(document: Document) -> bool:
    """Tell whether all pods of a DaemonSet or a Deployment run in their last version."""
    status = document.get("status", {})
    if document["metadata"]["generation"] != status.get("observedGeneration"):
        return False
    if "desiredNumberScheduled" in status:
        wanted = status["desiredNumberScheduled"]
        return bool(wanted == status.get("numberReady", 0) == status.get("updatedNumberScheduled"))
    wanted = document["spec"]["replicas"]
    return bool(wanted == status.get("readyReplicas", 0) == status.get("updatedReplicas", 0))


def _wanted_exporters() -> Document:
    return {
        "apiVersion": "nodetopology.openshift.io/v1",
        "kind": "NUMAResourcesOperator",
        "metadata": {"name": _EXPORTERS},
        "spec": {"nodeGroups": [{"nodeSelector": {"matchLabels": {}}}]},
    }


def _wanted_scheduler() -> Document:
    return {
        "apiVersion": "nodetopology.openshift.io/v1",
        "kind": "NUMAResourcesScheduler",
        "metadata": {"name": _SCHEDULER},
        "spec": {"imageSpec": _IMAGE, "schedulerName": "numa", "replicas": 1},
    }
