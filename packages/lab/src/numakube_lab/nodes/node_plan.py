"""What a lab node is to be: its machine, its kubelet's configuration, its place in the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.api.kubelet_config import KubeletConfiguration
from numakube.errors import ConfigError
from numakube.kubelet.kubelet_versions import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.affinity_and_taints import Taint
    from numakube.kubelet.machine import Device, Machine


STORAGE_BYTES: Final = 100 << 30
"""The size of a node's disk by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """A node to be.

    Attributes:
        name: its name, unique in the cluster.
        machine: the machine; its devices are announced as if their plugins ran already.
        config: the kubelet's configuration.
        kubernetes: the kubelet's version, such as ``1.35``.
        labels: labels besides those that every node has.
        taints: taints that it registers with.
        unschedulable: whether it is cordoned from the start.
        ephemeral_storage_bytes: size of its disk.
        cgroup_version: of its control groups, 1 or 2.
        claimable: devices by the resource that they would be of a device plugin, which DRA drivers
            offer to claims instead.
        virtual_functions: how many a network card on each NUMA node has, in the node's fake sysfs;
            with 0 there are no cards.
    """

    name: str
    machine: Machine
    config: KubeletConfiguration = field(default_factory=KubeletConfiguration)
    kubernetes: str = DEFAULT
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ephemeral_storage_bytes: int = STORAGE_BYTES
    cgroup_version: int = 2
    claimable: Mapping[str, tuple[Device, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    virtual_functions: int = 0

    @property
    def kubelet_version(self) -> str:
        """The version as a kubelet reports it: with a ``v`` and a patch number."""
        version = self.kubernetes.removeprefix("v")
        return f"v{version}" if version.count(".") > 1 else f"v{version}.0"

    def with_claimable(self, *resources: str) -> NodePlan:
        """Return the plan of a node whose devices of these *resources* are for claims.

        Raises:
            ConfigError: the machine has no such devices.
        """
        if not resources:
            return self  # equal nodes go on sharing their machine
        plugins = dict(self.machine.devices)
        for resource in resources:
            if resource not in plugins:
                known = ", ".join(plugins) or "no devices"
                raise ConfigError(f"{self.name} has no {resource}: its machine has {known}")
        claimable = {resource: plugins.pop(resource) for resource in resources}
        return replace(self, machine=replace(self.machine, devices=plugins), claimable=claimable)
