"""The Device Manager: which devices a container gets, NUMA-aligned ones first.

Inside a class of equally good devices the kubelet's choice is random. The model takes those that
sit on the fewest NUMA nodes first, since a device near several nodes can still serve others, and
then by id.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from numakube.kubelet.admission_outcome import Failure, unexpected
from numakube.kubelet.machine import NO_TREE, Device, DeviceTree
from numakube.kubelet.pod_demand import ContainerRole
from numakube.kubelet.preferred_allocation import AllocationWish, Chooser, OtherDevices
from numakube.kubelet.topology_hints import Hint, hints_on, smallest_size
from numakube.kubelet.wide_hints import MOST_LISTED, Cover, WideHints, check_sets
from numakube.values.numamask import NumaMask, mask_of, masks_over, nodes_of, sums_over

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numakube.kubelet.kubelet_versions import Behaviour
    from numakube.kubelet.pod_demand import ContainerDemand, PodDemand
    from numakube.kubelet.topology_hints import NumaInfo, ProviderHints


# Topology hints for devices, as ``pkg/kubelet/cm/devicemanager/topology_hints.go`` makes them.
#
# A set of NUMA nodes has every device that sits on one of them: a device of several nodes counts
# for each set that touches it.


def device_hints(
    nodes: tuple[int, ...],
    *,
    every: Counter[NumaMask],
    free: Counter[NumaMask],
    tied: Counter[NumaMask],
    count: int,
    alone: bool = False,
) -> list[Hint] | WideHints:
    """Return the sets of *nodes* that touch enough devices.

    Args:
        nodes: the NUMA nodes that hints may name.
        every: all devices by the nodes that they sit on.
        free: those that can be given out.
        tied: those that the pod has already and will use again.
        count: how many devices are wanted.
        alone: whether sets of several nodes may be left out.
    """
    if len(nodes) > MOST_LISTED:
        check_sets(len(nodes))
        return wide_device_hints(nodes, every=every, free=free, tied=tied, count=count)
    return listed_device_hints(nodes, every=every, free=free, tied=tied, count=count, alone=alone)


def wide_device_hints(
    nodes: tuple[int, ...],
    *,
    every: Counter[NumaMask],
    free: Counter[NumaMask],
    tied: Counter[NumaMask],
    count: int,
) -> WideHints:
    """Return the same, described."""
    touched = Cover(dict.fromkeys(tied, 1), len(tied))
    missing = count - sum(tied.values())
    smallest = WideHints(nodes, (Cover(every, count),)).narrowest or len(nodes)
    return WideHints(nodes, (Cover(free, missing), touched), smallest)


def listed_device_hints(
    nodes: tuple[int, ...],
    *,
    every: Counter[NumaMask],
    free: Counter[NumaMask],
    tied: Counter[NumaMask],
    count: int,
    alone: bool = False,
) -> list[Hint]:
    """Return the same, one by one."""
    smallest = _smallest_size(every, nodes, count)
    missing = count - sum(tied.values())
    touching = _touching(free, nodes, alone=alone)
    fitting = [mask for mask in masks_over(nodes, alone=alone) if touching[mask] >= missing]
    if tied:
        fitting = [mask for mask in fitting if all(mask & one for one in tied)]
    return hints_on(nodes, fitting, smallest)


def _smallest_size(counts: Counter[NumaMask], nodes: tuple[int, ...], wanted: int) -> int:
    """Return how many of *nodes* it takes to touch *wanted* devices; all if they do not."""
    if all(count.bit_count() == 1 for count in counts):
        return smallest_size([counts[1 << node] for node in nodes], wanted)
    touched = _touching(counts, nodes)
    enough = (mask.bit_count() for mask in masks_over(nodes) if touched[mask] >= wanted)
    return next(enough, len(nodes))


def _touching(
    counts: Counter[NumaMask], nodes: tuple[int, ...], *, alone: bool = False
) -> Mapping[NumaMask, int]:
    """Return for every set of *nodes* how many devices sit on any of them."""
    if all(count.bit_count() == 1 for count in counts):
        return sums_over({node: counts[1 << node] for node in nodes}, alone=alone)
    return {
        mask: sum(count for one, count in counts.items() if one & mask)
        for mask in masks_over(nodes, alone=alone)
    }


PreferredAllocation: TypeAlias = "Callable[[Sequence[str], Sequence[str], int], Iterable[str]]"
"""A plugin's GetPreferredAllocation: (available ids, must-include ids, size) to ids."""


@dataclass(slots=True)
class _Resource:
    """The devices of one resource name."""

    masks: dict[str, NumaMask]
    healthy: frozenset[str]
    preferred: PreferredAllocation | None = None
    allocated: set[str] = field(default_factory=set)
    functions: Mapping[str, str] = field(default_factory=dict)

    @property
    def available(self) -> frozenset[str]:
        return self.healthy - self.allocated

    @property
    def aligns(self) -> bool:
        """Whether any device, healthy or not, tells its NUMA node."""
        return any(self.masks.values())

    def in_order(self, ids: Iterable[str]) -> list[str]:
        """Return *ids* in the order in which the model hands them out."""
        return sorted(ids, key=lambda device: (self.masks.get(device, 0).bit_count(), device))

    def counts(self, ids: Iterable[str]) -> Counter[NumaMask]:
        """Return how many of *ids* sit on which set of nodes; devices without a node left out."""
        counts = Counter(self.masks[device] for device in ids)
        del counts[0]
        return counts

    def by_node(self, ids: Iterable[str]) -> dict[int, int]:
        """Return how many of *ids* are near each NUMA node that has devices."""
        chosen = Counter(self.masks[device] for device in ids)
        counts: dict[int, int] = {}
        for mask in set(self.masks.values()):
            for node in nodes_of(mask):
                counts[node] = counts.get(node, 0) + chosen[mask]
        return dict(sorted(counts.items()))


class DeviceManager:
    """All device plugins' resources and who holds their devices."""

    name: ClassVar[str] = "devices"

    def __init__(self, numa: NumaInfo, behaviour: Behaviour) -> None:
        self._numa = numa
        self._behaviour = behaviour
        self._resources: dict[str, _Resource] = {}
        # uid -> container -> resource -> device ids
        self.assignments: dict[str, dict[str, dict[str, tuple[str, ...]]]] = {}
        self._reusable: tuple[str, dict[str, set[str]]] = ("", {})
        # NUMA nodes of devices known from before a restart, until their plugin is back.
        self._remembered: dict[tuple[str, str], NumaMask] = {}
        # How devices are connected, for plugins that look at that.
        self.tree: DeviceTree = NO_TREE
        # While the kubelet starts, running containers keep their devices whatever has become of
        # them. Without word from the runtime, all that hold some are taken to be running.
        self.starting = False
        self.running: Collection[tuple[str, str]] | None = None

    def clone(self) -> DeviceManager:
        """Return an independent copy of the state."""
        copy = object.__new__(DeviceManager)
        copy.__dict__.update(self.__dict__)
        copy._resources = {
            name: _Resource(
                one.masks, one.healthy, one.preferred, set(one.allocated), one.functions
            )
            for name, one in self._resources.items()
        }
        copy.assignments = {
            uid: {name: dict(held) for name, held in containers.items()}
            for uid, containers in self.assignments.items()
        }
        uid, reusable = self._reusable
        copy._reusable = (uid, {name: set(ids) for name, ids in reusable.items()})
        return copy

    def register(
        self,
        resource: str,
        devices: Iterable[Device],
        *,
        preferred: PreferredAllocation | None = None,
    ) -> None:
        """Replace the devices of *resource*, as a plugin's ListAndWatch message does."""
        listed = sorted(devices, key=lambda device: device.id)
        known = self._resources.get(resource)
        self._resources[resource] = _Resource(
            masks={device.id: mask_of(device.numa_nodes) for device in listed},
            healthy=frozenset(device.id for device in listed if device.healthy),
            preferred=preferred or (known.preferred if known else None),
            allocated=known.allocated if known else set(),
            functions={device.id: device.pci for device in listed if device.pci},
        )

    def await_plugin(self, resource: str) -> None:
        """Know *resource* from before a restart: no device is there until its plugin is back."""
        if resource not in self._resources:
            self.register(resource, ())

    def restore(
        self, uid: str, container: str, resource: str, numa_nodes: Mapping[str, Iterable[int]]
    ) -> None:
        """Note what a container held before a restart: device ids with their NUMA nodes."""
        self.await_plugin(resource)
        containers = self.assignments.setdefault(uid, {})
        containers.setdefault(container, {})[resource] = tuple(sorted(numa_nodes))
        self._resources[resource].allocated.update(numa_nodes)
        for device, nodes in numa_nodes.items():
            self._remembered[resource, device] = mask_of(nodes)

    def resources(self) -> Iterable[str]:
        """Return the names of the registered resources."""
        return self._resources.keys()

    def healthy(self, resource: str) -> frozenset[str]:
        """Return the ids of the healthy devices of *resource*."""
        return self._resources[resource].healthy

    def available(self, resource: str) -> frozenset[str]:
        """Return the ids of the healthy devices of *resource* that no container holds."""
        return self._resources[resource].available

    def devices_of(self, resource: str) -> tuple[Device, ...]:
        """Return the devices of *resource* in ascending order of their ids."""
        known = self._resources[resource]
        return tuple(
            Device(device, nodes_of(mask), device in known.healthy, known.functions.get(device, ""))
            for device, mask in sorted(known.masks.items())
        )

    def preferred(self, resource: str) -> PreferredAllocation | None:
        """Return the preference of the plugin of *resource*, if it has one."""
        return self._resources[resource].preferred

    def count(self, resource: str) -> int:
        """Return how many devices of *resource* there are, healthy or not."""
        return len(self._resources[resource].masks)

    def allocated_count(self, resource: str) -> int:
        """Return how many devices of *resource* are held."""
        known = self._resources.get(resource)
        return len(known.allocated) if known else 0

    def unregister(self, resource: str) -> None:
        """Forget *resource*: its plugin has been away for too long."""
        self._resources.pop(resource, None)

    def numa_nodes_of(self, resource: str, device: str) -> tuple[int, ...]:
        """Return the NUMA nodes of a device; none if its plugin did not tell."""
        known = self._resources.get(resource)
        remembered = self._remembered.get((resource, device), 0)
        return nodes_of(known.masks.get(device, remembered) if known else remembered)

    def container_hints(
        self, pod: PodDemand, container: ContainerDemand, *, alone: bool = False
    ) -> ProviderHints:
        """Return the NUMA nodes whose devices can serve the container."""
        held = self.assignments.get(pod.uid, {}).get(container.name, {})
        return {
            name: self._hints(
                name, count, held.get(name, ()), self._reusable_by(pod.uid, name), alone=alone
            )
            for name, count in self._requests(container.limits).items()
        }

    def pod_hints(self, pod: PodDemand, *, alone: bool = False) -> ProviderHints:
        """Return the NUMA nodes whose devices can serve the whole pod."""
        containers = self.assignments.get(pod.uid, {}).values()

        def held_of(name: str) -> set[str]:
            return {device for held in containers for device in held.get(name, ())}

        return {
            name: self._hints(name, count, held_of(name), set(), alone=alone)
            for name, count in self._requests(pod.limits).items()
        }

    def allocate(self, pod: PodDemand, container: ContainerDemand, hint: Hint) -> Failure | None:
        """Give the container its devices."""
        if self._reusable[0] != pod.uid:
            self._reusable = (pod.uid, {})
        for name, count in self._requests(container.limits).items():
            if name in container.by_claim:
                continue
            held = self.assignments.get(pod.uid, {}).get(container.name, {}).get(name)
            taken = self._take(pod, container, name, count, held, hint)
            if isinstance(taken, Failure):
                return taken
            if taken:
                containers = self.assignments.setdefault(pod.uid, {})
                containers.setdefault(container.name, {})[name] = tuple(taken)
        self._note_reusable(pod.uid, container)
        return None

    def allocate_pod(self, pod: PodDemand, hint: Hint) -> Failure | None:
        """Do nothing: devices of a bubble are allocated when its containers start."""
        del pod, hint
        return None

    def pods(self) -> Iterable[str]:
        """Return the uids of the pods that hold devices."""
        return list(self.assignments)

    def forget(self, uid: str) -> None:
        """Release the pod's devices."""
        if self.assignments.pop(uid, None) is None:
            return
        for name, resource in self._resources.items():
            resource.allocated = {
                device
                for containers in self.assignments.values()
                for held in containers.values()
                for device in held.get(name, ())
            }

    def held_by(self, uid: str, container: str) -> Mapping[str, tuple[str, ...]]:
        """Return the device ids of a container by resource name."""
        return dict(self.assignments.get(uid, {}).get(container, {}))

    def wanted(self, pod: PodDemand, container: ContainerDemand | None) -> Mapping[str, int]:
        """Return the number of devices asked for by resource name."""
        return self._requests((container or pod).limits)

    def free_by_node(self, resource: str) -> Mapping[int, int]:
        """Return the available devices of *resource* on each NUMA node that has any."""
        known = self._resources[resource]
        return known.by_node(known.available)

    def healthy_by_node(self, resource: str) -> Mapping[int, int]:
        """Return the healthy devices of *resource* on each NUMA node that has any."""
        known = self._resources[resource]
        return known.by_node(known.healthy)

    def _requests(self, limits: Mapping[str, int]) -> dict[str, int]:
        return {name: count for name, count in limits.items() if name in self._resources}

    def _hints(
        self, name: str, count: int, held: Iterable[str], reusable: set[str], *, alone: bool
    ) -> list[Hint] | WideHints | None:
        resource = self._resources[name]
        if not resource.aligns:
            return None
        if held := frozenset(held):
            if len(held) != count:
                return []
            return self._generate(resource, held, set(), count, alone=alone)
        if len(resource.available | reusable) < count:
            return []
        return self._generate(resource, resource.available, reusable, count, alone=alone)

    def _generate(
        self,
        resource: _Resource,
        available: Iterable[str],
        reusable: set[str],
        count: int,
        *,
        alone: bool,
    ) -> list[Hint] | WideHints:
        """Return the sets of nodes that touch enough devices."""
        # Reusable devices tie the pod to their nodes: a mask must touch each of them.
        tied = resource.counts(device for device in reusable if device in resource.masks)
        return device_hints(
            self._candidate_nodes(resource),
            every=resource.counts(resource.masks),
            free=resource.counts(available),
            tied=tied,
            count=count,
            alone=alone,
        )

    def _candidate_nodes(self, resource: _Resource) -> tuple[int, ...]:
        if self._behaviour.device_hints_on_device_nodes_only:
            everywhere = 0
            for mask in resource.masks.values():
                everywhere |= mask
            if everywhere := everywhere & self._numa.everywhere:
                return nodes_of(everywhere)
        return self._numa.nodes

    def _take(
        self,
        pod: PodDemand,
        container: ContainerDemand,
        name: str,
        count: int,
        held: tuple[str, ...] | None,
        hint: Hint,
    ) -> list[str] | Failure:
        """Choose and mark devices; an empty list if there is nothing to do."""
        uid, resource = pod.uid, self._resources[name]
        if held is not None and len(held) != count:
            return unexpected(
                f'pod "{uid}" container "{container.name}" changed request for resource "{name}" '
                f"from {len(held)} to {count}"
            )
        if held is not None and self.starting and self._runs(uid, container.name):
            return []
        if not resource.healthy:
            return unexpected(
                f"no healthy devices present; cannot allocate unhealthy devices {name}"
            )
        if held is not None and not resource.healthy.issuperset(held):
            return unexpected(
                "previously allocated devices are no longer healthy; cannot allocate unhealthy "
                f"devices {name}"
            )
        if held is not None or count == 0:
            return []
        taken = resource.in_order(self._reusable_by(uid, name))[:count]
        needed = count - len(taken)
        available = resource.available - set(taken)
        if needed > len(available):
            return unexpected(
                f"requested number of devices unavailable for {name}. "
                f"Requested: {needed}, Available: {len(available)}"
            )
        if needed:
            around = self._around(pod, container, name)
            taken += _choose(resource, available, taken, count, hint, around)
        resource.allocated.update(taken)
        return sorted(taken)

    def _around(self, pod: PodDemand, container: ContainerDemand, name: str) -> OtherDevices | None:
        """Return what a plugin can find out about other devices when it is asked for its own.

        PodResources lists what the container was given just before, but not what init containers
        have. The plugin tells by the checkpoint, written for whole containers, whose it is.
        """
        chooser = self._resources[name].preferred
        if not isinstance(chooser, Chooser) or not chooser.near:
            return None
        containers = self.assignments.get(pod.uid, {})
        listed = {demand.name for demand in pod.containers if demand.role is not ContainerRole.INIT}
        fresh = container.name in listed and bool(containers.get(container.name))
        return OtherDevices(
            self.tree,
            self._resources[name].functions,
            held=tuple(
                function
                for one, held in containers.items()
                if fresh and one in listed
                for function in self._functions_of(held, besides=name)
            ),
            free=frozenset(
                resource.functions[id_]
                for other, resource in self._resources.items()
                if other != name
                for id_ in resource.available
                if id_ in resource.functions
            ),
        )

    def _functions_of(self, held: Mapping[str, Iterable[str]], *, besides: str) -> Iterable[str]:
        """Return the PCI functions of devices, as far as they are known."""
        return [
            self._resources[name].functions[id_]
            for name, ids in held.items()
            if name != besides and name in self._resources
            for id_ in ids
            if id_ in self._resources[name].functions
        ]

    def _runs(self, uid: str, container: str) -> bool:
        return self.running is None or (uid, container) in self.running

    def _reusable_by(self, uid: str, name: str) -> set[str]:
        return self._reusable[1].get(name, set()) if self._reusable[0] == uid else set()

    def _note_reusable(self, uid: str, container: ContainerDemand) -> None:
        """Remember what later containers of the pod may use again."""
        reusable = self._reusable[1]
        for name, held in self.held_by(uid, container.name).items():
            known = reusable.setdefault(name, set())
            if container.role is ContainerRole.INIT:
                known.update(held)
            else:
                known.difference_update(held)


def _choose(
    resource: _Resource,
    available: frozenset[str],
    taken: Sequence[str],
    count: int,
    hint: Hint,
    around: OtherDevices | None,
) -> list[str]:
    """Return the devices that complete *taken* to *count*: aligned, then others."""
    needed = count - len(taken)
    aligned, unaligned, without_node = _by_affinity(resource, available, hint)
    chosen: list[str] = []

    def add(devices: Iterable[str]) -> None:
        for device in devices:
            if len(chosen) < needed and device not in chosen:
                chosen.append(device)

    if needed < len(aligned):
        add(_preferred(resource, aligned, taken, taken, count, around))
        add(aligned)
        return chosen
    add(aligned)
    if len(chosen) < needed:
        add(_preferred(resource, sorted(available), taken, [*taken, *chosen], count, around))
        add(unaligned)
        add(without_node)
    return chosen


def _by_affinity(
    resource: _Resource, available: frozenset[str], hint: Hint
) -> tuple[list[str], list[str], list[str]]:
    """Split devices into those that touch the hint, those that do not, and those without node."""
    ids = sorted(available)
    if hint.mask is None:
        return [], [], ids
    aligned = [device for device in ids if resource.masks[device] & hint.mask]
    without_node = [device for device in ids if not resource.masks[device]]
    unaligned = [d for d in ids if resource.masks[d] and not resource.masks[d] & hint.mask]
    return aligned, unaligned, without_node


def _preferred(
    resource: _Resource,
    candidates: Sequence[str],
    taken: Sequence[str],
    must_include: Sequence[str],
    count: int,
    around: OtherDevices | None,
) -> list[str]:
    """Ask the plugin which of *candidates* it would like best; ids it made up are dropped."""
    if resource.preferred is None:
        return []
    offered = sorted({*candidates, *taken, *must_include})
    if isinstance(resource.preferred, Chooser) and around is not None:
        wish = AllocationWish(offered, sorted(must_include), count)
        answer: Iterable[str] = resource.preferred.among(wish, around)
    else:
        answer = resource.preferred(offered, sorted(must_include), count)
    return [device for device in answer if device in candidates]
