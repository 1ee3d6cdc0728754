"""ZoneAffinity: pods of a namespace near or far from each other within a node.

The kubelet decides in which zone a pod is, and the model of the kubelet says which one that will
be. So the plugin chooses among nodes and moments, not among zones: with ``Required`` a node is
refused while its kubelet would take the wrong zone, or while that is luck; with ``Preferred``
another node is taken if one of the next few is better. The order in which pods are bound decides
who is where: a pod of which the zone is wrong now is tried again when others have come to the node
or have left it, and the members of a gang are put in an order in which their relations hold.

A kubelet that learns of several pods at a time goes by when they were created. Where that would
change the places that were foreseen, a binding waits until those before it are there.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from numakube.api.codec import Wire
from numakube.scheduling.framework import EventKind
from numakube.scheduling.framework.cycle_state import ALLOTS
from numakube.scheduling.framework.plugins import (
    BOOKED,
    Booking,
    Confirm,
    Filter,
    PreBind,
    PreFilter,
    PreFilterResult,
    Reserve,
)
from numakube.scheduling.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    failure,
    unresolvable,
    unschedulable,
)
from numakube.scheduling.plugins.plugin_arguments import read_args
from numakube.scheduling.snapshot.pod_equivalence import scheduling_key
from numakube.scheduling.snapshot.zone_belief import NOTHING
from numakube_zone_affinity.node_zones import (
    allotted,
    coming_before,
    is_concerned,
    may_hold_up,
    present,
    prospect,
    wish_of,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.registry import Handle
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pod_equivalence import PodKey
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges

_KINDS_REMEMBERED: Final = 256
_LOOKED_AT_EVERY: Final = 0.05
_WAITED_AT_MOST: Final = 10.0


class ZoneAffinityArgs(Wire, frozen=True):
    """Arguments of the plugin: there are none."""


class ZoneAffinity(PreFilter, Filter, Confirm, Reserve, PreBind):
    """See the module."""

    name = "ZoneAffinity"
    wakes_on = (
        EventKind.POD_ADDED
        | EventKind.POD_UPDATED
        | EventKind.POD_DELETED
        | EventKind.UNSCHEDULED_POD_UPDATED
        | EventKind.NODE_ADDED
        | EventKind.NODE_UPDATED
        | EventKind.TOPOLOGY_CHANGED
    )
    insists_on = frozenset({"confirm", "reserve", "preBind"})

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._refused: OrderedDict[PodKey, dict[str, tuple[int, Status]]] = OrderedDict()

    @classmethod
    def make(cls, args: Mapping[str, object], handle: Handle) -> ZoneAffinity:
        """Make the plugin."""
        read_args(ZoneAffinityArgs, args)
        return cls(handle)

    def depends_on_order(self, pod: PodInfo) -> bool:
        """Tell whether others can change its zone, and that matters to it."""
        return bool(wish_of(pod).relations)

    def likeness(self, pod: PodInfo) -> Hashable:
        """What its zone follows from, and who is related to it."""
        return scheduling_key(pod)

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Refuse wishes that cannot be read; leave the filter out where it has nothing to say."""
        del snapshot
        wish = wish_of(pod)
        if wish.mistakes:
            return PreFilterResult(unresolvable("; ".join(wish.mistakes)))
        if wish.relations:
            # Whoever comes to a node or leaves it may change its next zone.
            state.is_one_of_a_kind = True
        return PreFilterResult() if self._known(pod) else PreFilterResult(SKIP)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse *node* if it was refused as it is now: to ask its kubelet's model takes longer."""
        del state
        generation, status = self._known(pod).get(node.name, (-1, SUCCESS))
        return status if generation == node.generation else SUCCESS

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Ask the model of the kubelet of *node* in which zone *pod* would be."""
        if not is_concerned(pod, node):
            return SUCCESS
        # With claims, whoever chooses their devices has agreed to a place already.
        allots = None if pod.pod.spec.resource_claims else state.read(ALLOTS)
        verdict = (allots and allotted(pod, node, allots)) or prospect(pod, node)
        if verdict.holds:
            return SUCCESS
        if not verdict.is_required:
            return Status(Code.SUCCESS, (verdict.reason,))
        state.is_one_of_a_kind = True
        refuse = unresolvable if verdict.lasts else unschedulable
        return self._remember(pod, node, refuse(verdict.reason, detail=verdict))

    def reserve(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Booking:
        """Book nothing: what was foreseen is the NUMA cache's."""
        del state, pod, node
        return BOOKED

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """Give nothing back."""
        del state, pod, node
        return NOTHING

    def still_holds(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Refuse if others have changed the zone that the kubelet will take."""
        del state
        there = self._handle.cluster.node(node)
        if there is None or not is_concerned(pod, there):
            return SUCCESS
        verdict = present(pod, there)
        if verdict.holds or not verdict.is_required:
            return SUCCESS
        return unschedulable(f"by now: {verdict.reason}")

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Wait until the pods are on the node that have to be there before *pod*."""
        del state
        if not self._still_coming(pod, node):
            return SUCCESS
        from numakube.apps.scheduler.binders import CLIENT

        client = self._handle.services.get(CLIENT)
        if client is None:
            return SUCCESS
        waited = 0.0
        while (coming := self._still_coming(pod, node)) and waited < _WAITED_AT_MOST:
            await client.clock.sleep(_LOOKED_AT_EVERY)
            waited += _LOOKED_AT_EVERY
        held_up = [key for key in coming if may_hold_up(key, pod)]
        if not held_up:
            return SUCCESS
        return failure(f"{held_up[0]} is not on {node} yet, and has to be there before the pod")

    def _still_coming(self, pod: PodInfo, node: str) -> tuple[str, ...]:
        there = self._handle.cluster.node(node)
        return () if there is None else coming_before(pod, there)

    def _known(self, pod: PodInfo) -> dict[str, tuple[int, Status]]:
        return self._refused.get(scheduling_key(pod), {}) if self._refused else {}

    def _remember(self, pod: PodInfo, node: NodeInfo, status: Status) -> Status:
        key = scheduling_key(pod)
        self._refused.setdefault(key, {})[node.name] = node.generation, status
        self._refused.move_to_end(key)
        if len(self._refused) > _KINDS_REMEMBERED:
            self._refused.popitem(last=False)
        return status
