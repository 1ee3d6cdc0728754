"""Machines on which a kubelet crashes, or gives no answer to pods that want to be aligned.

Follows ``pkg/kubelet/cm`` of Kubernetes 1.28 to 1.37: the Memory Manager looks up the page size
that a pod asks for on every NUMA node and takes it for granted, the Topology Manager looks up
distances by node id, and both try every set of NUMA nodes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.kubelet.admission_outcome import NoAnswer
from numakube.kubelet.manager_settings import is_true
from numakube.kubelet.wide_hints import check_sets
from numakube.values.cpuset import CpuSet
from numakube.values.resources import hugepage_name
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.machine import Machine
    from numakube.kubelet.manager_settings import KubeletSettings

_CLOSEST: Final = "prefer-closest-numa-nodes"


@dataclass(frozen=True, slots=True)
class Hazard:
    """What goes wrong on a machine; *crashes* tells a crash from endless work."""

    text: str
    crashes: bool


def hazards_of(node: KubeletNode) -> tuple[Hazard, ...]:
    """Return what a kubelet runs into on its machine, crashes first."""
    return (
        *(Hazard(text, crashes=True) for text in _crashes(node.machine, node.settings)),
        *(Hazard(text, crashes=False) for text in _endless(node)),
    )


def _crashes(machine: Machine, settings: KubeletSettings) -> Iterator[str]:
    if settings.memory_policy == "Static":
        yield from _unlisted_page_sizes(machine)
    if settings.topology_policy == TopologyPolicy.NONE:
        return
    if is_true(settings.topology_options.get(_CLOSEST, "")):
        yield from _short_distances(machine)


def _unlisted_page_sizes(machine: Machine) -> Iterator[str]:
    pools = [pool for node in machine.nodes for pool in node.hugepages]
    listed = Counter(pool.page_bytes for pool in pools)
    # Without a single page of a size, no scheduler sends a pod that asks for it.
    for size in sorted({pool.page_bytes for pool in pools if pool.count}):
        if listed[size] < len(machine.nodes):
            lacking = CpuSet.of(
                node.id
                for node in machine.nodes
                if all(pool.page_bytes != size for pool in node.hugepages)
            )
            yield (
                f"a Guaranteed pod with {hugepage_name(size)} crashes the kubelet: its Static "
                f"Memory Manager expects that page size on every NUMA node, and node {lacking} "
                "has none"
            )


def _short_distances(machine: Machine) -> Iterator[str]:
    highest = max((node.id for node in machine.nodes), default=0)
    short = CpuSet.of(node.id for node in machine.nodes if len(node.distances) <= highest)
    if short:
        yield (
            f"{_CLOSEST} crashes the kubelet, or keeps it from starting: the distances of NUMA "
            f"node {short} do not reach node {highest}"
        )


def _endless(node: KubeletNode) -> Iterator[str]:
    everywhere = len(node.machine.nodes)
    if node.memory is not None and (text := _no_answer(everywhere)):
        yield f"Guaranteed pods under the Static Memory Manager: {text}"
    if node.topology.policy is TopologyPolicy.NONE:
        return
    for resource in sorted(node.devices.resources()):
        devices = node.devices.devices_of(resource)
        near = {number for device in devices for number in device.numa_nodes}
        few = node.behaviour.device_hints_on_device_nodes_only
        if near and (text := _no_answer(len(near) if few else everywhere)):
            yield f"pods with {resource}: {text}"


def static_memory_answers(numa_nodes: int) -> bool:
    """Tell whether a Static Memory Manager comes to an end on a machine of so many NUMA nodes."""
    return not _no_answer(numa_nodes)


def _no_answer(nodes: int) -> str:
    try:
        check_sets(nodes)
    except NoAnswer as error:
        return str(error)
    return ""
