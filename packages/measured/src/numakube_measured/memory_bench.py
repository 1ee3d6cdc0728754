"""Measures how fast the memory of each NUMA node is, seen from the CPUs of each.

Memory is taken from one node by ``set_mempolicy`` and looked up with ``move_pages`` before anything
is measured: where the kernel gave other memory, the cell is unknown. Bandwidth is what NumPy
copies, with as many threads as a few cores: it lets go of Python's lock meanwhile. Latency is that
of reads that each depend on the one before, less what the same loop takes in the cache: Python's
own work may hide some of it, so it is a lower bound. Every figure is the median of several repeats,
with their spread (Linux 6.12, mm/mempolicy.c; system calls of x86-64 and arm64).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.errors import ConfigError
from numakube.node.usage import ZoneMemoryReader, cpus_of, read_text
from numakube_measured.memory_speed import Cell, MemorySpeed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from numakube.node.usage import Untold

_SYSTEM_CALLS: Final = {
    "x86_64": {"set_mempolicy": 238, "move_pages": 279},
    "aarch64": {"set_mempolicy": 237, "move_pages": 239},
}
_BIND: Final = 2
_DEFAULT: Final = 0
_MASK_BITS: Final = 4096
_MIB: Final = 1 << 20
_SAMPLES: Final = 64
_STEPS: Final = 60_000
_SMALL_BYTES: Final = 1 << 14
_MOST_THREADS: Final = 8
_WORD: Final = 8


@dataclass(frozen=True, slots=True)
class BenchNode:
    """A NUMA node: its CPUs that we may use, and whether it has memory."""

    id: int
    cpus: tuple[int, ...]
    memory_bytes: int


def nodes_of(sysfs: Path, untold: Untold) -> tuple[BenchNode, ...]:
    """Return the NUMA nodes of this machine, with the CPUs that this process may run on."""
    allowed = os.sched_getaffinity(0)
    found = []
    for zone in ZoneMemoryReader(sysfs, untold).read():
        text = read_text(f"{sysfs}/devices/system/node/node{zone.id}/cpulist") or ""
        cpus = tuple(cpu for cpu in cpus_of(text) if cpu in allowed)
        found.append(BenchNode(zone.id, cpus, zone.total or 0))
    return tuple(found)


class NumaCalls:
    """The system calls that say where memory is taken from, and where it is."""

    def __init__(self) -> None:
        """Look for them.

        Raises:
            ConfigError: they are not known of this machine.
        """
        numbers = _SYSTEM_CALLS.get(platform.machine())
        if platform.system() != "Linux" or numbers is None:
            raise ConfigError(
                f"memory cannot be placed on {platform.system()} {platform.machine()}:"
                " this needs Linux on x86-64 or arm64"
            )
        self._numbers = numbers
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long

    @contextmanager
    def memory_of(self, node: int) -> Iterator[None]:
        """Have this thread take memory from *node* alone for a while.

        Raises:
            ConfigError: the kernel refuses.
        """
        mask = (ctypes.c_ulong * (_MASK_BITS // 64))()
        mask[node // 64] = 1 << node % 64
        self._set(_BIND, mask)
        try:
            yield
        finally:
            self._set(_DEFAULT, None)

    def _set(self, mode: int, mask: object) -> None:
        bits = ctypes.c_ulong(0 if mask is None else _MASK_BITS)
        if self._call(self._numbers["set_mempolicy"], ctypes.c_int(mode), mask, bits):
            code = ctypes.get_errno()
            raise ConfigError(f"the kernel does not let memory be placed: {os.strerror(code)}")

    def nodes_of_pages(self, address: int, size: int) -> set[int]:
        """Return on which nodes some pages between *address* and its end are; none if unknown."""
        pages = range(address, address + size, max(mmap.PAGESIZE, size // _SAMPLES))
        places = (ctypes.c_void_p * len(pages))(*pages)
        status = (ctypes.c_int * len(pages))()
        failed = self._call(
            self._numbers["move_pages"], 0, ctypes.c_ulong(len(pages)), places, None, status, 0
        )
        return set() if failed else set(status)


def measure(
    nodes: Collection[BenchNode],
    calls: NumaCalls,
    *,
    mebibytes: int,
    repeats: int,
    tell: Callable[[str], None],
) -> MemorySpeed:
    """Return how fast the memory of each of *nodes* is from the CPUs of each.

    Args:
        nodes: of this machine.
        calls: place memory.
        mebibytes: how much memory is taken, much more than the caches have.
        repeats: of every measurement.
        tell: told of the progress.
    """
    cells: list[Cell] = []
    allowed = os.sched_getaffinity(0)
    from_cpus = [node for node in nodes if node.cpus]
    size = mebibytes * _MIB
    for memory in (node for node in nodes if node.memory_bytes):
        with mmap.mmap(-1, 2 * size) as area, calls.memory_of(memory.id):
            words = np.frombuffer(area, dtype=np.uint64)
            words[:] = 1
            where = calls.nodes_of_pages(words.ctypes.data, 2 * size)
            placed = where == {memory.id} or not where
            try:
                for cpus in from_cpus:
                    tell(f"CPUs of node {cpus.id}, memory of node {memory.id}")
                    os.sched_setaffinity(0, cpus.cpus)
                    cell = Cell(cpus=cpus.id, memory=memory.id)
                    cells.append(_measured(cell, words, cpus, repeats) if placed else cell)
            finally:
                os.sched_setaffinity(0, allowed)
                del words
    return MemorySpeed(cells=tuple(cells), mebibytes=mebibytes, repeats=repeats)


def _measured(cell: Cell, words: npt.NDArray[np.uint64], cpus: BenchNode, repeats: int) -> Cell:
    threads = min(len(cpus.cpus), _MOST_THREADS)
    half = len(words) // 2
    # Threads start with the CPUs of the one that starts them.
    with ThreadPoolExecutor(threads) as pool:
        speeds = [_copied(pool, words, threads) for _ in range(repeats + 1)][1:]
    chain = _chain(words[:half])
    small = _chain(np.ones(_SMALL_BYTES // _WORD, dtype=np.uint64))
    waits = [max(0.0, _walked(chain) - _walked(small)) for _ in range(repeats)]
    return Cell(
        cpus=cell.cpus,
        memory=cell.memory,
        mi_per_second=round(statistics.median(speeds) / _MIB),
        bandwidth_spread=_spread(speeds),
        latency_ns=round(statistics.median(waits) * 1e9, 1),
        latency_spread=_spread(waits),
    )


def _copied(pool: ThreadPoolExecutor, words: npt.NDArray[np.uint64], threads: int) -> float:
    """Return the bytes a second that are read and written while one half is copied to the other."""
    half = len(words) // 2
    part = half // threads
    starts = range(0, part * threads, part)
    slices = [(words[at : at + part], words[half + at : half + at + part]) for at in starts]
    begun = time.perf_counter()
    list(pool.map(lambda pair: np.copyto(pair[1], pair[0]), slices))
    seconds = time.perf_counter() - begun
    return 2 * part * threads * _WORD / seconds


def _chain(words: npt.NDArray[np.uint64]) -> memoryview:
    """Make *words* a chain through all of its cache lines in a random order; return it to walk."""
    line = 64 // _WORD
    order = np.random.default_rng(1).permutation(len(words) // line).astype(np.uint64) * line
    words[order] = np.roll(order, -1)
    return words.data


def _walked(chain: memoryview) -> float:
    """Return the seconds of one step along *chain*."""
    place = 0
    begun = time.perf_counter()
    for _ in range(_STEPS):
        place = chain[place]
    return (time.perf_counter() - begun) / _STEPS


def _spread(values: list[float]) -> float:
    """Return how far apart *values* are, as a share of the median."""
    median = statistics.median(values)
    return round((max(values) - min(values)) / median, 3) if median else 0.0


def is_virtual(proc: Path) -> bool:
    """Tell whether this machine says that it is a virtual one."""
    text = read_text(f"{proc}/cpuinfo", most=16 * _MIB) or ""
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return " hypervisor" in flags
