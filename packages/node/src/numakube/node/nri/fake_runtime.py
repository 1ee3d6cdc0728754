"""A runtime as plugins see it, for tests and for the lab.

    async with FakeRuntime(folder / "nri.sock") as runtime:
        await runtime.connected.wait()
        cpu = await runtime.create(pod, container)

It takes one plugin at a time, asks it as containerd does, and hangs up on one that does not answer
in time: what the plugin would have said is left out then, and the container is made all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Self

from numakube.errors import RuntimeUnavailable
from numakube.node.nri.nri_messages import NRI
from numakube.node.nri.nri_objects import CpuLimits, cpu_of, resources_for, update_of
from numakube.node.nri.nri_plugin import DEFAULT_REQUEST_SECONDS, NriEvent
from numakube.node.nri.ttrpc import CallRefused, Peer
from numakube.node.nri.ttrpc_frames import Conversation

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable
    from pathlib import Path

    from numakube.node.nri.nri_objects import NriContainer, Sandbox, Update

_METHODS: Final = {
    NriEvent.RUN_POD_SANDBOX: "RunPodSandbox",
    NriEvent.REMOVE_POD_SANDBOX: "RemovePodSandbox",
    NriEvent.REMOVE_CONTAINER: "RemoveContainer",
}


class FakeRuntime:
    """A runtime.

    Attributes:
        pods: told to a plugin that connects.
        containers: likewise.
        peer: the connection with a plugin, while there is one.
        connected: set while a configured plugin is connected.
        registered: names and indices of plugins, in the order of their coming.
        updates: what plugins wanted changed of containers other than the one they were asked about.
    """

    def __init__(
        self,
        socket: Path,
        *,
        version: str = "2.2.0",
        request_seconds: float = DEFAULT_REQUEST_SECONDS,
        dedicated: bool = True,
        apply: Callable[[Update], None] = lambda update: None,
    ) -> None:
        """Prepare.

        Args:
            socket: where plugins connect.
            version: what it says of itself.
            request_seconds: how long to wait for a plugin.
            dedicated: tell of events by a method for each, as since NRI 0.11; else by one for all.
            apply: told of every such update.
        """
        self._socket = socket
        self._version = version
        self._seconds = request_seconds
        self._dedicated = dedicated
        self._apply = apply
        self.peer: Peer | None = None
        self._writer: StreamWriter | None = None
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self.pods: dict[str, Sandbox] = {}
        self.containers: dict[str, NriContainer] = {}
        self.connected = asyncio.Event()
        self.registered: list[tuple[str, str]] = []
        self.updates: list[Update] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._accept, self._socket)
        return self

    async def __aexit__(self, *args: object) -> None:
        if self._server is not None:
            self._server.close()
        self.hang_up()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)
        self._socket.unlink(missing_ok=True)

    def hang_up(self) -> None:
        """Close the connection with the plugin."""
        self.connected.clear()
        self.peer = None
        if self._writer is not None:
            self._writer.close()

    async def create(self, pod: Sandbox, container: NriContainer) -> CpuLimits:
        """Make a container; return what it has.

        Raises:
            CallRefused: the plugin does not want it to be made.
        """
        request = NRI.ContainerRequest(pod=_pod(pod), container=_container(container))
        answer = await self._ask("CreateContainer", request)
        response = NRI.CreateContainerResponse.FromString(answer)
        self._take(response.update)
        env = dict(one.partition("=")[::2] for one in container.env)
        env |= {one.key: one.value for one in response.adjust.env}
        made = replace(
            container,
            cpu=_over(container.cpu, cpu_of(response.adjust.linux.resources)),
            env=tuple(f"{name}={text}" for name, text in env.items()),
        )
        self.containers[container.id] = made
        return made.cpu

    async def update(self, pod: Sandbox, container: NriContainer, wanted: CpuLimits) -> CpuLimits:
        """Change a container as the kubelet has *wanted*; return what it has then."""
        request = NRI.UpdateContainerRequest(
            pod=_pod(pod), container=_container(container), linux_resources=resources_for(wanted)
        )
        response = NRI.UpdatesResponse.FromString(await self._ask("UpdateContainer", request))
        own = [one for one in response.update if one.container_id == container.id]
        self._take(one for one in response.update if one.container_id != container.id)
        for update in map(update_of, own):
            wanted = _over(wanted, update.cpu)
        known = self.containers.get(container.id, container)
        self.containers[known.id] = replace(known, cpu=_over(known.cpu, wanted))
        return wanted

    async def stop(self, pod: Sandbox, container: NriContainer) -> None:
        """Stop a container."""
        request = NRI.ContainerRequest(pod=_pod(pod), container=_container(container))
        self._take(NRI.UpdatesResponse.FromString(await self._ask("StopContainer", request)).update)

    async def tell(
        self, event: NriEvent, pod: Sandbox, container: NriContainer | None = None
    ) -> None:
        """Tell the plugin that something has happened."""
        about: dict[str, Any] = {"pod": _pod(pod)}
        if container is not None:
            about["container"] = _container(container)
        if self._dedicated:
            await self._ask(_METHODS[event], NRI.ContainerRequest(**about))
        else:
            await self._ask("StateChange", NRI.StateChangeEvent(event=event, **about))

    async def _ask(self, method: str, request: Any) -> bytes:  # noqa: ANN401 - a generated class
        """Return what the plugin answers; nothing if there is none, or if it takes too long."""
        if self.peer is None or not self.connected.is_set():
            return b""
        try:
            return await self._call(self.peer, method, request)
        except CallRefused:
            raise
        except RuntimeUnavailable:
            self.hang_up()
            return b""

    async def _call(self, peer: Peer, method: str, request: Any) -> bytes:  # noqa: ANN401
        payload = request.SerializeToString()
        return await peer.call("Plugin", method, payload, seconds=self._seconds)

    async def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._serving.add(task)
        self._writer = writer
        peer = Peer(reader, writer, serves=Conversation.RUNTIME, answer=self._answer)
        self.peer = peer
        with contextlib.suppress(RuntimeUnavailable):
            await peer.run()
        if self.peer is peer:
            self.hang_up()

    async def _answer(self, method: str, payload: bytes) -> bytes | None:
        if method == "RegisterPlugin":
            request = NRI.RegisterPluginRequest.FromString(payload)
            self.registered.append((request.plugin_name, request.plugin_idx))
            if self.peer is not None:
                started = asyncio.ensure_future(self._start(self.peer))
                self._serving.add(started)
            return b""
        return None

    async def _start(self, peer: Peer) -> None:
        """Configure a plugin, and tell it what runs."""
        configure = NRI.ConfigureRequest(
            runtime_name="containerd",
            runtime_version=self._version,
            request_timeout=int(self._seconds * 1000),
        )
        synchronize = NRI.SynchronizeRequest(
            pods=map(_pod, self.pods.values()),
            containers=map(_container, self.containers.values()),
        )
        try:
            await self._call(peer, "Configure", configure)
            answer = await self._call(peer, "Synchronize", synchronize)
        except RuntimeUnavailable:
            self.hang_up()
            return
        self._take(NRI.SynchronizeResponse.FromString(answer).update)
        self.connected.set()

    def _take(self, updates: Any) -> None:  # noqa: ANN401 - a generated class
        for update in map(update_of, updates):
            self.updates.append(update)
            known = self.containers.get(update.container_id)
            if known is not None:
                self.containers[known.id] = replace(known, cpu=_over(known.cpu, update.cpu))
            self._apply(update)


def _over(wanted: CpuLimits, said: CpuLimits) -> CpuLimits:
    """Return what was wanted, with what a plugin has said instead."""
    return CpuLimits(
        cpus=said.cpus or wanted.cpus,
        mems=said.mems or wanted.mems,
        quota=wanted.quota if said.quota is None else said.quota,
        period=wanted.period if said.period is None else said.period,
    )


def _pod(pod: Sandbox) -> Any:  # noqa: ANN401 - a generated class
    return NRI.PodSandbox(
        id=pod.id,
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        labels=dict(pod.labels),
        annotations=dict(pod.annotations),
    )


def _container(container: NriContainer) -> Any:  # noqa: ANN401 - a generated class
    return NRI.Container(
        id=container.id,
        pod_sandbox_id=container.sandbox_id,
        name=container.name,
        state=container.state,
        linux=NRI.LinuxContainer(resources=resources_for(container.cpu)),
        env=container.env,
    )
