"""A configuration with which a node's kubelet aligns pods, checked by the model of the kubelet.

Reserved memory must equal what is kept from pods to the byte, or the kubelet does not start: what
administrators get wrong most often is computed here. On machines of many NUMA nodes the kubelet is
told to expect them, and the Memory Manager is left off where it would find no end.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.kubelet_config import KubeletConfiguration, read_kubelet_config
from numakube.api.kubelet_flags import write_flags
from numakube.api.kubelet_sources import OPENSHIFT_KIND
from numakube.api.yaml_text import dump_yaml
from numakube.errors import CorruptCheckpoint, KubeletStartError
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine_hazards import static_memory_answers
from numakube.kubelet.settings_from_config import settings_of
from numakube.kubelet.state_files import restore, save
from numakube.topology.kubelet_attributes import DEFAULT_MAX_NUMA_NODES
from numakube.values.cpuset import CpuSet
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from numakube.kubelet.machine import Machine

_MIB: Final = 1024 * 1024
_KUBE_MEMORY: Final = 500 * _MIB
_EVICTION: Final = 100 * _MIB


class Form(StrEnum):
    """Where administrators keep a kubelet's configuration."""

    KUBEADM = "kubeadm"
    """``kubeletconfiguration.yaml`` in a folder of kubeadm's ``--patches``."""
    DROP_IN = "drop-in"
    """A file ``*.conf`` in the kubelet's ``--config-dir``."""
    FLAGS = "flags"
    """``KUBELET_EXTRA_ARGS`` in ``/etc/default/kubelet`` or ``/etc/sysconfig/kubelet``."""
    OPENSHIFT = "openshift"
    """A KubeletConfig object for a machine configuration pool."""


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
    document: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": "static",
        "cpuManagerReconcilePeriod": "5s",
        "memoryManagerPolicy": "None",
        "topologyManagerPolicy": advice.policy,
        "topologyManagerScope": advice.scope,
        "reservedSystemCPUs": str(_reserved(machine, advice.reserved_cores)),
        "kubeReserved": {"memory": f"{_KUBE_MEMORY // _MIB}Mi"},
        "evictionHard": {"memory.available": f"{_EVICTION // _MIB}Mi"},
    }
    if static_memory_answers(len(machine.nodes)):
        document |= {"memoryManagerPolicy": "Static", "reservedMemory": [_kept_memory(machine)]}
    if len(machine.nodes) > DEFAULT_MAX_NUMA_NODES:
        options = {"max-allowable-numa-nodes": str(len(machine.nodes))}
        document["topologyManagerPolicyOptions"] = options
    config: KubeletConfiguration = read_kubelet_config(msgspec.json.encode(document))
    KubeletNode(machine, settings_of(config, machine))
    return document


def _kept_memory(machine: Machine) -> dict[str, Any]:
    home = next((node for node in machine.nodes if node.memory_bytes), machine.nodes[0])
    limits = {"memory": f"{(_KUBE_MEMORY + _EVICTION) // _MIB}Mi"}
    return {"numaNode": home.id, "limits": limits}


def written(document: dict[str, Any], form: Form, *, pool: str = "worker") -> str:
    """Return the fields of a configuration as a file; *pool* is OpenShift's."""
    match form:
        case Form.FLAGS:
            return f'KUBELET_EXTRA_ARGS="{" ".join(write_flags(document))}"\n'
        case Form.OPENSHIFT:
            return dump_yaml(_openshift_object(document, pool))
        case _:
            return dump_yaml(document)


def _openshift_object(document: dict[str, Any], pool: str) -> dict[str, Any]:
    fields = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    label = f"pools.operator.machineconfiguration.openshift.io/{pool}"
    return {
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": OPENSHIFT_KIND,
        "metadata": {"name": f"numa-{pool}"},
        "spec": {
            "machineConfigPoolSelector": {"matchLabels": {label: ""}},
            "kubeletConfig": fields,
        },
    }


def state_trouble(now: KubeletNode, document: dict[str, Any]) -> str:
    """Return why a kubelet would not start with *document* and the state files of *now*.

    The text is the kubelet's; it is empty if the kubelet would start.
    """
    config = read_kubelet_config(msgspec.json.encode(document))
    after = KubeletNode(now.machine, settings_of(config, now.machine))
    try:
        restore(after, save(now))
    except (KubeletStartError, CorruptCheckpoint) as error:
        return str(error)
    return ""


def _reserved(machine: Machine, cores: int) -> CpuSet:
    threads = [core.threads for node in machine.nodes for core in node.cores]
    return CpuSet.of(cpu for core in threads[:cores] for cpu in core)
