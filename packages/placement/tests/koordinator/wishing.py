"""Pods that wish something, and what was read of it."""

from __future__ import annotations

import json
from typing import Any

from numakube.api.codec import convert
from numakube.api.pod import Pod
from numakube_placement.koordinator.pod_wish import PodWish
from numakube_placement.koordinator.read_pod import wish_of

SPEC = "scheduling.koordinator.sh/numa-topology-spec"
CPU_SPEC = "scheduling.koordinator.sh/resource-spec"
OF_CONTAINER = "numa-topology-spec.scheduling.koordinator.sh/container."
CPUS_OF_CONTAINER = "resource-spec.scheduling.koordinator.sh/container."
JOINT = "scheduling.koordinator.sh/device-joint-allocate"
HINT = "scheduling.koordinator.sh/device-allocate-hint"
VOLCANO = "volcano.sh/numa-topology-policy"
QOS = "koordinator.sh/qosClass"
PRIORITY = "koordinator.sh/priority-class"


def container(name: str = "main", limits: dict[str, str] | None = None, /, **requests: str) -> Any:
    """Return a container as it stands in a manifest."""
    resources: dict[str, Any] = {"requests": requests}
    if limits is not None:
        resources["limits"] = limits
    return {"name": name, "resources": resources}


def pod(
    *containers: Any,
    annotations: dict[str, Any] | None = None,
    labels: dict[str, str] | None = None,
    init: tuple[Any, ...] = (),
    **spec: Any,
) -> Pod:
    """Return a pod with these containers, or with one of 2 CPUs and 4 GiB."""
    texts = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in (annotations or {}).items()
    }
    return convert(
        Pod,
        {
            "metadata": {
                "name": "web",
                "namespace": "shop",
                "annotations": texts,
                "labels": labels or {},
            },
            "spec": {
                "containers": list(containers or (container(cpu="2", memory="4Gi"),)),
                "initContainers": list(init),
                **spec,
            },
        },
    )


def wished(*containers: Any, **parts: Any) -> PodWish:
    """Return the wish of a pod without mistakes."""
    wish = wish_of(pod(*containers, **parts))
    assert wish.problems == ()
    return wish


def problems(*containers: Any, **parts: Any) -> tuple[str, ...]:
    """Return what is wrong with a pod."""
    return wish_of(pod(*containers, **parts)).problems
