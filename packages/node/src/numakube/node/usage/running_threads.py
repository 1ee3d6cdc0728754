"""On which CPUs the threads of containers ran last, for some of them at a time.

``/proc/PID/task/TID/stat`` tells the CPU on which a thread ran last. A node may have a hundred
thousand threads, so each look takes a few of each group, at random, and no more than a budget in
all: shares are estimates, and how many threads they rest on is told with them.

Which processes a container has is read from ``/proc/PID/cgroup``. Control groups list them too, but
by the ids of the namespace of who reads; a mount of the host's ``/proc`` shows those of the host to
a reader in any namespace, who then needs no more rights.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from numakube.node.cgroups.group_names import container_id_of
from numakube.node.usage.kernel_files import names_in, number, read_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from random import Random

    from numakube.node.usage.kernel_files import Untold

T = TypeVar("T")

THREADS: Final = "CPUs that threads run on"

MOST_PROCESSES: Final = 8
MOST_THREADS: Final = 8
"""Threads of one process that are looked at in one reading."""
MOST_SEEN: Final = 1 << 15
"""Processes of a node that are looked at to find those of containers."""
_LAST_CPU: Final = 36
"""The place of the CPU among the words behind the name of a thread (field 39 of ``stat``)."""
_MOST_BYTES: Final = 1 << 14


@dataclass(slots=True)
class ThreadSampler:
    """Looks at threads, *budget* of them at most before `refill`.

    Attributes:
        proc: the mount of procfs of the host.
        rng: chooses the threads.
    """

    proc: Path
    rng: Random
    untold: Untold
    budget: int = 0

    def refill(self, budget: int) -> None:
        """Begin another reading."""
        self.budget = budget

    def by_container(self) -> dict[str, list[int]]:
        """Return the ids of processes by the runtime's id of their container."""
        found: dict[str, list[int]] = {}
        for name in names_in(str(self.proc), most=MOST_SEEN):
            pid = number(name)
            text = None if pid is None else read_text(f"{self.proc}/{pid}/cgroup", most=_MOST_BYTES)
            container = container_of(text) if text else None
            if container is not None and pid is not None:
                found.setdefault(container, []).append(pid)
        if not found:
            self.untold.note(
                THREADS, f"{self.proc} shows no process of a container; is it the host's?"
            )
        return found

    def last_cpus(self, processes: Sequence[int]) -> Counter[int]:
        """Return how many of the threads that were looked at ran last on each CPU."""
        seen: Counter[int] = Counter()
        for pid in self._some(processes, MOST_PROCESSES):
            tasks = f"{self.proc}/{pid}/task"
            for tid in self._some(names_in(tasks), MOST_THREADS):
                if self.budget <= 0:
                    return seen
                self.budget -= 1
                cpu = last_cpu(read_text(f"{tasks}/{tid}/stat", most=_MOST_BYTES) or "")
                if cpu is not None:
                    seen[cpu] += 1
        return seen

    def _some(self, all_of: Sequence[T], most: int) -> Sequence[T]:
        return all_of if len(all_of) <= most else self.rng.sample(all_of, most)


def container_of(text: str) -> str | None:
    """Return the id of the container in whose group a process is, given its ``cgroup`` file.

    A container may make groups inside its own, and who reads in a namespace of groups sees paths
    from there, as in ``/../kubepods.slice``: any name on the way may be the container's.
    """
    for line in text.splitlines():
        for name in reversed(line.split("/")):
            identity = container_id_of(name)
            if identity is not None:
                return identity
    return None


def last_cpu(stat: str) -> int | None:
    """Return the CPU in the text of a thread's ``stat``; names of threads may have any text."""
    words = stat.rpartition(")")[2].split()
    return number(words[_LAST_CPU]) if len(words) > _LAST_CPU else None
