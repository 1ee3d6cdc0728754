"""What the kubelet's configuration tells its resource managers, and what the node has to offer.

Policy names and option values stay texts here: a wrong one must fail with the kubelet's own words,
which the manager that reads it knows. `numakube.kubelet.kubelet_model.KubeletNode` raises
`KubeletStartError` for them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from numakube.api.kubelet_config import config_problems, with_defaults
from numakube.errors import InvalidValue, KubeletStartError
from numakube.kubelet.kubelet_versions import Maturity, gate_is_on
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
    from collections.abc import Callable, Mapping

    from numakube.api.codec import QuantityText
    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.kubelet.kubelet_versions import Behaviour
    from numakube.kubelet.machine import Machine
    from numakube.values.resources import Amounts


_Value = TypeVar("_Value")

# Go's strconv.ParseBool.
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))


# Of kubelets 1.38 (KEP-6007): without a strategy the weights have no effect either.
_STRATEGY = "numa-allocation-strategy"
_NO_STRATEGY = "none"
_WEIGHTS = "numa-score-weights"


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSettings:
    """The resource-manager part of a KubeletConfiguration, with the kubelet's defaults.

    Attributes:
        reserved_cpus: ``reservedSystemCPUs``; ``None`` when no list is given.
        reserved_cpu_milli: ``systemReserved.cpu + kubeReserved.cpu``; ``None`` when neither is set.
        reserved_memory: bytes reserved by NUMA node and memory type (``reservedMemory``).
        memory_reservation: what Node Allocatable reserves by memory type, which ``reserved_memory``
            must add up to; ``None`` leaves that unchecked.
        feature_gates: gates set explicitly; others have the default of the version.
    """

    topology_policy: str = "none"
    topology_scope: str = "container"
    topology_options: Mapping[str, str] = field(default_factory=_nothing)
    cpu_policy: str = "none"
    cpu_options: Mapping[str, str] = field(default_factory=_nothing)
    reserved_cpus: CpuSet | None = None
    reserved_cpu_milli: int | None = None
    memory_policy: str = "None"
    reserved_memory: Mapping[int, Mapping[str, int]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    memory_reservation: Mapping[str, int] | None = None
    feature_gates: Mapping[str, bool] = field(default_factory=lambda: MappingProxyType({}))

    def gate(self, name: str, release: tuple[int, int]) -> bool:
        """Tell whether a feature gate is on in a kubelet of *release*."""
        return gate_is_on(name, self.feature_gates, release)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionGates:
    """Which levels of options may be used, and the kubelet's words when they may not."""

    alpha: bool
    beta: bool
    alpha_refusal: str
    beta_refusal: str
    unknown: str

    def check(self, name: str, available: Mapping[str, Maturity]) -> None:
        """Refuse option *name* if this version has not got it or its gate is off."""
        maturity = available.get(name)
        if maturity is None:
            raise KubeletStartError(self.unknown.format(name=name))
        if maturity is Maturity.ALPHA and not self.alpha:
            raise KubeletStartError(self.alpha_refusal.format(name=name))
        if maturity is Maturity.BETA and not self.beta:
            raise KubeletStartError(self.beta_refusal.format(name=name))


def read_options(
    options: Mapping[str, str],
    available: Mapping[str, Maturity],
    gates: OptionGates,
    readers: Mapping[str, Callable[[str, str], _Value]],
) -> dict[str, _Value]:
    """Return the parsed *options*, refusing what the kubelet would refuse."""
    result = {}
    for name, text in options.items():
        gates.check(name, available)
        result[name] = readers[name](name, text)
    return result


def unmodelled_option(settings: KubeletSettings, behaviour: Behaviour) -> str:
    """Return an option in force that the model does not know; empty if it knows all.

    A kubelet that is newer than the model may have more of them (1.38: which NUMA node of several
    that are equally good is taken, KEP-6007); what it decides then is not known.
    """
    if settings.topology_policy != "none":
        options = modelled(settings).topology_options
        unknown = options.keys() - behaviour.topology_options.keys()
        if unknown:
            return f"{min(unknown)}={options[min(unknown)]}"
    if settings.cpu_policy != "none":
        unknown = settings.cpu_options.keys() - behaviour.cpu_options.keys()
        if unknown:
            return f"{min(unknown)}={settings.cpu_options[min(unknown)]}"
    return ""


def modelled(settings: KubeletSettings) -> KubeletSettings:
    """Return *settings* without options that are newer than the model and have no effect."""
    options = settings.topology_options
    if options.get(_STRATEGY, _NO_STRATEGY) != _NO_STRATEGY:
        return settings
    kept = {name: text for name, text in options.items() if name not in (_STRATEGY, _WEIGHTS)}
    return replace(settings, topology_options=kept)


def is_true(text: str) -> bool:
    """Tell whether Go reads an option's text as true."""
    return text in _TRUE


def read_bool(name: str, text: str) -> bool:
    """Return the truth of an option's text as Go reads it."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise KubeletStartError(
        f'bad value for option "{name}": strconv.ParseBool: parsing "{text}": invalid syntax'
    )


# From a KubeletConfiguration to what the managers read and what the node has to offer.
#
# Node Allocatable = capacity - systemReserved - kubeReserved - hard eviction threshold (memory).
# ``reservedSystemCPUs`` replaces both CPU quantities by the size of its list.


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
            reservation.numa_node: {kind: value(text) for kind, text in reservation.limits.items()}
            for reservation in config.reserved_memory
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
