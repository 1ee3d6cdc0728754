"""Serves PodResources v1 on a unix socket as the kubelet does; the lab's kubelets use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import grpc

from numakube.node.grpc_serving import serve_socket, unary_handler
from numakube.node.podresources_client import SERVICE
from numakube.node.protos import POD_RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from numakube.node.podresources_client import (
        AllocatableResources,
        Devices,
        DynamicResource,
        Memory,
        PodResources,
    )

# The kubelet's own limit, and its words when it is exceeded.
RATE_PER_SECOND: Final = 100
BURST: Final = 10
_TOO_FAST: Final = "rejected by rate limit"


class PodResourcesSource(Protocol):
    """Where a server takes its answers from."""

    def pod_resources(self) -> Iterable[PodResources]:
        """Return the active pods."""
        ...

    def allocatable_resources(self) -> AllocatableResources:
        """Return what the node has to give."""
        ...


class PodResourcesServer:
    """Serves a source on a unix socket, as the kubelet does, its rate limit included."""

    def __init__(
        self, source: PodResourcesSource, socket: Path, *, clock: Callable[[], float]
    ) -> None:
        self._source = source
        self._socket = socket
        self._clock = clock
        self._tokens, self._refilled = float(BURST), clock()
        self._server: Any = None

    async def start(self) -> None:
        """Bind the socket; one that a crashed process left behind is replaced."""
        self._socket.parent.mkdir(parents=True, exist_ok=True)
        self._socket.unlink(missing_ok=True)
        handlers = {
            "List": unary_handler(self._list, POD_RESOURCES.ListPodResourcesRequest),
            "Get": unary_handler(self._get, POD_RESOURCES.GetPodResourcesRequest),
            "GetAllocatableResources": unary_handler(
                self._allocatable, POD_RESOURCES.AllocatableResourcesRequest
            ),
        }
        self._server = await serve_socket(self._socket, {SERVICE: handlers})

    async def stop(self) -> None:
        """Stop serving and remove the socket."""
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None
        self._socket.unlink(missing_ok=True)

    async def _list(self, _: object, context: Any) -> Any:  # noqa: ANN401 - protobuf messages
        await self._admit(context)
        pods = [_write_pod(pod) for pod in self._source.pod_resources()]
        return POD_RESOURCES.ListPodResourcesResponse(pod_resources=pods)

    async def _get(self, request: Any, context: Any) -> Any:  # noqa: ANN401 - protobuf messages
        await self._admit(context)
        for pod in self._source.pod_resources():
            if (pod.namespace, pod.name) == (request.pod_namespace, request.pod_name):
                return POD_RESOURCES.GetPodResourcesResponse(pod_resources=_write_pod(pod))
        text = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        return await context.abort(grpc.StatusCode.UNKNOWN, text)

    async def _allocatable(self, _: object, context: Any) -> Any:  # noqa: ANN401
        await self._admit(context)
        found = self._source.allocatable_resources()
        return POD_RESOURCES.AllocatableResourcesResponse(
            cpu_ids=found.cpu_ids,
            memory=[_write_memory(memory) for memory in found.memory],
            devices=[_write_devices(device) for device in found.devices],
        )

    async def _admit(self, context: Any) -> None:  # noqa: ANN401 - gRPC's context
        """Take a token of the bucket, or refuse the call."""
        now = self._clock()
        refill = (now - self._refilled) * RATE_PER_SECOND
        self._tokens, self._refilled = min(BURST, self._tokens + refill), now
        if self._tokens < 1:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, _TOO_FAST)
        self._tokens -= 1


def _write_pod(pod: PodResources) -> Any:  # noqa: ANN401 - a protobuf message
    return POD_RESOURCES.PodResources(
        name=pod.name,
        namespace=pod.namespace,
        containers=[
            POD_RESOURCES.ContainerResources(
                name=container.name,
                cpu_ids=container.cpu_ids,
                memory=[_write_memory(part) for part in container.memory],
                devices=[_write_devices(part) for part in container.devices],
                dynamic_resources=[
                    _write_dynamic_resource(part) for part in container.dynamic_resources
                ],
            )
            for container in pod.containers
        ],
        cpu_ids=pod.cpu_ids,
        memory=[_write_memory(part) for part in pod.memory],
    )


def _write_memory(memory: Memory) -> Any:  # noqa: ANN401 - a protobuf message
    return POD_RESOURCES.ContainerMemory(
        memory_type=memory.type, size=memory.size_bytes, topology=_topology(memory.numa_nodes)
    )


def _write_dynamic_resource(claim: DynamicResource) -> Any:  # noqa: ANN401 - a protobuf message
    return POD_RESOURCES.DynamicResource(
        claim_name=claim.claim_name,
        claim_namespace=claim.claim_namespace,
        claim_resources=[
            POD_RESOURCES.ClaimResource(
                driver_name=device.driver,
                pool_name=device.pool,
                device_name=device.device,
                share_id=device.share_id or None,
                cdi_devices=[POD_RESOURCES.CDIDevice(name=name) for name in device.cdi_devices],
            )
            for device in claim.devices
        ],
    )


def _write_devices(devices: Devices) -> Any:  # noqa: ANN401 - a protobuf message
    return POD_RESOURCES.ContainerDevices(
        resource_name=devices.resource,
        device_ids=devices.ids,
        topology=_topology(devices.numa_nodes),
    )


def _topology(numa_nodes: tuple[int, ...]) -> Any:  # noqa: ANN401 - a protobuf message
    """Return the topology; none at all if no NUMA node is known."""
    if not numa_nodes:
        return None
    return POD_RESOURCES.TopologyInfo(nodes=[POD_RESOURCES.NUMANode(ID=one) for one in numa_nodes])
