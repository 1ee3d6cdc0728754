"""Which zones each pod occupies, and whether it is aligned.

The exact report tells what a pod has for itself, as a whole; its claims tell which devices of DRA
drivers it has besides. Where the NRT also has the placement
vectors of the Go stack (one NUMA node for each container), containers are told apart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from numakube.api.nrt import attribute_value
from numakube.insight.dra_devices import zones_of_devices
from numakube.insight.held_closeness import closeness_of
from numakube.insight.scheduler_holdings import given_holding
from numakube.scheduling.numa.caches.counts_belief import exclusive_requests
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology import nrt_names
from numakube.topology.fingerprint import (
    BadPlacement,
    ContainerName,
    decode_placement,
    fingerprint_of,
    read_placement,
)
from numakube.topology.held_zones import zone_cpus, zones_of_holding
from numakube.topology.topology_view import FingerprintMethod, NodeTopology
from numakube.values.cpuset import CpuSet
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from numakube.api.pod import Pod
    from numakube.insight.dra_devices import DraDevice
    from numakube.insight.facts import ClusterFacts
    from numakube.topology.exact_report import ExactReport, Holding


class Alignment(StrEnum):
    """How a pod lies in its node."""

    ALIGNED = "aligned"
    """Everything it has for itself is in one zone."""
    SPREAD = "spread"
    """It has something in several zones."""
    SHARED = "shared"
    """It has nothing for itself."""
    UNKNOWN = "unknown"
    """No exact data, or the report does not have the pod yet."""
    PENDING = "pending"
    """It is on no node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUsage:
    """What one pod has for itself.

    Attributes:
        why_unknown: what is missing, if the alignment is unknown.
        memory: bytes by kind; so are ``devices`` counts by resource.
        containers: the zone of each container, where the node tells; such as ``{"app": 1}``.
        closeness: of its devices, in the words of ``nvidia-smi topo -m``: the worst pair of devices
            of different resources; empty if it has none, or if that is not known.
    """

    namespace: str
    name: str
    node: str = ""
    alignment: Alignment
    why_unknown: str = ""
    zones: tuple[int, ...] = ()
    cpus: CpuSet = field(default_factory=CpuSet)
    memory: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    devices: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    containers: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    closeness: str = ""

    @property
    def words(self) -> str:
        """The alignment as people read it: ``spread over 2 zones``."""
        if self.alignment is Alignment.SPREAD:
            return f"spread over {len(self.zones)} zones"
        return str(self.alignment)


def pod_usages(facts: ClusterFacts, pods: Iterable[Pod]) -> Iterator[PodUsage]:
    """Yield the usage of each of *pods*."""
    reader = _PodReader(facts)
    return (reader.usage(pod) for pod in pods)


class _PodReader:
    """Looks pods up, and remembers what many of them have in common."""

    def __init__(self, facts: ClusterFacts) -> None:
        self._facts = facts
        self._placements: dict[str, Mapping[ContainerName, int]] = {}
        # Nodes that are alike share one machine, which the facts keep alive.
        self._cpus: dict[int, Mapping[int, int]] = {}

    def usage(self, pod: Pod) -> PodUsage:
        meta, node = pod.metadata, pod.spec.node_name
        if not node:
            return PodUsage(namespace=meta.namespace, name=meta.name, alignment=Alignment.PENDING)
        containers = self._containers(pod)
        claimed = self._claimed(pod)
        view = self._facts.view(node)
        report = view.report if isinstance(view, NodeTopology) else None
        holding = report.holding(meta.uid) if report else None
        if holding is None or holding.empty:
            holding = given_holding(self._facts, pod) or holding
        if report is None or holding is None:
            unknown = "the node has no exact report" if report is None else "not in its report yet"
            return PodUsage(
                namespace=meta.namespace,
                name=meta.name,
                node=node,
                alignment=Alignment.UNKNOWN,
                why_unknown=unknown,
                zones=_together(containers.values(), claimed),
                devices=dict(_counts(claimed)),
                containers=containers,
            )
        own = zones_of_holding(report, holding, self._cpus_of(report))
        zones = _together(own, claimed)
        is_empty = holding.empty and not claimed
        closeness = closeness_of(
            report, holding, ((device.called, device.pci) for device in claimed)
        )
        return PodUsage(
            namespace=meta.namespace,
            name=meta.name,
            node=node,
            alignment=_alignment(zones, empty=is_empty),
            why_unknown="" if zones or is_empty else "its devices have no NUMA node",
            zones=zones,
            cpus=holding.cpus,
            memory=_memory(holding),
            devices={
                **{name: len(positions) for name, positions in holding.devices.items()},
                **_counts(device for device in claimed if not device.part_of),
            },
            containers=containers,
            closeness="" if closeness is None else closeness.name,
        )

    def _claimed(self, pod: Pod) -> list[DraDevice]:
        """Return the devices that the pod's claims hold."""
        devices = self._facts.dra_devices(pod.spec.node_name)
        return [device for device in devices if pod.metadata.key in device.pods]

    def _cpus_of(self, report: ExactReport) -> Mapping[int, int]:
        key = id(report.machine)
        if key not in self._cpus:
            self._cpus[key] = zone_cpus(report.machine)
        return self._cpus[key]

    def _containers(self, pod: Pod) -> dict[str, int]:
        node, meta = pod.spec.node_name, pod.metadata
        if node not in self._placements:
            self._placements[node] = _placements(self._facts, node)
        placed = self._placements[node]
        if not placed:
            return {}
        return {
            container.name: placed[key]
            for container in pod.spec.containers
            if (key := ContainerName(meta.namespace, meta.name, container.name)) in placed
        }


def _together(zones: Collection[int], claimed: Iterable[DraDevice]) -> tuple[int, ...]:
    return tuple(sorted({*zones, *zones_of_devices(claimed, zones)}))


def _counts(devices: Iterable[DraDevice]) -> Counter[str]:
    return Counter(device.called for device in devices)


def _memory(holding: Holding) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for block in holding.memory:
        if block.size_bytes:
            sizes[block.type] = sizes.get(block.type, 0) + block.size_bytes
    return sizes


def _alignment(zones: tuple[int, ...], *, empty: bool) -> Alignment:
    if empty:
        return Alignment.SHARED
    if len(zones) > 1:
        return Alignment.SPREAD
    # Devices whose plugin told no NUMA node are all that is left without a zone.
    return Alignment.ALIGNED if zones else Alignment.UNKNOWN


def _placements(facts: ClusterFacts, node: str) -> Mapping[ContainerName, int]:
    """Return the NUMA node of each container on *node*, if its NRT tells and is up to date.

    The encoding is defined for one policy, and can be read only with exactly the containers that it
    was made of: the pods' fingerprint has to match.
    """
    view = facts.view(node)
    if not isinstance(view, NodeTopology) or view.policy is not TopologyPolicy.SINGLE_NUMA_NODE:
        return {}
    metadata = attribute_value(facts.topologies[node].attributes, nrt_names.PLACEMENT_METADATA)
    if metadata is None:
        return {}
    infos = [PodInfo(pod) for pod in facts.pods_on(node)]
    asking = {info.key: info for info in infos if exclusive_requests(info, view)}
    counted = infos if view.fingerprint_method is FingerprintMethod.ALL else asking.values()
    if view.fingerprint != fingerprint_of((info.namespace, info.name) for info in counted):
        return {}
    vectors = {
        zone.id: zone.attributes[nrt_names.PLACEMENT_VECTOR]
        for zone in view.zones
        if nrt_names.PLACEMENT_VECTOR in zone.attributes
    }
    placement = read_placement(metadata, vectors)
    if isinstance(placement, BadPlacement):
        return {}
    containers = [
        ContainerName(info.namespace, info.name, container)
        for info in asking.values()
        for container in exclusive_requests(info, view)
    ]
    found = decode_placement(placement, containers)
    return {} if isinstance(found, BadPlacement) else found
