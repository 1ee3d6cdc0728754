"""Pods that are not created yet, completed as the API server would, and what pods ask for.

`with_amounts` and `as_guaranteed` make pods that ask for something else, to try what would help.

Apart from `numakube.insight.explain`, since programs that explain nothing need it without NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.pod import PodStatus, ResourceRequirements
from numakube.api.pod_resources import disputed_qos_class, is_sidecar
from numakube.values.resources import (
    CPU,
    MEMORY,
    MILLI_PER_CPU,
    amount_of,
    hugepage_bytes,
    is_hugepages,
    quantity_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from numakube.api.pod import Container, Pod
    from numakube.api.workloads import PriorityClass


_SYSTEM: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def planned_pod(
    pod: Pod, *, namespace: str = "default", classes: Mapping[str, PriorityClass] | None = None
) -> Pod:
    """Return *pod* with what the API server adds.

    That is a name, requests for all that it limits, what its class says of
    priority and preemption, and its QoS class.
    """
    pod, meta = with_requests(pod), pod.metadata
    name = meta.name or f"{meta.generate_name or 'pod-'}new"
    space = meta.namespace or namespace
    metadata = msgspec.structs.replace(meta, name=name, namespace=space, uid=f"planned:{name}")
    of_class = _class_of(pod, classes or {})
    evicts = of_class.preemption_policy if of_class is not None else None
    spec = msgspec.structs.replace(
        pod.spec,
        priority=_priority(pod, of_class),
        preemption_policy=pod.spec.preemption_policy or evicts,
    )
    status = PodStatus(phase="Pending", qos_class=disputed_qos_class(pod))
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec, status=status)


def with_requests(pod: Pod) -> Pod:
    """Return *pod* with a request for whatever it limits, as the API server completes it.

    A limit of the whole pod is a request of it unless containers ask for that resource, which then
    is what counts.
    """
    containers = tuple(map(_requesting, pod.spec.containers))
    init_containers = tuple(map(_requesting, pod.spec.init_containers))
    known = [
        container.resources
        for container in (*containers, *init_containers)
        if container.resources is not None
    ]
    asked = {name for one in known for name in one.requests}
    spec = msgspec.structs.replace(
        pod.spec,
        containers=containers,
        init_containers=init_containers,
        resources=_completed(pod.spec.resources, asked),
    )
    return msgspec.structs.replace(pod, spec=spec)


def _requesting(container: Container) -> Container:
    return msgspec.structs.replace(container, resources=_completed(container.resources, ()))


def _completed(
    resources: ResourceRequirements | None, but: Collection[str]
) -> ResourceRequirements | None:
    if resources is None or not resources.limits:
        return resources
    limits = {name: amount for name, amount in resources.limits.items() if name not in but}
    return msgspec.structs.replace(resources, requests={**limits, **resources.requests})


def _class_of(pod: Pod, classes: Mapping[str, PriorityClass]) -> PriorityClass | None:
    """Return the class that a pod names, or else the least of those that are for all others."""
    if name := pod.spec.priority_class_name:
        return classes.get(name)
    defaults = (one for one in classes.values() if one.global_default)
    return min(defaults, key=lambda one: one.value, default=None)


def _priority(pod: Pod, of_class: PriorityClass | None) -> int:
    if pod.spec.priority is not None:
        return pod.spec.priority
    if of_class is not None:
        return of_class.value
    return _SYSTEM.get(pod.spec.priority_class_name or "", 0)


_MI: Final = 1 << 20


def all_containers(pod: Pod) -> Iterator[tuple[Container, str]]:
    """Yield every container with its role: ``init``, ``sidecar`` or ``app``."""
    for container in pod.spec.init_containers:
        yield container, "sidecar" if is_sidecar(container) else "init"
    for container in pod.spec.containers:
        yield container, "app"


def asked_by(container: Container) -> dict[str, int]:
    """Return what *container* requests, in base units."""
    resources = container.resources
    if resources is None:
        return {}
    wanted = {**resources.limits, **resources.requests}
    return {name: amount_of(name, text) for name, text in wanted.items() if amount_of(name, text)}


def text_of(resource: str, amount: int) -> str:
    """Return *amount* as a quantity."""
    return str(quantity_of(resource, amount))


def texts_of(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as quantities, nothing for zero."""
    return {name: text_of(name, amount) for name, amount in amounts.items() if amount}


def step_of(resource: str) -> int:
    """Return by how much an amount of *resource* can sensibly be changed."""
    if resource == CPU:
        return MILLI_PER_CPU
    if is_hugepages(resource):
        return hugepage_bytes(resource)
    return _MI if resource in (MEMORY, "ephemeral-storage") else 1


def whole_cores_above(cpu_milli: int) -> list[int]:
    """Return the next amounts that make up whole cores of two, four or eight CPUs."""
    if cpu_milli % MILLI_PER_CPU:
        return []
    cores = (threads * MILLI_PER_CPU for threads in (2, 4, 8))
    return sorted({-(-cpu_milli // core) * core for core in cores} - {cpu_milli})


def with_amounts(pod: Pod, container: str, amounts: Mapping[str, int]) -> Pod:
    """Return *pod* whose *container* asks for *amounts* of these resources; 0 is not at all."""
    return changed(pod, container, lambda one: _asking(one, amounts))


def changed(pod: Pod, container: str, change: Callable[[Container], Container]) -> Pod:
    """Return *pod* with one container changed."""

    def each(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(change(other) if other.name == container else other for other in containers)

    spec = msgspec.structs.replace(
        pod.spec,
        containers=each(pod.spec.containers),
        init_containers=each(pod.spec.init_containers),
    )
    return msgspec.structs.replace(pod, spec=spec)


def _asking(container: Container, amounts: Mapping[str, int]) -> Container:
    resources = container.resources or ResourceRequirements()

    def side(known: Mapping[str, str | int | float]) -> dict[str, str | int | float]:
        new = dict(known)
        for name, amount in amounts.items():
            if name in new and amount:
                new[name] = text_of(name, amount)
            elif name in new:
                del new[name]
        return new

    smaller = msgspec.structs.replace(
        resources, requests=side(resources.requests), limits=side(resources.limits)
    )
    return msgspec.structs.replace(container, resources=smaller)


def as_guaranteed(pod: Pod) -> Pod:
    """Return *pod* with requests equal to limits; where both differ, the larger counts."""
    for container, _ in all_containers(pod):
        pod = changed(pod, container.name, _guaranteed)
    return pod


def _guaranteed(container: Container) -> Container:
    wanted = asked_by(container)
    limits = container.resources.limits if container.resources else {}
    for name, text in limits.items():
        wanted[name] = max(wanted.get(name, 0), amount_of(name, text))
    wanted.setdefault(CPU, MILLI_PER_CPU)
    wanted.setdefault(MEMORY, 256 * _MI)
    # Exclusive CPUs are whole ones.
    wanted[CPU] = -(-wanted[CPU] // MILLI_PER_CPU) * MILLI_PER_CPU
    texts = {name: text_of(name, amount) for name, amount in wanted.items()}
    resources = container.resources or ResourceRequirements()
    same = msgspec.structs.replace(resources, requests=texts, limits=texts)
    return msgspec.structs.replace(container, resources=same)
