"""Everything that one scan reads, and the options that decide what is made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.apps.exporter.kubelet_checkpoints import Checkpoints
from numakube.apps.exporter.numa_hardware import Hardware
from numakube.errors import InvalidValue
from numakube.node.pci.device_links import UNKNOWN, Connected
from numakube.node.podresources_client import AllocatableResources
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.apps.exporter.koordlet_annotations import KoordinatorInputs
    from numakube.node.podresources_client import PodResources

PodName: TypeAlias = tuple[str, str]
"""Namespace and name."""

ALL_PODS: Final = "all"
EXCLUSIVE_PODS: Final = "with-exclusive-resources"
METHODS: Final = (ALL_PODS, EXCLUSIVE_PODS)
_PARTS_OF_A_REFERENCE: Final = 3


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


@dataclass(frozen=True, slots=True)
class PodPattern:
    """Shell patterns for namespace and name; a pod that matches both is left out everywhere."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ContainerName:
    """A container of a pod."""

    namespace: str
    pod: str
    container: str

    @classmethod
    def parse(cls, text: str) -> ContainerName | None:
        """Read ``namespace/pod/container``; nothing for an empty text."""
        parts = [part.strip() for part in text.split("/")]
        if not text.strip():
            return None
        if len(parts) != _PARTS_OF_A_REFERENCE:
            raise InvalidValue(f"malformed ident: {go_quote(text)}")
        return cls(*parts)


class Accounting(StrEnum):
    """How amounts that several NUMA nodes share, or that are reported twice, are counted."""

    KUBELET = "kubelet"
    """As the kubelet's own books do: every byte and CPU once."""
    RTE = "rte"
    """As the Resource Topology Exporter does, its double counting included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What the user can choose about the content of a report.

    Attributes:
        watch_namespace: only pods of this namespace count as users; fingerprints cover all.
        resource_exclude: resources that are not published, by node name or ``*``.
        reference_container: its CPUs are the shared pool and count as unused.
        fingerprint: publish the fingerprint of the pods.
        numa_placement: publish on which NUMA node each container is, with the fingerprint and
            under the policy ``single-numa-node`` only.
        exact: publish the exact data, if it is known.
    """

    node_name: str = ""
    watch_namespace: str = ""
    resource_exclude: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    pod_exclude: tuple[PodPattern, ...] = ()
    reference_container: ContainerName | None = None
    fingerprint: bool = True
    fingerprint_method: str = EXCLUSIVE_PODS
    numa_placement: bool = True
    exact: bool = True
    accounting: Accounting = Accounting.KUBELET
