"""Names of labels and annotations: Koordinator's, and of others that say the same."""

from __future__ import annotations

from typing import Final

# On pods, by users.
QOS_CLASS: Final = "koordinator.sh/qosClass"
PRIORITY_CLASS: Final = "koordinator.sh/priority-class"
RESOURCE_SPEC: Final = "scheduling.koordinator.sh/resource-spec"
NUMA_TOPOLOGY_SPEC: Final = "scheduling.koordinator.sh/numa-topology-spec"
CONTAINER_NUMA_TOPOLOGY_SPEC: Final = "numa-topology-spec.scheduling.koordinator.sh/container."
"""Ours: followed by the name of a container, whose rule it overrides."""
CONTAINER_RESOURCE_SPEC: Final = "resource-spec.scheduling.koordinator.sh/container."
"""Ours: likewise for how its CPUs are bound."""
DEVICE_JOINT_ALLOCATE: Final = "scheduling.koordinator.sh/device-joint-allocate"
DEVICE_ALLOCATE_HINT: Final = "scheduling.koordinator.sh/device-allocate-hint"
GPU_PARTITION_SPEC: Final = "scheduling.koordinator.sh/gpu-partition-spec"
VOLCANO_POLICY: Final = "volcano.sh/numa-topology-policy"

# On pods, by schedulers.
RESOURCE_STATUS: Final = "scheduling.koordinator.sh/resource-status"
DEVICE_ALLOCATED: Final = "scheduling.koordinator.sh/device-allocated"
ALLOTMENT: Final = (RESOURCE_STATUS, DEVICE_ALLOCATED)
"""What a pod was given: the enforcer and koordlet believe it."""
NO_ALLOTMENT: Final = "{}"
"""Stands instead of an allotment that a pod brought along and that does not hold."""
KAI_OBSERVED: Final = "kai.scheduler/numa-placement-observed"
KAI_PREDICTED: Final = "kai.scheduler/numa-placement-predicted"

# On nodes.
NODE_POLICY: Final = "node.koordinator.sh/numa-topology-policy"
NODE_SCOPE: Final = "node.koordinator.sh/numa-topology-scope"
"""Ours."""
NODE_BIND_POLICY: Final = "node.koordinator.sh/cpu-bind-policy"
NODE_STRATEGY: Final = "node.koordinator.sh/numa-allocate-strategy"
NODE_RESERVATION: Final = "node.koordinator.sh/reservation"
NODE_SYSTEM_QOS: Final = "node.koordinator.sh/system-qos-resource"
NODE_AMPLIFICATION: Final = "node.koordinator.sh/resource-amplification-ratio"

# On Devices, the label on nodes too.
GPU_PARTITIONS: Final = "scheduling.koordinator.sh/gpu-partitions"
GPU_PARTITION_POLICY: Final = "node.koordinator.sh/gpu-partition-policy"

# On NodeResourceTopologies.
CPU_TOPOLOGY: Final = "node.koordinator.sh/cpu-topology"
CPU_MANAGER_POLICY: Final = "kubelet.koordinator.sh/cpu-manager-policy"
POD_CPU_ALLOCS: Final = "node.koordinator.sh/pod-cpu-allocs"
CPU_SHARED_POOLS: Final = "node.koordinator.sh/cpu-shared-pools"
BE_CPU_SHARED_POOLS: Final = "node.koordinator.sh/be-cpu-shared-pools"
CPU_BASIC_INFO: Final = "node.koordinator.sh/cpu-basic-info"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
KOORDINATOR: Final = "Koordinator"
"""The value of `MANAGED_BY` on koordlet's objects."""

NODE_DECIDING: Final = (NODE_RESERVATION, NODE_SYSTEM_QOS, NODE_AMPLIFICATION)
"""Annotations of nodes that placement depends on; labels all do."""
POD_HOLDING: Final = (
    RESOURCE_STATUS, RESOURCE_SPEC, DEVICE_ALLOCATED, KAI_OBSERVED, KAI_PREDICTED,
)  # fmt: skip
"""Annotations of bound pods that tell what they hold."""
