"""``/debug/podresources``: what the kubelet's PodResources says now, for those who may look.

The socket is on the node and for root; who has the right to this path sees what it says, through
``kubectl numa podresources``. The document has everything, claims of dynamic resource allocation
included, also what no report contains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from numakube.errors import KubeletUnavailable
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.apps.exporter.node_scan import PodResourcesReader
    from numakube.apps.host.endpoint_access import Access
    from numakube.node.podresources_client import (
        AllocatableResources,
        ContainerResources,
        Devices,
        DynamicResource,
        Memory,
        PodResources,
    )

PATH: Final = "/debug/podresources"


class PodResourcesEndpoint:
    """Asks the kubelet of *node* whenever it is asked."""

    def __init__(self, node: str, kubelet: PodResourcesReader) -> None:
        self._node = node
        self._kubelet = kubelet

    def routes(self, access: Access) -> list[web.RouteDef]:
        """Return what to serve."""
        return [web.get(PATH, access.guarded(self._show))]

    async def _show(self, request: web.Request) -> web.Response:
        del request
        try:
            pods = await self._kubelet.list_pods()
            allocatable = await self._kubelet.allocatable()
        except KubeletUnavailable as error:
            raise web.HTTPServiceUnavailable(text=f"{error}\n") from None
        return web.json_response(document_of(self._node, pods, allocatable))


def document_of(
    node: str, pods: Iterable[PodResources], allocatable: AllocatableResources
) -> dict[str, Any]:
    """Return the answers of a kubelet as plain data."""
    return {
        "node": node,
        "pods": [
            {
                "namespace": pod.namespace,
                "name": pod.name,
                **_held(pod.cpu_ids, pod.memory),
                "containers": [_container(one) for one in pod.containers],
            }
            for pod in pods
        ],
        "allocatable": {
            **_held(allocatable.cpu_ids, allocatable.memory),
            "devices": [_devices(one) for one in allocatable.devices],
        },
    }


def _container(container: ContainerResources) -> dict[str, Any]:
    return {
        "name": container.name,
        **_held(container.cpu_ids, container.memory),
        "devices": [_devices(one) for one in container.devices],
        "dynamicResources": [_claim(one) for one in container.dynamic_resources],
    }


def _held(cpu_ids: Iterable[int], memory: Iterable[Memory]) -> dict[str, Any]:
    return {
        "cpus": str(CpuSet.of(cpu_ids)),
        "memory": [
            {"type": one.type, "bytes": one.size_bytes, "numaNodes": list(one.numa_nodes)}
            for one in memory
        ],
    }


def _devices(devices: Devices) -> dict[str, Any]:
    return {
        "resource": devices.resource,
        "ids": list(devices.ids),
        "numaNodes": list(devices.numa_nodes),
    }


def _claim(claim: DynamicResource) -> dict[str, Any]:
    return {
        "claim": f"{claim.claim_namespace}/{claim.claim_name}",
        "devices": [
            {
                "driver": one.driver,
                "pool": one.pool,
                "device": one.device,
                "shareID": one.share_id,
                "cdiDevices": list(one.cdi_devices),
            }
            for one in claim.devices
        ],
    }
