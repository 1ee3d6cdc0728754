"""Freed memory is kept; whether it helps is for the benchmarks."""

from __future__ import annotations

import platform
import subprocess
import sys

_PROGRAM = """
import resource
from numakube.apps.host.process_memory import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def churn():
    pieces = [bytearray(40_000) for _ in range(100)]
    del pieces

kept = keep_freed_memory()
churn()
before = faults()
for _ in range(10):
    churn()
print(kept, faults() - before)
"""


def test_memory_that_was_freed_is_used_again_without_asking_the_kernel() -> None:
    """Pages that came back from one round serve the next."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", _PROGRAM], capture_output=True, check=True
    )

    kept, faults = done.stdout.split()
    if platform.libc_ver()[0] != "glibc":
        assert kept == b"False"
    else:
        # Fetched again each time, ten rounds of 4 MB would be ten thousand pages.
        assert kept == b"True"
        assert int(faults) < 1_000
