"""What every container may run on: a pure function of the node's pods, its CPUs and its kubelet.

In this order: what its own entry in the pod's allotment says, what the allotment says of the pod,
the shared pools of the NUMA nodes that it was placed on, all shared pools. Pools are never on CPUs
that a pod has for itself. Follows koordlet's ``CPUSetAllocator`` with these differences: container
entries and memory nodes are ours, and pods of the kubelet's ``BestEffort`` class keep off other
pods' CPUs like everybody else. Nothing is decided about

* pods that the kubelet's static CPU Manager has pinned,
* pods without an allotment on a node whose kubelet runs that manager: it has pools of its own,
* pods whose allotment cannot be read or is not of this machine,
* pods without an allotment as long as no pod has CPUs for itself: everything is theirs already.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.api.checkpoints import CpuManagerState, peek_cpu_manager_state
from numakube.api.koordinator import keys
from numakube.api.koordinator.node_annotations import SystemQosResource
from numakube.api.pod import has_ended
from numakube.errors import InvalidValue
from numakube.node.cgroups import bare_id
from numakube.node.sysfs_machine import online_cpus, read_machine
from numakube.values.cpuset import NO_CPUS, CpuMask, CpuSet, union
from numakube.values.numamask import mask_of
from numakube.values.resources import CPU, MEMORY, is_hugepages
from numakube_placement.koordinator.allotments import allotment_of
from numakube_placement.koordinator.annotation_values import read_json
from numakube_placement.koordinator.cpu_pick import SharedPools, pools_of
from numakube_placement.koordinator.pod_wish import qos_of
from numakube_placement.koordinator.read_cpus import kept_by_owner, layout_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numakube.api.pod import ContainerStatus, Pod
    from numakube.kubelet.machine import Machine
    from numakube.topology.allotments import Allotment, Share
    from numakube.values.resources import Amounts
    from numakube_placement.koordinator.node_facts import CpuLayout


LSE: Final = "LSE"
BE: Final = "BE"
SYSTEM: Final = "SYSTEM"
_CPU_NAMES: Final = (CPU, "kubernetes.io/batch-cpu")

# Reasons of events.
UNREADABLE: Final = "InvalidAllotment"
PINNED: Final = "PinnedByKubelet"
OVERLAP: Final = "CPUsSharedByMistake"
NO_POOL: Final = "NoSharedCPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """A pod of the node.

    Attributes:
        uid: as its control groups have it.
        name: with its namespace, for people.
        qos: Koordinator's QoS class, if it has one.
        containers: names of containers by their ids, without the runtime.
        allotment: what a scheduler gave it.
        problems: what cannot be read of it.
    """

    uid: str
    name: str
    qos: str = ""
    containers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    allotment: Allotment | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """What matters of the node besides its pods.

    Attributes:
        layout: its CPUs.
        memory_nodes: NUMA nodes that have memory, as bits.
        static: whether its kubelet's CPU Manager gives out CPUs.
        pinned: CPUs that it has given out, by uid.
        kept: CPUs that the owner of the node keeps from pods.
        system_cpus: CPUs for pods of class ``SYSTEM``; 0 if there are none in particular. They are
            among those that are kept unless others share them.
        binds_memory: whether memory follows what was allotted.
    """

    layout: CpuLayout
    memory_nodes: int = 0
    static: bool = False
    pinned: Mapping[str, CpuMask] = field(default_factory=lambda: MappingProxyType({}))
    kept: CpuMask = NO_CPUS
    system_cpus: int = 0
    binds_memory: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What a container may run on.

    Attributes:
        mems: NUMA nodes that its memory comes from; ``None`` if that is not our business.
        bound: the CPUs are its own, so nothing needs to throttle it, unless its owner wants that.
    """

    cpus: int
    mems: int | None = None
    bound: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodConfinement:
    """What the containers of a pod may run on.

    Attributes:
        containers: by name.
        rest: everything else in the pod: the sandbox, and containers too new to be known.
    """

    containers: Mapping[str, Confinement]
    rest: Confinement

    @property
    def whole(self) -> Confinement:
        """What all of them together need."""
        parts = (*self.containers.values(), self.rest)
        mems = [part.mems for part in parts]
        return Confinement(
            cpus=union(part.cpus for part in parts),
            mems=None if None in mems else union(mem or 0 for mem in mems),
            bound=any(part.bound for part in parts),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodProblem:
    """Something about a pod that its owner should know; *reason* is one word."""

    uid: str
    pod: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """What is to be; pods that are not in it are left alone."""

    pools: SharedPools
    pods: Mapping[str, PodConfinement]
    problems: tuple[PodProblem, ...] = ()


def decide(pods: Sequence[PodState], node: NodeState) -> Decisions:
    """Return what the containers of *pods* may run on."""
    problems = list(_unusable(pods, node))
    excluded = {problem.uid for problem in problems} | node.pinned.keys()
    usable = [pod for pod in pods if pod.uid not in excluded]
    bound = [pod for pod in usable if pod.allotment is not None and pod.allotment.total.cpus]
    problems += _overlaps(bound, node)
    pools = _pools(bound, node)
    confined = {pod.uid: _confine(pod, pools, node) for pod in usable}
    problems += (
        PodProblem(uid=pod.uid, pod=pod.name, reason=NO_POOL, message=_DRY)
        for pod in usable
        if confined[pod.uid] is _NOWHERE
    )
    return Decisions(
        pools=pools,
        pods={uid: one for uid, one in confined.items() if one is not None and one is not _NOWHERE},
        problems=tuple(problems),
    )


_NOWHERE: Final = PodConfinement(containers=MappingProxyType({}), rest=Confinement(cpus=0))
_DRY: Final = "every CPU of this node belongs to some pod alone; this pod shares them all"


def _unusable(pods: Iterable[PodState], node: NodeState) -> Iterator[PodProblem]:
    """Yield what is wrong with allotments that cannot be followed."""
    for pod in pods:
        for text in (*pod.problems, *_foreign(pod, node)):
            yield PodProblem(uid=pod.uid, pod=pod.name, reason=UNREADABLE, message=text)
        given = pod.allotment.total.cpus if pod.allotment is not None else 0
        if given and pod.uid in node.pinned:
            message = (
                f"the scheduler gave it CPUs {CpuSet(given)}, but the kubelet has pinned it to "
                f"{CpuSet(node.pinned[pod.uid])}; the kubelet's choice stays"
            )
            yield PodProblem(uid=pod.uid, pod=pod.name, reason=PINNED, message=message)


def _foreign(pod: PodState, node: NodeState) -> Iterator[str]:
    """Yield what an allotment names that this machine does not have."""
    if pod.allotment is None:
        return
    for share in (pod.allotment.total, *pod.allotment.containers.values()):
        if cpus := share.cpus & ~node.layout.all:
            yield f"resource-status: cpuset: this node has no CPUs {CpuSet(cpus)}"
            return
        mems = _memory_mask(share.zones) & ~node.memory_nodes
        if mems:
            yield f"resource-status: numaNodeResources: no memory on NUMA nodes {CpuSet(mems)}"
            return


def _overlaps(bound: Iterable[PodState], node: NodeState) -> Iterator[PodProblem]:
    """Yield pods whose CPUs another pod has too; no pod is moved for that."""
    owners = [("the kubelet's own choice for another pod", cpus) for cpus in node.pinned.values()]
    for pod in bound:
        mine = pod.allotment.total.cpus if pod.allotment is not None else NO_CPUS
        for owner, theirs in owners:
            if both := mine & theirs:
                message = f"CPUs {CpuSet(both)} also belong to {owner}"
                yield PodProblem(uid=pod.uid, pod=pod.name, reason=OVERLAP, message=message)
        owners.append((f"pod {pod.name}", mine))


def _pools(bound: Iterable[PodState], node: NodeState) -> SharedPools:
    taken = {pod.uid: pod.allotment.total.cpus for pod in bound if pod.allotment is not None}
    return pools_of(
        node.layout,
        taken=union(taken.values()),
        taken_for_good=union(taken[pod.uid] for pod in bound if pod.qos == LSE),
        apart=union(node.pinned.values()) | node.kept,
    )


def _confine(pod: PodState, pools: SharedPools, node: NodeState) -> PodConfinement | None:
    allotment = pod.allotment
    if allotment is None or not _says_something(allotment):
        return None if node.static else _confine_shared(pod, pools, node)
    total = allotment.total
    rest = _confinement(pod, total, pools, node)
    confined = dict.fromkeys(pod.containers.values(), rest)
    if allotment.containers:
        # Containers that were not aligned run in the pool near the others.
        confined = dict.fromkeys(confined, Confinement(cpus=_pool(pod, pools, total)))
        confined |= {
            name: _confinement(pod, share, pools, node, near=total)
            for name, share in allotment.containers.items()
            if name in confined
        }
    return PodConfinement(containers=confined, rest=rest)


def _confine_shared(pod: PodState, pools: SharedPools, node: NodeState) -> PodConfinement | None:
    if pod.qos == SYSTEM and node.system_cpus:
        cpus = node.system_cpus & node.layout.all
    else:
        cpus = pools.within(0, best_effort=pod.qos == BE)
    if cpus == node.layout.all:
        return None
    if not cpus:
        return _NOWHERE
    rest = Confinement(cpus=cpus)
    return PodConfinement(containers=dict.fromkeys(pod.containers.values(), rest), rest=rest)


def _confinement(
    pod: PodState, share: Share, pools: SharedPools, node: NodeState, *, near: Share | None = None
) -> Confinement:
    mems = _memory_mask(share.zones) if node.binds_memory else 0
    placed = share if near is None or _cpu_mask(share.zones) else near
    cpus = share.cpus or _pool(pod, pools, placed)
    bound = share.cpus != 0 and not share.throttled
    return Confinement(cpus=cpus, mems=mems or None, bound=bound)


def _pool(pod: PodState, pools: SharedPools, placed: Share) -> int:
    return pools.within(_cpu_mask(placed.zones), best_effort=pod.qos == BE)


def _says_something(allotment: Allotment) -> bool:
    shares = (allotment.total, *allotment.containers.values())
    return any(share.cpus or share.zones for share in shares)


def _cpu_mask(zones: Mapping[int, Amounts]) -> int:
    """Return the NUMA nodes that CPU time was taken from."""
    return mask_of(
        node for node, amounts in zones.items() if any(amounts.get(name) for name in _CPU_NAMES)
    )


def _memory_mask(zones: Mapping[int, Amounts]) -> int:
    """Return the NUMA nodes that memory was taken from."""
    return mask_of(
        node
        for node, amounts in zones.items()
        if any(
            amount and (name == MEMORY or is_hugepages(name)) for name, amount in amounts.items()
        )
    )


STATIC: Final = "static"
_NONE: Final = CpuManagerState(policy="none", default_cpus=CpuSet())


class MachineReader:
    """Reads a node again and again; its machine only if CPUs come or go.

    Attributes:
        problems: what could not be read the last time, each naming its source.
    """

    def __init__(self, *, sysfs: Path, cpu_state: Path, memory: bool = True) -> None:
        """Prepare.

        Args:
            sysfs: the tree that describes the machine.
            cpu_state: the state file of the kubelet's CPU Manager.
            memory: whether memory follows what was allotted.
        """
        self._sysfs = sysfs
        self._cpu_state = cpu_state
        self._memory = memory
        self._machine: tuple[str, Machine] | None = None
        self.problems: list[str] = []

    def read(self, annotations: Mapping[str, str]) -> NodeState:
        """Return what the node is now; *annotations* are those of its object.

        Raises:
            MalformedObject: sysfs makes no sense.
            CorruptCheckpoint: the kubelet's state makes no sense.
        """
        self.problems = []
        machine = self._read_machine()
        kubelet = self._read_kubelet()
        layout = layout_of(machine)
        return NodeState(
            layout=layout,
            memory_nodes=mask_of(node.id for node in machine.nodes if node.memory_bytes),
            static=kubelet.policy == STATIC,
            pinned=kubelet.by_pod,
            kept=kept_by_owner(annotations, layout, self.problems),
            system_cpus=_system_cpus(annotations),
            binds_memory=self._memory,
        )

    def _read_machine(self) -> Machine:
        online = online_cpus(self._sysfs)
        if self._machine is None or self._machine[0] != online:
            self._machine = online, read_machine(self._sysfs)
        return self._machine[1]

    def _read_kubelet(self) -> CpuManagerState:
        try:
            data = self._cpu_state.read_bytes()
        except FileNotFoundError:
            return _NONE
        return peek_cpu_manager_state(data, path=str(self._cpu_state))


def _system_cpus(annotations: Mapping[str, str]) -> int:
    """Return the CPUs for pods of class ``SYSTEM``; others report what cannot be read."""
    system = read_json(SystemQosResource, annotations, keys.NODE_SYSTEM_QOS, [])
    try:
        return CpuSet.parse(system.cpuset).bits if system is not None else 0
    except InvalidValue:
        return 0


def state_of(pod: Pod, uid: str) -> PodState:
    """Return what matters of *pod*, whose groups have *uid*; one that is done holds nothing."""
    problems: list[str] = []
    return PodState(
        uid=uid,
        name=f"{pod.metadata.namespace}/{pod.metadata.name}",
        qos=qos_of(pod.metadata.labels),
        containers={
            bare_id(status.container_id): status.name
            for status in _statuses(pod)
            if status.container_id
        },
        allotment=_allotment(pod, problems),
        problems=tuple(problems),
    )


def departed(uid: str) -> PodState:
    """Return a pod that still runs but that the API does not have any more."""
    return PodState(uid=uid, name=f"(uid {uid})")


def _allotment(pod: Pod, problems: list[str]) -> Allotment | None:
    """Return what a scheduler gave *pod*; what others merely observed is not enforced."""
    if has_ended(pod) or keys.RESOURCE_STATUS not in pod.metadata.annotations:
        return None
    return allotment_of(pod, problems)


def _statuses(pod: Pod) -> Iterable[ContainerStatus]:
    if pod.status is not None:
        yield from pod.status.init_container_statuses
        yield from pod.status.container_statuses
