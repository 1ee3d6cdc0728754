"""How a process that holds a whole cluster treats its memory: rare collection, late release.

API objects are trees: they are freed by reference counting, and Python's cyclic garbage collector
finds nothing in them. But it looks at all of them again and again while they grow in number, which
takes a third of the time in which a lab starts ten thousand pods, and a twentieth of a scheduler's
at full speed.

A decision over thousands of nodes makes some hundred arrays of 40 KB and drops them. glibc gives
the end of the heap back to the kernel as soon as 128 KB of it are free, so that the next decision
has to fetch the same pages again, hundreds of faults at a time: a quarter to a half of its time on
a virtual machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


# New objects until the young are looked at, and how many such looks until older ones are.
_RARELY: Final = (100_000, 20, 100)
# From glibc's malloc.h.
_M_TRIM_THRESHOLD: Final = -1
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3
KEPT_BYTES: Final = 16 << 20
"""What may lie free at the end of the heap; a decision over 5,000 nodes needs 4 MB."""
_STEP_BYTES: Final = 1 << 20
_LARGE_BYTES: Final = 1 << 20
"""Larger pieces come from the kernel and go back to it at once, as before."""


@contextlib.contextmanager
def quiet_collector() -> Iterator[None]:
    """Let the collector work rarely, and not on what exists already, while the body runs."""
    before = gc.get_threshold()
    quieten_collector()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def quieten_collector() -> None:
    """Let the collector work rarely from now on, and not on what exists already."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_RARELY)


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
