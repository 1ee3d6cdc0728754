"""PodResources v1: the kubelet's account of which pod holds which CPUs, memory and devices.

`PodResourcesClient` reads it over the kubelet's unix socket; `numakube.node.podresources_server`
serves it. Protobuf stays inside these two: both sides deal in the frozen types below. The protocol
is ``k8s.io/kubelet/pkg/apis/podresources/v1`` (KEP-606).

`FakePodResources` answers from ``list.json`` and ``get_allocatable_resources.json`` in a folder, to
try an agent without a kubelet. Their format is that of ``fake:///folder`` of the Resource Topology
Exporter, and they are read again at every call.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from numakube.errors import KubeletUnavailable, MalformedObject
from numakube.node.bounded_files import read_regular_file
from numakube.node.grpc_call import CallFailed, GrpcCode, call
from numakube.node.protos import POD_RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable


DEFAULT_SOCKET: Final = "/var/lib/kubelet/pod-resources/kubelet.sock"
SERVICE: Final = "v1.PodResourcesLister"
# A node with 110 pods and thousands of devices answers with more than gRPC's 4 MiB.
MAX_MESSAGE_BYTES: Final = 16 << 20
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
class ClaimedDevice:
    """A device that a claim was given (dynamic resource allocation), by its ResourceSlice."""

    driver: str
    pool: str
    device: str
    share_id: str = ""
    cdi_devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DynamicResource:
    """The devices of one claim that a container may use; the kubelet knows no place of them."""

    claim_name: str
    claim_namespace: str
    devices: tuple[ClaimedDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """What one container holds for itself."""

    name: str
    cpu_ids: tuple[int, ...] = ()
    memory: tuple[Memory, ...] = ()
    devices: tuple[Devices, ...] = ()
    dynamic_resources: tuple[DynamicResource, ...] = ()


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


class PodResourcesClient:
    """Asks a kubelet over its socket; a kubelet that restarts does not disturb it."""

    def __init__(self, socket: Path | str = DEFAULT_SOCKET, *, timeout: float = 10.0) -> None:
        self._socket = str(socket)
        self._timeout = timeout
        self._allocatable: tuple[Any, AllocatableResources] | None = None
        self._pods: dict[tuple[str, str], tuple[Any, PodResources]] = {}

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
        data, pause = request.SerializeToString(), _FIRST_PAUSE
        path, most = f"/{SERVICE}/{method}", MAX_MESSAGE_BYTES
        for attempt in range(_ATTEMPTS):
            try:
                answer = await call(self._socket, path, data, within=self._timeout, at_most=most)
                return _response_type(method).FromString(answer)
            except CallFailed as error:
                busy = error.code is GrpcCode.RESOURCE_EXHAUSTED
                if not busy or attempt == _ATTEMPTS - 1:
                    raise KubeletUnavailable(
                        f"PodResources {method} on {self._socket}: {error}"
                    ) from None
            await asyncio.sleep(pause)
            pause *= 2
        raise AssertionError("unreachable")


def pods_from_json(data: bytes | str, subject: str) -> tuple[PodResources, ...]:
    """Return the pods in an answer to ``List`` in JSON form.

    Raises:
        MalformedObject: *data*, which *subject* names, is no such answer.
    """
    answer = _from_json(POD_RESOURCES.ListPodResourcesResponse(), data, subject)
    return tuple(_read_pod(resource) for resource in answer.pod_resources)


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
                name=container.name,
                cpu_ids=tuple(sorted(container.cpu_ids)),
                memory=tuple(map(_read_memory, container.memory)),
                devices=tuple(map(_read_devices, container.devices)),
                dynamic_resources=tuple(map(_read_dynamic_resource, container.dynamic_resources)),
            )
            for container in message.containers
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


def _read_dynamic_resource(message: Any) -> DynamicResource:  # noqa: ANN401
    return DynamicResource(
        claim_name=message.claim_name,
        claim_namespace=message.claim_namespace,
        devices=tuple(
            ClaimedDevice(
                driver=resource.driver_name,
                pool=resource.pool_name,
                device=resource.device_name,
                share_id=resource.share_id,
                cdi_devices=tuple(cdi.name for cdi in resource.cdi_devices),
            )
            for resource in message.claim_resources
        ),
    )


def _read_topology(message: Any) -> tuple[int, ...]:  # noqa: ANN401 - a protobuf message
    return tuple(node.ID for node in message.topology.nodes)


class FakePodResources:
    """Answers from files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def incarnation(self) -> object:
        """Return the same thing always: files do not restart."""
        return self._folder

    async def list_pods(self) -> tuple[PodResources, ...]:
        """Return what every pod holds."""
        return pods_from_json(*self._read("list.json"))

    async def allocatable(self) -> AllocatableResources:
        """Return what the node could give out if it were empty."""
        return allocatable_from_json(*self._read("get_allocatable_resources.json"))

    def _read(self, name: str) -> tuple[bytes, str]:
        path = self._folder / name
        try:
            return read_regular_file(path), str(path)
        except OSError as error:
            raise KubeletUnavailable(f"{path}: {error.strerror}") from None
