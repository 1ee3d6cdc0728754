"""A lab node's kubelet: the exact model behind the Kubernetes API.

It can be started, killed, restarted with its state kept, paused (alive but silent, as a node cut
off or frozen) and slowed down. It runs no task and no timer of its own: its owner calls
`LabKubelet.work` when it has asked for it, so that a thousand kubelets fit into one event loop.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from random import Random
from typing import TYPE_CHECKING, Protocol

import structlog

from numakube.api.checkpoints.allocated_pods_state import SINCE
from numakube.api.kubelet_config import with_defaults
from numakube.kube import key_of
from numakube.node import AllocatableResources
from numakube_lab.nodes.container_timeline import Simulation
from numakube_lab.nodes.dra_driver import ClaimedDevices
from numakube_lab.nodes.kubelet_admission import FreshModels, KubeletAdmission
from numakube_lab.nodes.node_cgroups import ModelAligner
from numakube_lab.nodes.node_documents import is_ready
from numakube_lab.nodes.node_folder import allocatable_resources, pod_resources, without_managers
from numakube_lab.nodes.node_reporter import NodeReporter
from numakube_lab.nodes.pod_sync import PodKeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube.kube import Client, ObjectKey, Store
    from numakube.kubelet import StateFiles
    from numakube.node import PodResources
    from numakube_lab.nodes.container_timeline import ContainerRuntime
    from numakube_lab.nodes.dra_plugins import DraDrivers
    from numakube_lab.nodes.node_cgroups import Aligner, NodeCgroups
    from numakube_lab.nodes.node_documents import NodeAddresses, NodePlan

# Wall-clock times are rounded to microseconds: a timer must not fire just before its moment.
_MARGIN_SECONDS = 0.001

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class KubeletState(Enum):
    """Whether a kubelet is there."""

    STOPPED = "stopped"
    RUNNING = "running"
    PAUSED = "paused"


class CheckpointDisk(Protocol):
    """Where a kubelet's checkpoint files survive it."""

    def save(self, admission: KubeletAdmission) -> None:
        """Write the files if *admission* has changed since the last time."""
        ...

    def load(self) -> StateFiles | None:
        """Return the files; ``None`` if the kubelet never ran."""
        ...

    def close(self, admission: KubeletAdmission) -> None:
        """Take note that the process ends, in whatever way."""
        ...

    def reconfigure(self, plan: NodePlan) -> None:
        """Remove the files of managers, which another configuration makes useless."""
        ...


class MemoryDisk:
    """Keeps the files in memory, written only when they are needed: when the kubelet ends."""

    def __init__(self) -> None:
        self._files: StateFiles | None = None

    def save(self, admission: KubeletAdmission) -> None:
        """Do nothing yet: `close` sees the same state."""

    def load(self) -> StateFiles | None:
        """Return the files."""
        return self._files

    def close(self, admission: KubeletAdmission) -> None:
        """Keep the files as of now."""
        self._files = admission.files()

    def reconfigure(self, plan: NodePlan) -> None:
        """Forget what managers kept."""
        del plan
        self._files = without_managers(self._files)


class LabKubelet:
    """One node's kubelet.

    Attributes:
        plan: what the node is.
        config: its configuration, complete.
        state: whether it is stopped, running or paused.
        lag_seconds: how long it takes to notice a change of a pod.
        step_seconds: how long each step of a start and of an admission takes.
        admission: the book-keeping of the present incarnation; ``None`` if it is stopped.
        addresses: the node's addresses, and those of its pods.
        cgroups: the node's control groups, if it has any.
        claims: what its pods have by claims.
    """

    def __init__(
        self,
        plan: NodePlan,
        *,
        client: Client,
        pods: Store[Pod],
        addresses: NodeAddresses,
        wake: Callable[[float], None],
        runtime: ContainerRuntime | None = None,
        disk: CheckpointDisk | None = None,
        changed: Callable[[], None] | None = None,
        aligner_of: Callable[[KubeletAdmission], Aligner] = ModelAligner,
        cgroups: NodeCgroups | None = None,
        models: FreshModels | None = None,
        drivers: DraDrivers | None = None,
    ) -> None:
        """Prepare a kubelet; `start` it.

        Args:
            plan: what the node is.
            client: where to write; its clock is used.
            pods: the pods of the cluster, findable by the index ``node``.
            addresses: the node's addresses.
            wake: called with the seconds after which `work` is to be called.
            runtime: what runs the containers; the simulation if not given.
            disk: where checkpoint files are kept; in memory if not given.
            changed: called when what is held or offered has changed.
            aligner_of: makes what gives out resources, at every start of the kubelet.
            cgroups: the node's control groups, if it has any.
            models: makes the model; shared by kubelets that may be alike.
            drivers: DRA drivers that register, if there are sockets for that.
        """
        self.plan = plan
        self.config = with_defaults(plan.config)
        self.state = KubeletState.STOPPED
        self.lag_seconds = 0.0
        self.step_seconds = 0.0
        self.admission: KubeletAdmission | None = None
        self.reporter = NodeReporter(client, plan, addresses)
        self._client = client
        self._pods = pods
        self.addresses = addresses
        self._wake = wake
        self._runtime = runtime or Simulation()
        self._disk = disk or MemoryDisk()
        self._changed = changed or (lambda: None)
        self._told = -1
        self._order = Random(plan.name)  # noqa: S311 - chance, not secrecy
        self._aligner_of = aligner_of
        self.cgroups = cgroups
        self._models = models or FreshModels()
        self.claims = ClaimedDevices(client, plan, drivers)
        self._keeper: PodKeeper | None = None
        self._starting = self._managers_up = False
        # When to look at which pod, by the monotonic clock; in order of arrival.
        self._agenda: dict[ObjectKey, float] = {}
        self._turn: asyncio.Timeout | None = None

    @property
    def name(self) -> str:
        """The node's name."""
        return self.plan.name

    @property
    def is_up(self) -> bool:
        """Whether it has registered and knows all its pods."""
        return self.state is KubeletState.RUNNING and not self._starting

    @property
    def notes_admissions(self) -> bool:
        """Whether it writes down which pods it has admitted."""
        return self.admission is None or self.admission.model.behaviour.version >= SINCE

    def start(self) -> None:
        """Start the process: managers from their files, then every pod is admitted again.

        Raises:
            KubeletStartError: a real kubelet would not start either.
        """
        if self.state is not KubeletState.STOPPED:
            return
        model = self._models.of(self.plan)
        self.admission = admission = KubeletAdmission(self.plan, model, files=self._disk.load())
        self._keeper = PodKeeper(
            self.name,
            admission,
            client=self._client,
            pods=self._pods,
            addresses=self.addresses,
            runtime=self._runtime,
            step=self._step,
            aligner=self._aligner_of(admission),
            cgroups=self.cgroups,
            claims=self.claims,
            on_change=lambda: self._save(admission),
        )
        self._starting = True
        self._managers_up = False
        self._told = -1
        self.state = KubeletState.RUNNING
        self._agenda = {}
        self._wake(0.0)

    def kill(self) -> None:
        """End the process on the spot; nothing more is written, not even what is under way."""
        if self.admission is None:
            return
        self.state = KubeletState.STOPPED
        self._disk.close(self.admission)
        self.admission = self._keeper = None
        if self._turn is not None:
            self._turn.reschedule(asyncio.get_running_loop().time())

    def reconfigure(self, plan: NodePlan) -> None:
        """Have a kubelet that is stopped start with another configuration next time.

        The state of its CPU and Memory Managers is removed, without which it would not start.
        """
        self.plan = plan
        self.config = with_defaults(plan.config)
        self.reporter.plan = plan
        self._disk.reconfigure(plan)

    def pause(self) -> None:
        """Go silent: no heartbeats, nothing noticed. Containers run on."""
        if self.state is KubeletState.RUNNING:
            self.state = KubeletState.PAUSED

    def resume(self) -> None:
        """Go on after a pause with everything that was missed."""
        if self.state is KubeletState.PAUSED:
            self.state = KubeletState.RUNNING
            self._wake(0.0)

    def note(self, key: ObjectKey) -> None:
        """Take note that a pod has changed."""
        due = self._client.clock.monotonic() + self.lag_seconds
        self._plan_visit(key, due)
        if self.state is KubeletState.RUNNING:
            self._wake(self.lag_seconds)

    def note_node(self, node: Node) -> None:
        """Take note of labels and taints that others have set."""
        if self.admission is not None:
            self.admission.labels = node.metadata.labels
            self.admission.taints = node.spec.taints

    async def work(self) -> float | None:
        """Do what is due; return the seconds until more is, if anything."""
        keeper, admission = self._keeper, self.admission
        if self.state is not KubeletState.RUNNING or keeper is None or admission is None:
            return None
        try:
            async with asyncio.timeout(None) as self._turn:
                if self._starting:
                    await self._begin(keeper, admission)
                for key in self._due():
                    if self.state is not KubeletState.RUNNING:
                        return None
                    await self._visit(keeper, key)
                self._save(admission)
                await self.reporter.report(admission.offer())
                left = await self.claims.reconcile()
        except TimeoutError:
            # Killed in the middle of it.
            return None
        finally:
            self._turn = None
        until = self._until_next()
        return until if left is None else min(left, until if until is not None else left)

    async def heal(self, node: Node) -> None:
        """Contradict those who say that this node is dead."""
        if self.state is KubeletState.RUNNING and not is_ready(node):
            await self.reporter.heal(node)

    def pod_resources(self) -> Iterable[PodResources]:
        """Return what the listed pods hold (PodResources ``List``), in another order each time.

        So do kubelets, which keep their pods in a map of Go.
        """
        if self.admission is None:
            return ()
        model = self.admission.deciding or self.admission.model
        pods = list(self.admission.listed)
        self._order.shuffle(pods)
        return pod_resources(model, pods, self.claims)

    def allocatable_resources(self) -> AllocatableResources:
        """Return what the node has to give (PodResources ``GetAllocatableResources``).

        A kubelet is asked from its first moment on, and has nothing until its managers are there.
        """
        if self.admission is None:
            raise RuntimeError(f"kubelet of {self.name} is stopped")
        if not self._managers_up:
            return AllocatableResources()
        return allocatable_resources(self.admission.model)

    async def _step(self) -> None:
        await self._client.clock.sleep(self.step_seconds)

    async def _begin(self, keeper: PodKeeper, admission: KubeletAdmission) -> None:
        """Start the managers, register, and admit the pods again that were there before."""
        await self._step()
        self._managers_up = True
        self._changed()
        await self._step()
        await self.claims.wipe_slices()
        await self.reporter.register(admission.offer())
        pods = sorted(self._pods.select("node", self.name), key=_creation)
        uids = {pod.metadata.uid for pod in pods}
        self._runtime.retain(self.name, uids)
        self.claims.restart(uids)
        if self.cgroups is not None:
            self.cgroups.restart(uids)
        admission.await_pods(keeper.running(pods))
        for pod in pods:
            await self._visit(keeper, key_of(pod))
        admission.all_pods_known()
        self._starting = False
        self._save(admission)

    def _save(self, admission: KubeletAdmission) -> None:
        """Write the state to disk, then tell those who read it."""
        self._disk.save(admission)
        if admission.version != self._told:
            self._told = admission.version
            self._changed()

    async def _visit(self, keeper: PodKeeper, key: ObjectKey) -> None:
        due = self._agenda.pop(key, 0.0)
        try:
            again = await keeper.sync(key)
        except BaseException:
            self._agenda.setdefault(key, due)
            raise
        if again is not None:
            clock = self._client.clock
            seconds = (again - clock.now()).total_seconds() + _MARGIN_SECONDS
            self._plan_visit(key, clock.monotonic() + max(0.0, seconds))

    def _plan_visit(self, key: ObjectKey, due: float) -> None:
        self._agenda[key] = min(due, self._agenda.get(key, due))

    def _due(self) -> list[ObjectKey]:
        """Return the pods to look at now, oldest first, as a kubelet admits them."""
        now = self._client.clock.monotonic()
        due = [key for key, moment in self._agenda.items() if moment <= now]
        found = {key: self._pods.get(key) for key in due}
        return sorted(due, key=lambda key: _creation(found[key]))

    def _until_next(self) -> float | None:
        if not self._agenda:
            return None
        return max(0.0, min(self._agenda.values()) - self._client.clock.monotonic())


def _creation(pod: Pod | None) -> str:
    return (pod.metadata.creation_timestamp or "") if pod is not None else ""
