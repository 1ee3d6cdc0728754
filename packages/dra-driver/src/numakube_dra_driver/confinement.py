"""Everybody else off the CPUs of claims, and their containers on them, from the first instruction.

The engine is the enforcer's: it decides what every container of the node may run on, writes
control groups in an order in which no CPU is shared for a moment, and answers the container
runtime. Here the ledger tells it what pods have for themselves. A container with a claim that the
ledger does not know is refused, and made again by the kubelet; one without never is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from numakube.api.checkpoints import CPU_STATE
from numakube.api.meta import ObjectMeta
from numakube.api.pod import Pod
from numakube.dra.pod_claims import named_claims
from numakube.errors import NumakubeError
from numakube.kube import EventRecorder, Reflector
from numakube.kube.catalog import PODS
from numakube.node.cgroups import CgroupFiles, GroupWatch, detect
from numakube.node.nri import ContainerAdjustment, CpuLimits
from numakube.topology.allotments import Allotment, Share
from numakube.values.cpuset import CpuSet, union
from numakube.values.resources import CPU, MEMORY
from numakube_dra_driver.identity import OWN
from numakube_placement.enforcer import (
    Enforcer,
    EnforcerMetrics,
    GroupWriter,
    MachineReader,
    NriLink,
    NriPlugin,
    OriginalsFile,
    PodState,
    Reporter,
    state_of,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
    from pathlib import Path

    from prometheus_client import CollectorRegistry

    from numakube.api.pod import Container as PodContainer
    from numakube.apps.host.process_life import Surroundings
    from numakube.kube import Client
    from numakube.kube.clock import Clock
    from numakube.node.nri import NriContainer, Sandbox, Update
    from numakube_dra_driver.identity import Identity
    from numakube_dra_driver.ledger import GivenDevice, Ledger
    from numakube_dra_driver.settings import DraSettings

COMPONENT: Final = "numakube-dra-driver"
CLAIMED: Final = "claimed"
"""The answer to a container with a claim, in metrics."""
NRI_LOCK: Final = "nri.lock"
_PASS_SECONDS: Final = 10.0
_KNOWN_SECONDS: Final = 5.0
_LOCK_SECONDS: Final = 0.5
_UNLIMITED: Final = -1

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class ClaimNotYours(NumakubeError):
    """A container names a claim that is not prepared for its pod."""


class LedgerPods:
    """The pods of a node as the enforcer's engine sees them, with what claims give them."""

    def __init__(self, ledger: Ledger, pods: Reflector[Pod]) -> None:
        self._ledger = ledger
        self._pods = pods

    def pods(self) -> Sequence[Pod]:
        """Return the node's pods, and those that have claims before the API tells of them."""
        known = list(self._pods.store.values())
        uids = {pod.metadata.uid for pod in known}
        unseen = {
            uid: ObjectMeta(name=entry.name, namespace=entry.namespace, uid=uid)
            for entry in self._ledger.claims.values()
            for uid in entry.holders
            if uid not in uids
        }
        return [*known, *(Pod(metadata=metadata) for metadata in unseen.values())]

    def node_annotations(self) -> Mapping[str, str]:
        """Return nothing: what annotations give is the enforcer's business."""
        return {}

    def state_of(self, pod: Pod, uid: str) -> PodState:
        """Return what matters of *pod*: of what it has for itself, its claims alone."""
        entries: dict[str, list[GivenDevice]] = {}
        for entry in self._ledger.claims.values():
            if uid in entry.holders:
                # A claim may have devices of both names.
                entries.setdefault(entry.name, []).extend(entry.results)
        total = _share([given for results in entries.values() for given in results])
        shares = {
            container.name: share
            for container in (*pod.spec.init_containers, *pod.spec.containers)
            if (share := _share([*_claimed(pod, container, entries)])) != Share()
        }
        allotment = None
        if shares or total != Share():
            allotment = Allotment(total=replace(total, zones=_memory(total)), containers=shares)
        return replace(state_of(pod, uid), qos="", allotment=allotment, problems=())


def _claimed(
    pod: Pod, container: PodContainer, entries: Mapping[str, Sequence[GivenDevice]]
) -> Iterator[GivenDevice]:
    """Yield what a container has of the claims that it uses, or of the requests that it names."""
    names = {entry.name: name for entry, name in named_claims(pod)}
    for use in container.resources.claims if container.resources else ():
        for given in entries.get(names.get(use.name) or "", ()):
            if given.is_for(use.request):
                yield given


def _memory(share: Share) -> dict[int, dict[str, int]]:
    """Return the memory that a share has.

    Containers without claims run where everybody may, not near those that have some.
    """
    return {
        node: memory
        for node, amounts in share.zones.items()
        if (memory := {name: amount for name, amount in amounts.items() if name != CPU})
    }


def _share(given: Sequence[GivenDevice]) -> Share:
    """Return what results give together, in the words of the enforcer."""
    zones: dict[int, dict[str, int]] = {}
    for one in given:
        # Which NUMA nodes matters to the enforcer, and that there is something of them.
        for node in CpuSet.parse(one.mems):
            resource = MEMORY if one.resource == CPU else one.resource
            zones.setdefault(node, {})[resource] = one.amount or 1
        for node in CpuSet.parse(one.near):
            zones.setdefault(node, {})[CPU] = one.amount
    throttled = any(one.is_throttled for one in given)
    return Share(cpus=union(one.mask for one in given), zones=zones, throttled=throttled)


class ClaimNri(NriPlugin):
    """Answers a container runtime: for claims from memory, for others as the enforcer does."""

    def __init__(
        self,
        ledger: Ledger,
        enforcer: Enforcer,
        metrics: EnforcerMetrics,
        clock: Clock,
        *,
        identities: Sequence[Identity] = (OWN,),
    ) -> None:
        super().__init__(enforcer, metrics, clock)
        self._ledger = ledger
        self._identities = {one.driver: one for one in identities}
        # Which container a claim is for, where it may be for one alone.
        self._users: dict[str, tuple[str, str]] = {}

    async def synchronized(
        self, pods: Sequence[Sandbox], containers: Sequence[NriContainer]
    ) -> Sequence[Update]:
        """Hear what runs, and who uses the claims that are for one container."""
        uids = {pod.id: pod.uid for pod in pods}
        prefixes = {one.cdi.variables for one in self._identities.values() if one.one_container}
        for container in containers:
            for name in _variables(container, prefixes):
                self._users[name] = uids.get(container.sandbox_id, ""), container.name
        return await super().synchronized(pods, containers)

    async def creating(self, pod: Sandbox, container: NriContainer) -> ContainerAdjustment:
        """Return what a container is to have that is about to be made.

        Others have left the CPUs of claims when these were prepared, so no pass is needed.

        Raises:
            ClaimNotYours: it names a claim that is not prepared for its pod.
        """
        given = self._given_to(pod, container)
        cpus = union(one.mask for one in given)
        mems = str(CpuSet(union(CpuSet.parse(one.mems).mask for one in given)))
        if not cpus:
            answer = await super().creating(pod, container)
            return self._bound(answer, container.id, mems) if mems else answer
        self._enforcer.announced.add_pod(pod)
        self._enforcer.announced.add_container(pod.uid, container)
        with contextlib.suppress(TimeoutError):
            async with self._clock.timeout(self._most_seconds()):
                await self._enforcer.declare(container.id, self._wanted(container.cpu))
        quota = None if any(one.is_throttled for one in given) else _UNLIMITED
        cpu = CpuLimits(cpus=str(CpuSet(cpus)), mems=mems, quota=quota)
        self._held[container.id] = cpu
        self._enforcer.wake()
        self._metrics.nri_containers.labels(CLAIMED).inc()
        return ContainerAdjustment(cpu=cpu, others=self._riding(container.id))

    def _bound(self, answer: ContainerAdjustment, identity: str, mems: str) -> ContainerAdjustment:
        """Return an answer with the memory nodes of claims, which wait for nobody."""
        self._held[identity] = cpu = replace(answer.cpu or CpuLimits(), mems=mems)
        return replace(answer, cpu=cpu)

    def _given_to(self, pod: Sandbox, container: NriContainer) -> list[GivenDevice]:
        """Return what a container has of the claims that its variables name.

        Raises:
            ClaimNotYours: one is of no claim that is prepared for its pod.
        """
        named = _variables(container, {one.cdi.variables for one in self._identities.values()})
        if not named:
            return []
        self._ledger.load()
        known = {
            device.variable: (entry, device.given)
            for entry in self._ledger.claims.values()
            if (identity := self._identities.get(entry.driver)) is not None
            for device in identity.cdi.devices(entry)
        }
        self._users = {name: user for name, user in self._users.items() if name in known}
        for name in named:
            entry, _ = known.get(name, (None, ()))
            if entry is None or pod.uid not in entry.holders:
                raise ClaimNotYours(
                    f"container {container.name}: {name} is of no claim that is prepared for pod "
                    f"{pod.namespace}/{pod.name}"
                )
            if self._identities[entry.driver].one_container:
                self._use(name, pod, container)
        return [given for name in named for given in known[name][1]]

    def _use(self, variable: str, pod: Sandbox, container: NriContainer) -> None:
        """Note who uses a claim; refuse a second container."""
        user = self._users.setdefault(variable, (pod.uid, container.name))
        if user != (pod.uid, container.name):
            raise ClaimNotYours(
                f"container {container.name}: {variable} is used by container {user[1]} already"
            )


def _variables(container: NriContainer, prefixes: Collection[str]) -> list[str]:
    """Return the names of a container's variables that tell of claims."""
    names = (one.partition("=")[0] for one in container.env)
    return list(dict.fromkeys(name for name in names if name.startswith(tuple(prefixes))))


class ClaimConfinement:
    """Keeps containers where claims say, and others elsewhere."""

    def __init__(
        self,
        client: Client,
        ledger: Ledger,
        settings: DraSettings,
        around: Surroundings,
        *,
        node: str,
        registry: CollectorRegistry,
        identities: Sequence[Identity] = (OWN,),
    ) -> None:
        """Prepare; `run` it.

        Raises:
            ConfigError: there are no groups to write.
        """
        locate = around.locate
        self._clock = around.clock
        self._wants_nri = settings.nri != "off"
        self._lock = locate(settings.state_dir) / NRI_LOCK
        self._pods: Reflector[Pod] = Reflector(client, PODS, fields=f"spec.nodeName={node}")
        self._events = EventRecorder(client, component=COMPONENT, instance=node)
        self._groups = CgroupFiles(detect(locate(settings.cgroup_root)))
        self._watch = GroupWatch(self._wake)
        metrics = EnforcerMetrics(registry)
        known = LedgerPods(ledger, self._pods)
        kubelet = locate(settings.kubelet_dir)
        self.enforcer = Enforcer(
            knowledge=known,
            state_of=known.state_of,
            reader=MachineReader(sysfs=locate(settings.sysfs), cpu_state=kubelet / CPU_STATE),
            executor=GroupWriter(self._groups, OriginalsFile(locate(settings.state_dir))),
            reporter=Reporter(self._events),
            metrics=metrics,
            clock=around.clock,
            period=_PASS_SECONDS,
            watched=lambda groups: self._watch.watch([*map(self._groups.path, groups)]),
            wrote=lambda outcome: self.plugin.wrote(outcome),
        )
        self.plugin = ClaimNri(ledger, self.enforcer, metrics, around.clock, identities=identities)
        self.link = NriLink(
            self.plugin,
            metrics,
            around.clock,
            socket=locate(settings.nri_socket),
            name=settings.nri_name,
            index=settings.nri_index,
            rng=client.rng,
        )
        self._pods.store.subscribe(lambda _: self._wake())
        self._pods.store.subscribe(lambda _: self.plugin.pods_changed())

    def jobs(self, stop: asyncio.Event) -> list[Coroutine[None, None, None]]:
        """Return what is to run until it is cancelled."""
        return [self._pods.run(), self._events.run(), self._enforce(stop), self._answer()]

    def close(self) -> None:
        """Stop watching groups; they stay as they are, since claims are held on."""
        self._watch.close()

    async def settle(self) -> str:
        """Let all groups be as the ledger has it; return why that is not so, if it is not."""
        try:
            async with self._clock.timeout(_KNOWN_SECONDS):
                await self._pods.synced.wait()
        except TimeoutError:
            return "the pods of the node are not known yet"
        outcome = await self.enforcer.step()
        return outcome.trouble or self.enforcer.unenforced()

    def runs(self, uid: str) -> bool:
        """Tell whether anything of the pod *uid* runs here."""
        return uid in self.enforcer.executor.found

    def _wake(self) -> None:
        self.enforcer.wake()

    async def _enforce(self, stop: asyncio.Event) -> None:
        await self._pods.synced.wait()
        self._watch.open()
        await self.enforcer.run(stop)

    async def _answer(self) -> None:
        """Answer the runtime, as soon as no other process of this node does.

        Two plugins that set the same of a container make the runtime refuse it. While a DaemonSet
        is updated there are two: the older one answers until it ends.
        """
        if not self._wants_nri:
            return
        await self._pods.synced.wait()
        with _opened(self._lock) as descriptor:
            while not _is_locked(descriptor):
                await self._clock.sleep(_LOCK_SECONDS)
            await self.link.run()


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    """Lock a file; tell whether that worked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
