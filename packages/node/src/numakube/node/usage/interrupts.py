"""Interrupts of PCI functions by the CPUs that take them.

A function's interrupts are listed in sysfs (``msi_irqs``, or ``irq`` where it has none of those);
``/proc/interrupts`` counts each by CPU, and ``/proc/irq/N/effective_affinity_list`` tells where the
next one goes, ``smp_affinity_list`` where it may go. Counters start again when a driver does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.node.pci.pci_functions import DEVICES, is_address
from numakube.node.usage.kernel_files import cpus_of, names_in, number, read_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from numakube.node.usage.kernel_files import Untold

INTERRUPTS: Final = "interrupts of devices"

_MOST_BYTES: Final = 16 << 20
"""512 CPUs with 2,000 interrupts are 12 MiB."""
_MOST_OF_FUNCTION: Final = 2048


@dataclass(frozen=True, slots=True)
class Interrupt:
    """One interrupt.

    Attributes:
        number: as ``/proc/irq`` has it.
        cpus: that take it; those that may if the kernel does not tell which do.
    """

    number: int
    cpus: frozenset[int]


class InterruptReader:
    """Reads the interrupts of functions, below one sysfs and one procfs."""

    def __init__(self, sysfs: Path, proc: Path, untold: Untold) -> None:
        self._devices = f"{sysfs}/{DEVICES}"
        self._proc = str(proc)
        self._untold = untold

    def of(self, address: str) -> tuple[Interrupt, ...]:
        """Return the interrupts of the function at *address*."""
        if not is_address(address):
            return ()
        folder = f"{self._devices}/{address}"
        names = names_in(f"{folder}/msi_irqs", most=_MOST_OF_FUNCTION)
        legacy = (read_text(f"{folder}/irq") or "").strip()
        numbers = [number(name) for name in names or [legacy]]
        return tuple(Interrupt(irq, self._cpus(irq)) for irq in numbers if irq)

    def _cpus(self, irq: int) -> frozenset[int]:
        for name in ("effective_affinity_list", "smp_affinity_list"):
            text = read_text(f"{self._proc}/irq/{irq}/{name}", untold=self._untold, what=INTERRUPTS)
            cpus = frozenset(cpus_of(text or ""))
            if cpus:
                return cpus
        return frozenset()

    def counts(self, wanted: Collection[int]) -> Mapping[int, Mapping[int, int]]:
        """Return how often each of the *wanted* interrupts came, by CPU."""
        if not wanted:
            return {}
        text = read_text(
            f"{self._proc}/interrupts", most=_MOST_BYTES, untold=self._untold, what=INTERRUPTS
        )
        return counts_in(text or "", wanted)


def counts_in(text: str, wanted: Collection[int]) -> dict[int, dict[int, int]]:
    """Return what ``/proc/interrupts`` counts of the *wanted* interrupts, by CPU."""
    head, _, rest = text.partition("\n")
    cpus = [number(word.removeprefix("CPU")) for word in head.split()]
    found: dict[int, dict[int, int]] = {}
    for line in rest.splitlines():
        name, _, counts = line.partition(":")
        irq = number(name.strip())
        if irq is None or irq not in wanted:
            continue
        words = counts.split(None, len(cpus))[: len(cpus)]
        amounts = [number(word) for word in words]
        if len(amounts) < len(cpus) or None in amounts:
            continue
        found[irq] = {
            cpu: amount
            for cpu, amount in zip(cpus, amounts, strict=True)
            if cpu is not None and amount
        }
    return found
