"""The other way to register: the kubelet finds a plugin's socket in its folder and asks who it is.

A plugin gives its `PluginServer` a `RegistryRegistrant`; a kubelet calls `RegistryClient`. The
kubelet keeps the folder across its restarts and takes up again what it finds there, so that a
plugin has nothing to do but to serve.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grpc.aio

from numakube.node.device_plugin.plugin_messages import VERSION
from numakube.node.device_plugin.plugin_protocol import (
    CHANNEL_OPTIONS,
    DIAL_SECONDS,
    REGISTRATION_SERVICE,
    DevicePluginError,
    called,
)
from numakube.node.grpc_serving import unary_handler
from numakube.node.protos import PLUGIN_REGISTRATION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

DEFAULT_DIRECTORY: Final = "/var/lib/kubelet/plugins_registry"
DEVICE_PLUGIN: Final = "DevicePlugin"
# The kubelet's own times.
INFO_SECONDS: Final = 1.0
NOTIFY_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """What a plugin says of itself.

    Attributes:
        type: `DEVICE_PLUGIN`, or another kind of plugin.
        name: of a device plugin, its resource.
        endpoint: the path of the socket that serves it; empty if it is the one that was found.
        versions: what it can talk.
    """

    type: str = DEVICE_PLUGIN
    name: str
    endpoint: str = ""
    versions: tuple[str, ...] = (VERSION,)


class RegistryRegistrant:
    """Answers the kubelet for a plugin."""

    def __init__(self, info: PluginInfo, told: Callable[[str], None]) -> None:
        """Prepare.

        Args:
            info: who the plugin is.
            told: called with what the kubelet has against it; empty if it is registered.
        """
        self._info = info
        self._told = told

    def handlers(self) -> Mapping[str, Any]:
        """Return the handlers of the calls."""
        messages = PLUGIN_REGISTRATION
        return {
            "GetInfo": unary_handler(self._get_info, messages.InfoRequest),
            "NotifyRegistrationStatus": unary_handler(self._notify, messages.RegistrationStatus),
        }

    async def _get_info(self, _: object, __: object) -> Any:  # noqa: ANN401 - protobuf messages
        info = self._info
        return PLUGIN_REGISTRATION.PluginInfo(
            type=info.type,
            name=info.name,
            endpoint=info.endpoint,
            supported_versions=info.versions,
        )

    async def _notify(self, request: Any, _: object) -> Any:  # noqa: ANN401
        why = "" if request.plugin_registered else request.error or "the kubelet does not say why"
        self._told(why)
        return PLUGIN_REGISTRATION.RegistrationStatusResponse()


class RegistryClient:
    """Asks a plugin whose socket was found, as a kubelet does; use it as a context."""

    def __init__(self, socket: Path) -> None:
        self._channel = grpc.aio.insecure_channel(f"unix://{socket}", options=CHANNEL_OPTIONS)

    async def dial(self, *, within: float = DIAL_SECONDS) -> None:
        """Connect.

        Raises:
            DevicePluginError: no plugin answers.
        """
        try:
            await asyncio.wait_for(self._channel.channel_ready(), within)
        except TimeoutError:
            raise DevicePluginError(
                "failed to dial plugin: context deadline exceeded", code="UNAVAILABLE"
            ) from None

    async def info(self) -> PluginInfo:
        """Return who the plugin is.

        Raises:
            DevicePluginError: it does not say.
        """
        messages = PLUGIN_REGISTRATION
        answer = await self._call(
            "GetInfo", messages.InfoRequest(), messages.PluginInfo, INFO_SECONDS
        )
        return PluginInfo(
            type=answer.type,
            name=answer.name,
            endpoint=answer.endpoint,
            versions=tuple(answer.supported_versions),
        )

    async def notify(self, why_not: str = "") -> None:
        """Tell the plugin that it is registered, or why not.

        Raises:
            DevicePluginError: it does not listen.
        """
        messages = PLUGIN_REGISTRATION
        status = messages.RegistrationStatus(plugin_registered=not why_not, error=why_not)
        response = messages.RegistrationStatusResponse
        await self._call("NotifyRegistrationStatus", status, response, NOTIFY_SECONDS)

    async def aclose(self) -> None:
        """Hang up."""
        await self._channel.close()

    async def _call(
        self,
        method: str,
        request: Any,  # noqa: ANN401 - protobuf messages
        response: Any,  # noqa: ANN401
        within: float,
    ) -> Any:  # noqa: ANN401
        call = self._channel.unary_unary(
            f"/{REGISTRATION_SERVICE}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        return await called(call(request, timeout=within))
