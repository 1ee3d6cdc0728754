"""Node attributes: what is known of the kubelet, in the order in which RTE writes its own.

What nobody told is not published, and since readers take a missing policy for ``none``, another
attribute says why it is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.nrt import Attribute
from numakube.topology import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.apps.exporter.inputs import KubeletFacts

_MAX_NUMA_NODES_OPTION: Final = "max-allowable-numa-nodes"
_DEFAULT_MAX_NUMA_NODES: Final = "8"


def kubelet_attributes(kubelet: KubeletFacts) -> Iterator[Attribute]:
    """Yield scope and policy, then what else of the configuration decides on placement."""
    if kubelet.scope is not None:
        yield Attribute(name=names.TOPOLOGY_SCOPE, value=kubelet.scope)
    if kubelet.policy is not None:
        yield Attribute(name=names.TOPOLOGY_POLICY, value=kubelet.policy)
    if kubelet.policy is None and kubelet.why_unknown:
        yield Attribute(name=names.POLICY_UNKNOWN, value=kubelet.why_unknown)
    if kubelet.config is not None:
        yield from _configured(kubelet.config)
        return
    if kubelet.cpu_policy is not None:
        yield Attribute(name=names.CPU_POLICY, value=kubelet.cpu_policy)
    if kubelet.memory_policy is not None:
        yield Attribute(name=names.MEMORY_POLICY, value=kubelet.memory_policy)


def _configured(config: KubeletConfiguration) -> Iterator[Attribute]:
    options = config.topology_manager_policy_options
    largest = options.get(_MAX_NUMA_NODES_OPTION, _DEFAULT_MAX_NUMA_NODES)
    yield Attribute(name=names.MAX_NUMA_NODES, value=largest)
    yield from _options(names.TOPOLOGY_OPTION_PREFIX, options)
    yield Attribute(name=names.CPU_POLICY, value=config.cpu_manager_policy)
    yield from _options(names.CPU_OPTION_PREFIX, config.cpu_manager_policy_options)
    yield Attribute(name=names.MEMORY_POLICY, value=config.memory_manager_policy)


def _options(prefix: str, options: Mapping[str, str]) -> Iterator[Attribute]:
    for option, value in sorted(options.items()):
        yield Attribute(name=names.option_attribute(prefix, option), value=value)
