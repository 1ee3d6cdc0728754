"""The cluster that a simulation begins with: its nodes, and the pods that run on them already."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from numakube.kubelet.versions import DEFAULT
from numakube.scheduling.snapshot.objects import ClusterObjects

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.api.placement import Taint
    from numakube.api.pod import Pod
    from numakube.kubelet.machine import Machine
    from numakube.values.resources import Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedNode:
    """One node.

    Attributes:
        machine: the hardware with its devices; nodes that are alike share one.
        config: the kubelet's configuration.
        kubernetes: the kubelet's version, such as ``1.35``.
        also: what the node offers besides its machine, in base units, without a place on a NUMA
            node: shares of GPUs, for example.
        unschedulable: whether it is cordoned.
    """

    name: str
    machine: Machine
    config: KubeletConfiguration
    kubernetes: str = DEFAULT
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    taints: tuple[Taint, ...] = ()
    also: Amounts = field(default_factory=lambda: MappingProxyType({}))
    unschedulable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPod:
    """A pod that is on a node when the simulation begins.

    Attributes:
        pod: as the API server has it; what it holds follows from the order of admission.
        seconds: how long it still runs; ``None`` for longer than the simulation.
    """

    pod: Pod
    node: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCluster:
    """All nodes, what runs on them in order of admission, and what else scheduling looks at."""

    nodes: tuple[SimulatedNode, ...]
    running: tuple[RunningPod, ...] = ()
    objects: ClusterObjects = field(default_factory=ClusterObjects)
