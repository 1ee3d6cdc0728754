"""A small DRA driver on every lab node, and what its kubelet does for claims of any driver.

Devices that a plan lists as `NodePlan.claimable` are unknown to the kubelet's managers. They are
published in ResourceSlices, one for each driver, with the standard attributes for their place. The
kubelet's side follows Kubernetes 1.35 (``pkg/kubelet/cm/dra``): a pod's claims are read from the
API before its containers start, and must be allocated and reserved for the pod. Other drivers
register over their sockets (`dra_plugins`), and are called to ready the devices of claims, and to
take them back when the containers of the last pod have ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from numakube.dra import named_claims, used_claims
from numakube.errors import AlreadyExists, Invalid, NotFound
from numakube.kube.catalog import DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_SLICES
from numakube.node import ClaimedDevice, DynamicResource
from numakube.node.device_plugin import DevicePluginError
from numakube.node.dra_plugin import ClaimRef

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from numakube.api.pod import Container, Pod
    from numakube.kube import Client, Document, Resource
    from numakube.kubelet import Device
    from numakube.node.dra_plugin import PreparedDevice
    from numakube_lab.nodes.dra_plugins import DraDrivers
    from numakube_lab.nodes.node_documents import NodePlan

RECONCILE_SECONDS: Final = 60.0
"""How often a kubelet tries to take back what pods have left that are gone."""
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


def resource_slice(plan: NodePlan, resource: str, *, node_uid: str, lists: bool = True) -> Document:
    """Return the slice with a node's devices of one resource; attributes may be *lists*."""
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
                {"name": device_name(device), "attributes": _attributes(device, lists=lists)}
                for device in devices
                if device.healthy
            ],
        },
    }


def device_name(device: Device) -> str:
    """Return the name of a device in a slice: a DNS label."""
    return "".join(one if one.isalnum() else "-" for one in device.id.lower()).strip("-")


def _attributes(device: Device, *, lists: bool) -> Document:
    """Return the id of a device and its place; one on several NUMA nodes has a list, or nothing."""
    attributes: Document = {"id": {"string": device.id[:64]}}
    if len(device.numa_nodes) > 1 and lists:
        attributes[NUMA_NODE] = {"ints": list(device.numa_nodes)}
    if len(device.numa_nodes) == 1:
        number = device.numa_nodes[0]
        attributes[NUMA_NODE] = {"int": number}
        attributes[PCIE_ROOT] = {"string": f"pci0000:{number:02x}"}
    return attributes


async def publish(client: Client, plan: NodePlan, *, node_uid: str) -> None:
    """Write the slices and classes of a node's devices, as its drivers do when they start."""
    for resource in plan.claimable:
        await _create_or_replace(client, DEVICE_CLASSES, device_class(resource))
        try:
            piece = resource_slice(plan, resource, node_uid=node_uid)
            await _create_or_replace(client, RESOURCE_SLICES, piece)
        except Invalid:
            # The server knows no attributes that are lists.
            piece = resource_slice(plan, resource, node_uid=node_uid, lists=False)
            await _create_or_replace(client, RESOURCE_SLICES, piece)


async def _create_or_replace(client: Client, resource: Resource[Document], new: Document) -> None:
    try:
        await client.create(resource, new)
    except AlreadyExists:
        found = await client.get(resource, new["metadata"]["name"])
        if found["spec"] != new["spec"]:
            metadata = {**new["metadata"], "resourceVersion": found["metadata"]["resourceVersion"]}
            await client.update(resource, {**new, "metadata": metadata})


@dataclass(slots=True)
class _Readied:
    """A claim that drivers were called for.

    Attributes:
        pods: the uids of those that use it.
        called: drivers that may have readied something.
        devices: what they have readied; `fresh` tells which of them did so for this kubelet.
    """

    ref: ClaimRef
    pods: set[str] = field(default_factory=set)
    called: set[str] = field(default_factory=set)
    devices: dict[str, tuple[PreparedDevice, ...]] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)


class ClaimedDevices:
    """The claims that the pods of one node use: the kubelet's DRA manager.

    It lasts longer than a kubelet, as what a kubelet keeps of claims on its disk does.
    """

    def __init__(self, client: Client, plan: NodePlan, drivers: DraDrivers | None = None) -> None:
        self._client = client
        self._drivers = {driver_of(resource) for resource in plan.claimable}
        self._registered = drivers
        self._prepared: dict[str, dict[str, Document]] = {}
        self._readied: dict[str, _Readied] = {}
        # Pods that are gone, and whose claims could not be taken back; and when that is next tried.
        self._left: set[str] = set()
        self._again = 0.0

    def restart(self, uids: Collection[str]) -> None:
        """Begin again with a kubelet that knows the pods *uids*: drivers are called anew."""
        for readied in self._readied.values():
            readied.fresh.clear()
            self._left |= readied.pods - set(uids)

    def knows(self, uid: str) -> bool:
        """Tell whether the devices of a pod's claims were readied before."""
        return uid in self._prepared

    async def wipe_slices(self) -> None:
        """Delete the slices of drivers that are no part of this lab, as a kubelet does at start."""
        if self._registered is not None:
            await self._registered.wipe(spared=self._drivers)

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
        trouble = await self._ready(pod.metadata.uid, claims.values())
        if trouble is not None:
            return f"prepare dynamic resources: {trouble}"
        if claims:
            self._prepared[pod.metadata.uid] = claims
        return None

    async def release(self, uid: str) -> str | None:
        """Have taken back what was readied for a pod alone; return what went wrong, if anything.

        Unknown uids are fine.
        """
        for key, one in list(self._readied.items()):
            if one.pods - {uid} or uid not in one.pods:
                one.pods.discard(uid)
                continue
            for driver in sorted(one.called):
                trouble = await self._unready(driver, one.ref)
                if trouble is not None:
                    return trouble
                one.called.discard(driver)
            del self._readied[key]
        self._prepared.pop(uid, None)
        return None

    def forget(self, uid: str) -> None:
        """Note that a pod is gone; what it had is taken back as soon as that can be done."""
        self._prepared.pop(uid, None)
        if any(uid in readied.pods for readied in self._readied.values()):
            self._left.add(uid)

    async def reconcile(self) -> float | None:
        """Take back what pods have left; return the seconds until it is tried again, if it is."""
        now = self._client.clock.monotonic()
        if self._left and now >= self._again:
            for uid in sorted(self._left):
                if await self.release(uid) is None:
                    self._left.discard(uid)
            self._again = now + RECONCILE_SECONDS
        return max(self._again - now, 0.0) if self._left else None

    async def _ready(self, uid: str, claims: Iterable[Document]) -> str | None:
        """Call the drivers that claims have devices of, each once for all of them."""
        by_driver: dict[str, list[_Readied]] = {}
        for claim in claims:
            metadata = claim["metadata"]
            ref = ClaimRef(metadata["namespace"], metadata["name"], metadata["uid"])
            for driver in sorted({result["driver"] for result in _results(claim)} - self._drivers):
                # Noted before the call: what a call that fails has done is taken back, too.
                one = self._readied.setdefault(ref.uid, _Readied(ref))
                one.pods.add(uid)
                if driver not in one.fresh:
                    one.called.add(driver)
                    by_driver.setdefault(driver, []).append(one)
        for driver, wanted in by_driver.items():
            trouble = await self._call(driver, wanted)
            if trouble is not None:
                return trouble
        return None

    async def _call(self, driver: str, wanted: Sequence[_Readied]) -> str | None:
        plugin = self._registered.newest(driver) if self._registered is not None else None
        if plugin is None:
            return f"DRA driver {driver} is not registered"
        try:
            answers = await plugin.prepare([readied.ref for readied in wanted])
        except DevicePluginError as error:
            return f"NodePrepareResources: {error}"
        for readied in wanted:
            answer = answers.get(readied.ref.uid)
            if answer is None:
                return "NodePrepareResources skipped 1 ResourceClaims"
            if answer.error:
                failed = f"NodePrepareResources failed for ResourceClaim {readied.ref.name}"
                return f"{failed}: {answer.error}"
            readied.devices[driver] = answer.devices
            readied.fresh.add(driver)
        return None

    async def _unready(self, driver: str, ref: ClaimRef) -> str | None:
        plugin = self._registered.newest(driver) if self._registered is not None else None
        if plugin is None:
            return f"DRA driver {driver} is not registered"
        try:
            error = (await plugin.unprepare([ref])).get(ref.uid)
        except DevicePluginError as failure:
            return f"NodeUnprepareResources: {failure}"
        if error is None:
            return "NodeUnprepareResources skipped 1 ResourceClaims"
        return f"NodeUnprepareResources failed for {ref}: {error}" if error else None

    def cdi_devices(self, pod: Pod, container: Container) -> tuple[str, ...]:
        """Return what the runtime has to look up for a container, of registered drivers."""
        return tuple(
            name
            for resource in self.of_container(pod, container)
            for device in resource.devices
            if device.driver not in self._drivers
            for name in device.cdi_devices
        )

    def of_container(self, pod: Pod, container: Container) -> tuple[DynamicResource, ...]:
        """Return what a container has by claims, in the words of PodResources."""
        claims = self._prepared.get(pod.metadata.uid, {})
        return tuple(
            self._dynamic_resource(claims[name], request)
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
            driver = result["driver"]
            known = self._registered is not None and self._registered.newest(driver) is not None
            if driver not in self._drivers and not known:
                return f"DRA driver {driver} is not registered"
        return None

    def _dynamic_resource(self, claim: Document, request: str) -> DynamicResource:
        metadata = claim["metadata"]
        return DynamicResource(
            claim_name=metadata["name"],
            claim_namespace=metadata["namespace"],
            devices=tuple(
                ClaimedDevice(
                    driver=result["driver"],
                    pool=result["pool"],
                    device=result["device"],
                    share_id=result.get("shareID", ""),
                    cdi_devices=self._cdi_names(metadata["uid"], result),
                )
                for result in _results(claim)
                if not request or result["request"].partition("/")[0] == request
            ),
        )

    def _cdi_names(self, uid: str, result: Document) -> tuple[str, ...]:
        """Return what stands for a result in the runtime; drivers of the lab have no files."""
        driver, request = result["driver"], result["request"].partition("/")[0]
        if driver in self._drivers:
            return (f"{driver}/device={result['device']}",)
        readied = self._readied.get(uid)
        place = result["pool"], result["device"], result.get("shareID", "")
        return tuple(
            name
            for device in (readied.devices.get(driver, ()) if readied is not None else ())
            if (device.pool, device.device, device.share) == place
            and request in (device.requests or (request,))
            for name in device.cdi_devices
        )


def _uses(pod: Pod, container: Container) -> Iterator[tuple[str | None, str]]:
    """Yield the claims that a container uses, with the request if it uses one alone.

    Of a claim for extended resources kubelets list all devices, whichever container has them.
    """
    names = {entry.name: name for entry, name in named_claims(pod)}
    for use in container.resources.claims if container.resources else ():
        yield names.get(use.name), use.request
    extended = pod.status.extended_resource_claim_status if pod.status is not None else None
    if extended is not None and any(
        mapping.container_name == container.name for mapping in extended.request_mappings
    ):
        yield extended.resource_claim_name, ""


def _results(claim: Document) -> list[Document]:
    allocation: Mapping[str, Any] = claim.get("status", {}).get("allocation") or {}
    results: list[Document] = allocation.get("devices", {}).get("results", [])
    return results
