"""Why a node cannot take a pod, as a value: the short text for events is derived from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Why(Enum):
    """What kind of refusal it is; the value is the stable text, Koordinator's where it has one."""

    BAD_WISH = "the pod's NUMA annotations cannot be read"
    POLICY_CONFLICT = "node(s) NUMA Topology policy not match"
    SCOPE_CONFLICT = "node(s) NUMA Topology scope not match"
    KUBELET_POLICY = "node(s) kubelet aligns by another policy than the pod wants"
    KUBELET_SCOPE = "node(s) kubelet aligns by another scope than the pod wants"
    NO_ZONES = "node(s) missing NUMA resources"
    NO_CPU_LAYOUT = "node(s) invalid CPU Topology"
    NOT_WHOLE_CPUS = "the requested CPUs must be integer"
    NOT_WHOLE_CORES = "node(s) requested cpus not multiple cpus per core"
    BIND_CONFLICT = "node(s) cpu bind policy conflicts with pod's required cpu bind policy"
    BAD_RATIO = "node(s) invalid CPU amplification ratio"
    AMPLIFIED_CPU = "Insufficient amplified cpu"
    TOO_FEW_CPUS = "not enough cpus available to satisfy request"
    ZONES_TOO_SMALL = "node(s) Insufficient NUMA Node resources"
    UNSATISFIED = "Unsatisfied NUMA resource"
    UNALIGNED = "Unaligned NUMA Hint"
    DEVICES = "Insufficient NUMA Scoped Devices"
    JOINT_DEVICES = "node(s) Device Joint-Allocate rules violation"
    CLOSENESS = "devices not close enough"
    PARTITIONS = "Insufficient Partitioned GPU Devices"
    NO_PARTITIONS = "node(s) missing GPU Partition Table"
    PARTITION_SIZE = "node(s) Unsupported number of GPU requests"

    @property
    def lasting(self) -> bool:
        """Whether no eviction helps."""
        return self in _LASTING


_LASTING = frozenset(
    {
        Why.BAD_WISH, Why.POLICY_CONFLICT, Why.SCOPE_CONFLICT, Why.KUBELET_POLICY,
        Why.KUBELET_SCOPE, Why.NO_ZONES, Why.NO_CPU_LAYOUT, Why.NOT_WHOLE_CPUS,
        Why.NOT_WHOLE_CORES, Why.BIND_CONFLICT, Why.BAD_RATIO, Why.NO_PARTITIONS,
        Why.PARTITION_SIZE,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why not.

    Attributes:
        container: whose wish failed; empty if it is the pod's as a whole.
        resource: what was short or unaligned; empty if it is not about one.
        detail: more for people, which may differ from node to node: ``cpu prefer [01] among [11]``,
            what the kubelet does and what the pod wants, how much is missing where.
    """

    why: Why
    container: str = ""
    resource: str = ""
    detail: str = ""
