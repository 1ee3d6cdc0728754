"""How CPUs belong to cores, caches, NUMA nodes and sockets, and the CPU policy's options.

Every set of CPUs is one integer with a bit a CPU. Two things the kubelet does are kept on purpose:
a core is named by its smallest thread (kernel core ids repeat across sockets), and the "CPUs per
core/socket/cache" are averages over the machine, wrong on hybrid or lopsided hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from numakube.errors import KubeletStartError
from numakube.kubelet.manager_settings import OptionGates, read_bool, read_options
from numakube.values.cpuset import NO_CPUS, CpuMask, cpu_mask, iter_bits, union
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.kubelet.kubelet_versions import Behaviour
    from numakube.kubelet.machine import Core, Machine
    from numakube.kubelet.manager_settings import KubeletSettings
    from numakube.values.numamask import NumaMask


@dataclass(frozen=True, slots=True, eq=False)
class CpuTopology:
    """CPUs of each element of each level; machines that are alike share one object."""

    all_cpus: CpuMask
    cpu_count: int
    socket_count: int
    core_count: int
    numa: Mapping[int, CpuMask]
    sockets: Mapping[int, CpuMask]
    cores: Mapping[int, CpuMask]
    uncore_caches: Mapping[int, CpuMask]

    @classmethod
    def of(cls, machine: Machine) -> CpuTopology:
        """Read the CPUs of *machine*."""
        if machine.cpu_count == 0:
            raise KubeletStartError("could not detect number of cpus")
        levels: tuple[dict[int, CpuMask], ...] = ({}, {}, {}, {})
        for node in machine.nodes:
            for core in node.cores:
                ids = (node.id, core.socket, _core_id(core), _uncore_id(core))
                _join(levels, ids, core.threads)
        numa, sockets, cores, uncore = levels
        core_count = sum(len(node.cores) for node in machine.nodes)
        return _shared(
            (machine.cpu_count, machine.socket_count, core_count),
            *(tuple(one.items()) for one in (dict(sorted(numa.items())), sockets, cores, uncore)),
        )

    @property
    def cpus_per_core(self) -> int:
        """Average threads a core, rounded down."""
        return self.cpu_count // self.core_count if self.core_count else 0

    @property
    def cpus_per_socket(self) -> int:
        """Average CPUs a socket, rounded down."""
        return self.cpu_count // self.socket_count if self.socket_count else 0

    @property
    def cpus_per_uncore(self) -> int:
        """Average CPUs a last-level cache, rounded down."""
        return self.cpu_count // len(self.uncore_caches) if self.uncore_caches else 0

    def cpus_on(self, numa_mask: NumaMask) -> CpuMask:
        """Return the CPUs of the NUMA nodes in *numa_mask*."""
        return union(self.numa.get(node, NO_CPUS) for node in iter_bits(numa_mask))

    def sockets_of(self, cpus: CpuMask) -> list[int]:
        """Return the sockets that have any of *cpus*."""
        return [socket for socket, members in self.sockets.items() if members & cpus]

    def whole_cores_of(self, cpus: CpuMask) -> CpuMask:
        """Return all threads of the cores that have any of *cpus*."""
        return union(members for members in self.cores.values() if members & cpus)


@lru_cache(maxsize=256)
def _shared(counts: tuple[int, int, int], *levels: tuple[tuple[int, CpuMask], ...]) -> CpuTopology:
    numa, sockets, cores, uncore_caches = map(dict, levels)
    return CpuTopology(union(numa.values()), *counts, numa, sockets, cores, uncore_caches)


def _core_id(core: Core) -> int:
    if not core.threads:
        raise KubeletStartError("no cpus provided")
    if len(set(core.threads)) != len(core.threads):
        raise KubeletStartError("cpus provided are not unique")
    return min(core.threads)


def _uncore_id(core: Core) -> int:
    """Name the cache; a core that reports none is taken to share one with its socket."""
    return core.socket if core.uncore_cache is None else core.uncore_cache


def _join(levels: Iterable[dict[int, CpuMask]], ids: Iterable[int], threads: Iterable[int]) -> None:
    bits = cpu_mask(threads)
    for level, element in zip(levels, ids, strict=True):
        level[element] = level.get(element, NO_CPUS) | bits


# Options of the static CPU policy, with the kubelet's checks and refusals.


_FULL_CORES = "full-pcpus-only"
_ACROSS_NUMA = "distribute-cpus-across-numa"
_BY_SOCKET = "align-by-socket"
_ACROSS_CORES = "distribute-cpus-across-cores"
_STRICT = "strict-cpu-reservation"
_BY_UNCORE = "prefer-align-cpus-by-uncorecache"

# Pairs that exclude each other, in the order in which the kubelet checks and names them.
_CONFLICTS = (
    (_FULL_CORES, _ACROSS_CORES),
    (_ACROSS_NUMA, _ACROSS_CORES),
    (_BY_UNCORE, _ACROSS_CORES),
    (_BY_UNCORE, _ACROSS_NUMA),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuOptions:
    """The static policy's options."""

    full_cores_only: bool = False
    distribute_across_numa: bool = False
    align_by_socket: bool = False
    distribute_across_cores: bool = False
    strict_reservation: bool = False
    align_by_uncore: bool = False


def read_cpu_options(
    settings: KubeletSettings, behaviour: Behaviour, topology: CpuTopology
) -> CpuOptions:
    """Return the options in force, or refuse them as the kubelet would at start."""
    gates = OptionGates(
        alpha=settings.gate("CPUManagerPolicyAlphaOptions", behaviour.version),
        beta=settings.gate("CPUManagerPolicyBetaOptions", behaviour.version),
        alpha_refusal="CPU Manager Policy Alpha-level Options not enabled, "
        'but option "{name}" provided',
        beta_refusal="CPU Manager Policy Beta-level Options not enabled, "
        'but option "{name}" provided',
        unknown='unknown CPU Manager Policy option: "{name}"',
    )
    readers = dict.fromkeys(behaviour.cpu_options, read_bool)
    values = read_options(settings.cpu_options, behaviour.cpu_options, gates, readers)
    for one, other in _CONFLICTS:
        if values.get(one) and values.get(other):
            raise KubeletStartError(
                f"static policy options {one} and {other} can not be used at the same time"
            )
    options = CpuOptions(
        full_cores_only=values.get(_FULL_CORES, False),
        distribute_across_numa=values.get(_ACROSS_NUMA, False),
        align_by_socket=values.get(_BY_SOCKET, False),
        distribute_across_cores=values.get(_ACROSS_CORES, False),
        strict_reservation=values.get(_STRICT, False),
        align_by_uncore=values.get(_BY_UNCORE, False),
    )
    if options.align_by_socket:
        _check_socket_alignment(settings, topology)
    return options


def _check_socket_alignment(settings: KubeletSettings, topology: CpuTopology) -> None:
    if settings.topology_policy == TopologyPolicy.SINGLE_NUMA_NODE:
        # The kubelet's own spelling.
        raise KubeletStartError(
            "Topolgy manager single-numa-node policy is incompatible with CPUManager "
            "align-by-socket policy option"
        )
    if topology.socket_count > len(topology.numa):
        raise KubeletStartError(
            "Align by socket is not compatible with hardware where number of sockets are more "
            "than number of NUMA"
        )
