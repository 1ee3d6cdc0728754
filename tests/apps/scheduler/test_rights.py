"""The scheduler under its own account: the role that we ship is enough, and no more than that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import pytest
from tests.apps.scheduler.devices import device_definition
from tests.apps.scheduler.test_volumes import claim, disk, offer, storage_class

from kube_lab_server.wire.request_options import parse_request
from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.apps.host.endpoint_access import Access
from numakube.apps.watched_kinds import CLAIMS, RESOURCE_CLAIMS, RESOURCES, VOLUMES
from numakube.kube.catalog import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PRIORITY_CLASSES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from numakube.kube.client import Client
from numakube.kube.clock import SystemClock
from numakube.kube.connection.cluster_config import UserConfig, load_config
from numakube.kube.connection.credentials import authenticator_for
from numakube.kube.connection.http import HttpTransport
from numakube.kube.connection.transport import Request, Response, Stream
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import request_token
from numakube.manifests.scheduler import SchedulerManifest, cluster_rules, lease_rules
from numakube.scheduling.assembly import default_configuration
from numakube.testing import pod_document
from numakube_lab.testing import LabCluster, Opener, lab_cluster

pytestmark = pytest.mark.timeout(180)

NAMESPACE = "numakube"
_BY_KIND: dict[str, Any] = {
    "ServiceAccount": SERVICE_ACCOUNTS,
    "ClusterRole": CLUSTER_ROLES,
    "ClusterRoleBinding": CLUSTER_ROLE_BINDINGS,
    "Role": ROLES,
    "RoleBinding": ROLE_BINDINGS,
}


class Right(NamedTuple):
    """One verb on one resource."""

    group: str
    resource: str
    verb: str


UNUSED = {
    Right("", "events", "patch"): "a repeated event raises a count; this run repeats none",
    Right("nodeinfo.volcano.sh", "numatopologies", "watch"): "the kind is not served here",
    Right("scheduling.k8s.io", "podgroups", "list"): "the kind is not served here",
    Right("scheduling.k8s.io", "podgroups", "watch"): "the kind is not served here",
    Right("kueue.x-k8s.io", "topologies", "list"): "the kind is not served here",
    Right("kueue.x-k8s.io", "topologies", "watch"): "the kind is not served here",
    Right("kai.scheduler", "topologies", "watch"): "the kind is not served here",
    Right("topology.volcano.sh", "hypernodes", "watch"): "the kind is not served here",
    Right("scheduling.k8s.io", "podgroups/status", "patch"): "the kind is not served here",
    Right("scheduling.x-k8s.io", "podgroups", "watch"): "the kind is not served here",
    Right("scheduling.volcano.sh", "podgroups", "watch"): "the kind is not served here",
    Right("resource.k8s.io", "resourceclaims", "create"): "extended resources served by devices",
    Right("resource.k8s.io", "resourceclaims", "delete"): "extended resources served by devices",
    Right("resource.k8s.io", "resourceclaims/binding", "patch"): "asked for beside the status",
}
"""Rights that this run does not need, and why they are given."""
FAMILIAR = {"get"}
"""``get`` goes with ``list`` and ``watch`` in every role of Kubernetes; it reveals nothing more."""


class Recording:
    """A transport that notes what it is used for."""

    def __init__(self, transport: HttpTransport, token: str) -> None:
        self.token = token
        self._transport = transport
        self.used: set[Right] = set()
        self.refused: list[str] = []

    async def send(self, request: Request) -> Response:
        """Send *request*."""
        self._note(request)
        response = await self._transport.send(request)
        if response.status == 403:
            self.refused.append(f"{request.method} {request.path}")
        return response

    def open(self, request: Request) -> AbstractAsyncContextManager[Stream]:
        """Open the stream of *request*."""
        self._note(request)
        return self._transport.open(request)

    async def aclose(self) -> None:
        """Close."""
        await self._transport.aclose()

    def _note(self, request: Request) -> None:
        info = parse_request(request.method, request.path, dict(request.query))
        if not info.resource:
            return  # which kinds there are: every account may ask
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        self.used.add(Right(info.group, resource, info.verb))


def granted() -> set[Right]:
    """Return every right of the roles that we ship."""
    return {
        Right(group, resource, verb)
        for rule in (*cluster_rules(), *lease_rules(SCHEDULER_NAME))
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.fixture
async def world(sites: Opener) -> AsyncIterator[LabCluster]:
    """A cluster where rights count."""
    async with lab_cluster(1, shape="1 socket, 6 cores, smt 1, 16Gi", rbac=True, on=sites) as world:
        await world.client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await world.client.create(CUSTOM_RESOURCE_DEFINITIONS, device_definition())
        for document in SchedulerManifest(namespace=NAMESPACE).access():
            namespace = document["metadata"].get("namespace", "")
            await world.client.create(_BY_KIND[document["kind"]], document, namespace=namespace)
        yield world


@pytest.fixture
async def transport(world: LabCluster) -> Recording:
    """A connection as the scheduler's account."""
    key = ObjectKey(NAMESPACE, SCHEDULER_NAME)
    token = (await request_token(world.client, key)).token
    user = UserConfig(token=token)
    auth = authenticator_for(user, clock=SystemClock(), env={}, interactive=False)
    config = replace(load_config(kubeconfig=world.site.kubeconfig, env={}), user=user)
    http = HttpTransport(config, auth=auth, clock=SystemClock(), user_agent="test")
    return Recording(http, token)


async def test_the_role_is_enough_and_nothing_in_it_is_idle(
    world: LabCluster, transport: Recording
) -> None:
    """Scheduling, preemption, volumes, devices, the lease, events and the check of callers."""
    config = default_configuration(SCHEDULER_NAME)
    election = msgspec.structs.replace(config.leader_election, resource_namespace=NAMESPACE)
    client = Client(transport, rate=0)
    running = await world.start(
        msgspec.structs.replace(config, leader_election=election), client=client
    )
    admin = world.client
    await admin.create(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
    await world.create(pod_document("fills", "5"))
    await world.runs("fills")
    await world.create(pod_document("urgent", "4", priorityClassName="urgent"))
    await world.runs("urgent")
    await with_devices(world)
    await with_volumes(world)
    await world.some_events("Scheduled")
    await world.some_events("Preempted")
    access = Access(client, host="0.0.0.0")
    assert await access.is_allowed(transport.token, "GET", "/configz") is False
    assert await running.end() == 0
    assert transport.refused == []
    assert transport.used - granted() == set()
    idle = granted() - transport.used - UNUSED.keys()
    assert {right for right in idle if right.verb not in FAMILIAR} == set()


async def with_devices(world: LabCluster) -> None:
    """Let the scheduler allocate a device."""
    admin = world.client
    await admin.create(RESOURCES["device_classes"].raw, {"metadata": {"name": "gpu"}, "spec": {}})
    pool = {"name": "node-0", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example", "nodeName": "node-0", "pool": pool, "devices": [{"name": "a"}]}
    offered = {"metadata": {"name": "s"}, "spec": spec}
    await admin.create(RESOURCES["resource_slices"].raw, offered)
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1}}
    wanted = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    await admin.create(RESOURCE_CLAIMS.raw, wanted, namespace="default")
    claims = [{"name": "c", "resourceClaimName": "c"}]
    await world.create(pod_document("computes", "100m", "64Mi", resourceClaims=claims))
    await world.until(lambda: bool(world.pod("computes").spec.node_name))


async def with_volumes(world: LabCluster) -> None:
    """Let the scheduler bind a volume, and ask for another one to be made."""
    admin = world.client
    await storage_class(admin, "static", "kubernetes.io/no-provisioner")
    await storage_class(admin, "made", "example.com/disks")
    await offer(admin, disk("disk", "node-0", storageClassName="static"))
    await admin.create(CLAIMS.raw, claim("one", "static"), namespace="default")
    await admin.create(CLAIMS.raw, claim("two", "made"), namespace="default")
    volumes = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("one", "two")
    ]
    await world.create(pod_document("stores", "500m", "64Mi", volumes=volumes))

    async def prepared() -> bool:
        disk = await admin.get(VOLUMES.raw, "disk")
        two = await admin.get(CLAIMS.raw, "two", namespace="default")
        annotations = two["metadata"].get("annotations") or {}
        return "claimRef" in disk["spec"] and "volume.kubernetes.io/selected-node" in annotations

    await world.until(prepared)
