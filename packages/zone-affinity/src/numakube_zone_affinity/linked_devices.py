"""LinkedDevices: pods whose devices of one resource have to be pairwise linked.

    numakube.dev/linked: Required        # or Preferred

The kubelet knows no links: it takes any devices of the NUMA nodes that it chooses. So links are
certain where one island has all that can be chosen from, or where all that is left is needed;
elsewhere they are luck, which is told as for closeness. ``Required`` refuses nodes where they are
not certain, ``Preferred`` takes another node if one of the next few is better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.api.codec import Wire
from numakube.api.node_islands import told_islands
from numakube.api.zone_relations import Insistence
from numakube.kubelet import Admitted
from numakube.kubelet.device_links import linked_prospects
from numakube.scheduling.framework import EventKind
from numakube.scheduling.framework.plugins import Confirm
from numakube.scheduling.framework.status import SUCCESS, Code, Status, unresolvable, unschedulable
from numakube.scheduling.numa.native.pod_wants import wants_of
from numakube.scheduling.plugins.plugin_arguments import read_args
from numakube.scheduling.snapshot.pod_equivalence import kubelet_demand
from numakube.scheduling.snapshot.zone_belief import foresees
from numakube.values.display import counted
from numakube_zone_affinity.node_zones import wish_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numakube.kubelet.device_links import LinkedProspect
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.registry import Handle
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

_SHOWN: Final = 8
_NOT_KNOWN: Final = "devices not linked: which of its devices are linked is not known"


class LinkedDevicesArgs(Wire, frozen=True):
    """Arguments of the plugin: there are none."""


class LinkedDevices(Confirm):
    """See the module."""

    name = "LinkedDevices"
    wakes_on = (
        EventKind.POD_ADDED
        | EventKind.POD_DELETED
        | EventKind.UNSCHEDULED_POD_UPDATED
        | EventKind.NODE_ADDED
        | EventKind.TOPOLOGY_CHANGED
    )
    insists_on = frozenset({"confirm"})

    @classmethod
    def make(cls, args: Mapping[str, object], handle: Handle) -> LinkedDevices:
        """Make the plugin."""
        del handle
        read_args(LinkedDevicesArgs, args)
        return cls()

    def likeness(self, pod: PodInfo) -> Hashable:
        """What its devices follow from."""
        return pod.uid

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Ask the model of the kubelet of *node* whether the devices will be linked."""
        asked = wish_of(pod).linked
        if asked is None or not _wants_several(pod):
            return SUCCESS
        # Whoever comes to a node may leave it the devices of one island.
        state.is_one_of_a_kind = True
        verdict = links_on(pod, node)
        if verdict is None:
            return SUCCESS
        if asked is Insistence.PREFERRED:
            return Status(Code.SUCCESS, (verdict.reason,))
        refuse = unresolvable if verdict.lasts else unschedulable
        return refuse(verdict.reason, detail=verdict)


@dataclass(frozen=True, slots=True)
class Unlinked:
    """Why the devices of a pod are not linked for certain on a node.

    Attributes:
        lasts: whether nothing that comes or goes on the node changes it.
    """

    reason: str
    lasts: bool = False


def links_on(pod: PodInfo, node: NodeInfo) -> Unlinked | None:
    """Return why the devices of *pod* may not be linked if it comes next; ``None`` if they are."""
    belief = node.numa
    model = None if belief is None else belief.model()
    if belief is None or model is None:
        return Unlinked(_NOT_KNOWN, lasts=True)
    demand = kubelet_demand(pod, model)
    outcome = belief.outcome_of(pod) if foresees(belief) else model.clone().admit(demand)
    if not isinstance(outcome, Admitted):
        return None  # others refuse it
    told = told_islands(node.node.metadata.annotations)
    unsure = [one for one in linked_prospects(model, demand, outcome, told) if one.chance != 1.0]
    return Unlinked(_why(unsure[0]), lasts=not unsure[0].free) if unsure else None


def _wants_several(pod: PodInfo) -> bool:
    """Tell whether *pod* asks device plugins for several devices of a resource.

    Devices of claims are linked by who chooses them.
    """
    steps = pod.memo("numa-wants", wants_of).steps
    return any(count > 1 for step in steps for _, count in step.want.devices)


def _why(one: LinkedProspect) -> str:
    if not one.free:
        return _NOT_KNOWN
    free = sum(one.free)
    where = f"{free} free in {counted(len(one.free), 'island')} ({_sizes(one.free)})"
    if one.chance == 0.0:
        return f"devices not linked: {where}, {one.wanted} linked ones of {one.resource} needed"
    odds = "" if one.chance is None else f" ({one.chance:.0%})"
    return f"devices not linked: {one.resource} may be{odds}, by luck: {where}"


def _sizes(free: Sequence[int]) -> str:
    shown = [str(count) for count in free[:_SHOWN]]
    if len(free) > _SHOWN:
        return ", ".join((*shown, "..."))
    return " and ".join((", ".join(shown[:-1]), shown[-1])) if len(shown) > 1 else shown[0]
