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
    from numakube.node.usage.group_usage import GroupReader, GroupUsage
    from numakube.node.usage.interrupts import InterruptReader
    from numakube.node.usage.kernel_files import Untold
    from numakube.node.usage.node_memory import KernelSettings, ZoneMemory
    from numakube.node.usage.resctrl import ResctrlReader

__all__ = [
    "FakeUsage",
    "GroupReader",
    "GroupUsage",
    "InterruptReader",
    "KernelSettings",
    "ResctrlReader",
    "Untold",
    "ZoneMemory",
]

__getattr__ = lazy_names(
    __name__,
    {
        "fake_usage": "FakeUsage",
        "group_usage": "GroupReader GroupUsage",
        "interrupts": "InterruptReader",
        "kernel_files": "Untold",
        "node_memory": "KernelSettings ZoneMemory",
        "resctrl": "ResctrlReader",
    },
)
