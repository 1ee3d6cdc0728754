"""The CPU Manager: policy ``none`` does nothing, policy ``static`` hands out exclusive CPUs.

State is two things: the shared pool, and for each container its exclusive CPUs. CPUs of finished
init containers stay with the pod; containers that start later may use them again. Follows
``pkg/kubelet/cm/cpumanager/policy_static.go`` of Kubernetes 1.28 to 1.37.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from numakube.errors import KubeletStartError
from numakube.kubelet.admission_outcome import Failure, NoAnswer, unexpected
from numakube.kubelet.cpu_selection import (
    CpuShortage,
    DistributedOrder,
    PackedOrder,
    take_distributed,
    take_packed,
)
from numakube.kubelet.cpu_topology import CpuOptions, read_cpu_options
from numakube.kubelet.pod_demand import ContainerRole
from numakube.kubelet.topology_hints import Hint, hints_on, smallest_size
from numakube.kubelet.wide_hints import MOST_LISTED, Cover, WideHints, check_sets
from numakube.values.cpuset import NO_CPUS, CpuMask, CpuSet, union
from numakube.values.numamask import masks_over, sums_over
from numakube.values.resources import MILLI_PER_CPU

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from numakube.kubelet.cpu_topology import CpuTopology
    from numakube.kubelet.kubelet_versions import Behaviour
    from numakube.kubelet.manager_settings import KubeletSettings
    from numakube.kubelet.pod_demand import ContainerDemand, PodDemand
    from numakube.kubelet.topology_hints import ProviderHints
    from numakube.values.numamask import NumaMask


# Topology hints for CPUs, as ``pkg/kubelet/cm/cpumanager/policy_static.go`` makes them.
#
# How small a placement could be is judged on the bare machine, reserved and busy CPUs included:
# that is why a full node can still make its neighbours "not preferred".


def cpu_hints(
    manager: CpuManager, available: CpuMask, reusable: CpuMask, wanted: int, *, alone: bool = False
) -> list[Hint] | WideHints:
    """Return the sets of NUMA nodes where *wanted* CPUs are free or reusable.

    Those of several nodes may be left out if only nodes *alone* are asked for.
    """
    if len(manager.topology.numa) > MOST_LISTED:
        check_sets(len(manager.topology.numa))
        return wide_cpu_hints(manager, available, reusable, wanted)
    return listed_cpu_hints(manager, available, reusable, wanted, alone=alone)


def wide_cpu_hints(
    manager: CpuManager, available: CpuMask, reusable: CpuMask, wanted: int
) -> WideHints:
    """Return the same, described."""
    numa = manager.topology.numa
    smallest = smallest_size([cpus.bit_count() for cpus in numa.values()], wanted)
    free = {1 << node: (cpus & available).bit_count() for node, cpus in numa.items()}
    tied = {1 << node: 1 for node, cpus in numa.items() if cpus & reusable}
    by_socket = manager.options.align_by_socket
    return WideHints(
        tuple(numa),
        (Cover(free, wanted - reusable.bit_count()), Cover(tied, len(tied))),
        smallest,
        aligned=partial(_socket_aligned, manager, smallest=smallest) if by_socket else None,
    )


def listed_cpu_hints(
    manager: CpuManager, available: CpuMask, reusable: CpuMask, wanted: int, *, alone: bool = False
) -> list[Hint]:
    """Return the same, one by one."""
    numa = manager.topology.numa
    nodes = tuple(numa)
    by_node = {node: (cpus & available).bit_count() for node, cpus in numa.items()}
    free = sums_over(by_node, alone=alone)
    smallest = smallest_size([cpus.bit_count() for cpus in numa.values()], wanted)
    # Reusable CPUs tie the pod to their nodes: a mask must cover them all.
    tied = 0
    for node, cpus in numa.items():
        if cpus & reusable:
            tied |= 1 << node
    missing = wanted - reusable.bit_count()
    masks = masks_over(nodes, alone=alone)
    fitting = [mask for mask in masks if free[mask] >= missing and tied & ~mask == 0]
    if not manager.options.align_by_socket:
        return hints_on(nodes, fitting, smallest)
    return [Hint(mask, _preferred(manager, mask, smallest)) for mask in fitting]


def _preferred(manager: CpuManager, mask: int, smallest: int) -> bool:
    return mask.bit_count() == smallest or _socket_aligned(manager, mask, smallest)


def _socket_aligned(manager: CpuManager, mask: int, smallest: int) -> bool:
    """Tell whether *mask* spans no more sockets than a minimal placement has to."""
    topology = manager.topology
    nodes_per_socket = len(topology.numa) // topology.socket_count if topology.socket_count else 0
    if nodes_per_socket == 0:
        return False
    spanned = len(topology.sockets_of(topology.cpus_on(mask)))
    return spanned == -(-smallest // nodes_per_socket)


# CPUs of a pod with pod-level resources, held as one bubble and parted among its containers.
#
# Only with gate PodLevelResourceManagers (1.36, off by default) and pod scope.


_NO_ROOM_FOR_INIT = "pod rejected, pod has shared init containers but no cpus available for them"
_NO_ROOM_FOR_SHARED = (
    "pod rejected, sum of exclusive container cpu requests equals pod budget, leaving no cpus "
    "for shared containers"
)


def shared_pool_problem(pod: PodDemand) -> str | None:
    """Return why the pod's containers without CPUs of their own would have none at all."""
    budget = pod.exclusive_cpus
    lasting = 0
    has_shared = False
    for container in pod.containers:
        own = container.exclusive_cpus
        if container.role is ContainerRole.INIT:
            if not own and lasting >= budget:
                return _NO_ROOM_FOR_INIT
        elif own:
            lasting += own
        else:
            has_shared = True
    return _NO_ROOM_FOR_SHARED if has_shared and lasting >= budget else None


def partition(
    pod: PodDemand, bubble: CpuMask, take: Callable[[CpuMask, int], CpuMask | CpuShortage]
) -> dict[str, CpuMask] | CpuShortage:
    """Return each container's CPUs; those without their own share what is left at the end."""
    parts: dict[str, CpuMask] = {}
    left = bubble
    for container in pod.containers:
        own = container.exclusive_cpus
        if own:
            cpus = take(left, own)
            if isinstance(cpus, CpuShortage):
                return cpus
            parts[container.name] = cpus
            if container.role is not ContainerRole.INIT:
                left &= ~cpus
        elif container.role is ContainerRole.INIT:
            parts[container.name] = left
    for container in pod.containers:
        parts.setdefault(container.name, left)
    return parts


_SMT_ERROR = "SMTAlignmentError"


class CpuManager:
    """Policy ``static``; all sets of CPUs are bit sets."""

    name: ClassVar[str] = "cpu"

    def __init__(
        self, topology: CpuTopology, settings: KubeletSettings, behaviour: Behaviour
    ) -> None:
        self.topology = topology
        self.behaviour = behaviour
        self.options: CpuOptions = read_cpu_options(settings, behaviour, topology)
        self.reserved = self._reserve(settings)
        self.reserved_cores = topology.whole_cores_of(self.reserved)
        strict = self.options.strict_reservation
        self.managed = topology.all_cpus & ~self.reserved if strict else topology.all_cpus
        self.shared = self.managed
        self.assignments: dict[str, dict[str, CpuMask]] = {}
        # CPUs of pods that are managed as one bubble; containers hold parts of it.
        self.bubbles: dict[str, CpuMask] = {}
        self._reusable: tuple[str, CpuMask] = ("", NO_CPUS)

    def clone(self) -> CpuManager:
        """Return an independent copy of the state."""
        copy = object.__new__(CpuManager)
        copy.__dict__.update(self.__dict__)
        copy.assignments = {uid: dict(sets) for uid, sets in self.assignments.items()}
        copy.bubbles = dict(self.bubbles)
        return copy

    @property
    def available(self) -> CpuMask:
        """CPUs that can be given out exclusively."""
        return self.shared & ~self.reserved

    @property
    def allocatable(self) -> CpuMask:
        """CPUs that could be exclusive on an empty node (GetAllocatableResources)."""
        return self.topology.all_cpus & ~self.reserved

    def container_hints(
        self, pod: PodDemand, container: ContainerDemand, *, alone: bool = False
    ) -> ProviderHints:
        """Return the NUMA nodes whose CPUs can serve the container."""
        wanted = container.exclusive_cpus
        if not wanted or not pod.managed:
            return None
        held = self.assignments.get(pod.uid, {}).get(container.name)
        if held is None:
            reusable = self._reusable_by(pod.uid)
            return {"cpu": cpu_hints(self, self.available, reusable, wanted, alone=alone)}
        if held.bit_count() != wanted:
            return {"cpu": ()}
        return {"cpu": cpu_hints(self, held, NO_CPUS, wanted, alone=alone)}

    def pod_hints(self, pod: PodDemand, *, alone: bool = False) -> ProviderHints:
        """Return the NUMA nodes whose CPUs can serve the whole pod."""
        wanted = pod.exclusive_cpus
        if not wanted or not pod.managed:
            return None
        if pod.pod_level is not None and shared_pool_problem(pod):
            return {"cpu": ()}
        held = NO_CPUS
        assigned = self.assignments.get(pod.uid, {})
        for container in pod.containers:
            cpus = assigned.get(container.name)
            if cpus is not None:
                if cpus.bit_count() != container.exclusive_cpus:
                    return {"cpu": ()}
                held |= cpus
        if held.bit_count() == wanted:
            return {"cpu": cpu_hints(self, held, NO_CPUS, wanted, alone=alone)}
        reusable = self._reusable_by(pod.uid) | held
        return {"cpu": cpu_hints(self, self.available, reusable, wanted, alone=alone)}

    def allocate(self, pod: PodDemand, container: ContainerDemand, hint: Hint) -> Failure | None:
        """Give the container its exclusive CPUs."""
        wanted = container.exclusive_cpus
        if not wanted or not pod.managed:
            return None
        held = self.assignments.get(pod.uid, {}).get(container.name)
        if (held is None or self.behaviour.smt_check_before_existing) and (
            problem := self._smt_problem(wanted)
        ):
            return problem
        if held is None:
            taken = self._take_near(wanted, hint, self._reusable_by(pod.uid))
            if isinstance(taken, CpuShortage):
                return self._short(taken)
            held = taken
            self.shared &= ~held
            self.assignments.setdefault(pod.uid, {})[container.name] = held
        self._note_reusable(pod.uid, container, held)
        return None

    def allocate_pod(self, pod: PodDemand, hint: Hint) -> Failure | None:
        """Give a pod with pod-level resources its CPUs, and its containers their parts."""
        wanted = pod.exclusive_cpus
        if not wanted:
            return None
        if problem := shared_pool_problem(pod):
            return Failure("EmptyPodSharedPoolError", problem)
        if failure := self._smt_problem(wanted):
            return failure
        cpus = self._take_near(wanted, hint, NO_CPUS)
        if isinstance(cpus, CpuShortage):
            return self._short(cpus)
        self.shared &= ~cpus
        self.bubbles[pod.uid] = cpus
        parts = partition(pod, cpus, self.take)
        if isinstance(parts, CpuShortage):
            # Without a container that holds CPUs, nothing ever gives the pod's CPUs back.
            return self._short(parts)
        self.assignments[pod.uid] = parts
        return None

    def pods(self) -> Iterable[str]:
        """Return the uids of the pods that hold CPUs."""
        return list(self.assignments)

    def forget(self, uid: str) -> None:
        """Return all CPUs of the pod to the shared pool."""
        held = self.assignments.pop(uid, {})
        bubble = self.bubbles.pop(uid, None)
        self.shared |= union(held.values()) if bubble is None else bubble

    def forget_others(self, uid: str, containers: Collection[str]) -> None:
        """Release what containers hold that the pod has no longer; *containers* are what it has."""
        held = self.assignments.get(uid, {})
        gone = [name for name in held if name not in containers]
        if gone and len(gone) == len(held):
            self.forget(uid)
            return
        released = union([held.pop(name) for name in gone])
        if uid not in self.bubbles:
            self.shared |= released & ~union(held.values())

    def held_by(self, uid: str, container: str) -> CpuSet:
        """Return the CPUs of a container; empty if it runs in the shared pool."""
        return CpuSet(self.assignments.get(uid, {}).get(container, 0))

    def wanted(self, pod: PodDemand, container: ContainerDemand | None) -> Mapping[str, int]:
        """Return the number of exclusive CPUs asked for."""
        return {"cpu": (container or pod).exclusive_cpus} if pod.managed else {}

    def free_by_node(self, resource: str) -> Mapping[int, int]:
        """Return the available CPUs of each NUMA node that has CPUs."""
        del resource
        return {n: (cpus & self.available).bit_count() for n, cpus in self.topology.numa.items()}

    def take(self, available: CpuMask, count: int) -> CpuMask | CpuShortage:
        """Choose *count* CPUs of *available* in the order that the options ask for."""
        options = self.options
        if options.distribute_across_numa:
            socket_aware = self.behaviour.socket_aware_distribution
            return take_distributed(
                self.topology,
                available,
                count,
                DistributedOrder(
                    group_size=self.topology.cpus_per_core if options.full_cores_only else 1,
                    align_by_socket=options.align_by_socket and socket_aware,
                    clamp_share=socket_aware,
                    aliasing=self.behaviour.combination_aliasing,
                ),
            )
        order = PackedOrder(
            spread_over_cores=options.distribute_across_cores,
            align_by_uncore=options.align_by_uncore,
            odd_uncore_requests=self.behaviour.odd_uncore_requests,
        )
        return take_packed(self.topology, available, count, order)

    def _take_near(self, count: int, hint: Hint, reusable: CpuMask) -> CpuMask | CpuShortage:
        """Choose CPUs on the hint's nodes as far as they go, the rest anywhere."""
        allocatable = self.available | reusable
        near = NO_CPUS
        if hint.mask is not None:
            aligned = allocatable & self._cpus_near(hint.mask)
            taken = self.take(aligned, min(count, aligned.bit_count()))
            if isinstance(taken, CpuShortage):
                return taken
            near = taken
        rest = self.take(allocatable & ~near, count - near.bit_count())
        return rest if isinstance(rest, CpuShortage) else near | rest

    def _short(self, shortage: CpuShortage) -> Failure:
        amounts = self.behaviour.cpu_shortage_names_amounts
        return unexpected(shortage.text(with_amounts=amounts))

    def _cpus_near(self, mask: NumaMask) -> CpuMask:
        cpus = self.topology.cpus_on(mask)
        if not self.options.align_by_socket:
            return cpus
        sockets = self.topology.sockets
        return union(sockets[socket] for socket in self.topology.sockets_of(cpus))

    def _smt_problem(self, count: int) -> Failure | None:
        """Refuse a request that would leave part of a core to another container."""
        if not self.options.full_cores_only:
            return None
        per_core = self.topology.cpus_per_core
        not_multiple = (
            f"SMT Alignment Error: requested {count} cpus not multiple cpus per core = {per_core}"
        )
        if count % per_core:
            return Failure(_SMT_ERROR, not_multiple)
        physical = (self.shared & ~self.reserved_cores).bit_count()
        if count <= physical:
            return None
        if not physical and not self.behaviour.smt_error_names_physical_cpus:
            return Failure(_SMT_ERROR, not_multiple)
        return Failure(
            _SMT_ERROR,
            "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = "
            f"{physical}, requested CPUs = {count}, CPUs per core = {per_core}",
        )

    def _reusable_by(self, uid: str) -> CpuMask:
        return self._reusable[1] if self._reusable[0] == uid else NO_CPUS

    def _note_reusable(self, uid: str, container: ContainerDemand, cpus: CpuMask) -> None:
        """Remember what later containers of the pod may use again; only one pod is remembered."""
        reusable = self._reusable_by(uid)
        is_init = container.role is ContainerRole.INIT
        self._reusable = (uid, reusable | cpus if is_init else reusable & ~cpus)

    def _reserve(self, settings: KubeletSettings) -> CpuMask:
        """Return the CPUs kept for the system, from the list or chosen by topology."""
        count = self._reserved_count(settings)
        listed = settings.reserved_cpus
        if listed:
            reserved = listed.mask
            if unknown := reserved & ~self.topology.all_cpus:
                first = next(iter(CpuSet(unknown)))
                raise KubeletStartError(
                    "[cpumanager] unable to build the reserved physical CPUs from the reserved "
                    f"set: unknown CPU ID: {first}"
                )
            return reserved
        chosen = self.take(self.topology.all_cpus, count)
        reserved = NO_CPUS if isinstance(chosen, CpuShortage) else chosen
        if reserved.bit_count() != count:
            raise KubeletStartError(
                "[cpumanager] unable to reserve the required amount of CPUs "
                f"(size of {CpuSet(reserved)} did not equal {count})"
            )
        return reserved

    def _reserved_count(self, settings: KubeletSettings) -> int:
        if settings.reserved_cpus:
            return len(settings.reserved_cpus)
        return -(-(settings.reserved_cpu_milli or 0) // MILLI_PER_CPU)


def start_cpu_manager(
    topology: CpuTopology, settings: KubeletSettings, behaviour: Behaviour
) -> CpuManager | None:
    """Return the manager of the configured policy; ``None`` for policy ``none``."""
    if settings.cpu_policy == "none":
        if settings.cpu_options:
            listed = " ".join(
                f"{name}:{text}" for name, text in sorted(settings.cpu_options.items())
            )
            raise KubeletStartError(
                f"new none policy error: None policy: received unsupported options=map[{listed}]"
            )
        return None
    if settings.cpu_policy != "static":
        raise KubeletStartError(f'unknown policy: "{settings.cpu_policy}"')
    if not settings.reserved_cpus:
        if settings.reserved_cpu_milli is None:
            raise KubeletStartError(
                "[cpumanager] unable to determine reserved CPU resources for static policy"
            )
        if settings.reserved_cpu_milli == 0:
            raise KubeletStartError(
                "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu "
                "to be greater than zero"
            )
    try:
        return CpuManager(topology, settings, behaviour)
    except KubeletStartError as error:
        raise KubeletStartError(f"new static policy error: {error}") from None
    except NoAnswer as error:
        raise KubeletStartError(str(error)) from None
