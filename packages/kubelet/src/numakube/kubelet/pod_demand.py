"""What a pod demands of the resource managers, parsed once from the API object.

Which containers get exclusive CPUs, which memory counts and how init containers, sidecars and app
containers add up is decided here, so that the managers deal in integers only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from numakube.api.pod import API, CONFIG_SOURCE
from numakube.api.pod_resources import (
    GUARANTEED,
    has_pod_level_resources,
    is_sidecar,
    qos_class,
    resources_by_claim,
)
from numakube.values.quantity import Quantity, milli_value, parse_quantity, value
from numakube.values.resources import CPU, MEMORY, MILLI_PER_CPU, is_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numakube.api.codec import QuantityText, ResourceList
    from numakube.api.pod import Container, Pod, ResourceRequirements
    from numakube.kubelet.kubelet_versions import Behaviour
    from numakube.kubelet.manager_settings import KubeletSettings


class ContainerRole(Enum):
    """How a container shares resources with the others of its pod."""

    INIT = "init"
    SIDECAR = "sidecar"
    APP = "app"


@dataclass(frozen=True, slots=True)
class ContainerDemand:
    """One container's demand.

    Attributes:
        exclusive_cpus: whole CPUs it gets for itself; 0 if it runs in the shared pool.
        memory: requested bytes by memory type; ``None`` if a request is not a whole number of
            bytes, which the memory manager refuses.
        limits: limits by resource name as whole numbers, rounded up; device resources among them.
        by_claim: names of extended resources that a claim serves, which the Device Manager gives
            nothing for; its hints count them all the same (Kubernetes 1.37).
    """

    name: str
    role: ContainerRole
    exclusive_cpus: int
    memory: Mapping[str, int] | None
    limits: Mapping[str, int]
    by_claim: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PodLevelDemand:
    """Demand of the pod as a whole (``spec.resources``)."""

    exclusive_cpus: int
    memory: Mapping[str, int]


@dataclass(frozen=True)
class PodDemand:
    """A pod's demand; ``containers`` has init containers first, in order of start.

    Attributes:
        managed: whether the CPU and memory managers look at the pod at all; they do not if it has
            pod-level resources and the kubelet cannot manage those.
        pod_level: set if the kubelet manages the pod's resources as one bubble.
    """

    uid: str
    guaranteed: bool
    managed: bool
    containers: tuple[ContainerDemand, ...]
    pod_level: PodLevelDemand | None = None

    @cached_property
    def exclusive_cpus(self) -> int:
        """Whole CPUs that the pod needs at its peak."""
        if self.pod_level is not None:
            return self.pod_level.exclusive_cpus
        return self._peak(lambda container: container.exclusive_cpus)

    @cached_property
    def memory(self) -> Mapping[str, int] | None:
        """Bytes by memory type at the pod's peak; only types that some app container requests."""
        if self.pod_level is not None:
            return self.pod_level.memory
        if any(container.memory is None for container in self.containers):
            return None
        apps = (
            container.memory or {}
            for container in self.containers
            if container.role is ContainerRole.APP
        )
        kinds = dict.fromkeys(kind for memory in apps for kind in memory)
        return {kind: self._peak(_memory_of(kind)) for kind in kinds}

    @cached_property
    def limits(self) -> Mapping[str, int]:
        """Limits by resource name at the pod's peak."""
        names = dict.fromkeys(name for container in self.containers for name in container.limits)
        return {name: self._peak(_limit_of(name)) for name in names}

    def init_containers_before(self, container: ContainerDemand) -> Iterable[ContainerDemand]:
        """Yield the plain init containers that start before *container*."""
        for other in self.containers:
            if other is container:
                return
            if other.role is ContainerRole.INIT:
                yield other

    def _peak(self, amount: Callable[[ContainerDemand], int]) -> int:
        """Return the largest sum of containers that run at the same time."""
        sidecars = starting = apps = 0
        for container in self.containers:
            if container.role is ContainerRole.SIDECAR:
                sidecars += amount(container)
            elif container.role is ContainerRole.INIT:
                starting = max(starting, sidecars + amount(container))
            else:
                apps += amount(container)
        return max(starting, apps + sidecars)


def _memory_of(kind: str) -> Callable[[ContainerDemand], int]:
    return lambda container: (container.memory or {}).get(kind, 0)


def _limit_of(name: str) -> Callable[[ContainerDemand], int]:
    return lambda container: container.limits.get(name, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandRules:
    """How this kubelet reads pods that set ``spec.resources``.

    Attributes:
        reads_pod_level_resources: whether they decide the QoS class.
        ignores_pod_level_resources: whether the CPU and Memory Managers leave such a pod alone.
        manages_pod_level_resources: whether the managers handle such a pod as one bubble.
        empty_pod_level_resources_count: whether an empty ``spec.resources`` decides the QoS class.
    """

    reads_pod_level_resources: bool = True
    ignores_pod_level_resources: bool = True
    manages_pod_level_resources: bool = False
    empty_pod_level_resources_count: bool = True


def demand_rules(settings: KubeletSettings, behaviour: Behaviour) -> DemandRules:
    """Return the rules of a kubelet."""
    release = behaviour.version
    read = settings.gate("PodLevelResources", release)
    managed = settings.gate("PodLevelResourceManagers", release)
    fixed_qos = settings.gate("PodLevelResourcesFixKubeletQOSClass", release)
    # Since the gate of the managers exists, they leave such pods alone whatever the other one says.
    known = read or behaviour.pod_level_managers
    return DemandRules(
        reads_pod_level_resources=read,
        ignores_pod_level_resources=behaviour.ignores_pod_level_resources and known,
        manages_pod_level_resources=read and managed,
        empty_pod_level_resources_count=not fixed_qos,
    )


def demand_of(pod: Pod, rules: DemandRules) -> PodDemand:
    """Return what *pod* demands of a kubelet with *rules*."""
    qos = qos_class(
        pod,
        pod_level_resources=rules.reads_pod_level_resources,
        empty_counts=rules.empty_pod_level_resources_count,
    )
    guaranteed = qos == GUARANTEED
    pod_level = has_pod_level_resources(pod)
    bubble = pod_level and rules.manages_pod_level_resources
    static = pod.metadata.annotations.get(CONFIG_SOURCE, API) != API
    by_claim = resources_by_claim(pod)
    containers = tuple(
        _container(
            container,
            role,
            guaranteed=guaranteed,
            in_bubble=bubble,
            as_written=static,
            by_claim=frozenset(name for user, name in by_claim if user == container.name),
        )
        for container, role in _containers(pod)
    )
    return PodDemand(
        uid=pod.metadata.uid,
        guaranteed=guaranteed,
        managed=bubble or not (pod_level and rules.ignores_pod_level_resources),
        containers=containers,
        pod_level=_pod_level(pod.spec.resources, guaranteed=guaranteed) if bubble else None,
    )


def _containers(pod: Pod) -> Iterable[tuple[Container, ContainerRole]]:
    for container in pod.spec.init_containers or ():
        yield container, ContainerRole.SIDECAR if is_sidecar(container) else ContainerRole.INIT
    for container in pod.spec.containers:
        yield container, ContainerRole.APP


def _container(
    container: Container,
    role: ContainerRole,
    *,
    guaranteed: bool,
    in_bubble: bool,
    as_written: bool,
    by_claim: frozenset[str],
) -> ContainerDemand:
    resources = container.resources
    requests = (resources.requests if resources else None) or {}
    limits = (resources.limits if resources else None) or {}
    # Inside a bubble only a container that is guaranteed by itself gets anything for itself.
    exclusive = guaranteed and (not in_bubble or _guaranteed_alone(requests, limits))
    return ContainerDemand(
        name=container.name,
        role=role,
        exclusive_cpus=_whole_cpus(requests.get("cpu")) if exclusive else 0,
        memory=_memory(requests, as_written=as_written) if exclusive or not in_bubble else {},
        limits={name: value(text) for name, text in limits.items()},
        by_claim=by_claim,
    )


def _guaranteed_alone(requests: ResourceList, limits: ResourceList) -> bool:
    for name in (CPU, MEMORY):
        request, limit = requests.get(name), limits.get(name)
        if request is None or limit is None:
            return False
        wanted = parse_quantity(request)
        if not wanted or wanted != parse_quantity(limit):
            return False
    return True


def _whole_cpus(request: QuantityText | None) -> int:
    """Return the CPUs of an integral request; a fraction runs in the shared pool."""
    if request is None:
        return 0
    cpus = value(request)
    return cpus if cpus * MILLI_PER_CPU == milli_value(request) else 0


def _memory(requests: ResourceList, *, as_written: bool = False) -> Mapping[str, int] | None:
    """Return bytes by memory type; ``None`` if a request is no whole number to the kubelet.

    *as_written* is for static pods, whose quantities no API server has rewritten.
    """
    memory = {}
    for name, text in requests.items():
        if is_memory(name):
            count = _whole_bytes(text, as_written=as_written)
            if count is None:
                return None
            memory[name] = count
    return memory


@lru_cache(maxsize=16384, typed=True)
def _whole_bytes(text: QuantityText, *, as_written: bool) -> int | None:
    quantity = parse_quantity(text)
    count = quantity.as_int64() if as_written else quantity.value()
    return None if count is None or Quantity.of_count(count) != quantity else count


def _pod_level(resources: ResourceRequirements | None, *, guaranteed: bool) -> PodLevelDemand:
    requests = (resources.requests if resources else None) or {}
    if not guaranteed:
        return PodLevelDemand(0, {})
    memory = _memory(requests) or {}
    return PodLevelDemand(
        exclusive_cpus=_whole_cpus(requests.get("cpu")),
        memory={kind: size for kind, size in memory.items() if size > 0},
    )
