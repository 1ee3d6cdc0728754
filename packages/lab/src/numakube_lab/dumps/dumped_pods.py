"""Pods of a dump, as they are created again in a lab, and the order in which they come.

What a kubelet gives a pod depends on what was free when it came. Pods that have ended since left
gaps which later ones took, so the order of admission alone does not lead to the same placement:
whenever several pods could be next, one is taken that gets exactly what it was reported to have.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.pod_phase import ENDED_PHASES
from numakube.kubelet.outcome import Admitted
from numakube.topology.exact_report import Holding, uid_hash
from numakube.topology.rebuild import report_of
from numakube_lab.processes.container_programs import OWN, is_own

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.api.pod import Pod
    from numakube.kubelet.node import KubeletNode
    from numakube.topology.exact_report import ExactReport

_MIRROR: Final = "kubernetes.io/config."
_SET_BY_SERVER: Final = ("priority", "preemptionPolicy", "ephemeralContainers")


def is_over(document: Mapping[str, Any]) -> bool:
    """Tell whether a pod has ended, so that it holds nothing."""
    return (document.get("status") or {}).get("phase") in ENDED_PHASES


def manifest_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to create for a pod that was dumped: without owners, who are not there.

    Containers of numakube's own image are simulated as all others are, under another name: they
    would need more of their cluster than pods.
    """
    metadata = document.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    spec = deepcopy(dict(document.get("spec") or {}))
    for name in _SET_BY_SERVER:
        spec.pop(name, None)
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        if is_own(container.get("image") or ""):
            container["image"] = f"dumped/{OWN}-of-a-dump"
    return {
        "metadata": {
            "name": metadata.get("name", ""),
            "namespace": metadata.get("namespace") or "default",
            "labels": metadata.get("labels") or {},
            "annotations": {k: v for k, v in annotations.items() if not k.startswith(_MIRROR)},
        },
        "spec": spec,
    }


def priority_classes(documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the classes that pods name, with the priorities that they have."""
    found: dict[str, dict[str, Any]] = {}
    for spec in (document.get("spec") or {} for document in documents):
        if name := spec.get("priorityClassName"):
            policy = spec.get("preemptionPolicy") or "PreemptLowerPriority"
            found[name] = {
                "metadata": {"name": name},
                "value": spec.get("priority") or 0,
                "preemptionPolicy": policy,
            }
    return list(found.values())


def in_order(pods: Sequence[Pod], model: KubeletNode, report: ExactReport | None) -> list[Pod]:
    """Return the pods of a node as they should come; *model* is the node before them."""
    waiting = sorted(pods, key=lambda pod: pod.metadata.creation_timestamp or "")
    if report is None:
        return waiting
    places = {uid: place for place, uid in enumerate(report.pods)}
    waiting.sort(key=lambda pod: places.get(uid_hash(pod.metadata.uid), len(places)))
    idle = [pod for pod in waiting if _wanted(pod, report).empty]
    waiting = [pod for pod in waiting if not _wanted(pod, report).empty]
    chosen: list[Pod] = []
    while waiting:
        following = _next(waiting, model, report)
        waiting.remove(following)
        chosen.append(following)
        model.admit(following)
    return [*chosen, *idle]


def _next(waiting: Sequence[Pod], model: KubeletNode, report: ExactReport) -> Pod:
    """Return the first pod that gets what it had; the first of all if none does."""
    outcomes: dict[bytes, Holding | None] = {}
    for pod in waiting:
        # Pods that ask for the same get the same.
        shape = msgspec.json.encode((pod.spec.init_containers, pod.spec.containers))
        if shape not in outcomes:
            outcomes[shape] = _tried(pod, model)
        if outcomes[shape] == _wanted(pod, report):
            return pod
    return waiting[0]


def _tried(pod: Pod, model: KubeletNode) -> Holding | None:
    trial = model.clone()
    admitted = isinstance(trial.admit(pod), Admitted)
    return report_of(trial).holding(pod.metadata.uid) if admitted else None


def _wanted(pod: Pod, report: ExactReport) -> Holding:
    return report.holding(pod.metadata.uid) or Holding()


def describe(holding: Holding) -> str:
    """Return in words what a pod holds."""
    nodes = sorted({node for block in holding.memory for node in block.numa_nodes})
    parts = [f"CPUs {holding.cpus}"] if holding.cpus else []
    if nodes:
        parts.append(f"memory of NUMA {','.join(map(str, nodes))}")
    for name, positions in holding.devices.items():
        parts.append(f"{name} {','.join(map(str, positions))}")
    return ", ".join(parts) or "nothing of its own"
