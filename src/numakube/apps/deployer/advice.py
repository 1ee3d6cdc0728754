"""A configuration with which a node's kubelet aligns pods, checked by the model of the kubelet.

Reserved memory must equal what is kept from pods to the byte, or the kubelet does not start: what
administrators get wrong most often is computed here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.kubelet_config import KubeletConfiguration, read_kubelet_config
from numakube.api.yamls import dump_yaml
from numakube.kubelet.node import KubeletNode
from numakube.kubelet.settings_from_config import settings_of
from numakube.values.cpuset import CpuSet
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from numakube.kubelet.machine import Machine

_MIB: Final = 1024 * 1024
_KUBE_MEMORY: Final = 500 * _MIB
_EVICTION: Final = 100 * _MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """How a node should be configured.

    Attributes:
        policy: of the Topology Manager; so is ``scope``.
        reserved_cores: whole cores kept for the system, from the first NUMA nodes on.
    """

    policy: str = TopologyPolicy.SINGLE_NUMA_NODE.value
    scope: str = "container"
    reserved_cores: int = 1


def kubelet_configuration(machine: Machine, advice: Advice) -> dict[str, Any]:
    """Return the fields to set in the kubelet's configuration.

    Raises:
        KubeletStartError: the kubelet would not start with them on *machine*.
    """
    home = next((node for node in machine.nodes if node.memory_bytes), machine.nodes[0])
    document: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": "static",
        "cpuManagerReconcilePeriod": "5s",
        "memoryManagerPolicy": "Static",
        "topologyManagerPolicy": advice.policy,
        "topologyManagerScope": advice.scope,
        "reservedSystemCPUs": str(_reserved(machine, advice.reserved_cores)),
        "kubeReserved": {"memory": f"{_KUBE_MEMORY // _MIB}Mi"},
        "evictionHard": {"memory.available": f"{_EVICTION // _MIB}Mi"},
        "reservedMemory": [
            {"numaNode": home.id, "limits": {"memory": f"{(_KUBE_MEMORY + _EVICTION) // _MIB}Mi"}}
        ],
    }
    config: KubeletConfiguration = read_kubelet_config(msgspec.json.encode(document))
    KubeletNode(machine, settings_of(config, machine))
    return document


def kubeadm_patch(machine: Machine, advice: Advice) -> str:
    """Return the file ``kubeletconfiguration.yaml`` for a folder of kubeadm's ``--patches``.

    Raises:
        KubeletStartError: the kubelet would not start with it on *machine*.
    """
    return dump_yaml(kubelet_configuration(machine, advice))


def _reserved(machine: Machine, cores: int) -> CpuSet:
    threads = [core.threads for node in machine.nodes for core in node.cores]
    return CpuSet.of(cpu for core in threads[:cores] for cpu in core)
