"""Parts of a report beside the zones: node attributes, fingerprinted pods, containers' NUMA nodes.

Attributes come in the order in which RTE writes its own. What is not known is not published, and
since readers take a missing policy for ``none``, another attribute says why it is missing.

Containers are placed for readers that must know it to preempt. Only under the policy
``single-numa-node`` is there one NUMA node a container. The encoding counts NUMA nodes from 0
without holes and has no "elsewhere": if a single container does not fit in, the whole payload is
left out, because a reader would take the container to be where most are.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from numakube.api.nrt import Attribute
from numakube.topology import nrt_names
from numakube.topology.numa_placement import ContainerName

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.apps.exporter.numa_hardware import Hardware
    from numakube.apps.exporter.scan_inputs import KubeletFacts, NodeInputs
    from numakube.node.podresources_client import ContainerResources, PodResources

_MAX_NUMA_NODES_OPTION: Final = "max-allowable-numa-nodes"
_DEFAULT_MAX_NUMA_NODES: Final = "8"

Reason = Literal["cpu", "memory", "device"]


Affinities: TypeAlias = dict[ContainerName, int]
"""NUMA nodes of containers."""


def kubelet_attributes(kubelet: KubeletFacts) -> Iterator[Attribute]:
    """Yield scope and policy, then what else of the configuration decides on placement."""
    if kubelet.scope is not None:
        yield Attribute(name=nrt_names.TOPOLOGY_SCOPE, value=kubelet.scope)
    if kubelet.policy is not None:
        yield Attribute(name=nrt_names.TOPOLOGY_POLICY, value=kubelet.policy)
    if kubelet.policy is None and kubelet.why_unknown:
        yield Attribute(name=nrt_names.POLICY_UNKNOWN, value=kubelet.why_unknown)
    if kubelet.state_trouble:
        yield Attribute(name=nrt_names.STATE_TROUBLE, value=kubelet.state_trouble)
    if kubelet.config is not None:
        yield from _configured(kubelet.config)
        return
    if kubelet.cpu_policy is not None:
        yield Attribute(name=nrt_names.CPU_POLICY, value=kubelet.cpu_policy)
    if kubelet.memory_policy is not None:
        yield Attribute(name=nrt_names.MEMORY_POLICY, value=kubelet.memory_policy)


def switch_attributes(inputs: NodeInputs) -> dict[int, Attribute]:
    """Return what is below each PCIe root port of a NUMA node, by its id."""
    connected = inputs.connected
    below: dict[int, dict[str, Counter[str]]] = {}
    devices = {(entry.resource, id_) for entry in inputs.allocatable.devices for id_ in entry.ids}
    for resource, id_ in devices:
        path = connected.tree.paths.get(connected.functions.get(id_, ""))
        if path is not None and path.numa_node is not None:
            ports = below.setdefault(path.numa_node, {})
            ports.setdefault((*path.bridges, path.address)[0], Counter())[resource] += 1
    return {
        numa: Attribute(name=nrt_names.SWITCHES, value="; ".join(map(_port, sorted(ports.items()))))
        for numa, ports in below.items()
    }


def _port(port: tuple[str, Counter[str]]) -> str:
    address, counts = port
    return f"{address}: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _configured(config: KubeletConfiguration) -> Iterator[Attribute]:
    options = config.topology_manager_policy_options
    largest = options.get(_MAX_NUMA_NODES_OPTION, _DEFAULT_MAX_NUMA_NODES)
    yield Attribute(name=nrt_names.MAX_NUMA_NODES, value=largest)
    yield from _options(nrt_names.TOPOLOGY_OPTION_PREFIX, options)
    yield Attribute(name=nrt_names.CPU_POLICY, value=config.cpu_manager_policy)
    yield from _options(nrt_names.CPU_OPTION_PREFIX, config.cpu_manager_policy_options)
    yield Attribute(name=nrt_names.MEMORY_POLICY, value=config.memory_manager_policy)


def _options(prefix: str, options: Mapping[str, str]) -> Iterator[Attribute]:
    for option, value in sorted(options.items()):
        yield Attribute(name=nrt_names.option_attribute(prefix, option), value=value)


@dataclass(frozen=True, slots=True)
class Exclusive:
    """What makes a pod exclusive: its first such container; an empty name is the pod itself."""

    container: str
    reason: Reason


def exclusive_use(pod: PodResources) -> Exclusive | None:
    """Return what *pod* has for itself and on a NUMA node; nothing if all of it is shared.

    Containers are asked in order, each for CPUs, then memory (whatever its size), then devices.
    CPUs and memory of the pod as a whole are asked for last.
    """
    for container in pod.containers:
        reason = _reason(container)
        if reason:
            return Exclusive(container.name, reason)
    if pod.cpu_ids:
        return Exclusive("", "cpu")
    if any(has_numa_node(block.numa_nodes) for block in pod.memory):
        return Exclusive("", "memory")
    return None


def has_numa_node(numa_nodes: Iterable[int]) -> bool:
    """Tell whether one of *numa_nodes* is real: -1 stands for none."""
    return any(numa >= 0 for numa in numa_nodes)


def _reason(container: ContainerResources) -> Reason | None:
    if container.cpu_ids:
        return "cpu"
    if any(has_numa_node(block.numa_nodes) for block in container.memory):
        return "memory"
    if any(entry.ids and has_numa_node(entry.numa_nodes) for entry in container.devices):
        return "device"
    return None


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Why there is no placement to publish."""

    reason: str


def affinities_of(pods: Iterable[PodResources], hardware: Hardware) -> Affinities | Unplaced:
    """Return where the containers of *pods* are; those that hold nothing are left out."""
    found: Affinities = {}
    for pod in pods:
        for container in pod.containers:
            numa = _numa_node_of(container, hardware)
            name = f"{pod.namespace}/{pod.name}/{container.name}"
            if isinstance(numa, Unplaced):
                return Unplaced(f"container {name}: {numa.reason}")
            if numa is not None and not 0 <= numa < len(hardware.zones):
                return Unplaced(f"container {name}: NUMA node {numa} is out of range")
            if numa is not None:
                found[ContainerName(pod.namespace, pod.name, container.name)] = numa
    return found


def _numa_node_of(container: ContainerResources, hardware: Hardware) -> int | Unplaced | None:
    """Return the NUMA node of the container's first CPU, else of its first device or memory."""
    if container.cpu_ids:
        first = min(container.cpu_ids)
        numa = hardware.numa_of(first)
        return Unplaced(f"CPU {first} is unknown") if numa is None else numa
    entries = [entry.numa_nodes for entry in container.devices if entry.ids]
    blocks = [block.numa_nodes for block in container.memory]
    for numa_nodes in (*entries, *blocks):
        real = sorted({numa for numa in numa_nodes if numa >= 0})
        if len(real) > 1:
            return Unplaced(f"it is on NUMA nodes {', '.join(map(str, real))}")
        if real:
            return real[0]
    return None
