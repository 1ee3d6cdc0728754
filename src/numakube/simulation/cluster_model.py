"""The cluster that a simulation begins with: its nodes, and the pods that run on them already."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from numakube.kubelet.kubelet_versions import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.affinity_and_taints import Taint
    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.api.pod import Pod
    from numakube.kubelet.machine import Machine
    from numakube.topology.exact_report import ExactReport
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
        held: the state of its kubelet with what each pod holds by uid, if that is known exactly.
            Without it, or with other settings, the pods are admitted one after the other.
    """

    name: str
    machine: Machine
    config: KubeletConfiguration
    kubernetes: str = DEFAULT
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    taints: tuple[Taint, ...] = ()
    also: Amounts = field(default_factory=lambda: MappingProxyType({}))
    unschedulable: bool = False
    held: ExactReport | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPod:
    """A pod that is on a node when the simulation begins.

    Attributes:
        pod: as the API server has it.
        seconds: how long it still runs; ``None`` for longer than the simulation.
    """

    pod: Pod
    node: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCluster:
    """The whole cluster.

    Attributes:
        running: what runs on its nodes, in order of admission.
        objects: what else scheduling looks at: by the fields of
            `numakube.scheduling.snapshot.cluster_objects.ClusterObjects`, objects by key.
    """

    nodes: tuple[SimulatedNode, ...]
    running: tuple[RunningPod, ...] = ()
    objects: Mapping[str, Mapping[str, object]] = field(
        default_factory=lambda: MappingProxyType({})
    )
