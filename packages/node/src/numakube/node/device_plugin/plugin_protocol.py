"""Both ends of the device plugin protocol (``k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1``).

A plugin serves `DevicePlugin` through a `PluginServer` and announces it to the kubelet with
`announce`, or lets the kubelet find its socket (`plugin_registration`). A kubelet serves
registrations with a `RegistrationServer` and calls plugins with a `PluginClient`. Protobuf stays
inside `plugin_messages` and this module: both sides deal in frozen types.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

import grpc
import grpc.aio

from numakube.errors import NumakubeError
from numakube.node.device_plugin.plugin_messages import (
    VERSION,
    Allocation,
    PluginOptions,
    PluginRegistration,
    read_allocation,
    read_device,
    write_allocation,
    write_device,
    write_options,
)
from numakube.node.grpc_serving import serve_socket, unary_handler
from numakube.node.protos import DEVICE_PLUGIN

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Awaitable,
        Callable,
        Mapping,
        Sequence,
    )
    from pathlib import Path

    from numakube.kubelet.machine import Device

DEFAULT_DIRECTORY: Final = "/var/lib/kubelet/device-plugins"
KUBELET_SOCKET: Final = "kubelet.sock"
# The kubelet's own times.
DIAL_SECONDS: Final = 10.0
PRE_START_SECONDS: Final = 30.0

_REGISTRATION: Final = "v1beta1.Registration"
_PLUGIN: Final = "v1beta1.DevicePlugin"
REGISTRATION_SERVICE: Final = "pluginregistration.Registration"
# Without it gRPC sends the encoded socket path, which strict HTTP/2 servers refuse.
CHANNEL_OPTIONS: Final = (("grpc.default_authority", "localhost"),)


class DevicePluginError(NumakubeError):
    """The other end refused or was not there; the text is what a kubelet would say.

    Attributes:
        code: the name of gRPC's status code; Go's plain errors are ``UNKNOWN``.
    """

    def __init__(self, message: str, *, code: str = "UNKNOWN") -> None:
        super().__init__(message)
        self.code = code


class DevicePlugin(Protocol):
    """What a plugin does, apart from gRPC. A `DevicePluginError` becomes an error of the call."""

    @property
    def options(self) -> PluginOptions:
        """Return which optional calls to expect."""
        ...

    def watch(self) -> AsyncIterator[Sequence[Device]]:
        """Yield all devices now and after each change; ending it ends the connection."""
        ...

    async def allocate(self, ids: Sequence[str]) -> Allocation:
        """Return what a container needs to use these devices."""
        ...

    async def preferred(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        """Return the *size* devices that go together best."""
        ...

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Get devices ready for a container that is about to start."""
        ...


class Registrant(Protocol):
    """What answers a kubelet that finds a plugin's socket by itself."""

    def handlers(self) -> Mapping[str, Any]:
        """Return the handlers of the calls."""
        ...


class PluginServer:
    """Serves a plugin on a unix socket.

    Attributes:
        watchers: how many streams of devices are open; without one the kubelet sees no device.
    """

    def __init__(
        self,
        plugin: DevicePlugin,
        *,
        resource: str,
        socket: Path,
        registrant: Registrant | None = None,
        on_watch: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare a server.

        Args:
            plugin: what answers.
            resource: what the plugin's devices are called.
            socket: where to serve.
            registrant: answers a kubelet that finds the socket by itself, if that is meant.
            on_watch: called when a stream of devices begins or ends.
        """
        self._plugin = plugin
        self._resource = resource
        self._socket = socket
        self._registrant = registrant
        self._on_watch = on_watch
        self._server: Any = None
        self.watchers = 0

    async def start(self) -> None:
        """Bind the socket; one that a crashed process left behind is replaced.

        Raises:
            DevicePluginError: the socket cannot be bound.
        """
        self._socket.unlink(missing_ok=True)
        handlers = {
            "GetDevicePluginOptions": unary_handler(self._options, DEVICE_PLUGIN.Empty),
            "GetPreferredAllocation": unary_handler(
                self._preferred, DEVICE_PLUGIN.PreferredAllocationRequest
            ),
            "Allocate": unary_handler(self._allocate, DEVICE_PLUGIN.AllocateRequest),
            "PreStartContainer": unary_handler(
                self._pre_start, DEVICE_PLUGIN.PreStartContainerRequest
            ),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(
                self._watch,
                request_deserializer=DEVICE_PLUGIN.Empty.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            ),
        }
        services: dict[str, Mapping[str, Any]] = {_PLUGIN: handlers}
        if self._registrant is not None:
            services[REGISTRATION_SERVICE] = self._registrant.handlers()
        self._server = await _serve(self._socket, services)

    async def stop(self) -> None:
        """End all calls and remove the socket."""
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None
        self._socket.unlink(missing_ok=True)

    async def announce(self, kubelet_socket: Path, *, within: float = DIAL_SECONDS) -> None:
        """Register with the kubelet, which calls back before it answers.

        Raises:
            DevicePluginError: the kubelet is not there or refuses.
        """
        request = DEVICE_PLUGIN.RegisterRequest(
            version=VERSION,
            endpoint=self._socket.name,
            resource_name=self._resource,
            options=write_options(self._plugin.options),
        )
        async with grpc.aio.insecure_channel(
            f"unix://{kubelet_socket}", options=CHANNEL_OPTIONS
        ) as dialled:
            call = dialled.unary_unary(
                f"/{_REGISTRATION}/Register",
                request_serializer=DEVICE_PLUGIN.RegisterRequest.SerializeToString,
                response_deserializer=DEVICE_PLUGIN.Empty.FromString,
            )
            await called(call(request, timeout=within))

    async def _options(self, _: object, __: object) -> Any:  # noqa: ANN401 - protobuf messages
        return write_options(self._plugin.options)

    async def _watch(self, _: object, __: object) -> AsyncIterator[Any]:
        # The library cancels this when the other end hangs up.
        self.watchers += 1
        self._on_watch()
        try:
            async for devices in self._plugin.watch():
                listed = [write_device(device) for device in devices]
                yield DEVICE_PLUGIN.ListAndWatchResponse(devices=listed)
        finally:
            self.watchers -= 1
            self._on_watch()

    async def _allocate(self, request: Any, context: Any) -> Any:  # noqa: ANN401
        answers = [
            await _answered(self._plugin.allocate(tuple(other.devices_ids)), context)
            for other in request.container_requests
        ]
        return DEVICE_PLUGIN.AllocateResponse(
            container_responses=[write_allocation(answer) for answer in answers]
        )

    async def _preferred(self, request: Any, context: Any) -> Any:  # noqa: ANN401
        answers = [
            await _answered(
                self._plugin.preferred(
                    tuple(other.available_deviceIDs),
                    tuple(other.must_include_deviceIDs),
                    other.allocation_size,
                ),
                context,
            )
            for other in request.container_requests
        ]
        part = DEVICE_PLUGIN.ContainerPreferredAllocationResponse
        return DEVICE_PLUGIN.PreferredAllocationResponse(
            container_responses=[part(deviceIDs=ids) for ids in answers]
        )

    async def _pre_start(self, request: Any, context: Any) -> Any:  # noqa: ANN401
        await _answered(self._plugin.pre_start(tuple(request.devices_ids)), context)
        return DEVICE_PLUGIN.PreStartContainerResponse()


class PluginClient:
    """Calls a plugin, as a kubelet does."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._channel = grpc.aio.insecure_channel(f"unix://{socket}", options=CHANNEL_OPTIONS)

    async def dial(self, *, within: float = DIAL_SECONDS) -> None:
        """Connect; a plugin has to serve already when it registers."""
        try:
            await asyncio.wait_for(self._channel.channel_ready(), within)
        except TimeoutError:
            raise DevicePluginError(
                "failed to dial device plugin: context deadline exceeded"
            ) from None

    async def aclose(self) -> None:
        """Close the connection."""
        await self._channel.close()

    async def options(self) -> PluginOptions:
        """Return which optional calls the plugin wants."""
        answer = await self._call(
            "GetDevicePluginOptions", DEVICE_PLUGIN.Empty(), DEVICE_PLUGIN.DevicePluginOptions
        )
        return PluginOptions(answer.pre_start_required, answer.get_preferred_allocation_available)

    async def watch(self) -> AsyncGenerator[tuple[Device, ...], None]:
        """Yield the plugin's devices until it ends the stream."""
        call = self._channel.unary_stream(
            f"/{_PLUGIN}/ListAndWatch",
            request_serializer=DEVICE_PLUGIN.Empty.SerializeToString,
            response_deserializer=DEVICE_PLUGIN.ListAndWatchResponse.FromString,
        )(DEVICE_PLUGIN.Empty())
        try:
            async for message in call:
                yield tuple(read_device(device) for device in message.devices)
        except grpc.aio.AioRpcError as error:
            raise _failure(error) from None
        finally:
            call.cancel()

    async def allocate(self, ids: Sequence[str]) -> Allocation:
        """Tell the plugin which devices a container gets."""
        request = DEVICE_PLUGIN.AllocateRequest(
            container_requests=[DEVICE_PLUGIN.ContainerAllocateRequest(devices_ids=ids)]
        )
        answer = await self._call("Allocate", request, DEVICE_PLUGIN.AllocateResponse)
        if not answer.container_responses:
            raise DevicePluginError(f"no containers return in allocation response {answer}")
        return read_allocation(answer.container_responses[0])

    async def preferred(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> tuple[str, ...]:
        """Ask the plugin which devices go together best."""
        wanted = DEVICE_PLUGIN.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
        )
        request = DEVICE_PLUGIN.PreferredAllocationRequest(container_requests=[wanted])
        answer = await self._call(
            "GetPreferredAllocation", request, DEVICE_PLUGIN.PreferredAllocationResponse
        )
        responses = answer.container_responses
        return tuple(responses[0].deviceIDs) if responses else ()

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Have the plugin get devices ready for a container."""
        request = DEVICE_PLUGIN.PreStartContainerRequest(devices_ids=ids)
        response = DEVICE_PLUGIN.PreStartContainerResponse
        await self._call("PreStartContainer", request, response, within=PRE_START_SECONDS)

    async def _call(
        self,
        method: str,
        request: Any,  # noqa: ANN401 - protobuf messages
        response: Any,  # noqa: ANN401
        *,
        within: float | None = None,
    ) -> Any:  # noqa: ANN401
        call = self._channel.unary_unary(
            f"/{_PLUGIN}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        return await called(call(request, timeout=within))


class RegistrationServer:
    """Takes the announcements of plugins on the kubelet's socket."""

    def __init__(
        self, register: Callable[[PluginRegistration], Awaitable[None]], socket: Path
    ) -> None:
        """Prepare a server.

        Args:
            register: called with each announcement; it raises `DevicePluginError` to refuse.
            socket: where to serve.
        """
        self._register = register
        self._socket = socket
        self._server: Any = None

    async def start(self) -> None:
        """Bind the socket; one that is there already is replaced, which plugins watch for."""
        self._socket.parent.mkdir(parents=True, exist_ok=True)
        self._socket.unlink(missing_ok=True)
        handler = unary_handler(self._answer, DEVICE_PLUGIN.RegisterRequest)
        self._server = await _serve(self._socket, {_REGISTRATION: {"Register": handler}})

    async def stop(self) -> None:
        """Stop serving and remove the socket."""
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None
        self._socket.unlink(missing_ok=True)

    async def _answer(self, request: Any, context: Any) -> Any:  # noqa: ANN401
        registration = PluginRegistration(
            resource=request.resource_name,
            endpoint=request.endpoint,
            version=request.version,
            options=PluginOptions(
                request.options.pre_start_required,
                request.options.get_preferred_allocation_available,
            ),
        )
        await _answered(self._register(registration), context)
        return DEVICE_PLUGIN.Empty()


async def _serve(socket: Path, services: Mapping[str, Mapping[str, Any]]) -> Any:  # noqa: ANN401
    try:
        return await serve_socket(socket, services)
    except RuntimeError as error:
        raise DevicePluginError(f"cannot listen on {socket}: {error}") from None


async def _answered(work: Awaitable[Any], context: Any) -> Any:  # noqa: ANN401
    """Return what *work* gives; a refusal ends the call with its text, as Go's errors do."""
    try:
        return await work
    except DevicePluginError as refusal:
        return await context.abort(grpc.StatusCode[refusal.code], str(refusal))


async def called(call: Any) -> Any:  # noqa: ANN401
    """Return the answer to a call.

    Raises:
        DevicePluginError: in the words of Go's gRPC.
    """
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise _failure(error) from None


def _failure(error: grpc.aio.AioRpcError) -> DevicePluginError:
    """Return the error in the words of Go's gRPC, which end up in pod statuses."""
    name = error.code().name
    code = "Canceled" if name == "CANCELLED" else name.title().replace("_", "")
    return DevicePluginError(f"rpc error: code = {code} desc = {error.details()}", code=name)
