"""A control plane, one real node, numakube's exporter and scheduler: what campaigns run on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, TypeAlias

import aiohttp
import msgspec
from tests.real.api_server import free_ports
from tests.vm.control_plane import ControlPlane, control_plane
from tests.vm.kubelets import Choice
from tests.vm.node import Node, NodeFailed
from tests.vm.pods import PodMaker, bound_directly
from tests.vm.programs import Program
from tests.vm.reports import Settled, Watcher, report_differences
from tests.vm.truth import Truth, listing_differences, truth_of

from numakube.api.kubelet_config import read_kubelet_config
from numakube.api.pod import Pod, PodStatus
from numakube.api.yaml_text import dump_yaml
from numakube.errors import NotFound, NumakubeError
from numakube.kube.catalog import NODES, PODS, SERVICE_ACCOUNTS
from numakube.kube.client import Client
from numakube.kubelet.manager_settings import allocatable_of
from numakube.testing import until
from numakube.values.cpuset import CpuSet
from numakube.values.quantity import milli_value, value
from numakube.values.resources import CPU

_SETTLE_SECONDS: Final = 20.0
_START_SECONDS: Final = 90.0

NodeOpener: TypeAlias = Callable[[Path, Path], AbstractAsyncContextManager[Node]]
"""What opens a node in a folder, for the cluster of a kubeconfig."""


Verdict: TypeAlias = Literal["admitted", "rejected", "waiting", "unknown"]


class NotInTime(Exception):
    """Something that has to happen did not; the message says what was seen instead."""


@dataclass(slots=True)
class Cluster:
    """A cluster of one node.

    Attributes:
        plane: its control plane.
        node: its node.
        scheduler: numakube's scheduler, a process of this host.
        watcher: sees every version of the node's report.
        live: names of the pods that the kubelet has admitted and that nobody has deleted, by uid.
        failed: names of pods that were among them until a kubelet failed them.
    """

    plane: ControlPlane
    node: Node
    scheduler: Program
    scheduler_url: str
    watcher: Watcher
    live: dict[str, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    _reserved: frozenset[int] = frozenset()
    _pods: dict[str, Pod] = field(default_factory=dict)
    """All that there were, by uid; those that are gone have ended."""

    @property
    def client(self) -> Client:
        """A client with all rights."""
        return self.plane.client

    async def configure(self, choice: Choice) -> None:
        """Give the kubelet another configuration; returns when node and report say so."""
        await self.configure_kubelet(choice)
        await self.until(lambda: self._policy_differs(choice), within=_START_SECONDS)
        await self.settle(within=_START_SECONDS)

    async def configure_kubelet(self, choice: Choice) -> None:
        """Give the kubelet another configuration, whatever becomes of the report."""
        await self.delete_all()
        await self.start_kubelet(choice)

    async def start_kubelet(self, choice: Choice) -> None:
        """Start the kubelet with a configuration; returns when the Node object says so."""
        document = self.node.kubelet_file.document(choice)
        config = read_kubelet_config(dump_yaml(document))
        self._reserved = frozenset(CpuSet.parse(config.reserved_system_cpus))
        await self.node.configure(document)
        wanted = allocatable_of(config, self.node.machine)
        await self.until(lambda: self._allocatable_differs(wanted), within=_START_SECONDS)
        await self.until(self._account_is_missing, within=_START_SECONDS)
        await self._try_a_pod()
        await self.until(self._scheduler_is_away, within=_START_SECONDS)

    async def settle(self, *, within: float = _SETTLE_SECONDS) -> tuple[Settled, Truth]:
        """Wait until the report says what the kubelet's books say of the pods that live.

        Raises:
            NotInTime: it never does; the message has the differences.
        """
        found: list[tuple[Settled, Truth]] = []

        async def differ() -> str:
            # The version first: one that comes while the books are read may be newer than they.
            version, position = self.watcher.latest, len(self.watcher.versions)
            if version is None:
                return "there is no report"
            others = await self._look_at_pods()
            version = version.completed(self._pods.values())
            truth = truth_of(await self.node.state_files())
            live = self.live | others
            wrong = report_differences(version, truth, live, self._reserved)
            names = {("default", name): uid for uid, name in self.live.items()}
            wrong += listing_differences(await self.node.pod_resources(), truth, names)
            if not wrong:
                held = {uid: truth.of(uid) for uid in self.live}
                found.append((Settled(position, held, version), truth))
            return "; ".join(wrong)

        await self.until(differ, within=within)
        return found[0]

    async def _look_at_pods(self) -> dict[str, str]:
        """Take note of pods that have come or failed; return those of other namespaces by uid.

        A kubelet fails pods that it finds at its start if a device plugin is not back yet, for
        instance; that is its own business. Pods that waited may get what those leave.
        """
        pods = (await self.client.list(PODS)).items
        gone = {uid: _ended(pod) for uid, pod in self._pods.items()}
        self._pods = gone | {pod.metadata.uid: pod for pod in pods}
        for uid in {pod.metadata.uid for pod in pods if _has_failed(pod)} & self.live.keys():
            self.failed.append(self.live.pop(uid))
        admitted = [pod for pod in pods if verdict_of(pod)[0] == "admitted"]
        self.live |= {
            pod.metadata.uid: pod.metadata.name
            for pod in admitted
            if pod.metadata.namespace == "default"
        }
        return {
            pod.metadata.uid: pod.metadata.name
            for pod in admitted
            if pod.metadata.namespace != "default"
        }

    async def until(self, differ: Callable[[], Awaitable[str]], *, within: float) -> None:
        """Wait until *differ* has nothing to say.

        Raises:
            NotInTime: with what it said last.
        """
        seconds = within * self.node.slowness
        try:
            await until(lambda: _said(differ), lambda words: not words, within=seconds)
        except AssertionError as error:
            raise NotInTime(str(error)) from None

    async def create(self, document: dict[str, Any]) -> Pod:
        """Create a pod."""
        pod = await self.client.create(PODS, document)
        self._pods[pod.metadata.uid] = pod
        return pod

    async def pods(self) -> dict[str, Pod]:
        """Return all pods of the campaign by name."""
        listing = await self.client.list(PODS, namespace="default")
        return {pod.metadata.name: pod for pod in listing.items}

    async def delete(self, *names: str) -> None:
        """Delete pods; returns when they are gone."""
        for uid in [uid for uid, name in self.live.items() if name in names]:
            del self.live[uid]
        for name in names:
            with contextlib.suppress(NotFound):
                await self.client.delete(PODS, name, namespace="default", grace_seconds=1)

        async def remain() -> str:
            return " ".join(sorted(set(names) & (await self.pods()).keys()))

        await self.until(remain, within=60.0)

    async def delete_all(self) -> None:
        """Delete every pod of the campaign."""
        await self.delete(*await self.pods())

    async def deploy(self, component: str, *, image: str) -> None:
        """Deploy a component by its manifests; returns when its pods are ready."""
        seconds = int(_START_SECONDS * self.node.slowness)
        words = ["--image", image, "--pull-policy", "Never", "--wait", "-T", str(seconds)]
        await self._numakube("deploy", component, *words)

    async def remove(self, component: str) -> None:
        """Remove what was deployed."""
        await self._numakube("remove", component)

    @contextlib.asynccontextmanager
    async def default_scheduler(self) -> AsyncIterator[None]:
        """Let pods that name no scheduler be scheduled by ours: those of DaemonSets do not."""
        words = ["--scheduler-name=default-scheduler", "--no-leader-elect"]
        command = [*self.scheduler.arguments[:3], *words, "--bind-address=127.0.0.1:0"]
        program = Program(command, self.scheduler.log.with_name("default-scheduler.log"))
        program.start()
        try:
            yield
        finally:
            await program.stop()

    async def _numakube(self, *words: str) -> None:
        command = [*map(str, (self.scheduler.arguments[0], *words))]
        process = await asyncio.create_subprocess_exec(
            *command,
            f"--kubeconfig={self.plane.kubeconfig}",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate()
        if process.returncode:
            raise NodeFailed(f"{' '.join(command)}: {out.decode()}")

    async def mispredictions(self) -> int:
        """Return how often the scheduler has foreseen something else than what came."""
        text = await self._ask("/metrics")
        lines = re.findall(r"^numakube_mispredictions_total\{.*\} (\S+)$", text, re.MULTILINE)
        return int(sum(map(float, lines)))

    async def events_of(self, pod: str) -> list[dict[str, Any]]:
        """Return what the scheduler's recorder has of a pod; nothing if it is not its own."""
        text = await self._ask(f"/debug/pods/default/{pod}")
        answer = json.loads(text) if text.startswith("{") else {}
        return [
            event
            for flight in answer.get("flights", ())
            for attempt in flight["attempts"]
            for event in attempt["events"]
        ]

    async def _ask(self, path: str) -> str:
        async with (
            aiohttp.ClientSession() as session,
            session.get(self.scheduler_url + path) as answer,
        ):
            return await answer.text()

    async def _allocatable_differs(self, wanted: dict[str, int]) -> str:
        status = (await self.client.get(NODES, self.node.name)).status
        for name, amount in wanted.items():
            text = (status.allocatable or {}).get(name, "0")
            have = milli_value(text) if name == CPU else value(text)
            # A kernel keeps some memory for itself, which only the machine can tell.
            if have != amount:
                return f"the node has {text} of {name}, not {amount}"
        return ""

    async def _try_a_pod(self) -> None:
        """Return when the kubelet has admitted a pod: before, it tells late of its rejections."""
        pod = PodMaker(self.node.machine, Random(0), stuck=True).plain("first")
        await self.create(bound_directly(pod, "first", self.node.name))

        async def undecided() -> str:
            verdict, _ = verdict_of((await self.pods()).get("first"))
            return "" if verdict == "admitted" else f"the first pod is {verdict}"

        await self.until(undecided, within=_START_SECONDS)
        await self.delete("first")

    async def _scheduler_is_away(self) -> str:
        await self._ask("/healthz")
        return ""

    async def _account_is_missing(self) -> str:
        """Pods are refused until the account that they run as is there."""
        await self.client.get(SERVICE_ACCOUNTS, "default", namespace="default")
        return ""

    async def _policy_differs(self, choice: Choice) -> str:
        version = self.watcher.latest
        said = version.attributes if version is not None else {}
        policy, scope = said.get("topologyManagerPolicy"), said.get("topologyManagerScope")
        same = (policy, scope) == (choice.policy, choice.scope)
        return "" if same else f"the report says {policy}, {scope}, not {choice.name}"


def verdict_of(pod: Pod | None) -> tuple[Verdict, Pod]:
    """Return what has become of *pod*.

    A kubelet sets conditions on a pod that it has admitted. Of one that it rejects right after its
    own start it says so about ten seconds later (Kubernetes 1.35): until then such a pod has a
    start time and no conditions.
    """
    if pod is None:
        return "unknown", Pod()
    status = pod.status
    if status is None:
        return "unknown", pod
    if status.phase == "Failed":
        return "rejected", pod
    if pod.spec.node_name:
        if not status.start_time:
            return "unknown", pod
        admitted = any(condition.type == "Initialized" for condition in status.conditions)
        return ("admitted" if admitted else "rejected"), pod
    waits = any(
        condition.type == "PodScheduled" and condition.status == "False"
        for condition in status.conditions
    )
    return ("waiting" if waits else "unknown"), pod


def _has_failed(pod: Pod) -> bool:
    return pod.status is not None and pod.status.phase == "Failed"


def _ended(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, status=PodStatus(phase="Succeeded"))


async def _said(differ: Callable[[], Awaitable[str]]) -> str:
    """Return what *differ* says; a server that is away for a moment is something to say too."""
    try:
        return await differ()
    except (NumakubeError, OSError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"


@contextlib.asynccontextmanager
async def cluster(
    folder: Path,
    opener: NodeOpener,
    *,
    numakube: Path | None = None,
    exporter: Sequence[str] = (),
) -> AsyncIterator[Cluster]:
    """Run a cluster in *folder*; its kubelet starts with the first configuration.

    Args:
        folder: where its files are.
        opener: opens its node.
        numakube: the command that is tried.
        exporter: further arguments of the exporter.
    """
    command = numakube or Path(sys.executable).with_name("numakube")
    async with contextlib.AsyncExitStack() as stack:
        plane = await stack.enter_async_context(control_plane(folder / "plane"))
        node = await stack.enter_async_context(opener(folder / "node", plane.kubeconfig))
        await node.start("exporter", exporter)
        (port,) = free_ports(1)
        arguments: list[str | Path] = [command, "scheduler", f"--kubeconfig={plane.kubeconfig}"]
        arguments += ["--no-leader-elect", f"--bind-address=127.0.0.1:{port}"]
        scheduler = Program(arguments, folder / "scheduler.log")
        scheduler.start()
        stack.push_async_callback(scheduler.stop)
        watcher = Watcher(plane.client, node.name)
        task = asyncio.create_task(watcher.run())
        stack.callback(task.cancel)
        yield Cluster(plane, node, scheduler, f"http://127.0.0.1:{port}", watcher)
