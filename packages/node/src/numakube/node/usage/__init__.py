"""What is in use on a node, as its kernel counts it: memory, CPU time, threads, interrupts.

Everything is read below a given root, within bounds, without writing anything. What a kernel does
not tell is ``None`` in what is returned, never zero, and `kernel_files.Untold` says once why.
`fake_usage` writes such files for the lab and for tests.

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.node.usage.fake_usage import FakeUsage
    from numakube.node.usage.group_usage import (
        EFFECTIVE_CPUS,
        MEMORY_BY_NODE,
        CpuTime,
        GroupPlaces,
        GroupReader,
        GroupUsage,
        MemoryByNode,
    )
    from numakube.node.usage.interrupts import INTERRUPTS, Interrupt, InterruptReader
    from numakube.node.usage.kernel_files import Untold, cpus_of, read_text
    from numakube.node.usage.node_memory import (
        CpuSeconds,
        KernelSettings,
        ZoneMemory,
        ZoneMemoryReader,
        read_cpu_seconds,
        read_settings,
    )
    from numakube.node.usage.resctrl import ResctrlReader, Traffic
    from numakube.node.usage.running_threads import ThreadSampler

__all__ = [
    "EFFECTIVE_CPUS",
    "INTERRUPTS",
    "MEMORY_BY_NODE",
    "CpuSeconds",
    "CpuTime",
    "FakeUsage",
    "GroupPlaces",
    "GroupReader",
    "GroupUsage",
    "Interrupt",
    "InterruptReader",
    "KernelSettings",
    "MemoryByNode",
    "ResctrlReader",
    "ThreadSampler",
    "Traffic",
    "Untold",
    "ZoneMemory",
    "ZoneMemoryReader",
    "cpus_of",
    "read_cpu_seconds",
    "read_settings",
    "read_text",
]

__getattr__ = lazy_names(
    __name__,
    {
        "fake_usage": "FakeUsage",
        "group_usage": (
            "GroupReader GroupUsage CpuTime EFFECTIVE_CPUS GroupPlaces MEMORY_BY_NODE MemoryByNode"
        ),
        "interrupts": "InterruptReader INTERRUPTS Interrupt",
        "kernel_files": "Untold cpus_of read_text",
        "node_memory": (
            "KernelSettings ZoneMemory CpuSeconds ZoneMemoryReader read_cpu_seconds read_settings"
        ),
        "resctrl": "ResctrlReader Traffic",
        "running_threads": "ThreadSampler",
    },
)
