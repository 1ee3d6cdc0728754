"""Everything that one scan reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from numakube.apps.exporter.kubelet_checkpoints import Checkpoints
from numakube.apps.exporter.numa_hardware import Hardware
from numakube.node.pci.device_links import UNKNOWN, Connected
from numakube.node.podresources_client import AllocatableResources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.apps.exporter.koordlet_annotations import KoordinatorInputs
    from numakube.node.podresources_client import PodResources

PodName: TypeAlias = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletFacts:
    """What is known of the kubelet's configuration; ``None`` is unknown and is not published.

    Attributes:
        topology_policy: as the kubelet spells it; wins over *config*.
        topology_scope: likewise.
        config: the whole configuration with the kubelet's defaults filled in.
        cpu_policy: the CPU Manager's policy as its state file says; *config* wins over it.
        memory_policy: likewise the Memory Manager's.
        version: such as ``v1.35.7``.
        why_unknown: why there is no *config*, if it was looked for.
        state_trouble: why its state files will keep it from starting again, if so.
    """

    topology_policy: str | None = None
    topology_scope: str | None = None
    config: KubeletConfiguration | None = None
    cpu_policy: str | None = None
    memory_policy: str | None = None
    version: str | None = None
    why_unknown: str = ""
    state_trouble: str = ""

    @property
    def running_cpu_policy(self) -> str | None:
        """The CPU Manager's policy that is in force: a file may be edited before a restart."""
        known = self.config.cpu_manager_policy if self.config else None
        return known if self.cpu_policy is None else self.cpu_policy

    @property
    def running_memory_policy(self) -> str | None:
        """Likewise the Memory Manager's."""
        known = self.config.memory_manager_policy if self.config else None
        return known if self.memory_policy is None else self.memory_policy

    @property
    def policy(self) -> str | None:
        """The Topology Manager's policy."""
        known = self.config.topology_manager_policy if self.config else None
        return known if self.topology_policy is None else self.topology_policy

    @property
    def scope(self) -> str | None:
        """The Topology Manager's scope."""
        known = self.config.topology_manager_scope if self.config else None
        return known if self.topology_scope is None else self.topology_scope


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInputs:
    """What one scan read.

    Attributes:
        hardware: from sysfs.
        allocatable: the kubelet's answer to GetAllocatableResources.
        pods: its answer to List, in its order, without pods that are being admitted.
        uids: the uids of listed pods, as far as they are known.
        terminal: listed pods that are done: they neither count nor are fingerprinted.
        koordinator: what koordlet's annotations need besides; ``None`` if they are not wanted.
        connected: how the devices are connected, as far as that is known.
    """

    hardware: Hardware = field(default_factory=Hardware)
    allocatable: AllocatableResources = field(default_factory=AllocatableResources)
    pods: tuple[PodResources, ...] = ()
    kubelet: KubeletFacts = field(default_factory=KubeletFacts)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    uids: Mapping[PodName, str] = field(default_factory=lambda: MappingProxyType({}))
    terminal: frozenset[PodName] = frozenset()
    koordinator: KoordinatorInputs | None = None
    connected: Connected = UNKNOWN
