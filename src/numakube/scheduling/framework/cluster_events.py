"""What can happen in a cluster that lets a refused pod fit after all.

A plugin that refuses pods says which events may change its mind (`Plugin.wakes_on`) and, given the
event, whether it could for this pod (`Plugin.wakes`). The queue asks only the plugins that refused.
"""

from __future__ import annotations

from enum import Flag, auto
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from numakube.api.resource_claims import ResourceClaim
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


class EventKind(Flag):
    """Kinds of events; a plugin registers for several by ``|``."""

    POD_ADDED = auto()
    """A pod was bound by anybody (it may satisfy affinity)."""
    POD_UPDATED = auto()
    """A bound pod changed labels or shrank."""
    POD_DELETED = auto()
    """A bound pod is gone or has ended."""
    UNSCHEDULED_POD_UPDATED = auto()
    """The waiting pod itself changed (gates, tolerations, labels, requests)."""
    NODE_ADDED = auto()
    NODE_UPDATED = auto()
    """Allocatable, labels, taints, conditions or ``unschedulable`` changed."""
    NODE_REMOVED = auto()
    """A node is gone, and with it perhaps the emptiest domain that pods are spread over."""
    TOPOLOGY_CHANGED = auto()
    """The NRT of a node changed, or a cache resynced it."""
    STORAGE_CHANGED = auto()
    """A claim, volume, storage class or CSI node changed."""
    CLAIM_CHANGED = auto()
    """A ResourceClaim was created, changed or deleted."""
    DEVICES_CHANGED = auto()
    """A ResourceSlice, DeviceClass or DeviceTaintRule changed."""
    POD_GROUP_CHANGED = auto()
    """A PodGroup was created, changed or deleted."""
    NAMESPACE_CHANGED = auto()
    OTHER = auto()
    """Periodic flush and forced wake-ups."""

    def names(self) -> list[str]:
        """Return the kinds by name, such as ``pod-deleted``."""
        return [one.name.lower().replace("_", "-") for one in self if one.name]

    @classmethod
    def every(cls) -> EventKind:
        """Return all kinds together."""
        return ~cls(0)


class ClusterEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event.

    Attributes:
        node: name of the node it happened on, if it has one.
        node_info: that node as it is now, if it is known.
        pod: the pod that it happened to, as it was before a deletion and after anything else.
        claim: key of the claim that it happened to.
        claim_before: the ResourceClaim as it was, if it was there.
        claim_now: the ResourceClaim as it is, if it is there.
        pod_group: API, namespace and name of the PodGroup that it happened to.
    """

    kind: EventKind
    node: str = ""
    node_info: NodeInfo | None = None
    pod: PodInfo | None = None
    claim: str = ""
    claim_before: ResourceClaim | None = None
    claim_now: ResourceClaim | None = None
    pod_group: tuple[str, str, str] | None = None

    def __str__(self) -> str:
        what = "|".join(self.kind.names())
        about = [f"of {self.pod.key}"] if self.pod is not None else []
        about += [f"of {self.claim}"] if self.claim else []
        about += ["of {1}/{2}".format(*self.pod_group)] if self.pod_group else []
        about += [f"on {self.node}"] if self.node else []
        return " ".join((what, *about))
