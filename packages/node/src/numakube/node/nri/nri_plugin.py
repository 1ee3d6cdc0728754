"""Speaking with a runtime as a plugin does.

    session = Session(reader, writer, handler, name="numakube", index="90")
    await session.run()

A plugin registers, is configured, hears of everything that runs already, and is then asked about
every container. A runtime that gets no answer in time closes the connection, and one that gets an
error does not start the container: so handlers answer soon, and never with an error.

A plugin only ever answers. NRI also has a call by which it may update containers of its own accord,
and that call is not made: containerd up to 2.3 takes its two locks in the other order then, and
stands still for good if the kubelet updates a container at the same moment (seen with 1.7.24 and
2.1.9; mended in NRI 0.12.1). Updates of other containers ride on answers instead.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

from numakube.errors import RuntimeUnavailable
from numakube.node.nri.nri_messages import NRI
from numakube.node.nri.nri_objects import (
    container_of,
    cpu_of,
    resources_for,
    sandbox_of,
    update_for,
)
from numakube.node.nri.ttrpc import Peer
from numakube.node.nri.ttrpc_frames import Conversation

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Awaitable, Callable, Sequence

    from numakube.node.nri.nri_objects import (
        ContainerAdjustment,
        CpuLimits,
        NriContainer,
        Sandbox,
        Update,
    )

DEFAULT_SOCKET: Final = "/var/run/nri/nri.sock"
START_SECONDS: Final = 30.0
"""How long a runtime may take from our registration until it has told what runs already."""
DEFAULT_REQUEST_SECONDS: Final = 2.0
"""How long containerd and CRI-O wait for a plugin, if they do not say."""
_CALL_SECONDS: Final = 10.0


class NriEvent(IntEnum):
    """What happens in a runtime; numbers are bits of a subscription, counted from 1."""

    RUN_POD_SANDBOX = 1
    REMOVE_POD_SANDBOX = 3
    CREATE_CONTAINER = 4
    UPDATE_CONTAINER = 8
    STOP_CONTAINER = 10
    REMOVE_CONTAINER = 11


_EVENTS: Final = sum(1 << (event - 1) for event in NriEvent)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedRuntime:
    """A runtime that has configured us; *request_seconds* is how long it waits for answers."""

    name: str
    version: str
    request_seconds: float = DEFAULT_REQUEST_SECONDS


class Handler(Protocol):
    """What a plugin does."""

    def configured(self, runtime: ConnectedRuntime) -> None:
        """Hear who the runtime is."""
        ...

    async def synchronized(
        self, pods: Sequence[Sandbox], containers: Sequence[NriContainer]
    ) -> Sequence[Update]:
        """Hear what runs already; return what is to change."""
        ...

    async def creating(self, pod: Sandbox, container: NriContainer) -> ContainerAdjustment:
        """Return what a container is to have that is about to be made."""
        ...

    async def updating(
        self, pod: Sandbox, container: NriContainer, wanted: CpuLimits
    ) -> ContainerAdjustment:
        """Return what a container is to have instead of what the kubelet has *wanted*."""
        ...

    async def stopping(self, pod: Sandbox, container: NriContainer) -> Sequence[Update]:
        """Return what is to change because a container stops."""
        ...

    def happened(self, event: NriEvent, pod: Sandbox, container: NriContainer | None) -> None:
        """Hear of something."""
        ...


class Session:
    """One connection with a runtime.

    Attributes:
        started: set when the runtime has told what runs, and asks from now on.
    """

    def __init__(
        self,
        reader: StreamReader,
        writer: StreamWriter,
        handler: Handler,
        *,
        name: str,
        index: str,
    ) -> None:
        self._handler = handler
        self._name = name
        self._index = index
        self._peer = Peer(reader, writer, serves=Conversation.PLUGIN, answer=self._answer)
        self.started = asyncio.Event()
        self._pods: list[Sandbox] = []
        self._containers: list[NriContainer] = []
        self._answers: dict[str, Callable[[bytes], Awaitable[Any]]] = {
            "Configure": self._configure,
            "Synchronize": self._synchronize,
            "CreateContainer": self._create,
            "UpdateContainer": self._update,
            "StopContainer": self._stop,
            "StateChange": self._state_change,
            "RunPodSandbox": self._told(NriEvent.RUN_POD_SANDBOX),
            "RemovePodSandbox": self._told(NriEvent.REMOVE_POD_SANDBOX),
            "RemoveContainer": self._told(NriEvent.REMOVE_CONTAINER),
            "Shutdown": self._nothing,
        }

    async def run(self) -> None:
        """Register, and answer until the runtime goes away.

        Raises:
            RuntimeUnavailable: it did not take us, or said something that makes no sense.
        """
        serving = asyncio.ensure_future(self._peer.run())
        starting = asyncio.ensure_future(self._start())
        try:
            await asyncio.wait((serving, starting), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
            await serving
        finally:
            for task in (starting, serving):
                task.cancel()
            await asyncio.gather(starting, serving, return_exceptions=True)
        if not self.started.is_set():
            raise RuntimeUnavailable("NRI: the runtime has closed the connection")

    async def answered(self) -> None:
        """Wait until the runtime has the answers to everything that it asked."""
        await self._peer.answered()

    async def _start(self) -> None:
        request = NRI.RegisterPluginRequest(plugin_name=self._name, plugin_idx=self._index)
        payload = request.SerializeToString()
        await self._peer.call("Runtime", "RegisterPlugin", payload, seconds=_CALL_SECONDS)
        try:
            async with asyncio.timeout(START_SECONDS):
                await self.started.wait()
        except TimeoutError:
            message = f"NRI: registered, and not told what runs in {START_SECONDS:g} s"
            raise RuntimeUnavailable(message) from None

    async def _answer(self, method: str, payload: bytes) -> bytes | None:
        answer = self._answers.get(method)
        if answer is None:
            return None
        encoded: bytes = (await answer(payload)).SerializeToString()
        return encoded

    async def _configure(self, payload: bytes) -> Any:  # noqa: ANN401 - a generated class
        request = NRI.ConfigureRequest.FromString(payload)
        seconds = request.request_timeout / 1000 or DEFAULT_REQUEST_SECONDS
        self._handler.configured(
            ConnectedRuntime(
                name=request.runtime_name,
                version=request.runtime_version,
                request_seconds=seconds,
            )
        )
        return NRI.ConfigureResponse(events=_EVENTS)

    async def _synchronize(self, payload: bytes) -> Any:  # noqa: ANN401 - a generated class
        request = NRI.SynchronizeRequest.FromString(payload)
        self._pods += map(sandbox_of, request.pods)
        self._containers += map(container_of, request.containers)
        if request.more:
            return NRI.SynchronizeResponse(more=True)
        updates = await self._handler.synchronized(self._pods, self._containers)
        self._pods, self._containers = [], []
        self.started.set()
        return NRI.SynchronizeResponse(update=[update_for(update) for update in updates])

    async def _create(self, payload: bytes) -> Any:  # noqa: ANN401 - a generated class
        request = NRI.ContainerRequest.FromString(payload)
        container = container_of(request.container)
        answer = await self._handler.creating(sandbox_of(request.pod), container)
        response = NRI.CreateContainerResponse(
            update=[update_for(other) for other in answer.others]
        )
        if answer.cpu is not None:
            response.adjust.linux.resources.CopyFrom(resources_for(answer.cpu))
        for name, text in answer.env.items():
            response.adjust.env.add(key=name, value=text)
        return response

    async def _update(self, payload: bytes) -> Any:  # noqa: ANN401 - a generated class
        request = NRI.UpdateContainerRequest.FromString(payload)
        container = container_of(request.container)
        answer = await self._handler.updating(
            sandbox_of(request.pod), container, cpu_of(request.linux_resources)
        )
        response = NRI.UpdatesResponse(update=[update_for(other) for other in answer.others])
        if answer.cpu is not None:
            response.update.add(
                container_id=container.id,
                linux=NRI.LinuxContainerUpdate(resources=resources_for(answer.cpu)),
            )
        return response

    async def _stop(self, payload: bytes) -> Any:  # noqa: ANN401 - a generated class
        request = NRI.ContainerRequest.FromString(payload)
        container = container_of(request.container)
        updates = await self._handler.stopping(sandbox_of(request.pod), container)
        return NRI.UpdatesResponse(update=[update_for(update) for update in updates])

    async def _state_change(self, payload: bytes) -> Any:  # noqa: ANN401 - a generated class
        message = NRI.StateChangeEvent.FromString(payload)
        if message.event in set(NriEvent):
            self._tell(NriEvent(message.event), message)
        return NRI.Empty()

    def _told(self, event: NriEvent) -> Callable[[bytes], Awaitable[Any]]:
        async def told(payload: bytes) -> Any:  # noqa: ANN401 - a generated class
            self._tell(event, NRI.ContainerRequest.FromString(payload))
            return NRI.Empty()

        return told

    def _tell(self, event: NriEvent, message: Any) -> None:  # noqa: ANN401 - a generated class
        container = container_of(message.container) if message.HasField("container") else None
        self._handler.happened(event, sandbox_of(message.pod), container)

    async def _nothing(self, payload: bytes) -> Any:  # noqa: ANN401 - a generated class
        return NRI.Empty()
