"""A small DRA driver on every lab node: it publishes devices, and readies those of claims.

Devices that a plan lists as `NodePlan.claimable` are unknown to the kubelet's managers. They are
published in ResourceSlices, one for each driver, with the standard attributes for their place. The
kubelet's side follows Kubernetes 1.35 (``pkg/kubelet/cm/dra``): a pod's claims are read from the
API before its containers start, and must be allocated and reserved for the pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.dra.pod_claims import named_claims, used_claims
from numakube.errors import AlreadyExists, NotFound
from numakube.kube.catalog import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES
from numakube.node.podresources_client import ClaimedDevice, DynamicResource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.pod import Container, Pod
    from numakube.kube.client import Client
    from numakube.kube.resource_types import Document, Resource
    from numakube.kubelet.machine import Device
    from numakube_lab.nodes.node_plan import NodePlan

NUMA_NODE: Final = "resource.kubernetes.io/numaNode"
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
"""Attributes with which drivers of any vendor say where a device is."""


def driver_of(resource: str) -> str:
    """Return the name of the driver for an extended resource: ``gpu.vendor.example``."""
    domain, _, name = resource.partition("/")
    return f"{name}.{domain}".lower()


def device_class(resource: str) -> Document:
    """Return the class of the devices that were an extended resource, which stays its name."""
    driver = driver_of(resource)
    return {
        "metadata": {"name": driver},
        "spec": {
            "selectors": [{"cel": {"expression": f'device.driver == "{driver}"'}}],
            "extendedResourceName": resource,
        },
    }


def resource_slice(plan: NodePlan, resource: str, *, node_uid: str) -> Document:
    """Return the slice with a node's devices of one resource."""
    driver = driver_of(resource)
    owner = {"apiVersion": "v1", "kind": "Node", "name": plan.name, "uid": node_uid}
    devices = plan.claimable[resource]
    return {
        "metadata": {"name": f"{plan.name}-{driver}", "ownerReferences": [owner]},
        "spec": {
            "driver": driver,
            "nodeName": plan.name,
            "pool": {"name": plan.name, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {"name": device_name(device), "attributes": _attributes(device)}
                for device in devices
                if device.healthy
            ],
        },
    }


def device_name(device: Device) -> str:
    """Return the name of a device in a slice: a DNS label."""
    return "".join(one if one.isalnum() else "-" for one in device.id.lower()).strip("-")


def _attributes(device: Device) -> Document:
    """Return the id of a device and its place: a device on several nodes has no single one."""
    attributes: Document = {"id": {"string": device.id[:64]}}
    if len(device.numa_nodes) == 1:
        number = device.numa_nodes[0]
        attributes[NUMA_NODE] = {"int": number}
        attributes[PCIE_ROOT] = {"string": f"pci0000:{number:02x}"}
    return attributes


async def publish(client: Client, plan: NodePlan, *, node_uid: str) -> None:
    """Write the slices and classes of a node's devices, as its drivers do when they start."""
    for resource in plan.claimable:
        await _create_or_replace(client, DEVICE_CLASSES, device_class(resource))
        piece = resource_slice(plan, resource, node_uid=node_uid)
        await _create_or_replace(client, RESOURCE_SLICES, piece)


async def _create_or_replace(client: Client, resource: Resource[Document], new: Document) -> None:
    try:
        await client.create(resource, new)
    except AlreadyExists:
        found = await client.get(resource, new["metadata"]["name"])
        if found["spec"] != new["spec"]:
            metadata = {**new["metadata"], "resourceVersion": found["metadata"]["resourceVersion"]}
            await client.update(resource, {**new, "metadata": metadata})


class ClaimedDevices:
    """The claims that the pods of one node use: the kubelet's DRA manager and its drivers."""

    def __init__(self, client: Client, plan: NodePlan) -> None:
        self._client = client
        self._drivers = {driver_of(resource) for resource in plan.claimable}
        self._prepared: dict[str, dict[str, Document]] = {}

    async def prepare(self, pod: Pod) -> str | None:
        """Ready the devices of the pod's claims; return what went wrong, if anything."""
        claims: dict[str, Document] = {}
        for name in sorted(used_claims(pod)):
            try:
                claim = await self._client.get(
                    RESOURCE_CLAIMS, name, namespace=pod.metadata.namespace
                )
            except NotFound as missing:
                return f"prepare dynamic resources: fetch ResourceClaim {name}: {missing}"
            trouble = self._refusal(pod, claim)
            if trouble is not None:
                return f"prepare dynamic resources: {trouble}"
            claims[name] = claim
        if claims:
            self._prepared[pod.metadata.uid] = claims
        return None

    def forget(self, uid: str) -> None:
        """Release what a pod that is gone had; unknown uids are fine."""
        self._prepared.pop(uid, None)

    def of_container(self, pod: Pod, container: Container) -> tuple[DynamicResource, ...]:
        """Return what a container has by claims, in the words of PodResources."""
        claims = self._prepared.get(pod.metadata.uid, {})
        return tuple(
            _dynamic_resource(claims[name], request)
            for name, request in _uses(pod, container)
            if name in claims
        )

    def _refusal(self, pod: Pod, claim: Document) -> str | None:
        uid, metadata = pod.metadata.uid, claim["metadata"]
        users = claim.get("status", {}).get("reservedFor", ())
        if all(user.get("uid") != uid for user in users):
            return (
                f"pod {pod.metadata.name} ({uid}) is not allowed to use ResourceClaim "
                f"{metadata['name']} ({metadata['uid']})"
            )
        for result in _results(claim):
            if result["driver"] not in self._drivers:
                return f"DRA driver {result['driver']} is not registered"
        return None


def _uses(pod: Pod, container: Container) -> Iterator[tuple[str | None, str]]:
    """Yield the claims that a container uses, with the request if it uses one alone.

    Of a claim for extended resources kubelets list all devices, whichever container has them.
    """
    names = {entry.name: name for entry, name in named_claims(pod)}
    for use in container.resources.claims if container.resources else ():
        yield names.get(use.name), use.request
    extended = pod.status.extended_resource_claim_status if pod.status is not None else None
    if extended is not None and any(
        one.container_name == container.name for one in extended.request_mappings
    ):
        yield extended.resource_claim_name, ""


def _results(claim: Document) -> list[Document]:
    allocation: Mapping[str, Any] = claim.get("status", {}).get("allocation") or {}
    results: list[Document] = allocation.get("devices", {}).get("results", [])
    return results


def _dynamic_resource(claim: Document, request: str) -> DynamicResource:
    metadata = claim["metadata"]
    return DynamicResource(
        claim_name=metadata["name"],
        claim_namespace=metadata["namespace"],
        devices=tuple(
            ClaimedDevice(
                driver=one["driver"],
                pool=one["pool"],
                device=one["device"],
                share_id=one.get("shareID", ""),
                cdi_devices=(f"{one['driver']}/device={one['device']}",),
            )
            for one in _results(claim)
            if not request or one["request"].partition("/")[0] == request
        ),
    )
