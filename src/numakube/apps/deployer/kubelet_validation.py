"""Whether the kubelets of a cluster let pods be aligned, and the configuration with which they do.

The rules of the topology-aware scheduling deployer come first, with its words for what was expected
and detected; after them what it does not look at: a configuration with which the kubelet will not
start again, and devices that belong to no NUMA node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.kubelet_config import (
    OPENSHIFT_KIND,
    KubeletConfiguration,
    read_kubelet_config,
    with_defaults,
    write_flags,
)
from numakube.api.kubelet_start_rules import NEWEST, OLDEST, bad_flags, bad_gates
from numakube.api.meta import release_of
from numakube.api.nodes import CONTROL_PLANE, WORKER
from numakube.api.yaml_text import dump_yaml
from numakube.errors import CorruptCheckpoint, InvalidValue, KubeletStartError
from numakube.insight.facts import model_of
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.kubelet_versions import DEFAULT
from numakube.kubelet.machine_hazards import hazards_of, static_memory_answers
from numakube.kubelet.manager_settings import settings_of
from numakube.kubelet.state_files import restore, save
from numakube.topology.kubelet_attributes import DEFAULT_MAX_NUMA_NODES
from numakube.topology.topology_view import NodeTopology, Unusable
from numakube.values.cpuset import CpuSet
from numakube.values.times import format_duration, parse_duration
from numakube.values.topology_policy import ALIGNING_POLICIES, TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.nodes import Node
    from numakube.insight.facts import ClusterFacts
    from numakube.kubelet.machine import Machine
    from numakube.node.kubelet_files import HostKubelet


_SECOND: Final = 1_000_000_000
_OLDEST: Final = (1, 21)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletFinding:
    """Something that keeps pods from being aligned.

    Attributes:
        node: empty if it concerns the cluster.
        expected: what it should be; ``detected`` is what it is.
    """

    node: str = ""
    area: str
    component: str
    setting: str = ""
    expected: str
    detected: str

    def text(self) -> str:
        """Return it as a sentence."""
        what = (
            f'component "{self.component}" setting "{self.setting}": expected "{self.expected}"'
            f' detected "{self.detected}"'
        )
        if not self.node:
            return f"Incorrect configuration of cluster: {what}"
        return f'Incorrect configuration of node "{self.node}" area "{self.area}" {what}'


def validate(
    facts: ClusterFacts, *, policies: tuple[str, ...] = ALIGNING_POLICIES
) -> list[KubeletFinding]:
    """Return everything that is wrong, by node.

    Args:
        facts: what is known of the cluster, with the kubelets' configurations.
        policies: of the Topology Manager that are all right.
    """
    findings = list(_cluster(facts))
    for node in workers(facts):
        findings += _node(facts, node, policies)
    return findings


def validate_host(
    host: HostKubelet,
    *,
    name: str,
    policies: tuple[str, ...] = ALIGNING_POLICIES,
    kubernetes: str = "",
) -> list[KubeletFinding]:
    """Return what is wrong with the kubelet of one host, as it would start now.

    *kubernetes* is its version, if the host's files do not tell it.
    """
    release = release_of(kubernetes or host.version)
    minor = release[1] if release and OLDEST <= release[1] <= NEWEST else None
    findings = [
        _will_not_start(name, why)
        for why in (
            *bad_flags(host.arguments, minor),
            *bad_gates(host.config.feature_gates, minor),
        )
    ]
    findings += _settings(name, host.config, policies, len(host.machine.nodes))
    version = f"1.{minor}" if minor is not None else DEFAULT
    try:
        settings = settings_of(host.config, host.machine)
        node = KubeletNode(host.machine, settings, kubernetes=version)
    except KubeletStartError as error:
        return [*findings, _will_not_start(name, str(error))]
    findings += _hazards(name, node)
    try:
        restore(node, host.state)
    except (KubeletStartError, CorruptCheckpoint) as error:
        findings.append(_old_state(name, f"{error} ({host.root_dir})"))
    return findings


def workers(facts: ClusterFacts) -> list[str]:
    """Return the nodes that pods run on.

    Those with the role, or else all but the control plane; if that is everything, such as on a
    cluster of one node, the part of it that takes any pod.
    """
    nodes = facts.nodes
    labelled = [name for name, node in nodes.items() if WORKER in node.metadata.labels]
    others = [name for name, node in nodes.items() if CONTROL_PLANE not in node.metadata.labels]
    open_to_all = [name for name, node in nodes.items() if not _is_kept_free(node)]
    return sorted(labelled or others or open_to_all)


def _is_kept_free(node: Node) -> bool:
    return any(taint.key == CONTROL_PLANE for taint in node.spec.taints)


def _cluster(facts: ClusterFacts) -> Iterator[KubeletFinding]:
    version = facts.version.git_version
    match = re.match(r"v?(\d+)\.(\d+)", version)
    if match is None or (int(match[1]), int(match[2])) < _OLDEST:
        yield KubeletFinding(
            area="cluster",
            component="API Version",
            expected="valid version" if match is None else "1.21",
            detected=version or "none",
        )
    if not workers(facts):
        yield KubeletFinding(area="cluster", component="", expected="worker nodes", detected="none")


def _node(facts: ClusterFacts, node: str, policies: tuple[str, ...]) -> Iterator[KubeletFinding]:
    config = facts.kubelet_configs.get(node)
    if config is None:
        yield _kubelet(node, "configuration", "", "any value", "no configuration")
        return
    view = facts.view(node)
    numa_nodes = len(view.zones) if isinstance(view, NodeTopology) else 0
    yield from _settings(node, with_defaults(config), policies, numa_nodes)
    yield from _start(facts, node, config)
    yield from _state(facts, node)
    yield from _devices(facts, node)


def _kubelet(
    node: str, component: str, setting: str, expected: str, detected: str
) -> KubeletFinding:
    return KubeletFinding(
        node=node,
        area="kubelet",
        component=component,
        setting=setting,
        expected=expected,
        detected=detected,
    )


def _settings(
    node: str, config: KubeletConfiguration, policies: tuple[str, ...], numa_nodes: int
) -> Iterator[KubeletFinding]:
    if config.cpu_manager_policy != "static":
        yield _kubelet(node, "CPU manager", "policy", "static", config.cpu_manager_policy)
    period = _period(config.cpu_manager_reconcile_period)
    if period is None or not _SECOND <= period <= 10 * _SECOND:
        detected = "invalid" if period is None else format_duration(period)
        yield _kubelet(node, "CPU manager", "reconcile period", "in range [1s, 10s]", detected)
    if not config.reserved_system_cpus and not _reserves_cpu(config):
        yield _kubelet(
            node, "configuration", "CPU", "reserved some CPU cores", "no reserved CPU cores"
        )
    if static_memory_answers(numa_nodes):
        yield from _memory(node, config)
    if config.topology_manager_policy not in policies:
        expected = " or ".join(policies)
        yield _kubelet(node, "topology manager", "policy", expected, config.topology_manager_policy)


def _memory(node: str, config: KubeletConfiguration) -> Iterator[KubeletFinding]:
    if config.memory_manager_policy != "Static":
        yield _kubelet(node, "memory manager", "policy", "Static", config.memory_manager_policy)
    if not config.reserved_memory:
        yield _kubelet(
            node, "configuration", "memory", "reserved memory blocks", "no reserved memory blocks"
        )


def _period(text: str) -> int | None:
    try:
        return parse_duration(text)
    except InvalidValue:
        return None


def _reserves_cpu(config: KubeletConfiguration) -> bool:
    return "cpu" in config.kube_reserved or "cpu" in config.system_reserved


def _start(
    facts: ClusterFacts, node: str, config: KubeletConfiguration
) -> Iterator[KubeletFinding]:
    """Ask the model whether the kubelet would start again."""
    model = model_of(facts, node)
    if isinstance(model, Unusable):
        return
    try:
        settings = settings_of(config, model.machine)
        again = KubeletNode(model.machine, settings, kubernetes=_release(model))
    except KubeletStartError as error:
        yield _will_not_start(node, str(error))
        return
    for resource in model.devices.resources():
        again.register_devices(resource, model.devices.devices_of(resource))
    yield from _hazards(node, again)


def _release(model: KubeletNode) -> str:
    return "{}.{}".format(*model.behaviour.version)


def _hazards(node: str, model: KubeletNode) -> Iterator[KubeletFinding]:
    """Tell of a machine that crashes the kubelet, or to which it finds no end."""
    for hazard in hazards_of(model):
        yield _kubelet(node, "machine", "", "one that the kubelet can handle", hazard.text)


def _will_not_start(node: str, why: str) -> KubeletFinding:
    return _kubelet(node, "configuration", "", "one that the kubelet starts with", why)


def _state(facts: ClusterFacts, node: str) -> Iterator[KubeletFinding]:
    """Tell of state files that keep the kubelet from starting again, as the exporter saw them."""
    view = facts.view(node)
    if isinstance(view, NodeTopology) and view.state_trouble:
        yield _old_state(node, view.state_trouble)


def _old_state(node: str, why: str) -> KubeletFinding:
    return _kubelet(node, "state files", "", "state of the configured policies", why)


def _devices(facts: ClusterFacts, node: str) -> Iterator[KubeletFinding]:
    """Tell of devices without a NUMA node: they are never aligned, and nothing else says so."""
    view = facts.view(node)
    if not isinstance(view, NodeTopology) or view.report is None:
        return
    for resource, table in sorted(view.report.devices.items()):
        placeless = sum(1 for numa_nodes in table.numa_nodes if not numa_nodes)
        if placeless:
            yield _kubelet(
                node,
                "device plugin",
                resource,
                "devices with a NUMA node",
                f"{placeless} of {len(table.numa_nodes)} without",
            )


# A configuration with which a node's kubelet aligns pods, checked by the model of the kubelet.
#
# Reserved memory must equal what is kept from pods to the byte, or the kubelet does not start: what
# administrators get wrong most often is computed here. On machines of many NUMA nodes the kubelet
# is told to expect them, and the Memory Manager is left off where it would find no end.


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
class KubeletAdvice:
    """How a node should be configured.

    Attributes:
        policy: of the Topology Manager; so is ``scope``.
        reserved_cores: whole cores kept for the system, from the first NUMA nodes on.
    """

    policy: str = TopologyPolicy.SINGLE_NUMA_NODE.value
    scope: str = "container"
    reserved_cores: int = 1


def kubelet_configuration(machine: Machine, advice: KubeletAdvice) -> dict[str, Any]:
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
