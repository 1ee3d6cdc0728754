"""The plugins of kube-scheduler's default profile (1.37), in its order, and how they are made.

``GangScheduling`` is beta and off there; ours is added by `numakube.scheduling.assembly`.
``DefaultPreemption`` and ``DefaultBinder`` act on the cluster and live with the scheduler itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.dra.features import LATEST
from numakube.scheduling.framework.registry import Handle
from numakube.scheduling.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from numakube.scheduling.plugins.dynamic_resources import DynamicResources
from numakube.scheduling.plugins.dynamic_resources.claim_actions import (
    CLAIM_ACTIONS,
    KUBERNETES_MINOR,
)
from numakube.scheduling.plugins.image_locality import ImageLocality
from numakube.scheduling.plugins.inter_pod_affinity import InterPodAffinity
from numakube.scheduling.plugins.node_affinity import NodeAffinity
from numakube.scheduling.plugins.node_declared_features import NodeDeclaredFeatures
from numakube.scheduling.plugins.node_name import NodeName
from numakube.scheduling.plugins.node_ports import NodePorts
from numakube.scheduling.plugins.node_resources_fit import NodeResourcesFit
from numakube.scheduling.plugins.node_unschedulable import NodeUnschedulable
from numakube.scheduling.plugins.pod_topology_spread import PodTopologySpread
from numakube.scheduling.plugins.queue_plugins import PrioritySort, SchedulingGates
from numakube.scheduling.plugins.taint_toleration import TaintToleration
from numakube.scheduling.plugins.volumes.node_volume_limits import NodeVolumeLimits
from numakube.scheduling.plugins.volumes.volume_actions import VOLUME_ACTIONS
from numakube.scheduling.plugins.volumes.volume_binding import VolumeBinding
from numakube.scheduling.plugins.volumes.volume_restrictions import VolumeRestrictions
from numakube.scheduling.plugins.volumes.volume_zone import VolumeZone

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numakube.scheduling.framework.plugins import Plugin
    from numakube.scheduling.framework.registry import Factory


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
            serving = tuple(one for one in members if isinstance(one, DynamicResources))
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
    return [one.make({}, Handle()) for one in DEFAULT_PLUGINS.values()]


def default_weights() -> dict[str, int]:
    """Return the weights of the default profile."""
    return {name: one.weight for name, one in DEFAULT_PLUGINS.items() if one.weight}


def default_registry() -> dict[str, Factory]:
    """Return the factory of each plugin."""
    return {name: one.make for name, one in DEFAULT_PLUGINS.items()}
