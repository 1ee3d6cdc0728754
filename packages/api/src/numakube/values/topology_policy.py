"""The Topology Manager's policies and scopes, the same words in every layer.

`TopologyPolicy` is what kubelets are configured with, what reports tell, and what a scheduler that
places pods itself follows. Texts of an API are read into it at the boundary.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class TopologyPolicy(StrEnum):
    """How strictly the resources of a pod are aligned; the value is the kubelet's name."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"

    @property
    def aligns(self) -> bool:
        """Whether anything is aligned."""
        return self is not TopologyPolicy.NONE

    @property
    def insists(self) -> bool:
        """Whether pods that cannot be aligned are rejected."""
        return self in (TopologyPolicy.SINGLE_NUMA_NODE, TopologyPolicy.RESTRICTED)

    @property
    def code(self) -> int:
        """The policy in arrays, from 1 on; 0 is left for nodes without data."""
        return _POLICY_CODES[self]

    @property
    def api_name(self) -> str:
        """The name in ``topologyPolicies`` of an NRT and in Koordinator's API."""
        return _API_NAMES[self]


class TopologyScope(StrEnum):
    """What is aligned: each container by itself, or the pod as a whole."""

    CONTAINER = "container"
    POD = "pod"

    @property
    def code(self) -> int:
        """The scope in arrays, from 1 on; 0 is left for nodes without data."""
        return _SCOPE_CODES[self]


ALIGNING_POLICIES: Final = tuple(policy for policy in reversed(TopologyPolicy) if policy.aligns)
"""The policies that align something, the strictest first."""
NO_DATA: Final = 0
"""The code of a node without a usable report."""

_POLICY_CODES: Final = {policy: code for code, policy in enumerate(TopologyPolicy, 1)}
_SCOPE_CODES: Final = {scope: code for code, scope in enumerate(TopologyScope, 1)}
_API_NAMES: Final = {
    TopologyPolicy.NONE: "None",
    TopologyPolicy.BEST_EFFORT: "BestEffort",
    TopologyPolicy.RESTRICTED: "Restricted",
    TopologyPolicy.SINGLE_NUMA_NODE: "SingleNUMANode",
}

POLICY_BY_API_NAME: Final = {name: policy for policy, name in _API_NAMES.items() if policy.aligns}
"""Policies that align something, by `TopologyPolicy.api_name`."""
