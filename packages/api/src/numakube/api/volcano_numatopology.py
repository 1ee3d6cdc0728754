"""Numatopology (nodeinfo.volcano.sh/v1alpha1): the CPUs of a node, as Volcano's agent tells them.

The kind belongs to Volcano (volcano-sh/apis, June 2026) and is only read. One object a node, of its
name, without a namespace. CPUs come with NUMA node, socket and core; of other resources the agent
tells nothing by NUMA node.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from numakube.api.codec import QuantityText, Wire, always
from numakube.api.meta import ObjectMeta

GROUP: Final = "nodeinfo.volcano.sh"
VERSION: Final = "v1alpha1"
KIND: Final = "Numatopology"
PLURAL: Final = "numatopologies"

TOPOLOGY_POLICY: Final = "TopologyManagerPolicy"
CPU_POLICY: Final = "CPUManagerPolicy"


class FreeCpus(Wire, frozen=True):
    """An entry of ``numares``.

    Attributes:
        allocatable: the CPUs that no container has for itself now, reserved ones included.
        capacity: how many there are.
    """

    allocatable: str = ""
    capacity: int = 0


class CpuDetail(Wire, frozen=True):
    """Where one CPU is; zeros are left out. Core ids are unique within a socket only."""

    numa: int = 0
    socket: int = 0
    core: int = 0


class NumatopologySpec(Wire, frozen=True):
    """What the agent found.

    Attributes:
        policies: the kubelet's, by `TOPOLOGY_POLICY` and `CPU_POLICY`; some agents leave them out.
        res_reserved: what the kubelet keeps for the system, by resource.
        numares: what is free by resource; only ``cpu`` is known.
        cpu_detail: by the number of the CPU.
    """

    policies: Mapping[str, str] = {}
    res_reserved: Mapping[str, QuantityText] = {}
    numares: Mapping[str, FreeCpus] = {}
    cpu_detail: Mapping[str, CpuDetail] = {}


class Numatopology(Wire, frozen=True):
    """The CPUs of the node with the same name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NumatopologySpec = msgspec.field(default_factory=NumatopologySpec)
    api_version: str = always(f"{GROUP}/{VERSION}")
    kind: str = always(KIND)
