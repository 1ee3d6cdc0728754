"""What each node of a lab is up to, as plain data for commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numakube_lab.nodes.node_pool import NODE_INDEX

if TYPE_CHECKING:
    from numakube.api.core import Pod
    from numakube.kubelet.node import KubeletNode
    from numakube_lab.nodes.kubelet import LabKubelet
    from numakube_lab.nodes.node_pool import NodePool

# How the kubelet begins the message of a pod that it refused.
REJECTED_PREFIX = "Pod was rejected: "


def node_summaries(pool: NodePool) -> list[dict[str, Any]]:
    """Return every node's state, with what is free on each of its NUMA nodes."""
    return [
        _summary(kubelet, rejected=sum(map(_is_rejected, pool.pods.select(NODE_INDEX, name))))
        for name, kubelet in pool.kubelets.items()
    ]


def _is_rejected(pod: Pod) -> bool:
    message = pod.status.message if pod.status else ""
    return bool(message) and message.startswith(REJECTED_PREFIX)


def _summary(kubelet: LabKubelet, *, rejected: int) -> dict[str, Any]:
    admission = kubelet.admission
    model = admission.model if admission else None
    config = kubelet.plan.config
    cpus = model.cpus if model else None
    return {
        "name": kubelet.name,
        "state": kubelet.state.value,
        "policy": config.topology_manager_policy or "none",
        "scope": config.topology_manager_scope or "container",
        "pods": len(list(admission.pods)) if admission else 0,
        "rejected": rejected,
        "exclusiveCpus": (cpus.allocatable & ~cpus.shared).bit_count() if cpus else 0,
        "allocatableCpus": cpus.allocatable.bit_count() if cpus else 0,
        "zones": _zones(model) if model else [],
    }


def _zones(model: KubeletNode) -> list[dict[str, Any]]:
    cpus = model.cpus.free_by_node("cpu") if model.cpus else {}
    memory = model.memory.free_by_node("memory") if model.memory else {}
    devices = {name: model.devices.free_by_node(name) for name in model.devices.resources()}
    return [
        {
            "id": node.id,
            "cpusFree": cpus.get(node.id),
            "memoryFreeBytes": memory.get(node.id),
            "devicesFree": {name: free.get(node.id, 0) for name, free in devices.items()},
        }
        for node in model.machine.nodes
    ]
