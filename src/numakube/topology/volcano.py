"""From a Numatopology of Volcano's agent to the NodeResourceTopology that says the same.

Every NUMA node becomes a zone with its CPUs, on its socket. What the kubelet reserves is taken off
as Volcano's scheduler does it: the CPUs that the static CPU Manager would reserve on the idle
machine. Memory and devices are in no zone, because the object does not tell where they are. An
object without the Topology Manager's policy (the agent of August 2026 writes none) says nothing of
what the kubelet will refuse, so its node is handled as one without data.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from numakube.api import volcano_numatopology as names
from numakube.api.nrt import (
    ZONE_TYPE_NODE,
    Attribute,
    NodeResourceTopology,
    Zone,
    ZoneResource,
    zone_name,
)
from numakube.errors import ConfigError, InvalidValue
from numakube.kubelet.cpu_manager import start_cpu_manager
from numakube.kubelet.cpu_topology import CpuTopology
from numakube.kubelet.kubelet_versions import behaviour_of
from numakube.kubelet.machine import Core, Machine, NumaNode
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.topology import nrt_names
from numakube.topology.numa_zones import ZONE_TYPE_SOCKET
from numakube.values.cpuset import MAX_CPU_ID, NO_CPUS, CpuSet
from numakube.values.numamask import MAX_NODE_ID
from numakube.values.quantity import milli_value
from numakube.values.resources import CPU

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.volcano_numatopology import CpuDetail, Numatopology
    from numakube.values.cpuset import CpuMask

_Details: TypeAlias = "tuple[tuple[str, CpuDetail], ...]"
_NO_POLICY: Final = "the Numatopology has no TopologyManagerPolicy"
_DIGITS: Final = 9
_KUBERNETES: Final = "1.35"
"""Whose rules pick reserved CPUs; without options all modelled versions pick the same."""


def as_nrt(topology: Numatopology) -> NodeResourceTopology:
    """Return what *topology* says as an NRT; what cannot be read says nothing."""
    details = tuple(sorted(topology.spec.cpu_detail.items()))
    machine = _machine(details)
    reserved = _reserved(details, _milli(topology.spec.res_reserved))
    free = _cpus(topology.spec.numares.get(CPU)) & ~reserved
    meta = topology.metadata
    annotations = {**meta.annotations, nrt_names.NUMATOPOLOGY_ANNOTATION: meta.name}
    return NodeResourceTopology(
        metadata=msgspec.structs.replace(meta, annotations=annotations),
        attributes=tuple(Attribute(name=name, value=value) for name, value in _policies(topology)),
        zones=(
            *_sockets(machine),
            *(_zone(node, free=free, reserved=reserved) for node in machine.nodes),
        ),
    )


def _policies(topology: Numatopology) -> list[tuple[str, str]]:
    policies = topology.spec.policies
    topology_policy = policies.get(names.TOPOLOGY_POLICY)
    told = (
        (nrt_names.TOPOLOGY_POLICY, topology_policy),
        (nrt_names.CPU_POLICY, policies.get(names.CPU_POLICY)),
        (nrt_names.POLICY_UNKNOWN, None if topology_policy else _NO_POLICY),
    )
    return [(name, value) for name, value in told if value]


# All machines of one model have the same CPUs.
@lru_cache(maxsize=256)
def _machine(details: _Details) -> Machine:
    threads: dict[int, dict[tuple[int, int], list[int]]] = {}
    for cpu, place in details:
        if _is_sane(cpu, place):
            cores = threads.setdefault(place.numa, {})
            cores.setdefault((place.socket, place.core), []).append(int(cpu))
    nodes = tuple(
        NumaNode(
            id=numa,
            memory_bytes=0,
            cores=tuple(
                Core(id=core, threads=tuple(sorted(cpus)), socket=socket)
                for (socket, core), cpus in sorted(cores.items())
            ),
        )
        for numa, cores in sorted(threads.items())
    )
    sockets = {core.socket for node in nodes for core in node.cores}
    return Machine(nodes=nodes, cpu_count=len(details), socket_count=len(sockets))


def _is_sane(cpu: str, place: CpuDetail) -> bool:
    number = int(cpu) if cpu.isascii() and cpu.isdigit() and len(cpu) < _DIGITS else MAX_CPU_ID + 1
    places = (place.socket, place.core, place.numa)
    return number <= MAX_CPU_ID and min(places) >= 0 and place.numa <= MAX_NODE_ID


def _sockets(machine: Machine) -> list[Zone]:
    sockets = sorted({core.socket for node in machine.nodes for core in node.cores})
    return [Zone(name=_socket_name(socket), type=ZONE_TYPE_SOCKET) for socket in sockets]


def _zone(node: NumaNode, *, free: CpuMask, reserved: CpuMask) -> Zone:
    sockets = {core.socket for core in node.cores}
    cpus = CpuSet.of(cpu for core in node.cores for cpu in core.threads).mask
    count = ZoneResource(
        name=CPU,
        capacity=str(cpus.bit_count()),
        allocatable=str((cpus & ~reserved).bit_count()),
        available=str((cpus & free).bit_count()),
    )
    return Zone(
        name=zone_name(node.id),
        type=ZONE_TYPE_NODE,
        parent=_socket_name(*sockets) if len(sockets) == 1 else "",
        resources=(count,),
    )


def _socket_name(socket: int) -> str:
    return f"socket-{socket}"


def _cpus(told: names.FreeCpus | None) -> CpuMask:
    try:
        return CpuSet.parse(told.allocatable).mask if told else NO_CPUS
    except InvalidValue:
        return NO_CPUS


def _milli(reserved: Mapping[str, str | int | float]) -> int:
    try:
        return milli_value(reserved.get(CPU, 0))
    except InvalidValue:
        return 0


@lru_cache(maxsize=256)
def _reserved(details: _Details, milli: int) -> CpuMask:
    """Return the CPUs that a static CPU Manager keeps for the system."""
    if milli <= 0:
        return NO_CPUS
    settings = KubeletSettings(cpu_policy="static", reserved_cpu_milli=milli)
    try:
        topology = CpuTopology.of(_machine(details))
        manager = start_cpu_manager(topology, settings, behaviour_of(_KUBERNETES))
    except ConfigError:
        return NO_CPUS
    return manager.reserved if manager is not None else NO_CPUS
