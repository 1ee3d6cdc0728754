"""The words of Koordinator's API that decide something, as values."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Policy(StrEnum):
    """How strictly NUMA alignment is wanted; unknown words and ``None`` mean none."""

    NONE = ""
    BEST_EFFORT = "BestEffort"
    RESTRICTED = "Restricted"
    SINGLE_NUMA_NODE = "SingleNUMANode"


KUBELET_WORDS: Final = {
    "none": Policy.NONE,
    "best-effort": Policy.BEST_EFFORT,
    "restricted": Policy.RESTRICTED,
    "single-numa-node": Policy.SINGLE_NUMA_NODE,
}
"""Policies by the words of kubelets, which are Volcano's too."""


class Scope(StrEnum):
    """What is aligned as one."""

    POD = "pod"
    CONTAINER = "container"


class Exclusive(StrEnum):
    """Whether pods on one NUMA node and pods across several keep away from each other."""

    NO = ""
    PREFERRED = "Preferred"
    REQUIRED = "Required"


class BindPolicy(StrEnum):
    """How CPUs are picked."""

    NONE = ""
    FULL_PCPUS = "FullPCPUs"
    SPREAD_BY_PCPUS = "SpreadByPCPUs"


class CpuExclusive(StrEnum):
    """What pods with the same word do not share: cores, or NUMA nodes."""

    NONE = ""
    PCPU_LEVEL = "PCPULevel"
    NUMA_NODE_LEVEL = "NUMANodeLevel"


class Strategy(StrEnum):
    """Which NUMA nodes are taken first: the fullest, the emptiest, or all in equal parts."""

    MOST_ALLOCATED = "MostAllocated"
    LEAST_ALLOCATED = "LeastAllocated"
    DISTRIBUTE_EVENLY = "DistributeEvenly"


class Arbiter(StrEnum):
    """Who decides where on the node a pod's resources come from."""

    NOBODY = "nobody"
    KUBELET = "kubelet"
    SCHEDULER = "scheduler"
