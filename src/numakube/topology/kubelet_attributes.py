"""What an NRT says about the kubelet's configuration, with the kubelet's defaults for the rest.

Precedence is the Go plugin's (scheduler-plugins, August 2026): defaults, then the first legacy
``topologyPolicies``, then node attributes one by one, where the last valid one of a name wins.
Beyond the plugin, a legacy value without scope (``Restricted``) counts for its policy, and policy
options and the CPU and Memory Managers are read as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from numakube.api.nrt import POLICY_AND_SCOPE
from numakube.errors import InvalidValue
from numakube.topology import koordlet, nrt_names
from numakube.values.gotext import parse_integer
from numakube.values.topology_policy import POLICY_BY_API_NAME, TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numakube.api.nrt import NodeResourceTopology

DEFAULT_MAX_NUMA_NODES: Final = 8
LARGEST_MAX_NUMA_NODES: Final = 1024

_CPU_POLICIES: Final = ("none", "static")
_MEMORY_POLICIES: Final = ("None", "Static")


@dataclass(slots=True)
class KubeletConfig:
    """What is known of the kubelet so far; ``None`` is an unknown policy."""

    policy: TopologyPolicy = TopologyPolicy.NONE
    scope: TopologyScope = TopologyScope.CONTAINER
    max_numa_nodes: int = DEFAULT_MAX_NUMA_NODES
    topology_options: dict[str, str] = field(default_factory=dict)
    cpu_policy: str | None = None
    cpu_options: dict[str, str] = field(default_factory=dict)
    memory_policy: str | None = None


def kubelet_config(nrt: NodeResourceTopology, problems: list[str]) -> KubeletConfig:
    """Return the configuration that *nrt* tells of; odd values are noted and change nothing."""
    config = KubeletConfig()
    _apply_koordinator(config, nrt.metadata.annotations, problems)
    _apply_legacy(config, nrt.topology_policies, problems)
    for attribute in nrt.attributes:
        apply = _READERS.get(attribute.name)
        if apply is not None:
            if not apply(config, attribute.value):
                problems.append(f"attribute {attribute.name}: {attribute.value!r} ignored")
        elif option := nrt_names.option_of(nrt_names.TOPOLOGY_OPTION_PREFIX, attribute.name):
            config.topology_options[option] = attribute.value
        elif option := nrt_names.option_of(nrt_names.CPU_OPTION_PREFIX, attribute.name):
            config.cpu_options[option] = attribute.value
    return config


def _apply_legacy(config: KubeletConfig, policies: tuple[str, ...], problems: list[str]) -> None:
    if not policies:
        return
    first, *others = policies
    if others:
        problems.append(f"topologyPolicies: all but the first ignored: {', '.join(others)}")
    if first in POLICY_AND_SCOPE:
        config.policy, config.scope = POLICY_AND_SCOPE[first]
    elif first in POLICY_BY_API_NAME:
        config.policy = POLICY_BY_API_NAME[first]
    elif first != "None":
        problems.append(f"topologyPolicies: {first!r} ignored")


def _apply_koordinator(
    config: KubeletConfig, annotations: Mapping[str, str], problems: list[str]
) -> None:
    found = koordlet.cpu_policy_of(annotations, problems)
    if found is not None and found.policy in _CPU_POLICIES:
        config.cpu_policy, config.cpu_options = found.policy, dict(found.options)


def _choice(field_name: str, choices: Iterable[str]) -> Callable[[KubeletConfig, str], bool]:
    """Return a reader that sets a field to one of *choices* and tells whether it was one."""
    by_text = {str(choice): choice for choice in choices}

    def read(config: KubeletConfig, value: str) -> bool:
        if value in by_text:
            setattr(config, field_name, by_text[value])
        return value in by_text

    return read


def _read_max_numa_nodes(config: KubeletConfig, value: str) -> bool:
    # The plugin means to accept 1 as well, but does not.
    try:
        number = parse_integer(value)
    except InvalidValue:
        return False
    if number > 1:
        config.max_numa_nodes = min(number, LARGEST_MAX_NUMA_NODES)
    return number > 1


_READERS: Final = {
    nrt_names.TOPOLOGY_POLICY: _choice("policy", TopologyPolicy),
    nrt_names.TOPOLOGY_SCOPE: _choice("scope", TopologyScope),
    nrt_names.MAX_NUMA_NODES: _read_max_numa_nodes,
    nrt_names.CPU_POLICY: _choice("cpu_policy", _CPU_POLICIES),
    nrt_names.MEMORY_POLICY: _choice("memory_policy", _MEMORY_POLICIES),
}
