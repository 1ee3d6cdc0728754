"""From a KubeletConfiguration to what the managers read and what the node has to offer.

Node Allocatable = capacity - systemReserved - kubeReserved - hard eviction threshold (memory).
``reservedSystemCPUs`` replaces both CPU quantities by the size of its list.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from numakube.api.kubelet_config import config_problems, with_defaults
from numakube.errors import InvalidValue, KubeletStartError
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.values.cpuset import CpuSet
from numakube.values.quantity import Quantity, milli_value, parse_quantity, value
from numakube.values.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    MILLI_PER_CPU,
    PODS,
    add_amounts,
    amounts_of,
    hugepage_name,
    is_hugepages,
    is_memory,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.codec import QuantityText
    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.kubelet.machine import Machine
    from numakube.values.resources import Amounts

_EVICTION_SIGNAL = "memory.available"
# "pid" is counted in processes; the others are resources of the node.
_RESERVABLE = frozenset((CPU, MEMORY, EPHEMERAL_STORAGE, "pid"))
# The kubelet takes these thresholds for a way to switch the signal off.
_NO_THRESHOLD = frozenset(("0%", "100%"))


def settings_of(config: KubeletConfiguration, machine: Machine) -> KubeletSettings:
    """Return the managers' settings; raise what the kubelet would refuse to start with."""
    problems = config_problems(config)
    if problems:
        raise KubeletStartError("; ".join(problems))
    config = with_defaults(config)
    for reserved in (config.system_reserved, config.kube_reserved):
        _check_reserved(reserved)
    return KubeletSettings(
        topology_policy=config.topology_manager_policy,
        topology_scope=config.topology_manager_scope,
        topology_options=config.topology_manager_policy_options,
        cpu_policy=config.cpu_manager_policy,
        cpu_options=config.cpu_manager_policy_options,
        reserved_cpus=_reserved_cpus(config, machine),
        reserved_cpu_milli=_reserved_cpu_milli(config),
        memory_policy=config.memory_manager_policy,
        reserved_memory={
            one.numa_node: {kind: value(text) for kind, text in one.limits.items()}
            for one in config.reserved_memory
        },
        memory_reservation=_memory_reservation(config, machine),
        feature_gates=config.feature_gates,
    )


def capacity_of(machine: Machine, *, max_pods: int = 110) -> dict[str, int]:
    """Return the node's capacity: milli-CPUs, bytes, pods and devices."""
    capacity = {
        CPU: machine.cpu_count * MILLI_PER_CPU,
        MEMORY: sum(node.memory_bytes for node in machine.nodes),
        PODS: max_pods,
    }
    for node in machine.nodes:
        for pool in node.hugepages:
            kind = hugepage_name(pool.page_bytes)
            capacity[kind] = capacity.get(kind, 0) + pool.total_bytes
    for resource, devices in machine.devices.items():
        capacity[resource] = len(devices)
    return capacity


def allocatable_of(config: KubeletConfiguration, machine: Machine) -> dict[str, int]:
    """Return what pods may use of the node's capacity (Node Allocatable)."""
    config = with_defaults(config)
    capacity = capacity_of(machine, max_pods=config.max_pods)
    reserved = add_amounts(
        _memory_reservation(config, machine), {CPU: _reserved_total_milli(config, machine)}
    )
    allocatable = {
        name: max(0, amount - reserved.get(name, 0)) for name, amount in capacity.items()
    }
    # Preallocated hugepages are memory that nothing else can use.
    hugepages = sum(amount for name, amount in allocatable.items() if is_hugepages(name))
    allocatable[MEMORY] = max(0, allocatable[MEMORY] - hugepages)
    for resource, devices in machine.devices.items():
        allocatable[resource] = sum(device.healthy for device in devices)
    return allocatable


def _check_reserved(reserved: Mapping[str, QuantityText]) -> None:
    """Refuse what the kubelet cannot keep from pods."""
    for name, text in reserved.items():
        if name not in _RESERVABLE:
            raise KubeletStartError(f'cannot reserve "{name}" resource')
        try:
            quantity = parse_quantity(text)
        except InvalidValue as error:
            raise KubeletStartError(
                f'failed to parse quantity "{text}" for "{name}" resource: {error.reason}'
            ) from None
        if quantity < Quantity.of_count(0):
            raise KubeletStartError(f'resource quantity for "{name}" cannot be negative: {text}')


def _reserved_cpus(config: KubeletConfiguration, machine: Machine) -> CpuSet | None:
    if not config.reserved_system_cpus:
        return None
    reserved = CpuSet.parse(config.reserved_system_cpus)
    online = CpuSet.of(cpu for node in machine.nodes for core in node.cores for cpu in core.threads)
    if not reserved <= online:
        raise KubeletStartError(
            f"reserved-cpus: {reserved} is not a subset of online-cpus: {online}"
        )
    return reserved


def _reserved_cpu_milli(config: KubeletConfiguration) -> int | None:
    parts = [part.get(CPU) for part in (config.system_reserved, config.kube_reserved)]
    # Nothing reserved and a reservation of zero are the same to the kubelet.
    return sum(milli_value(part) for part in parts if part is not None) or None


def _reserved_total_milli(config: KubeletConfiguration, machine: Machine) -> int:
    listed = _reserved_cpus(config, machine)
    return 1000 * len(listed) if listed else _reserved_cpu_milli(config) or 0


def _memory_reservation(config: KubeletConfiguration, machine: Machine) -> Amounts:
    """Return the bytes kept from pods by memory type, eviction threshold included."""
    reserved = add_amounts(amounts_of(config.system_reserved), amounts_of(config.kube_reserved))
    memory = {name: amount for name, amount in reserved.items() if is_memory(name)}
    total = sum(node.memory_bytes for node in machine.nodes)
    threshold = _threshold(config.eviction_hard or {}, total)
    return add_amounts(memory, {MEMORY: threshold} if threshold else {})


def _threshold(eviction: Mapping[str, QuantityText], total: int) -> int:
    """Return the memory.available threshold in bytes; a percentage is of the capacity."""
    text = str(eviction.get(_EVICTION_SIGNAL, "0"))
    if text in _NO_THRESHOLD:
        return 0
    try:
        if text.endswith("%"):
            # In single precision, as the kubelet keeps it: reserved memory must match to the byte.
            return int(total * _single(_single(float(text.rstrip("%"))) / 100))
        return value(text)
    except (InvalidValue, ValueError) as error:
        raise KubeletStartError(f"evictionHard: {_EVICTION_SIGNAL}: {error}") from None


def _single(number: float) -> float:
    (rounded,) = struct.unpack("f", struct.pack("f", number))
    return float(rounded)
