"""Options of the static CPU policy, with the kubelet's checks and refusals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.errors import KubeletStartError
from numakube.kubelet.manager_settings import OptionGates, read_bool, read_options
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from numakube.kubelet.cpus.cpu_topology import CpuTopology
    from numakube.kubelet.kubelet_versions import Behaviour
    from numakube.kubelet.manager_settings import KubeletSettings

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
