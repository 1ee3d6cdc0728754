"""PodResources v1: the kubelet's account of which pod holds which CPUs, memory and devices.

`PodResourcesClient` reads it over the kubelet's unix socket, `PodResourcesServer` serves it (the
lab's kubelets do). Protobuf stays inside this module: both sides deal in the frozen types below.
The protocol is ``k8s.io/kubelet/pkg/apis/podresources/v1`` (KEP-606).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

import grpc
import grpc.aio

from numakube.errors import KubeletUnavailable, MalformedObject
from numakube.node.grpc_serving import serve_socket, unary_handler
from numakube.node.protos import POD_RESOURCES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

DEFAULT_SOCKET: Final = "/var/lib/kubelet/pod-resources/kubelet.sock"
SERVICE: Final = "v1.PodResourcesLister"
# A node with 110 pods and thousands of devices answers with more than gRPC's 4 MiB.
MAX_MESSAGE_BYTES: Final = 16 << 20
# The kubelet's own limit, and its words when it is exceeded.
RATE_PER_SECOND: Final = 100
BURST: Final = 10
_TOO_FAST = "rejected by rate limit"
_ATTEMPTS = 5
_FIRST_PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class Devices:
    """Devices of one resource; the kubelet lists each device and NUMA node by itself."""

    resource: str
    ids: tuple[str, ...]
    numa_nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of one type on a group of NUMA nodes."""

    type: str
    size_bytes: int
    numa_nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """What one container holds for itself."""

    name: str
    cpu_ids: tuple[int, ...] = ()
    memory: tuple[Memory, ...] = ()
    devices: tuple[Devices, ...] = ()


@dataclass(frozen=True, slots=True)
class PodResources:
    """What one pod holds; the pod's own CPUs and memory are set for pod-level resources only."""

    name: str
    namespace: str
    containers: tuple[ContainerResources, ...] = ()
    cpu_ids: tuple[int, ...] = ()
    memory: tuple[Memory, ...] = ()


@dataclass(frozen=True, slots=True)
class AllocatableResources:
    """What could be given out on an empty node."""

    cpu_ids: tuple[int, ...] = ()
    memory: tuple[Memory, ...] = ()
    devices: tuple[Devices, ...] = ()


class PodResourcesSource(Protocol):
    """Where a server takes its answers from."""

    def pod_resources(self) -> Iterable[PodResources]:
        """Return the active pods."""
        ...

    def allocatable_resources(self) -> AllocatableResources:
        """Return what the node has to give."""
        ...


class PodResourcesClient:
    """Asks a kubelet over its socket; reconnects by itself when the kubelet restarts."""

    def __init__(self, socket: Path | str = DEFAULT_SOCKET, *, timeout: float = 10.0) -> None:
        self._socket = str(socket)
        self._timeout = timeout
        self._allocatable: tuple[Any, AllocatableResources] | None = None
        self._pods: dict[tuple[str, str], tuple[Any, PodResources]] = {}
        # Strict HTTP/2 servers refuse the encoded socket path that gRPC sends by default.
        options = [
            ("grpc.default_authority", "localhost"),
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ]
        self._channel = grpc.aio.insecure_channel(f"unix://{self._socket}", options=options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection."""
        await self._channel.close()

    def incarnation(self) -> object:
        """Return what identifies this kubelet's process: each creates its socket again."""
        try:
            found = Path(self._socket).stat()
        except OSError:
            return None
        return found.st_ino, found.st_ctime_ns

    async def list_pods(self) -> tuple[PodResources, ...]:
        """Return what every active pod holds; the same object for a pod that holds the same."""
        answer = await self._call("List", POD_RESOURCES.ListPodResourcesRequest())
        return self._read_pods(answer.pod_resources)

    async def get_pod(self, namespace: str, name: str) -> PodResources:
        """Return what one pod holds; the kubelet refuses pods that are not active."""
        request = POD_RESOURCES.GetPodResourcesRequest(pod_name=name, pod_namespace=namespace)
        return _read_pod((await self._call("Get", request)).pod_resources)

    async def allocatable(self) -> AllocatableResources:
        """Return what the node could give out if it were empty."""
        answer = await self._call(
            "GetAllocatableResources", POD_RESOURCES.AllocatableResourcesRequest()
        )
        # It lists every device, is asked for at every scan and seldom changes.
        if self._allocatable is None or answer != self._allocatable[0]:
            self._allocatable = answer, _read_allocatable(answer)
        return self._allocatable[1]

    def _read_pods(self, messages: Iterable[Any]) -> tuple[PodResources, ...]:
        """Read the pods that have changed since the last time: to compare takes a tenth of that."""
        known, self._pods = self._pods, {}
        pods = []
        for message in messages:
            key = message.namespace, message.name
            before = known.get(key)
            same = before is not None and before[0] == message
            pod = before[1] if before is not None and same else _read_pod(message)
            # The new message, since each keeps the whole answer that it came in alive.
            self._pods[key] = message, pod
            pods.append(pod)
        return tuple(pods)

    async def _call(self, method: str, request: Any) -> Any:  # noqa: ANN401 - protobuf messages
        """Call *method*, waiting a little when the kubelet says that we ask too often."""
        call = self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=_response_type(method).FromString,
        )
        pause = _FIRST_PAUSE
        for attempt in range(_ATTEMPTS):
            try:
                return await call(request, timeout=self._timeout)
            except grpc.aio.AioRpcError as error:
                busy = error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
                if not busy or attempt == _ATTEMPTS - 1:
                    raise KubeletUnavailable(
                        f"PodResources {method} on {self._socket}: "
                        f"{error.code().name}: {error.details()}"
                    ) from None
            await asyncio.sleep(pause)
            pause *= 2
        raise AssertionError("unreachable")


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
            memory=[_write_memory(one) for one in found.memory],
            devices=[_write_devices(one) for one in found.devices],
        )

    async def _admit(self, context: Any) -> None:  # noqa: ANN401 - gRPC's context
        """Take a token of the bucket, or refuse the call."""
        now = self._clock()
        refill = (now - self._refilled) * RATE_PER_SECOND
        self._tokens, self._refilled = min(BURST, self._tokens + refill), now
        if self._tokens < 1:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, _TOO_FAST)
        self._tokens -= 1


def pods_from_json(data: bytes | str, subject: str) -> tuple[PodResources, ...]:
    """Return the pods in an answer to ``List`` in JSON form.

    Raises:
        MalformedObject: *data*, which *subject* names, is no such answer.
    """
    answer = _from_json(POD_RESOURCES.ListPodResourcesResponse(), data, subject)
    return tuple(_read_pod(one) for one in answer.pod_resources)


def allocatable_from_json(data: bytes | str, subject: str) -> AllocatableResources:
    """Return what an answer to ``GetAllocatableResources`` in JSON form says.

    Raises:
        MalformedObject: *data*, which *subject* names, is no such answer.
    """
    answer = _from_json(POD_RESOURCES.AllocatableResourcesResponse(), data, subject)
    return _read_allocatable(answer)


def _from_json(message: Any, data: bytes | str, subject: str) -> Any:  # noqa: ANN401
    # Recorded answers alone are JSON: an exporter on a node does without this module.
    from google.protobuf import json_format

    try:
        return json_format.Parse(data, message, ignore_unknown_fields=True)
    except (json_format.ParseError, UnicodeDecodeError) as error:
        raise MalformedObject(subject, f"is no answer of PodResources: {error}") from None


def _response_type(method: str) -> Any:  # noqa: ANN401 - a protobuf class
    return {
        "List": POD_RESOURCES.ListPodResourcesResponse,
        "Get": POD_RESOURCES.GetPodResourcesResponse,
        "GetAllocatableResources": POD_RESOURCES.AllocatableResourcesResponse,
    }[method]


def _read_pod(message: Any) -> PodResources:  # noqa: ANN401 - a protobuf message
    return PodResources(
        name=message.name,
        namespace=message.namespace,
        containers=tuple(
            ContainerResources(
                name=one.name,
                cpu_ids=tuple(sorted(one.cpu_ids)),
                memory=tuple(map(_read_memory, one.memory)),
                devices=tuple(map(_read_devices, one.devices)),
            )
            for one in message.containers
        ),
        cpu_ids=tuple(sorted(message.cpu_ids)),
        memory=tuple(map(_read_memory, message.memory)),
    )


def _read_allocatable(message: Any) -> AllocatableResources:  # noqa: ANN401
    return AllocatableResources(
        cpu_ids=tuple(sorted(message.cpu_ids)),
        memory=tuple(map(_read_memory, message.memory)),
        devices=tuple(map(_read_devices, message.devices)),
    )


def _read_memory(message: Any) -> Memory:  # noqa: ANN401 - a protobuf message
    return Memory(message.memory_type, message.size, _read_topology(message))


def _read_devices(message: Any) -> Devices:  # noqa: ANN401 - a protobuf message
    return Devices(message.resource_name, tuple(message.device_ids), _read_topology(message))


def _read_topology(message: Any) -> tuple[int, ...]:  # noqa: ANN401 - a protobuf message
    return tuple(node.ID for node in message.topology.nodes)


def _write_pod(pod: PodResources) -> Any:  # noqa: ANN401 - a protobuf message
    return POD_RESOURCES.PodResources(
        name=pod.name,
        namespace=pod.namespace,
        containers=[
            POD_RESOURCES.ContainerResources(
                name=one.name,
                cpu_ids=one.cpu_ids,
                memory=[_write_memory(part) for part in one.memory],
                devices=[_write_devices(part) for part in one.devices],
            )
            for one in pod.containers
        ],
        cpu_ids=pod.cpu_ids,
        memory=[_write_memory(part) for part in pod.memory],
    )


def _write_memory(memory: Memory) -> Any:  # noqa: ANN401 - a protobuf message
    return POD_RESOURCES.ContainerMemory(
        memory_type=memory.type, size=memory.size_bytes, topology=_topology(memory.numa_nodes)
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
