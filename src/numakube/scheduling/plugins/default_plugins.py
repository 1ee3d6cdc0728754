"""The plugins of kube-scheduler's default profile (1.37), and the two that order and gate pods.

``GangScheduling`` is beta and off there; ours is added by `numakube.scheduling.assembly`.
``DefaultPreemption`` and ``DefaultBinder`` act on the cluster and live with the scheduler itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.dra.features import LATEST
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.plugins import PreEnqueue, QueueSort
from numakube.scheduling.framework.registry import Handle
from numakube.scheduling.framework.status import SUCCESS, Status, unresolvable
from numakube.scheduling.plugins.dynamic_resources import DynamicResources
from numakube.scheduling.plugins.dynamic_resources.claim_binding import (
    CLAIM_ACTIONS,
    KUBERNETES_MINOR,
)
from numakube.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from numakube.scheduling.plugins.node_affinity import NodeAffinity
from numakube.scheduling.plugins.node_predicates import (
    NodeDeclaredFeatures,
    NodeName,
    NodePorts,
    NodeUnschedulable,
    TaintToleration,
)
from numakube.scheduling.plugins.node_resources_fit import NodeResourcesFit
from numakube.scheduling.plugins.node_scores import ImageLocality, NodeResourcesBalancedAllocation
from numakube.scheduling.plugins.pod_topology_spread import PodTopologySpread
from numakube.scheduling.plugins.volumes.node_volume_limits import NodeVolumeLimits
from numakube.scheduling.plugins.volumes.volume_binding import VolumeBinding
from numakube.scheduling.plugins.volumes.volume_claims import VOLUME_ACTIONS
from numakube.scheduling.plugins.volumes.volume_restrictions import VolumeRestrictions, VolumeZone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.plugins import Plugin
    from numakube.scheduling.framework.registry import Factory
    from numakube.scheduling.snapshot.pods import PodInfo


# ------------------------------------------------------------------------------------------------
# PrioritySort and SchedulingGates: which pod comes next, and which not yet.
#
# Follows the plugins of these names in kube-scheduler 1.37.


class PrioritySort(QueueSort):
    """Pods of higher priority first; among equals, who has waited longest."""

    name = "PrioritySort"
    wakes_on = EventKind(0)

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> PrioritySort:
        """Return the plugin; it has no arguments."""
        return cls()

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[object, ...]:
        """Return priority, negated, and time."""
        return -pod.priority, queued_at


class SchedulingGates(PreEnqueue):
    """Pods wait until all their gates are removed."""

    name = "SchedulingGates"
    wakes_on = EventKind.UNSCHEDULED_POD_UPDATED

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> SchedulingGates:
        """Return the plugin; it has no arguments."""
        return cls()

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Refuse a pod that has a gate."""
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return SUCCESS
        names = " ".join(gate.name for gate in gates)
        return unresolvable(f"waiting for scheduling gates: [{names}]")

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Only a change of the pod itself takes a gate away."""
        return event.pod is None or event.pod.uid == pod.uid


# ------------------------------------------------------------------------------------------------
# The plugins of kube-scheduler's default profile (1.37), in its order, and how they are made.


@dataclass(frozen=True, slots=True)
class DefaultPlugin:
    """One plugin of the default profile.

    Attributes:
        make: makes it from its arguments, as they stand under ``pluginConfig``.
        weight: factor of its scores; 0 if it has none.
    """

    make: Factory
    weight: int = 0


def _plain(from_args: Callable[[Mapping[str, object]], Plugin]) -> Factory:
    """Return a factory for a plugin that needs nothing of its surroundings."""
    return lambda args, handle: from_args(args)


def _volume_binding(args: Mapping[str, object], handle: Handle) -> Plugin:
    return VolumeBinding.from_args(args, actions=handle.services.get(VOLUME_ACTIONS))


def _dynamic_resources(args: Mapping[str, object], handle: Handle) -> Plugin:
    minor = handle.services.get(KUBERNETES_MINOR)
    return DynamicResources.from_args(
        args,
        objects=handle.cluster.objects,
        actions=handle.services.get(CLAIM_ACTIONS),
        minor=LATEST if minor is None else minor,
    )


def _node_resources_fit(args: Mapping[str, object], handle: Handle) -> Plugin:
    serving: tuple[DynamicResources, ...] | None = None

    def by_claims(resource: str) -> bool:
        nonlocal serving
        if handle.runtime is None:
            return False
        if serving is None:
            members = handle.runtime.profile.plugins().values()
            serving = tuple(member for member in members if isinstance(member, DynamicResources))
        return any(one.serves(resource) for one in serving)

    return NodeResourcesFit.from_args(args, by_claims=by_claims)


DEFAULT_PLUGINS: Final[Mapping[str, DefaultPlugin]] = {
    "SchedulingGates": DefaultPlugin(_plain(SchedulingGates.from_args)),
    "PrioritySort": DefaultPlugin(_plain(PrioritySort.from_args)),
    "NodeUnschedulable": DefaultPlugin(_plain(NodeUnschedulable.from_args)),
    "NodeName": DefaultPlugin(_plain(NodeName.from_args)),
    "TaintToleration": DefaultPlugin(_plain(TaintToleration.from_args), 3),
    "NodeAffinity": DefaultPlugin(_plain(NodeAffinity.from_args), 2),
    "NodePorts": DefaultPlugin(_plain(NodePorts.from_args)),
    "NodeResourcesFit": DefaultPlugin(_node_resources_fit, 1),
    "VolumeRestrictions": DefaultPlugin(_plain(VolumeRestrictions.from_args)),
    "NodeVolumeLimits": DefaultPlugin(_plain(NodeVolumeLimits.from_args)),
    "VolumeBinding": DefaultPlugin(_volume_binding, 1),
    "VolumeZone": DefaultPlugin(_plain(VolumeZone.from_args)),
    "PodTopologySpread": DefaultPlugin(_plain(PodTopologySpread.from_args), 2),
    "InterPodAffinity": DefaultPlugin(_plain(InterPodAffinity.from_args), 2),
    "DynamicResources": DefaultPlugin(_dynamic_resources, 2),
    "NodeResourcesBalancedAllocation": DefaultPlugin(
        _plain(NodeResourcesBalancedAllocation.from_args), 1
    ),
    "ImageLocality": DefaultPlugin(_plain(ImageLocality.from_args), 1),
    "NodeDeclaredFeatures": DefaultPlugin(_plain(NodeDeclaredFeatures.from_args)),
}
"""By name, in the order in which they are asked at each extension point."""


def default_plugins() -> list[Plugin]:
    """Return the plugins of the default profile with default arguments."""
    return [plugin.make({}, Handle()) for plugin in DEFAULT_PLUGINS.values()]


def default_weights() -> dict[str, int]:
    """Return the weights of the default profile."""
    return {name: one.weight for name, one in DEFAULT_PLUGINS.items() if one.weight}


def default_registry() -> dict[str, Factory]:
    """Return the factory of each plugin."""
    return {name: one.make for name, one in DEFAULT_PLUGINS.items()}
