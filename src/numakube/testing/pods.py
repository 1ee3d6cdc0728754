"""Pods for tests: one builder of objects, one of documents, and the states that pods go through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, Pod, PodCondition, PodSpec, PodStatus, ResourceRequirements
from numakube.api.scheduler_config import SCHEDULER_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping

GPU: Final = "vendor.example/gpu"
"""What ``gpu 2`` in the shape of a machine offers."""
IMAGE: Final = "registry.example/app:1"
STARTED: Final = "2026-03-01T10:00:00Z"


def resources(wanted: Mapping[str, str], *, guaranteed: bool = True) -> ResourceRequirements:
    """Return equal requests and limits; without *guaranteed*, only devices are limited."""
    limits = {name: text for name, text in wanted.items() if guaranteed or "/" in name}
    return ResourceRequirements(requests=dict(wanted), limits=limits)


def pod(name: str, cpu: str = "2", memory: str = "1Gi", **more: Any) -> Pod:
    """Return a pending pod for numakube's scheduler.

    Args:
        name: its name and uid.
        cpu: how much its container requests.
        memory: how much its container requests.
        more: ``gpu`` (a number), ``also`` (other resources), ``guaranteed`` (false for the QoS
            class Burstable), ``labels``, ``annotations``, or fields of its spec.
    """
    wanted = {"cpu": cpu, "memory": memory}
    wanted |= {GPU: str(more.pop("gpu"))} if "gpu" in more else {}
    wanted |= more.pop("also", {})
    guaranteed = more.pop("guaranteed", True)
    labels, annotations = dict(more.pop("labels", {})), dict(more.pop("annotations", {}))
    meta = ObjectMeta(
        name=name, namespace="default", uid=name, labels=labels, annotations=annotations
    )
    main = Container(name="main", image=IMAGE, resources=resources(wanted, guaranteed=guaranteed))
    spec: dict[str, Any] = {"containers": (main,), "scheduler_name": SCHEDULER_NAME, **more}
    return Pod(metadata=meta, spec=PodSpec(**spec), status=PodStatus(phase="Pending"))


def pod_document(name: str, cpu: str = "2", memory: str = "1Gi", **more: Any) -> dict[str, Any]:
    """Return such a pod as a manifest; *more* are ``also``, ``metadata``, or fields of its spec."""
    amounts = {"cpu": cpu, "memory": memory, **more.pop("also", {})}
    wanted = {"requests": amounts, "limits": amounts}
    container = {"name": "main", "image": IMAGE, "resources": wanted}
    metadata: dict[str, Any] = {"name": name, "namespace": "default", **more.pop("metadata", {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": SCHEDULER_NAME, "containers": [container], **more},
    }


def bound(one: Pod, node: str) -> Pod:
    """Return a pod as the API server has it after its binding."""
    scheduled = PodCondition(type="PodScheduled", status="True")
    return _on(one, node, PodStatus(phase="Pending", conditions=(scheduled,)))


def running(one: Pod, node: str) -> Pod:
    """Return a pod as it is when it runs on *node*."""
    return _on(one, node, PodStatus(phase="Running", start_time=STARTED))


def rejected(one: Pod, node: str, reason: str, message: str = "") -> Pod:
    """Return a pod that the kubelet of *node* has rejected."""
    status = PodStatus(phase="Failed", reason=reason, message=message, start_time=STARTED)
    return _on(one, node, status)


def refusal_of(one: Pod) -> str:
    """Return why a pod is not scheduled; empty if no scheduler has said so."""
    conditions = one.status.conditions if one.status else ()
    return next(
        (each.message for each in conditions if (each.type, each.status) == _NOT_SCHEDULED), ""
    )


_NOT_SCHEDULED: Final = ("PodScheduled", "False")


def _on(one: Pod, node: str, status: PodStatus) -> Pod:
    spec = msgspec.structs.replace(one.spec, node_name=node)
    return msgspec.structs.replace(one, spec=spec, status=status)
