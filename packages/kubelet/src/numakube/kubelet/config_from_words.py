"""Kubelet configurations for lab nodes, from a few words.

``policy=restricted,scope=pod,full-pcpus-only=true`` changes the lab's default, which aligns
everything on single NUMA nodes; ``PodLevelResourceManagers=true`` sets a feature gate. What a
configuration must say to be accepted by the kubelet (reserved CPUs, reserved memory that adds up
to the byte) is filled in for the machine at hand.
"""

from __future__ import annotations

from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.kubelet_config import KubeletConfiguration, MemoryReservation
from numakube.errors import ConfigError, KubeletStartError
from numakube.kubelet.kubelet_versions import KNOWN as KNOWN_GATES
from numakube.kubelet.kubelet_versions import behaviour_of
from numakube.kubelet.manager_settings import read_bool, settings_of
from numakube.kubelet.topology_manager import MOST_NUMA_NODES
from numakube.kubelet.wide_hints import can_try_sets
from numakube.values.cpuset import CpuSet
from numakube.values.quantity import value
from numakube.values.resources import CPU, MEMORY
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.kubelet.machine import Machine
    from numakube.kubelet.manager_settings import KubeletSettings

DEFAULTS: Final = {
    "policy": TopologyPolicy.SINGLE_NUMA_NODE.value,
    "scope": "container",
    "cpu": "static",
    "memory": "Static",
}
UNALIGNED: Final = "policy=none,cpu=none,memory=None"
"""Words of a kubelet that aligns nothing."""

_FIELDS: Final = {
    "policy": "topology_manager_policy",
    "scope": "topology_manager_scope",
    "cpu": "cpu_manager_policy",
    "memory": "memory_manager_policy",
    "reserved-cpus": "reserved_system_cpus",
    "max-pods": "max_pods",
}
"""What a word sets."""

_NAMES: Final = (*DEFAULTS, "reserved-cpus", "max-pods")
_GATES: Final = {"CPUManagerPolicyAlphaOptions": True}
_KUBE_RESERVED: Final = "412Mi"
_EVICTION: Final = "100Mi"
# Their sum, which reservedMemory has to repeat.
_RESERVED_TOTAL: Final = "512Mi"


def parse_kubelet_options(
    text: str, *, flag: str = "--kubelet", fields: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Return the words of ``--kubelet``, or of another *flag*, by name.

    *fields* are other names that mean the same.
    """
    words: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, text_of = part.partition("=")
        if not equals or not text_of:
            raise ConfigError(f"{flag}: {part!r} is not of the form name=value")
        words[fields.get(name.strip(), name.strip())] = text_of.strip()
    known = {*_NAMES, *_cpu_options(), *_topology_options(), *KNOWN_GATES}
    for name in sorted(words.keys() - known):
        names = sorted({*known, *fields})
        near = get_close_matches(name, names, n=1)
        meant = f"did you mean {near[0]}? There are" if near else "use"
        raise ConfigError(f"{flag}: {name!r} is unknown; {meant} {', '.join(names)}")
    return words


def lab_configuration(machine: Machine, words: Mapping[str, str]) -> KubeletConfiguration:
    """Return a configuration with which a kubelet starts on *machine*."""
    chosen = {**_defaults(machine), **words}
    config = KubeletConfiguration(
        topology_manager_policy=chosen["policy"],
        topology_manager_scope=chosen["scope"],
        topology_manager_policy_options=_topology_words(machine, words),
        cpu_manager_policy=chosen["cpu"],
        cpu_manager_policy_options=_picked(words, _cpu_options()),
        memory_manager_policy=chosen["memory"],
        reserved_system_cpus=_reserved_cpus(machine, words),
        kube_reserved={MEMORY: _KUBE_RESERVED},
        eviction_hard={"memory.available": _EVICTION},
        feature_gates={**_GATES, **_picked_gates(words)},
        max_pods=_max_pods(words),
    )
    if chosen["memory"] != "Static":
        return config
    reservation = MemoryReservation(
        numa_node=_largest_node(machine), limits={MEMORY: _RESERVED_TOTAL}
    )
    return msgspec.structs.replace(config, reserved_memory=(reservation,))


def _defaults(machine: Machine) -> dict[str, str]:
    """Return the lab's default, without what no kubelet can do on so many NUMA nodes."""
    return {**DEFAULTS, **({} if can_try_sets(len(machine.nodes)) else {"memory": "None"})}


def _topology_words(machine: Machine, words: Mapping[str, str]) -> dict[str, str]:
    options = _picked(words, _topology_options())
    if len(machine.nodes) > MOST_NUMA_NODES and words.get("policy") != TopologyPolicy.NONE:
        options.setdefault("max-allowable-numa-nodes", str(len(machine.nodes)))
    return options


def configuration_of(settings: KubeletSettings) -> KubeletConfiguration:
    """Return a configuration that gives a kubelet these *settings*."""
    milli = settings.reserved_cpu_milli
    config = KubeletConfiguration(
        topology_manager_policy=settings.topology_policy,
        topology_manager_scope=settings.topology_scope,
        topology_manager_policy_options=dict(settings.topology_options),
        cpu_manager_policy=settings.cpu_policy,
        cpu_manager_policy_options=dict(settings.cpu_options),
        memory_manager_policy=settings.memory_policy,
        reserved_system_cpus=str(settings.reserved_cpus or ""),
        kube_reserved={CPU: f"{milli}m"} if milli else {},
        feature_gates=dict(settings.feature_gates),
        reserved_memory=tuple(
            MemoryReservation(numa_node=node, limits={kind: str(n) for kind, n in sizes.items()})
            for node, sizes in settings.reserved_memory.items()
        ),
    )
    kept = settings.memory_reservation
    if kept is None:
        # It is unchecked, so it is what the Memory Manager wants it to be.
        return _with_reservation(
            config, sum(sizes.get(MEMORY, 0) for sizes in settings.reserved_memory.values())
        )
    return _with_reservation(config, kept.get(MEMORY, 0))


def with_memory_reserved(
    config: KubeletConfiguration, machine: Machine, amount: int
) -> KubeletConfiguration:
    """Return *config* with so many bytes kept from pods, all of them on one NUMA node."""
    config = _with_reservation(config, amount)
    if config.memory_manager_policy != "Static":
        return config
    kept = MemoryReservation(numa_node=_largest_node(machine), limits={MEMORY: str(amount)})
    return msgspec.structs.replace(config, reserved_memory=(kept,))


def _with_reservation(config: KubeletConfiguration, amount: int) -> KubeletConfiguration:
    """Return *config* with *amount* as the sum of what it reserves and where it evicts."""
    threshold = min(amount, value(_EVICTION))
    return msgspec.structs.replace(
        config,
        kube_reserved={**config.kube_reserved, MEMORY: str(amount - threshold)},
        eviction_hard={"memory.available": str(threshold) if threshold else "0%"},
    )


def overridden(
    config: KubeletConfiguration, machine: Machine, words: Mapping[str, str]
) -> KubeletConfiguration:
    """Return *config* changed by *words*, completed so that a kubelet starts with it."""
    if not words:
        return config
    wanted = lab_configuration(machine, words)
    changed = msgspec.structs.replace(
        config, **{name: getattr(wanted, name) for word, name in _FIELDS.items() if word in words}
    )
    options = {**config.cpu_manager_policy_options, **wanted.cpu_manager_policy_options}
    changed = msgspec.structs.replace(
        changed,
        cpu_manager_policy_options=options if changed.cpu_manager_policy == "static" else {},
        topology_manager_policy_options={
            **config.topology_manager_policy_options,
            **wanted.topology_manager_policy_options,
        },
        feature_gates={**_GATES, **config.feature_gates, **_picked_gates(words)},
    )
    return _completed(changed, machine, wanted)


def _completed(
    config: KubeletConfiguration, machine: Machine, wanted: KubeletConfiguration
) -> KubeletConfiguration:
    """Reserve what the managers need to have reserved."""
    plain = msgspec.structs.replace(config, memory_manager_policy="None")
    settings = settings_of(plain, machine)
    if config.cpu_manager_policy == "static" and not (
        settings.reserved_cpus or settings.reserved_cpu_milli
    ):
        cpus = wanted.reserved_system_cpus
        config = msgspec.structs.replace(config, reserved_system_cpus=cpus)
    if config.memory_manager_policy != "Static":
        return msgspec.structs.replace(config, reserved_memory=())
    if config.reserved_memory:
        return config
    amount = (settings.memory_reservation or {}).get(MEMORY, 0)
    if not amount:
        return with_memory_reserved(config, machine, value(_RESERVED_TOTAL))
    kept = MemoryReservation(numa_node=_largest_node(machine), limits={MEMORY: str(amount)})
    return msgspec.structs.replace(config, reserved_memory=(kept,))


def _reserved_cpus(machine: Machine, words: Mapping[str, str]) -> str:
    """Return the wanted CPUs (``0+4-5``: commas separate words), or the first core's."""
    if "reserved-cpus" in words:
        return words["reserved-cpus"].replace("+", ",")
    core = next((core for node in machine.nodes for core in node.cores), None)
    return str(CpuSet.of(core.threads)) if core else ""


def _largest_node(machine: Machine) -> int:
    """Return the NUMA node that can spare the reserved memory best; the first of equals."""
    return max(machine.nodes, key=lambda node: node.memory_bytes).id


def _max_pods(words: Mapping[str, str]) -> int:
    text = words.get("max-pods", "0")
    if not text.isdecimal():
        raise ConfigError(f"--kubelet: max-pods={text} is not a number")
    return int(text)


def _picked(words: Mapping[str, str], options: Mapping[str, object]) -> dict[str, str]:
    return {name: text for name, text in words.items() if name in options}


def _picked_gates(words: Mapping[str, str]) -> dict[str, bool]:
    try:
        return {name: read_bool(name, words[name]) for name in words if name in KNOWN_GATES}
    except KubeletStartError as error:
        raise ConfigError(f"--kubelet: {error}") from None


def _cpu_options() -> Mapping[str, object]:
    return behaviour_of("1.37").cpu_options


def _topology_options() -> Mapping[str, object]:
    return behaviour_of("1.37").topology_options
