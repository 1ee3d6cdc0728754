"""The runtime that runs containers of numakube's image for real and simulates all others.

    runtime = ProcessRuntime(client, folder=folder, nodes=nodes, inside=address)
    async with runtime, NodePool(client, root=nodes, runtime=runtime) as pool:
        runtime.attach(pool)

Containers belong to the runtime and not to a kubelet: they run on when a kubelet is restarted,
which finds them again by their pod's uid.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from numakube.errors import NumakubeError
from numakube.kube import ObjectKey, Removed, key_of
from numakube.node.cgroups import MOUNT
from numakube_lab.lifetime import Lifetime
from numakube_lab.nodes.container_timeline import observe
from numakube_lab.processes.container_files import (
    CDI_FOLDER,
    NodeFiles,
    PodFiles,
    cdi_variables,
    environment_of,
    expand,
    show_machine,
    show_status,
)
from numakube_lab.processes.full_pod_spec import RUNNABLE_PODS, RunnableStatus, Sources, account_of
from numakube_lab.processes.process_pod import ContainerProcess, PodProcesses, past_of, policy_of
from numakube_lab.processes.program_table import (
    PROGRAMS,
    CannotStart,
    Process,
    Tasks,
    find_program,
    is_own,
    words_of,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Collection, Mapping
    from datetime import datetime
    from pathlib import Path

    from numakube.api.pod import Container, Pod
    from numakube.kube import Change, Client
    from numakube_lab.nodes.container_timeline import PodRun, Stop
    from numakube_lab.nodes.node_pool import NodePool
    from numakube_lab.processes.container_output import ContainerOutput
    from numakube_lab.processes.full_pod_spec import InsideAddress, RunnablePod
    from numakube_lab.processes.program_table import Program

SEE_THEMSELVES: Final = frozenset({"align"})
"""Programs that look at their own CPUs: the others are spared thousands of files."""

REFRESH_SECONDS: Final = 60.0
"""How often mounted files follow what they are made from, as with a kubelet."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class _RunningRecord:
    """A pod some of whose containers run."""

    def __init__(self, pod: Pod, files: PodFiles) -> None:
        self.key = key_of(pod)
        self.uid = pod.metadata.uid
        self.node = pod.spec.node_name
        self.files = files
        self.pod = PodProcesses({})
        self.refresher: asyncio.Task[None] | None = None

    @property
    def is_alive(self) -> bool:
        """Whether any process is left."""
        return any(process.is_alive for process in self.pod.processes.values())


class ProcessRuntime(Lifetime):
    """Runs what is numakube's own."""

    def __init__(
        self,
        client: Client,
        *,
        folder: Path,
        nodes: Path,
        inside: Callable[[], InsideAddress],
        programs: Mapping[str, Program] = PROGRAMS,
    ) -> None:
        """Prepare a runtime; use it as a context.

        Args:
            client: how kubelets reach the API server; its clock is that of the containers.
            folder: where pods have their volumes.
            nodes: where every node has its folder.
            inside: tells where containers reach the API server.
            programs: what containers can run.
        """
        self._client = client
        self._folder = folder
        self._nodes = NodeFiles(nodes, self._make_path)
        self._inside = inside
        self._programs = programs
        self._tasks = Tasks()
        self._records: dict[str, _RunningRecord] = {}
        self._pool: NodePool | None = None
        self._sources: Sources | None = None
        self._servers: dict[str, dict[int, str]] = {}

    async def live(self) -> AsyncIterator[None]:
        """Run nothing yet; in the end kill all that runs, as if the power were cut."""
        self._tasks = Tasks()
        try:
            yield
        finally:
            await self._end()

    async def _end(self) -> None:
        self._pool = None
        await self._tasks.aclose()
        for record in self._records.values():
            record.files.remove()
        self._records.clear()

    def attach(self, pool: NodePool) -> None:
        """Have the nodes of *pool* look at pods whose containers have changed."""
        self._pool = pool
        pool.pods.subscribe(self._on_pod)

    async def _make_path(self, node: str, path: str) -> None:
        """Let a node have files as soon as a pod looks at them, and control groups likewise."""
        kubelet = self._pool.kubelets.get(node) if self._pool is not None else None
        if self._pool is not None and kubelet is not None and kubelet.cgroups is not None:
            counts = path.startswith(f"/sys/{MOUNT}") or path == "/proc"
            await self._pool.folder(node, cgroups=counts)

    def process(self, uid: str, container: str) -> ContainerProcess | None:
        """Return a container of the pod *uid*, if it is one that runs here."""
        record = self._records.get(uid)
        return None if record is None else record.pod.processes.get(container)

    def server(self, uid: str, port: int) -> str:
        """Return the URL at which a port of the pod *uid* is served; empty if it is not."""
        return self._servers.get(uid, {}).get(port, "")

    def observe(self, pod: Pod, *, begun: datetime, now: datetime, stop: Stop | None) -> PodRun:
        """Do what is due, and return how the containers of *pod* are doing."""
        record = self._records.get(pod.metadata.uid)
        if record is None:
            own = [container for container in _containers(pod) if is_own(container.image)]
            if not own:
                return observe(pod, begun=begun, now=now, stop=stop)
            record = self._records[pod.metadata.uid] = self._adopt(pod, own)
        return record.pod.observe(pod, begun=begun, now=now, stop=stop)

    def forget(self, uid: str) -> None:
        """Kill what is left of a pod, and remove its files."""
        self._servers.pop(uid, None)
        record = self._records.pop(uid, None)
        if record is None:
            return
        for process in record.pod.processes.values():
            process.kill()
        if record.refresher is not None:
            record.refresher.cancel()
        if self._sources is not None:
            self._sources.forget(uid)
        record.files.remove()

    def retain(self, node: str, uids: Collection[str]) -> None:
        """Kill what runs on a node except *uids*."""
        for uid, record in list(self._records.items()):
            if record.node == node and uid not in uids:
                self.forget(uid)

    def _announce(self, uid: str, port: int, url: str) -> None:
        self._servers.setdefault(uid, {})[port] = url

    def _on_pod(self, change: Change[Pod]) -> None:
        """Drop what is kept of an ended pod for its output, once the API forgets it."""
        uid = change.object.metadata.uid
        record = self._records.get(uid)
        if record is not None and isinstance(change, Removed) and not record.is_alive:
            self.forget(uid)

    def _adopt(self, pod: Pod, own: Collection[Container]) -> _RunningRecord:
        """Return a record with a process for each of numakube's containers."""
        record = _RunningRecord(pod, PodFiles(self._folder / pod.metadata.uid, self._nodes))
        now = self._client.clock.now()
        status = pod.status
        known = (*status.init_container_statuses, *status.container_statuses) if status else ()
        statuses = {status.name: status for status in known}
        processes = {}
        for container in own:
            policy = policy_of(pod, container)
            processes[container.name] = ContainerProcess(
                f"{record.key} {container.name}",
                policy=policy,
                prepare=partial(self._prepare, record, container.name),
                tasks=self._tasks,
                clock=self._client.clock,
                changed=partial(self._changed, record.key),
                past=past_of(statuses.get(container.name), policy, now=now),
            )
        record.pod = PodProcesses(processes)
        return record

    def _changed(self, key: ObjectKey) -> None:
        if self._pool is not None:
            self._pool.look_again(key)

    async def _prepare(
        self, record: _RunningRecord, name: str, output: ContainerOutput, stop: asyncio.Event
    ) -> tuple[Program, Process]:
        """Fetch and mount everything that a container needs."""
        sources = self._sources_here()
        pod = await self._read(record)
        container = pod.container(name)
        await record.files.refresh(pod, sources)
        env = await environment_of(pod, container, sources)
        env |= self._device_variables(record, name)
        env |= self._claim_variables(record, name)
        words = words_of(container.command, container.args)
        program, *rest = [expand(word, env) for word in words] or [""]
        root = record.files.build(pod, container, env)
        if program in SEE_THEMSELVES:
            await self._show_place(record, name, root)
        if record.refresher is None:
            record.refresher = self._tasks.start(self._refresh(record), name=f"{record.key} files")
        process = Process(
            args=tuple(rest),
            env=env,
            root=root,
            log=output.write,
            stop=stop,
            clock=self._client.clock,
            announce=partial(self._announce, record.uid),
        )
        return find_program(program, self._programs), process

    def _device_variables(self, record: _RunningRecord, container: str) -> dict[str, str]:
        """Return the variables that device plugins answered with."""
        sockets = self._pool.sockets(record.node) if self._pool is not None else None
        plugins = sockets.plugins if sockets is not None else None
        answers = plugins.allocations(record.uid, container) if plugins is not None else ()
        return {name: text for answer in answers for name, text in answer.envs.items()}

    def _claim_variables(self, record: _RunningRecord, name: str) -> dict[str, str]:
        """Return the variables of the CDI devices that DRA drivers answered with."""
        kubelet = self._pool.kubelets.get(record.node) if self._pool is not None else None
        pod = self._pool.pods.get(record.key) if self._pool is not None else None
        if kubelet is None or pod is None:
            return {}
        containers = {container.name: container for container in _containers(pod)}
        wanted = kubelet.claims.cdi_devices(pod, containers[name])
        return cdi_variables(self._nodes.path(record.node, CDI_FOLDER), wanted)

    async def _show_place(self, record: _RunningRecord, container: str, root: Path) -> None:
        """Let a container see the machine, and what the kernel would say of its CPUs."""
        await self._make_path(record.node, "/sys")
        show_machine(root, self._nodes.path(record.node, "/sys"))
        kubelet = self._pool.kubelets.get(record.node) if self._pool is not None else None
        if kubelet is not None and kubelet.admission is not None:
            show_status(root, kubelet.admission.model, record.uid, container)

    async def _refresh(self, record: _RunningRecord) -> None:
        """Keep mounted files and tokens up to date as long as the pod is there."""
        while True:
            await self._client.clock.sleep(REFRESH_SECONDS)
            try:
                await record.files.refresh(await self._read(record), self._sources_here())
            except (NumakubeError, OSError) as error:
                _log.info("files_not_refreshed", pod=str(record.key), error=str(error))

    async def _read(self, record: _RunningRecord) -> RunnablePod:
        """Return the pod with what admission and the node add to it."""
        key = record.key
        pod = await self._client.get(RUNNABLE_PODS, key.name, namespace=key.namespace)
        if pod.metadata.uid != record.uid:
            raise CannotStart.because(f"pod {key} was replaced by another one")
        spec = msgspec.structs.replace(pod.spec, service_account_name=account_of(pod))
        return msgspec.structs.replace(pod, spec=spec, status=self._place(pod))

    def _place(self, pod: RunnablePod) -> RunnableStatus:
        kubelet = self._pool.kubelets.get(pod.spec.node_name) if self._pool is not None else None
        if kubelet is None:
            return pod.status
        host = kubelet.addresses.host
        if pod.spec.host_network:
            return RunnableStatus(host_ip=host, pod_ip=host)
        address = kubelet.addresses.pod(pod.metadata.uid, wanted=pod.status.pod_ip)
        return RunnableStatus(host_ip=host, pod_ip=address)

    def _sources_here(self) -> Sources:
        if self._sources is None:
            self._sources = Sources(self._client, self._inside())
        return self._sources


def _containers(pod: Pod) -> Collection[Container]:
    return (*pod.spec.init_containers, *pod.spec.containers)
