"""Memory that a process frees and needs again a moment later, kept instead of given back.

A decision over thousands of nodes makes some hundred arrays of 40 KB and drops them. glibc gives
the end of the heap back to the kernel as soon as 128 KB of it are free, so that the next decision
has to fetch the same pages again, hundreds of faults at a time: a quarter to a half of its time on
a virtual machine.
"""

from __future__ import annotations

import ctypes
from typing import Final

# From glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3

KEPT_BYTES: Final = 16 << 20
"""What may lie free at the end of the heap; a decision over 5,000 nodes needs 4 MB."""
_STEP_BYTES: Final = 1 << 20
_LARGE_BYTES: Final = 1 << 20
"""Larger pieces come from the kernel and go back to it at once, as before."""


def keep_freed_memory() -> bool:
    """Let this process keep up to `KEPT_BYTES` for itself; tell whether its C library can."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = (
        (_M_TRIM_THRESHOLD, KEPT_BYTES),
        (_M_TOP_PAD, _STEP_BYTES),
        (_M_MMAP_THRESHOLD, _LARGE_BYTES),
    )
    return all(mallopt(key, value) == 1 for key, value in settings)
