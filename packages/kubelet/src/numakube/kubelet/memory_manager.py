"""The Memory Manager, policy ``Static``: guaranteed pods get memory of fixed NUMA nodes.

Memory of finished init containers is used again by the containers that start later; their blocks
shrink accordingly, so that the blocks of a pod always add up to what is booked. Follows
``pkg/kubelet/cm/memorymanager/policy_static.go`` of Kubernetes 1.28 to 1.37.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from numakube.errors import KubeletStartError
from numakube.kubelet.admission_outcome import Failure, MemoryBlock, unexpected
from numakube.kubelet.memory_hints import (
    UINT64,
    MemoryBooks,
    best_hint,
    charge,
    copy_books,
    empty_books,
    memory_hints,
    release,
    splits_a_group,
)
from numakube.kubelet.pod_demand import ContainerRole
from numakube.kubelet.topology_hints import Hint
from numakube.values.numamask import NumaMask, mask_of, nodes_of
from numakube.values.quantity import Quantity
from numakube.values.resources import MEMORY, is_memory

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numakube.kubelet.kubelet_versions import Behaviour
    from numakube.kubelet.machine import Machine
    from numakube.kubelet.manager_settings import KubeletSettings
    from numakube.kubelet.memory_hints import Reusable
    from numakube.kubelet.pod_demand import ContainerDemand, PodDemand
    from numakube.kubelet.topology_hints import ProviderHints


# Memory of a pod with pod-level resources, held as one bubble and parted among its containers.
#
# Only with gate PodLevelResourceManagers (1.36, off by default) and pod scope.


def shared_pool_problem(pod: PodDemand) -> str | None:
    """Return why the pod's containers without memory of their own would have none at all."""
    budget = pod.memory or {}
    lasting: dict[str, int] = {}
    has_shared = False
    for container in pod.containers:
        own = container.memory or {}
        if container.role is not ContainerRole.INIT:
            has_shared = has_shared or not own
            for kind, size in own.items():
                lasting[kind] = lasting.get(kind, 0) + size
        elif not own and (gone := _exhausted(budget, lasting)):
            return f"pod rejected, pod has shared init containers but no {gone} available for them"
    if has_shared and (gone := _exhausted(budget, lasting)):
        return (
            f"pod rejected, sum of exclusive container {gone} requests equals pod budget, "
            "leaving no memory for shared containers"
        )
    return None


def partition(pod: PodDemand, nodes: tuple[int, ...]) -> dict[str, tuple[MemoryBlock, ...]]:
    """Return each container's blocks; those without their own share what is left at the end."""
    left = dict(pod.memory or {})
    parts: dict[str, tuple[MemoryBlock, ...]] = {}
    for container in pod.containers:
        own = container.memory or {}
        if own:
            parts[container.name] = blocks(nodes, own)
            if container.role is ContainerRole.SIDECAR:
                own = {kind: size for kind, size in own.items() if kind in left}
            if container.role is not ContainerRole.INIT:
                _take_off(left, own)
        elif container.role is ContainerRole.INIT:
            parts[container.name] = blocks(nodes, left)
    for container in pod.containers:
        parts.setdefault(container.name, blocks(nodes, left))
    return parts


def _take_off(left: dict[str, int], sizes: Mapping[str, int]) -> None:
    """Subtract as the kubelet does, without a look at what is there: less than nothing is much."""
    for kind, size in sizes.items():
        if size:
            left[kind] = (left.get(kind, 0) - size) & UINT64


def blocks(nodes: tuple[int, ...], sizes: Mapping[str, int]) -> tuple[MemoryBlock, ...]:
    """Return a block for each positive size."""
    return tuple(MemoryBlock(nodes, kind, size) for kind, size in sizes.items() if size > 0)


def _exhausted(budget: Mapping[str, int], lasting: Mapping[str, int]) -> str | None:
    """Return a memory type of which lasting containers take the whole budget."""
    return next((kind for kind, size in budget.items() if lasting.get(kind, 0) >= size), None)


Blocks = tuple[MemoryBlock, ...]


class MemoryManager:
    """Policy ``Static``."""

    name: ClassVar[str] = "memory"

    def __init__(self, machine: Machine, settings: KubeletSettings, behaviour: Behaviour) -> None:
        _check_reservations(machine, settings)
        self.behaviour = behaviour
        self.books: MemoryBooks = empty_books(machine, settings.reserved_memory)
        self.assignments: dict[str, dict[str, Blocks]] = {}
        # What pods that are managed as one bubble hold; their containers' blocks are parts of it.
        self.bubbles: dict[str, Blocks] = {}
        self._reusable: tuple[str, dict[tuple[NumaMask, str], int]] = ("", {})

    def clone(self) -> MemoryManager:
        """Return an independent copy of the state."""
        copy = object.__new__(MemoryManager)
        copy.__dict__.update(self.__dict__)
        copy.books = copy_books(self.books)
        copy.assignments = {uid: dict(blocks) for uid, blocks in self.assignments.items()}
        copy.bubbles = dict(self.bubbles)
        copy._reusable = (self._reusable[0], dict(self._reusable[1]))
        return copy

    def container_hints(
        self, pod: PodDemand, container: ContainerDemand, *, alone: bool = False
    ) -> ProviderHints:
        """Return the NUMA nodes whose memory can serve the container."""
        held = self._blocks_of(pod.uid, container.name)
        return self._hints(pod, container.memory, held, alone=alone)

    def pod_hints(self, pod: PodDemand, *, alone: bool = False) -> ProviderHints:
        """Return the NUMA nodes whose memory can serve the whole pod."""
        if pod.pod_level is not None and shared_pool_problem(pod):
            return dict.fromkeys(pod.pod_level.memory, ())
        # After a restart the kubelet compares the first container it finds with the whole pod.
        blocks = (self._blocks_of(pod.uid, container.name) for container in pod.containers)
        held = next((block for block in blocks if block is not None), None)
        return self._hints(pod, pod.memory, held, alone=alone)

    def allocate(self, pod: PodDemand, container: ContainerDemand, hint: Hint) -> Failure | None:
        """Give the container its memory."""
        if not pod.guaranteed or not pod.managed:
            return None
        held = self._blocks_of(pod.uid, container.name)
        if held is not None:
            self._note_reusable(pod.uid, container, held)
            return None
        request = container.memory
        if request is None:
            return unexpected("[memorymanager] failed to represent quantity as int64")
        if not request and self.behaviour.skips_empty_memory_requests:
            return None
        mask = self._settle(pod, request, hint)
        if isinstance(mask, Failure):
            return mask
        blocks = self._book(pod.uid, mask, request)
        self._note_reusable(pod.uid, container, blocks)
        self.assignments.setdefault(pod.uid, {})[container.name] = blocks
        self._shrink_init_containers(pod, container, blocks)
        return None

    def allocate_pod(self, pod: PodDemand, hint: Hint) -> Failure | None:
        """Give a pod with pod-level resources its memory, and its containers their parts."""
        if not pod.memory:
            return None
        if problem := shared_pool_problem(pod):
            return Failure("EmptyPodSharedPoolError", problem)
        mask = self._settle(pod, pod.memory, hint)
        if isinstance(mask, Failure):
            return mask
        nodes = nodes_of(mask)
        for kind, size in pod.memory.items():
            charge(self.books, nodes, kind, size)
        self.assignments[pod.uid] = partition(pod, nodes)
        self.bubbles[pod.uid] = blocks(nodes, pod.memory)
        return None

    def start_container(self, pod: PodDemand, container: ContainerDemand) -> bool:
        """Release what init containers before *container* still hold; tell whether any did.

        A kubelet that restarts admits the pod again, finds no memory of theirs and books their
        whole request once more: it is held until a container of the pod starts again.
        """
        held = self.assignments.get(pod.uid, {})
        done = [
            demand.name for demand in pod.init_containers_before(container) if demand.name in held
        ]
        for name in done:
            blocks = held.pop(name)
            if pod.uid not in self.bubbles:
                release(self.books, blocks)
        if not held:
            self.assignments.pop(pod.uid, None)
        return bool(done)

    def pods(self) -> Iterable[str]:
        """Return the uids of the pods that hold memory."""
        return list(self.assignments)

    def forget(self, uid: str) -> None:
        """Release the pod's memory."""
        held = self.assignments.pop(uid, {})
        whole = self.bubbles.pop(uid, None)
        for blocks in held.values() if whole is None else (whole,):
            release(self.books, blocks)

    def forget_others(self, uid: str, containers: Collection[str]) -> None:
        """Release what containers hold that the pod has no longer; *containers* are what it has."""
        held = self.assignments.get(uid, {})
        gone = [name for name in held if name not in containers]
        if len(gone) == len(held):
            self.forget(uid)
            return
        for name in gone:
            blocks = held.pop(name)
            if uid not in self.bubbles:
                release(self.books, blocks)

    def held_by(self, uid: str, container: str) -> Blocks:
        """Return the memory blocks of a container, sorted by type."""
        return tuple(sorted(self._blocks_of(uid, container) or (), key=lambda block: block.type))

    def wanted(self, pod: PodDemand, container: ContainerDemand | None) -> Mapping[str, int]:
        """Return the bytes asked for by memory type."""
        return (container or pod).memory or {} if pod.guaranteed and pod.managed else {}

    def free_by_node(self, resource: str) -> Mapping[int, int]:
        """Return the free bytes of a memory type on each NUMA node."""
        return {node: memory.free(resource) for node, memory in self.books.items()}

    def _hints(
        self,
        pod: PodDemand,
        request: Mapping[str, int] | None,
        held: Blocks | None,
        *,
        alone: bool,
    ) -> ProviderHints:
        if not pod.guaranteed or not pod.managed or not request:
            return None
        if held is not None:
            return _regenerated(held, request)
        reusable = self._reusable_by(pod.uid)
        hints = memory_hints(self.books, request, reusable, alone=alone)
        if alone and not hints:
            # Having no hint at all means no preference; having some elsewhere does not.
            hints = memory_hints(self.books, request, reusable)
        return dict.fromkeys(request, hints) if hints else {}

    def _settle(self, pod: PodDemand, request: Mapping[str, int], hint: Hint) -> NumaMask | Failure:
        """Return the group of nodes to use: the hint's, a default one, or a wider one."""
        mask, preferred = hint
        if mask is None:
            chosen = self._best(pod, request)
            if chosen is None:
                return _failure(
                    "failed to get the default NUMA affinity, no NUMA nodes with enough memory "
                    "is available"
                )
            if preferred and not chosen.preferred:
                return _failure("failed to find the default preferred hint")
            mask, preferred = chosen.mask or 0, chosen.preferred
        if any(self._free_on(mask, kind) < size for kind, size in request.items()):
            chosen = self._best(pod, request, within=mask)
            if chosen is None:
                return _failure("failed to find NUMA nodes to extend the current topology hint")
            if preferred and not chosen.preferred:
                return _failure("failed to find the extended preferred hint")
            mask = chosen.mask or 0
        if self.behaviour.memory_group_rule and splits_a_group(self.books, nodes_of(mask)):
            return _failure("preferred hint violates NUMA node allocation")
        return mask

    def _best(
        self, pod: PodDemand, request: Mapping[str, int], *, within: NumaMask = 0
    ) -> Hint | None:
        """Return the best group for *request* that has all nodes of *within*."""
        if not request:
            return None
        hints = memory_hints(self.books, request, self._reusable_by(pod.uid))
        return best_hint(hints, within)

    def _book(self, uid: str, mask: NumaMask, request: Mapping[str, int]) -> Blocks:
        """Charge what is not covered by memory of the pod's finished init containers."""
        nodes = nodes_of(mask)
        reusable = self._reusable_by(uid)
        for kind, size in request.items():
            charge(self.books, nodes, kind, max(0, size - reusable.get((mask, kind), 0)))
        return tuple(MemoryBlock(nodes, kind, size) for kind, size in request.items())

    def _free_on(self, mask: NumaMask, kind: str) -> int:
        return sum(self.books[node].free(kind) for node in nodes_of(mask)) & UINT64

    def _blocks_of(self, uid: str, container: str) -> Blocks | None:
        return self.assignments.get(uid, {}).get(container)

    def _reusable_by(self, uid: str) -> Reusable:
        return self._reusable[1] if self._reusable[0] == uid else {}

    def _note_reusable(self, uid: str, container: ContainerDemand, blocks: Blocks) -> None:
        """Remember what later containers of the pod may use again; only one pod is remembered."""
        if self._reusable[0] != uid:
            self._reusable = (uid, {})
        amounts = self._reusable[1]
        for block in blocks:
            key = (mask_of(block.numa_nodes), block.type)
            known = amounts.get(key, 0)
            if container.role is ContainerRole.INIT:
                amounts[key] = max(known, block.size_bytes)
            else:
                amounts[key] = max(0, known - block.size_bytes)

    def _shrink_init_containers(
        self, pod: PodDemand, container: ContainerDemand, blocks: Blocks
    ) -> None:
        """Take what *container* uses again out of the blocks of finished init containers."""
        held = self.assignments[pod.uid]
        for block in blocks:
            left = block.size_bytes
            for other in pod.init_containers_before(container):
                left = _shrink(held, other.name, block, left)


def _shrink(held: dict[str, Blocks], name: str, block: MemoryBlock, left: int) -> int:
    """Shrink the blocks of *name* that match *block* by up to *left*; return what remains."""
    result = []
    for other in held.get(name, ()):
        part = 0
        if other.type == block.type and other.numa_nodes == block.numa_nodes:
            part = min(left, other.size_bytes)
        left -= part
        result.append(replace(other, size_bytes=other.size_bytes - part) if part else other)
    if name in held:
        held[name] = tuple(result)
    return left


def _regenerated(held: Blocks, request: Mapping[str, int]) -> ProviderHints:
    """Return the hints of memory already held; a mismatch reads as "does not care"."""
    if len(held) != len(request):
        return None
    hints = {}
    for block in held:
        if request.get(block.type) != block.size_bytes:
            return None
        hints[block.type] = (Hint(mask_of(block.numa_nodes), preferred=True),)
    return hints


def _failure(text: str) -> Failure:
    return unexpected(f"[memorymanager] {text}")


def _check_reservations(machine: Machine, settings: KubeletSettings) -> None:
    """Refuse reserved memory that the kubelet would refuse at start."""
    known = {node.id for node in machine.nodes}
    totals: dict[str, int] = {}
    for node, limits in settings.reserved_memory.items():
        if node not in known:
            raise KubeletStartError(
                f"the reserved memory configuration references a NUMA node {node} that does not "
                "exist on this machine"
            )
        for kind, size in limits.items():
            totals[kind] = totals.get(kind, 0) + size
    if settings.memory_reservation is not None:
        _check_totals(totals, settings.memory_reservation)
    if not totals.get(MEMORY):
        raise KubeletStartError("[memorymanager] you should specify the system reserved memory")


def _check_totals(totals: Mapping[str, int], node_allocatable: Mapping[str, int]) -> None:
    kinds = dict.fromkeys([*totals, *filter(is_memory, node_allocatable)])
    for kind in kinds:
        total, wanted = totals.get(kind, 0), node_allocatable.get(kind, 0)
        if total != wanted:
            raise KubeletStartError(
                f'the total amount "{Quantity.of_count(total)}" of type "{kind}" is not equal to '
                f'the value "{Quantity.of_count(wanted)}" determined by Node Allocatable feature'
            )


def start_memory_manager(
    machine: Machine, settings: KubeletSettings, behaviour: Behaviour
) -> MemoryManager | None:
    """Return the manager of the configured policy; ``None`` for policy ``None``."""
    policy = settings.memory_policy
    if policy == "None":
        return None
    if policy == "BestEffort":
        raise KubeletStartError('policy "BestEffort" is not available for platform "linux"')
    if policy != "Static":
        raise KubeletStartError(f'unknown policy: "{policy}"')
    return MemoryManager(machine, settings, behaviour)
