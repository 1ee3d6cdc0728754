"""Answer recorded kubelet scenarios (``vectors/kubelet.jsonl``) with the model.

A scenario is a machine, a kubelet configuration, devices and a sequence of admissions and
removals; the answer has the recorded shape, so that the two can be compared as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from numakube.api.pod import Pod
from numakube.errors import KubeletStartError
from numakube.kubelet import (
    DEFAULT,
    Admitted,
    ContainerPlacement,
    KubeletNode,
    KubeletSettings,
    Rejected,
    from_cadvisor,
    read_devices,
)
from numakube.values.cpuset import CpuSet
from numakube.values.numamask import nodes_of
from numakube.values.quantity import milli_value, value

if TYPE_CHECKING:
    from collections.abc import Mapping

# The recordings were made with every option allowed.
_ALL_OPTIONS = {
    "CPUManagerPolicyAlphaOptions": True,
    "CPUManagerPolicyBetaOptions": True,
    "TopologyManagerPolicyAlphaOptions": True,
    "TopologyManagerPolicyBetaOptions": True,
}
_SEVERAL_NODES = "-2"
_NO_NODE = "-1"


def answer(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``id`` with ``expect`` (an entry a step), or with ``startError``."""
    machine = from_cadvisor(scenario["machine"])
    try:
        node = KubeletNode(
            machine,
            read_settings(scenario["kubelet"]),
            devices=read_devices(scenario.get("devices") or {}),
            kubernetes=scenario.get("kubernetes", DEFAULT),
        )
    except KubeletStartError as error:
        return {"id": scenario["id"], "expect": None, "startError": str(error)}
    return {"id": scenario["id"], "expect": [_step(node, step) for step in scenario["steps"]]}


def read_settings(recorded: Mapping[str, Any]) -> KubeletSettings:
    """Return the settings of a scenario's ``kubelet`` section."""
    cpus = recorded.get("reservedSystemCPUs")
    quantity = recorded.get("reservedCPUQuantity")
    return KubeletSettings(
        topology_policy=recorded.get("topologyManagerPolicy", "none"),
        topology_scope=recorded.get("topologyManagerScope", "container"),
        topology_options=recorded.get("topologyManagerPolicyOptions") or {},
        cpu_policy=recorded.get("cpuManagerPolicy", "none"),
        cpu_options=recorded.get("cpuManagerPolicyOptions") or {},
        reserved_cpus=CpuSet.parse(cpus) if cpus else None,
        reserved_cpu_milli=milli_value(quantity) if quantity is not None else None,
        memory_policy=recorded.get("memoryManagerPolicy", "None"),
        reserved_memory={
            entry["numaNode"]: {kind: value(text) for kind, text in entry["limits"].items()}
            for entry in recorded.get("reservedMemory") or ()
        },
        feature_gates=_ALL_OPTIONS | (recorded.get("featureGates") or {}),
    )


def _step(node: KubeletNode, step: Mapping[str, Any]) -> dict[str, Any]:
    if step["op"] == "remove":
        node.remove(step["uid"])
        return {"op": "remove"}
    outcome = node.admit(msgspec.convert(step["pod"], Pod))
    if isinstance(outcome, Rejected):
        return {
            "op": "admit",
            "admit": False,
            "reason": outcome.reason,
            "message": outcome.message,
        }
    return _admitted(node, outcome)


def _admitted(node: KubeletNode, outcome: Admitted) -> dict[str, Any]:
    containers = {name: _placement(node, one) for name, one in outcome.containers.items()}
    result = {"op": "admit", "admit": True, "containers": containers}
    if outcome.shared_cpus:
        result["defaultCPUSet"] = str(outcome.shared_cpus)
    return result


def _placement(node: KubeletNode, placement: ContainerPlacement) -> dict[str, Any]:
    result: dict[str, Any] = {}
    if placement.cpus:
        result["cpus"] = str(placement.cpus)
    if placement.memory:
        result["memory"] = [
            {"type": block.type, "size": block.size_bytes, "numa": list(block.numa_nodes)}
            for block in placement.memory
        ]
    if placement.devices:
        result["devices"] = {
            name: _count_by_node(node, name, ids) for name, ids in placement.devices.items()
        }
    if placement.hint.mask is not None:
        result["affinity"] = list(nodes_of(placement.hint.mask))
        result["preferred"] = placement.hint.preferred
    return result


def _count_by_node(node: KubeletNode, resource: str, ids: tuple[str, ...]) -> dict[str, int]:
    """Return how many of the devices sit on which NUMA node."""
    counts: dict[str, int] = {}
    for device in ids:
        nodes = node.devices.numa_nodes_of(resource, device)
        key = str(nodes[0]) if len(nodes) == 1 else _SEVERAL_NODES if nodes else _NO_NODE
        counts[key] = counts.get(key, 0) + 1
    return counts
