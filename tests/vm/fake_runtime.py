"""A container runtime without containers, for kubelets whose admission alone is of interest.

It answers the part of the CRI v1 that a kubelet 1.35 calls, from memory: a container runs until it
is stopped, except one whose command is ``/bin/true``, which has finished when it starts. It
outlives its kubelets, so that a restarted one finds its containers again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from numakube.node.protos import build

READY, NOT_READY = 0, 1
CREATED, RUNNING, EXITED = 0, 1, 2
CGROUPFS: Final = 1
IMAGE_ID: Final = "sha256:" + "0" * 64
_FINISHES_AT_ONCE: Final = ["/bin/true"]

_SANDBOX: Final = {
    "id": (1, "string"),
    "metadata": (2, "PodSandboxMetadata"),
    "state": (3, "int32"),
    "created_at": (4, "int64"),
}
_MESSAGES: Final[Mapping[str, Mapping[str, tuple[int, str]]]] = {
    "Empty": {},
    "VersionResponse": {
        "version": (1, "string"),
        "runtime_name": (2, "string"),
        "runtime_version": (3, "string"),
        "runtime_api_version": (4, "string"),
    },
    "RuntimeCondition": {"type": (1, "string"), "status": (2, "bool")},
    "RuntimeStatus": {"conditions": (1, "[RuntimeCondition]")},
    "StatusResponse": {"status": (1, "RuntimeStatus")},
    "LinuxRuntimeConfiguration": {"cgroup_driver": (1, "int32")},
    "RuntimeConfigResponse": {"linux": (1, "LinuxRuntimeConfiguration")},
    "PodSandboxMetadata": {
        "name": (1, "string"),
        "uid": (2, "string"),
        "namespace": (3, "string"),
        "attempt": (4, "int32"),
    },
    "PodSandboxConfig": {
        "metadata": (1, "PodSandboxMetadata"),
        "log_directory": (3, "string"),
        "labels": (6, "{string}"),
        "annotations": (7, "{string}"),
    },
    "RunPodSandboxRequest": {"config": (1, "PodSandboxConfig")},
    "SandboxId": {"pod_sandbox_id": (1, "string")},
    "PodIP": {"ip": (1, "string")},
    "PodSandboxNetworkStatus": {"ip": (1, "string")},
    "PodSandboxStatus": {
        **_SANDBOX,
        "network": (5, "PodSandboxNetworkStatus"),
        "labels": (7, "{string}"),
        "annotations": (8, "{string}"),
    },
    "PodSandboxStatusResponse": {"status": (1, "PodSandboxStatus")},
    "StateValue": {"state": (1, "int32")},
    "PodSandboxFilter": {
        "id": (1, "string"),
        "state": (2, "StateValue"),
        "label_selector": (3, "{string}"),
    },
    "ListPodSandboxRequest": {"filter": (1, "PodSandboxFilter")},
    "PodSandbox": {**_SANDBOX, "labels": (5, "{string}"), "annotations": (6, "{string}")},
    "ListPodSandboxResponse": {"items": (1, "[PodSandbox]")},
    "ContainerMetadata": {"name": (1, "string"), "attempt": (2, "int32")},
    "ImageSpec": {"image": (1, "string")},
    "ContainerConfig": {
        "metadata": (1, "ContainerMetadata"),
        "image": (2, "ImageSpec"),
        "command": (3, "[string]"),
        "labels": (9, "{string}"),
        "annotations": (10, "{string}"),
        "log_path": (11, "string"),
    },
    "CreateContainerRequest": {
        "pod_sandbox_id": (1, "string"),
        "config": (2, "ContainerConfig"),
        "sandbox_config": (3, "PodSandboxConfig"),
    },
    "ContainerId": {"container_id": (1, "string")},
    "ContainerFilter": {
        "id": (1, "string"),
        "state": (2, "StateValue"),
        "pod_sandbox_id": (3, "string"),
        "label_selector": (4, "{string}"),
    },
    "ListContainersRequest": {"filter": (1, "ContainerFilter")},
    "Container": {
        "id": (1, "string"),
        "pod_sandbox_id": (2, "string"),
        "metadata": (3, "ContainerMetadata"),
        "image": (4, "ImageSpec"),
        "image_ref": (5, "string"),
        "state": (6, "int32"),
        "created_at": (7, "int64"),
        "labels": (8, "{string}"),
        "annotations": (9, "{string}"),
        "image_id": (10, "string"),
    },
    "ListContainersResponse": {"containers": (1, "[Container]")},
    "ContainerStatus": {
        "id": (1, "string"),
        "metadata": (2, "ContainerMetadata"),
        "state": (3, "int32"),
        "created_at": (4, "int64"),
        "started_at": (5, "int64"),
        "finished_at": (6, "int64"),
        "exit_code": (7, "int32"),
        "image": (8, "ImageSpec"),
        "image_ref": (9, "string"),
        "reason": (10, "string"),
        "labels": (12, "{string}"),
        "annotations": (13, "{string}"),
        "log_path": (15, "string"),
        "image_id": (17, "string"),
    },
    "ContainerStatusResponse": {"status": (1, "ContainerStatus")},
    "ImageStatusRequest": {"image": (1, "ImageSpec")},
    "Image": {"id": (1, "string"), "repo_tags": (2, "[string]"), "size": (4, "uint64")},
    "ImageStatusResponse": {"image": (1, "Image")},
    "ListImagesResponse": {"images": (1, "[Image]")},
    "FilesystemIdentifier": {"mountpoint": (1, "string")},
    "UInt64Value": {"value": (1, "uint64")},
    "FilesystemUsage": {
        "timestamp": (1, "int64"),
        "fs_id": (2, "FilesystemIdentifier"),
        "used_bytes": (3, "UInt64Value"),
        "inodes_used": (4, "UInt64Value"),
    },
    "ImageFsInfoResponse": {
        "image_filesystems": (1, "[FilesystemUsage]"),
        "container_filesystems": (2, "[FilesystemUsage]"),
    },
}

CRI: Final = build("runtime.v1", "cri_v1.proto", _MESSAGES)


class FakeRuntime:
    """Sandboxes and containers that are nothing but entries in a table."""

    def __init__(self) -> None:
        self._sandboxes: dict[str, Any] = {}
        self._containers: dict[str, Any] = {}
        self._sandbox_of: dict[str, str] = {}
        self._finishing: set[str] = set()
        self._count = 0
        self._server: Any = None

    async def start(self, socket: Path) -> None:
        """Serve on *socket*."""
        self._server = grpc.aio.server()
        for service, calls in (
            ("runtime.v1.RuntimeService", self._runtime_calls()),
            ("runtime.v1.ImageService", self._image_calls()),
        ):
            handlers = {name: _handler(*call) for name, call in calls.items()}
            generic = grpc.method_handlers_generic_handler(service, handlers)
            self._server.add_generic_rpc_handlers((generic,))
        self._server.add_insecure_port(f"unix://{socket}")
        await self._server.start()

    async def stop(self) -> None:
        """End it, and with it every container."""
        if self._server is not None:
            await self._server.stop(grace=None)

    def _runtime_calls(self) -> dict[str, tuple[str, Callable[[Any], Any]]]:
        return {
            "Version": ("Empty", self._version),
            "Status": ("Empty", self._status),
            "RuntimeConfig": ("Empty", _runtime_config),
            "RunPodSandbox": ("RunPodSandboxRequest", self._run_sandbox),
            "StopPodSandbox": ("SandboxId", self._stop_sandbox),
            "RemovePodSandbox": ("SandboxId", self._remove_sandbox),
            "PodSandboxStatus": ("SandboxId", self._sandbox_status),
            "ListPodSandbox": ("ListPodSandboxRequest", self._list_sandboxes),
            "CreateContainer": ("CreateContainerRequest", self._create_container),
            "StartContainer": ("ContainerId", self._start_container),
            "StopContainer": ("ContainerId", self._stop_container),
            "RemoveContainer": ("ContainerId", self._remove_container),
            "ContainerStatus": ("ContainerId", self._container_status),
            "ListContainers": ("ListContainersRequest", self._list_containers),
            **dict.fromkeys(_CALLS_WITHOUT_ANSWER, ("Empty", _nothing)),
        }

    def _image_calls(self) -> dict[str, tuple[str, Callable[[Any], Any]]]:
        return {
            "ListImages": ("Empty", lambda _: CRI.ListImagesResponse()),
            "ImageStatus": ("ImageStatusRequest", _image_status),
            "ImageFsInfo": ("Empty", _image_file_system),
        }

    def _version(self, _: object) -> Any:
        return CRI.VersionResponse(
            version="0.1.0", runtime_name="fake", runtime_version="1.0", runtime_api_version="v1"
        )

    def _status(self, _: object) -> Any:
        conditions = [
            CRI.RuntimeCondition(type=name, status=True)
            for name in ("RuntimeReady", "NetworkReady")
        ]
        return CRI.StatusResponse(status=CRI.RuntimeStatus(conditions=conditions))

    def _run_sandbox(self, request: Any) -> Any:
        number = self._next_id("a")
        self._sandboxes[number] = CRI.PodSandboxStatus(
            id=number,
            metadata=request.config.metadata,
            state=READY,
            created_at=time.time_ns(),
            network=CRI.PodSandboxNetworkStatus(ip="10.1.0.1"),
            labels=request.config.labels,
            annotations=request.config.annotations,
        )
        return CRI.SandboxId(pod_sandbox_id=number)

    def _stop_sandbox(self, request: Any) -> Any:
        sandbox = self._sandboxes.get(request.pod_sandbox_id)
        if sandbox is not None:
            sandbox.state = NOT_READY
        for container in self._inside(request.pod_sandbox_id):
            _finish(container, code=137)
        return CRI.Empty()

    def _remove_sandbox(self, request: Any) -> Any:
        self._sandboxes.pop(request.pod_sandbox_id, None)
        for container in list(self._inside(request.pod_sandbox_id)):
            self._containers.pop(container.id)
        return CRI.Empty()

    def _sandbox_status(self, request: Any) -> Any:
        return CRI.PodSandboxStatusResponse(status=self._sandboxes[request.pod_sandbox_id])

    def _list_sandboxes(self, request: Any) -> Any:
        found = [
            sandbox for sandbox in self._sandboxes.values() if _passes(request.filter, sandbox)
        ]
        return CRI.ListPodSandboxResponse(items=[_listed_sandbox(one) for one in found])

    def _create_container(self, request: Any) -> Any:
        number, config = self._next_id("c"), request.config
        self._containers[number] = CRI.ContainerStatus(
            id=number,
            metadata=config.metadata,
            state=CREATED,
            created_at=time.time_ns(),
            image=config.image,
            image_ref=IMAGE_ID,
            image_id=IMAGE_ID,
            labels=config.labels,
            annotations=config.annotations,
            log_path=f"{request.sandbox_config.log_directory}/{config.log_path}",
        )
        self._sandbox_of[number] = request.pod_sandbox_id
        if list(config.command) == _FINISHES_AT_ONCE:
            self._finishing.add(number)
        return CRI.ContainerId(container_id=number)

    def _start_container(self, request: Any) -> Any:
        container = self._containers[request.container_id]
        container.state, container.started_at = RUNNING, time.time_ns()
        if request.container_id in self._finishing:
            _finish(container, code=0)
        return CRI.Empty()

    def _stop_container(self, request: Any) -> Any:
        container = self._containers.get(request.container_id)
        if container is not None:
            _finish(container, code=137)
        return CRI.Empty()

    def _remove_container(self, request: Any) -> Any:
        self._containers.pop(request.container_id, None)
        return CRI.Empty()

    def _container_status(self, request: Any) -> Any:
        return CRI.ContainerStatusResponse(status=self._containers[request.container_id])

    def _list_containers(self, request: Any) -> Any:
        wanted = request.filter.pod_sandbox_id
        found = [
            self._listed_container(container)
            for container in self._containers.values()
            if _passes(request.filter, container) and wanted in ("", self._sandbox_of[container.id])
        ]
        return CRI.ListContainersResponse(containers=found)

    def _listed_container(self, one: Any) -> Any:
        return CRI.Container(
            id=one.id,
            pod_sandbox_id=self._sandbox_of[one.id],
            metadata=one.metadata,
            image=one.image,
            image_ref=one.image_ref,
            image_id=one.image_id,
            state=one.state,
            created_at=one.created_at,
            labels=one.labels,
            annotations=one.annotations,
        )

    def _inside(self, sandbox: str) -> Iterator[Any]:
        return (
            container
            for container in self._containers.values()
            if self._sandbox_of[container.id] == sandbox
        )

    def _next_id(self, letter: str) -> str:
        self._count += 1
        return letter + f"{self._count:063x}"


_CALLS_WITHOUT_ANSWER: Final = (
    "UpdateContainerResources",
    "UpdatePodSandboxResources",
    "UpdateRuntimeConfig",
    "ReopenContainerLog",
    "ListContainerStats",
    "ListPodSandboxStats",
)


def _handler(request: str, answer: Callable[[Any], Any]) -> Any:
    async def respond(message: Any, context: Any) -> Any:
        try:
            return answer(message)
        except KeyError as error:
            return await context.abort(grpc.StatusCode.NOT_FOUND, f"there is no {error}")

    return grpc.unary_unary_rpc_method_handler(
        respond,
        request_deserializer=getattr(CRI, request).FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )


def _nothing(_: object) -> Any:
    return CRI.Empty()


def _runtime_config(_: object) -> Any:
    driver = CRI.LinuxRuntimeConfiguration(cgroup_driver=CGROUPFS)
    return CRI.RuntimeConfigResponse(linux=driver)


def _image_status(request: Any) -> Any:
    image = CRI.Image(id=IMAGE_ID, repo_tags=[request.image.image], size=1)
    return CRI.ImageStatusResponse(image=image)


def _image_file_system(_: object) -> Any:
    usage = CRI.FilesystemUsage(
        timestamp=time.time_ns(),
        fs_id=CRI.FilesystemIdentifier(mountpoint="/var/lib/kubelet"),
        used_bytes=CRI.UInt64Value(value=1),
        inodes_used=CRI.UInt64Value(value=1),
    )
    return CRI.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])


def _listed_sandbox(one: Any) -> Any:
    return CRI.PodSandbox(
        id=one.id,
        metadata=one.metadata,
        state=one.state,
        created_at=one.created_at,
        labels=one.labels,
        annotations=one.annotations,
    )


def _finish(container: Any, *, code: int) -> None:
    if container.state != EXITED:
        container.state, container.exit_code = EXITED, code
        container.finished_at = time.time_ns()
        container.reason = "Completed" if code == 0 else "Error"


def _passes(wanted: Any, one: Any) -> bool:
    """Tell whether a sandbox or container passes the filter of a list call."""
    if wanted.id not in ("", one.id):
        return False
    if wanted.HasField("state") and wanted.state.state != one.state:
        return False
    return all(one.labels.get(key) == value for key, value in wanted.label_selector.items())
