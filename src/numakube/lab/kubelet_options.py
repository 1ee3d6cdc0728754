"""Kubelet configurations for lab nodes, from a few words.

``policy=restricted,scope=pod,full-pcpus-only=true`` changes the lab's default, which aligns
everything on single NUMA nodes. What a configuration must say to be accepted by the kubelet
(reserved CPUs, reserved memory that adds up to the byte) is filled in for the machine at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.kubelet_config import KubeletConfiguration, MemoryReservation
from numakube.errors import ConfigError
from numakube.kubelet.versions import behaviour_of
from numakube.values.cpuset import CpuSet
from numakube.values.resources import MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.kubelet.machine import Machine

DEFAULTS: Final = {
    "policy": "single-numa-node",
    "scope": "container",
    "cpu": "static",
    "memory": "Static",
}
UNALIGNED: Final = "policy=none,cpu=none,memory=None"
"""Words of a kubelet that aligns nothing."""

_NAMES: Final = (*DEFAULTS, "reserved-cpus", "max-pods")
_KUBE_RESERVED: Final = "412Mi"
_EVICTION: Final = "100Mi"
# Their sum, which reservedMemory has to repeat.
_RESERVED_TOTAL: Final = "512Mi"


def parse_kubelet_options(text: str) -> dict[str, str]:
    """Return the words of ``--kubelet`` by name."""
    words: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals or not value:
            raise ConfigError(f"--kubelet: {part!r} is not of the form name=value")
        words[name.strip()] = value.strip()
    known = {*_NAMES, *_cpu_options(), *_topology_options()}
    for name in words:
        if name not in known:
            raise ConfigError(f"--kubelet: {name!r} is unknown; use {', '.join(sorted(known))}")
    return words


def lab_configuration(machine: Machine, words: Mapping[str, str]) -> KubeletConfiguration:
    """Return a configuration with which a kubelet starts on *machine*."""
    chosen = {**DEFAULTS, **words}
    config = KubeletConfiguration(
        topology_manager_policy=chosen["policy"],
        topology_manager_scope=chosen["scope"],
        topology_manager_policy_options=_picked(words, _topology_options()),
        cpu_manager_policy=chosen["cpu"],
        cpu_manager_policy_options=_picked(words, _cpu_options()),
        memory_manager_policy=chosen["memory"],
        reserved_system_cpus=_reserved_cpus(machine, words),
        kube_reserved={MEMORY: _KUBE_RESERVED},
        eviction_hard={"memory.available": _EVICTION},
        feature_gates={"CPUManagerPolicyAlphaOptions": True},
        max_pods=_max_pods(words),
    )
    if chosen["memory"] != "Static":
        return config
    reservation = MemoryReservation(
        numa_node=_largest_node(machine), limits={MEMORY: _RESERVED_TOTAL}
    )
    return msgspec.structs.replace(config, reserved_memory=(reservation,))


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
    return {name: value for name, value in words.items() if name in options}


def _cpu_options() -> Mapping[str, object]:
    return behaviour_of("1.37").cpu_options


def _topology_options() -> Mapping[str, object]:
    return behaviour_of("1.37").topology_options
