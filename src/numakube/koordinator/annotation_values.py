"""The words of Koordinator's API that decide something, as values."""

from __future__ import annotations

from enum import StrEnum


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
