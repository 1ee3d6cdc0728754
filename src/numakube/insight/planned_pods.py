"""Pods that are not created yet, completed as the API server would.

Apart from `numakube.insight.explain`, since programs that explain nothing need it without NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.pod import PodStatus
from numakube.api.pod_resources import disputed_qos_class

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numakube.api.pod import Container, Pod, ResourceRequirements
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
