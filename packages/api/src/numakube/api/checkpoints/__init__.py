"""The kubelet's state files, read and written byte for byte as the kubelet does.

``cpu_manager_state`` (versions 1 to 4), ``memory_manager_state`` (1 to 3),
``kubelet_internal_checkpoint`` and ``allocated_pods_state``. Each has a checksum that is computed
here exactly as the kubelet computes it, over the text that go-spew prints of its Go structs.
"""

from typing import Final

from numakube.api.checkpoints.allocated_pods_state import (
    peek_allocated_pods,
    read_allocated_pods,
    write_allocated_pods,
)
from numakube.api.checkpoints.cpu_manager_state import (
    CpuManagerState,
    cpu_checkpoint_version,
    peek_cpu_manager_state,
    read_cpu_manager_state,
    write_cpu_manager_state,
)
from numakube.api.checkpoints.device_checkpoint import (
    DeviceManagerState,
    PodDevices,
    peek_device_manager_state,
    read_device_manager_state,
    write_device_manager_state,
)
from numakube.api.checkpoints.memory_manager_state import (
    CheckpointMemoryBlock,
    MemoryManagerState,
    MemoryTable,
    NumaNodeState,
    memory_checkpoint_version,
    peek_memory_manager_state,
    read_memory_manager_state,
    write_memory_manager_state,
)

__all__ = [
    "CPU_STATE",
    "DEVICE_STATE",
    "MEMORY_STATE",
    "CheckpointMemoryBlock",
    "CpuManagerState",
    "DeviceManagerState",
    "MemoryManagerState",
    "MemoryTable",
    "NumaNodeState",
    "PodDevices",
    "cpu_checkpoint_version",
    "memory_checkpoint_version",
    "peek_allocated_pods",
    "peek_cpu_manager_state",
    "peek_device_manager_state",
    "peek_memory_manager_state",
    "read_allocated_pods",
    "read_cpu_manager_state",
    "read_device_manager_state",
    "read_memory_manager_state",
    "write_allocated_pods",
    "write_cpu_manager_state",
    "write_device_manager_state",
    "write_memory_manager_state",
]

CPU_STATE: Final = "cpu_manager_state"
MEMORY_STATE: Final = "memory_manager_state"
DEVICE_STATE: Final = "device-plugins/kubelet_internal_checkpoint"
