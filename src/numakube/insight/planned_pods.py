"""Pods that are not created yet, completed as the API server would.

Apart from `numakube.insight.explain`, since programs that explain nothing need it without NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.containers import Container
    from numakube.api.pod import Pod
    from numakube.api.workloads import PriorityClass

_SYSTEM: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def planned_pod(
    pod: Pod, *, namespace: str = "default", classes: Mapping[str, PriorityClass] | None = None
) -> Pod:
    """Return *pod* with a name, requests for all that it limits, and the priority of its class."""
    meta = pod.metadata
    name = meta.name or f"{meta.generate_name or 'pod-'}new"
    space = meta.namespace or namespace
    metadata = msgspec.structs.replace(meta, name=name, namespace=space, uid=f"planned:{name}")
    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(map(_with_requests, pod.spec.containers)),
        init_containers=tuple(map(_with_requests, pod.spec.init_containers)),
        priority=_priority(pod, classes or {}),
    )
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec, status=None)


def _with_requests(container: Container) -> Container:
    resources = container.resources
    if resources is None or not resources.limits:
        return container
    requests = {**resources.limits, **resources.requests}
    completed = msgspec.structs.replace(resources, requests=requests)
    return msgspec.structs.replace(container, resources=completed)


def _priority(pod: Pod, classes: Mapping[str, PriorityClass]) -> int:
    if pod.spec.priority is not None:
        return pod.spec.priority
    name = pod.spec.priority_class_name
    if name:
        known = classes.get(name)
        return known.value if known is not None else _SYSTEM.get(name, 0)
    return next((one.value for one in classes.values() if one.global_default), 0)
