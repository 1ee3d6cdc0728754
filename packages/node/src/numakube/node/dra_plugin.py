"""Both ends of the protocol between a kubelet and the DRA drivers of its node.

A driver serves `DraPlugin` through a `DraPluginServer`; the kubelet finds its registration socket
(`numakube.node.device_plugin.plugin_registration`) and calls it with a `DraPluginClient`. Follows
``k8s.io/kubelet/pkg/apis/dra/v1`` of Kubernetes 1.34 to 1.37. ``v1beta1`` has the same fields, save
that kubelets 1.34 pass over the id of a share there.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

import grpc
import grpc.aio

from numakube.node.device_plugin.plugin_protocol import (
    CHANNEL_OPTIONS,
    REGISTRATION_SERVICE,
    DevicePluginError,
    called,
)
from numakube.node.device_plugin.plugin_registration import PluginInfo, RegistryRegistrant
from numakube.node.grpc_serving import serve_socket, unary_handler
from numakube.node.protos import build

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from numakube.node.protos import Fields

DRA_PLUGIN: Final = "DRAPlugin"
"""The type that a driver registers as."""
VERSIONS: Final = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
"""What a driver says that it serves, newest first: the kubelet takes the first that it knows."""
HEALTH_VERSIONS: Final = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
"""The same of the health of devices: of kubelets from 1.37 on, and of 1.34 to 1.36."""
CALL_SECONDS: Final = 45.0
"""How long a kubelet waits for an answer."""
LONGEST_PATH: Final = 105
"""Bytes of a socket's path that gRPC can take: two less than Linux, for the slashes before it."""

_PACKAGE: Final = "k8s.io.kubelet.pkg.apis.dra"
_SERVICES: Final = tuple(f"{_PACKAGE}.{version}" for version in VERSIONS)
_MESSAGES: Final[Mapping[str, Fields]] = MappingProxyType(
    {
        "Claim": {"namespace": (1, "string"), "uid": (2, "string"), "name": (3, "string")},
        "Device": {
            "request_names": (1, "[string]"),
            "pool_name": (2, "string"),
            "device_name": (3, "string"),
            "cdi_device_ids": (4, "[string]"),
            "share_id": (5, "string?"),
        },
        "NodePrepareResourcesRequest": {"claims": (1, "[Claim]")},
        "NodePrepareResourceResponse": {"devices": (1, "[Device]"), "error": (2, "string")},
        "NodePrepareResourcesResponse": {"claims": (1, "{NodePrepareResourceResponse}")},
        "NodeUnprepareResourcesRequest": {"claims": (1, "[Claim]")},
        "NodeUnprepareResourceResponse": {"error": (1, "string")},
        "NodeUnprepareResourcesResponse": {"claims": (1, "{NodeUnprepareResourceResponse}")},
    }
)
MESSAGES: Final = build(f"{_PACKAGE}.v1", "dra_v1.proto", _MESSAGES)
"""Messages of the DRA plugin API v1."""

_HEALTH: Final[Mapping[str, Fields]] = MappingProxyType(
    {
        "NodeWatchResourcesRequest": {},
        "DeviceIdentifier": {"pool_name": (1, "string"), "device_name": (2, "string")},
        "DeviceHealth": {
            "device": (1, "DeviceIdentifier"),
            # An enumeration: not known, healthy, unhealthy.
            "health": (2, "int64"),
            "last_updated_time": (3, "int64"),
            "health_check_timeout_seconds": (4, "int64"),
            "message": (5, "string"),
        },
        "NodeWatchResourcesResponse": {"devices": (1, "[DeviceHealth]")},
    }
)
HEALTH: Final = build("v1", "dra_health_v1.proto", _HEALTH)
"""Messages about the health of devices; v1alpha1 has the first three fields."""
_HEALTHY, _UNHEALTHY = 1, 2
_LONGEST_MESSAGE: Final = 1024


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A claim that a kubelet asks about."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedDevice:
    """A device that is ready for containers.

    Attributes:
        requests: those of the claim that it is for; none means all.
        cdi_devices: what the runtime is to look up, by full names.
        share: which part of a device that several claims use; empty if it has no parts.
    """

    requests: tuple[str, ...] = ()
    pool: str
    device: str
    cdi_devices: tuple[str, ...] = ()
    share: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What became of one claim: its devices, or why it has none."""

    devices: tuple[PreparedDevice, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHealth:
    """How a device is.

    Attributes:
        trouble: why it cannot be used; empty if it can.
        seconds: by the clock on the wall, when that was found out.
        holds_seconds: for how long it holds unless it is said again.
    """

    pool: str
    device: str
    trouble: str = ""
    seconds: int = 0
    holds_seconds: int = 30


class DraPlugin(Protocol):
    """What a driver does, apart from gRPC."""

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, Prepared]:
        """Ready the devices of each claim; return by uid what became of it."""
        ...

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        """Take back what was readied; return by uid what went wrong, empty if nothing did."""
        ...

    def watch_health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        """Yield how all devices are, again and again."""
        ...


class DraPluginServer:
    """Serves a driver on two sockets: one for its calls, one in the kubelet's registry.

    The kubelet calls as soon as it has found the second, so that is made last and removed first.
    """

    def __init__(
        self,
        plugin: DraPlugin,
        *,
        driver: str,
        socket: Path,
        registration: Path,
        told: Callable[[str], None],
    ) -> None:
        """Prepare a server.

        Args:
            plugin: what answers.
            driver: its name.
            socket: where it serves.
            registration: the socket that the kubelet is to find.
            told: called with what the kubelet has against it; empty if it is registered.
        """
        self._plugin = plugin
        self._sockets = socket, registration
        info = PluginInfo(
            type=DRA_PLUGIN,
            name=driver,
            endpoint=str(socket),
            versions=(*VERSIONS, *HEALTH_VERSIONS),
        )
        self._registrant = RegistryRegistrant(info, told)
        self._servers: list[Any] = []
        self._watching: set[asyncio.Task[Any] | None] = set()

    async def start(self) -> None:
        """Bind the sockets; what a process that died has left there is replaced.

        Raises:
            DevicePluginError: they cannot be bound.
        """
        handlers = {
            "NodePrepareResources": unary_handler(
                self._prepare, MESSAGES.NodePrepareResourcesRequest
            ),
            "NodeUnprepareResources": unary_handler(
                self._unprepare, MESSAGES.NodeUnprepareResourcesRequest
            ),
        }
        health = {
            "NodeWatchResources": grpc.unary_stream_rpc_method_handler(
                self._watch,
                request_deserializer=HEALTH.NodeWatchResourcesRequest.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
        }
        services: tuple[Mapping[str, Mapping[str, Any]], ...] = (
            {**dict.fromkeys(_SERVICES, handlers), **dict.fromkeys(HEALTH_VERSIONS, health)},
            {REGISTRATION_SERVICE: self._registrant.handlers()},
        )
        for socket, served in zip(self._sockets, services, strict=True):
            if len(str(socket).encode()) > LONGEST_PATH:
                raise DevicePluginError(
                    f"{socket}: too long for a unix socket (at most {LONGEST_PATH} bytes)"
                )
            try:
                socket.parent.mkdir(parents=True, exist_ok=True)
                socket.unlink(missing_ok=True)
                self._servers.append(await serve_socket(socket, served))
            except (OSError, RuntimeError) as error:
                raise DevicePluginError(f"cannot listen on {socket}: {error}") from None

    async def stop(self, *, grace: float | None = None) -> None:
        """Take no more calls, give those under way *grace* seconds, and remove the sockets."""
        # These never end by themselves, and would be waited for.
        for watching in self._watching:
            if watching is not None:
                watching.cancel()
        for server, socket in reversed([*zip(self._servers, self._sockets, strict=False)]):
            with suppress(OSError):
                socket.unlink(missing_ok=True)
            await server.stop(grace=grace)
        self._servers.clear()

    async def _watch(self, _: object, __: object) -> AsyncIterator[Any]:
        task = asyncio.current_task()
        self._watching.add(task)
        try:
            async for devices in self._plugin.watch_health():
                yield HEALTH.NodeWatchResourcesResponse(devices=[*map(_health, devices)])
        finally:
            self._watching.discard(task)

    async def _prepare(self, request: Any, _: object) -> Any:  # noqa: ANN401 - protobuf messages
        answer = MESSAGES.NodePrepareResourcesResponse()
        for uid, prepared in (await self._plugin.prepare(_claims(request))).items():
            entry = answer.claims[uid]
            entry.error = prepared.error
            for device in prepared.devices:
                entry.devices.add(
                    request_names=device.requests,
                    pool_name=device.pool,
                    device_name=device.device,
                    cdi_device_ids=device.cdi_devices,
                    share_id=device.share or None,
                )
        return answer

    async def _unprepare(self, request: Any, _: object) -> Any:  # noqa: ANN401
        answer = MESSAGES.NodeUnprepareResourcesResponse()
        for uid, error in (await self._plugin.unprepare(_claims(request))).items():
            answer.claims[uid].error = error
        return answer


class DraPluginClient:
    """Calls a driver, as a kubelet does."""

    def __init__(self, socket: Path, version: str = VERSIONS[0]) -> None:
        """Prepare to call the driver on *socket* by one of the `VERSIONS`."""
        self.socket = socket
        self._service = f"{_PACKAGE}.{version}"
        self._channel = grpc.aio.insecure_channel(f"unix://{socket}", options=CHANNEL_OPTIONS)

    async def aclose(self) -> None:
        """Hang up."""
        await self._channel.close()

    async def prepare(self, claims: Sequence[ClaimRef]) -> dict[str, Prepared]:
        """Have the devices of *claims* readied.

        Raises:
            DevicePluginError: the driver does not answer.
        """
        request = MESSAGES.NodePrepareResourcesRequest(claims=[_message(claim) for claim in claims])
        response = MESSAGES.NodePrepareResourcesResponse
        answer = await self._call("NodePrepareResources", request, response)
        return {uid: _prepared(entry) for uid, entry in answer.claims.items()}

    async def unprepare(self, claims: Sequence[ClaimRef]) -> dict[str, str]:
        """Have what was readied taken back.

        Raises:
            DevicePluginError: the driver does not answer.
        """
        request = MESSAGES.NodeUnprepareResourcesRequest(
            claims=[_message(claim) for claim in claims]
        )
        response = MESSAGES.NodeUnprepareResourcesResponse
        answer = await self._call("NodeUnprepareResources", request, response)
        return {uid: entry.error for uid, entry in answer.claims.items()}

    async def watch_health(
        self, version: str = HEALTH_VERSIONS[0]
    ) -> AsyncIterator[tuple[DeviceHealth, ...]]:
        """Yield how devices are, until the driver ends."""
        call = self._channel.unary_stream(
            f"/{version}/NodeWatchResources",
            request_serializer=HEALTH.NodeWatchResourcesRequest.SerializeToString,
            response_deserializer=HEALTH.NodeWatchResourcesResponse.FromString,
        )
        try:
            async for answer in call(HEALTH.NodeWatchResourcesRequest()):
                yield tuple(map(_read_health, answer.devices))
        except grpc.aio.AioRpcError as error:
            raise DevicePluginError(error.details() or str(error.code())) from None

    async def _call(self, method: str, request: Any, response: Any) -> Any:  # noqa: ANN401
        call = self._channel.unary_unary(
            f"/{self._service}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        return await called(call(request, timeout=CALL_SECONDS))


def _health(health: DeviceHealth) -> Any:  # noqa: ANN401 - a protobuf message
    return HEALTH.DeviceHealth(
        device=HEALTH.DeviceIdentifier(pool_name=health.pool, device_name=health.device),
        health=_UNHEALTHY if health.trouble else _HEALTHY,
        last_updated_time=health.seconds,
        health_check_timeout_seconds=health.holds_seconds,
        message=health.trouble[:_LONGEST_MESSAGE],
    )


def _read_health(message: Any) -> DeviceHealth:  # noqa: ANN401
    trouble = "" if message.health == _HEALTHY else message.message or "it is not known why"
    return DeviceHealth(
        pool=message.device.pool_name,
        device=message.device.device_name,
        trouble=trouble,
        seconds=message.last_updated_time,
        holds_seconds=message.health_check_timeout_seconds,
    )


def _claims(request: Any) -> list[ClaimRef]:  # noqa: ANN401 - a protobuf message
    return [ClaimRef(claim.namespace, claim.name, claim.uid) for claim in request.claims]


def _message(claim: ClaimRef) -> Any:  # noqa: ANN401
    return MESSAGES.Claim(namespace=claim.namespace, uid=claim.uid, name=claim.name)


def _prepared(entry: Any) -> Prepared:  # noqa: ANN401
    devices = tuple(
        PreparedDevice(
            requests=tuple(device.request_names),
            pool=device.pool_name,
            device=device.device_name,
            cdi_devices=tuple(device.cdi_device_ids),
            share=device.share_id,
        )
        for device in entry.devices
    )
    return Prepared(devices=devices, error=entry.error)
