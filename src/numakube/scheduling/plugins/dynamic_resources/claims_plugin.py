"""The plugin: claims of a pod from the queue to the binding, and back if that fails."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.api.nodes import Node
from numakube.dra.allocator import Allocator, preference_score
from numakube.dra.device_ids import AllocationError
from numakube.dra.device_places import DevicePlaces
from numakube.dra.extended_resources import IN_MEMORY_NAME, has_mapping
from numakube.dra.features import LATEST, Features, features_of
from numakube.dra.pod_claims import claim_keys, has_conditions, is_for, is_reserved_for, pod_claims
from numakube.dra.pools import selects
from numakube.errors import InvalidValue, NumakubeError
from numakube.scheduling.arrays import uniform
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import ALLOTS, CycleState, StateKey, add_claimed
from numakube.scheduling.framework.plugins import (
    Booking,
    Confirm,
    Filter,
    NormalizesScores,
    PostFilter,
    PreBind,
    PreEnqueue,
    PreFilter,
    PreFilterResult,
    Reserve,
    Score,
    VectorFilter,
    VectorScore,
)
from numakube.scheduling.framework.status import (
    SKIP,
    SUCCESS,
    Status,
    failure,
    unresolvable,
    unschedulable,
)
from numakube.scheduling.plugins.dynamic_resources.claim_alignment import ClaimAlignment
from numakube.scheduling.plugins.dynamic_resources.claim_binding import (
    claim_status,
    deallocate,
    delete_claim,
    devices_ready,
    in_flight,
    write_claims,
)
from numakube.scheduling.plugins.dynamic_resources.claim_pairs import PairTrees
from numakube.scheduling.plugins.dynamic_resources.claim_tracker import (
    CYCLE_CLAIMS,
    GATE,
    ClaimTracker,
    CycleClaims,
    NodeAllocation,
    ServedResources,
)
from numakube.scheduling.plugins.dynamic_resources.kind_verdicts import KindVerdicts, asker_of
from numakube.scheduling.plugins.dynamic_resources.node_search import AttemptTime, NodeSearch
from numakube.scheduling.plugins.plugin_arguments import DynamicResourcesArgs, read_args
from numakube.scheduling.snapshot.zone_belief import NOTHING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from numakube.api.resource_claims import DeviceRequest, ResourceClaim
    from numakube.dra.allocated_state import AllocatedState
    from numakube.scheduling.arrays import IntArray, Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.plugins import Nomination
    from numakube.scheduling.framework.status import Verdicts
    from numakube.scheduling.plugins.dynamic_resources.claim_binding import ClaimActions
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges


# ------------------------------------------------------------------------------------------------
# What must hold of a claim before any node is looked at, in kube-scheduler's words.


def classes_exist(claim: ResourceClaim, classes: Container[str], features: Features) -> Status:
    """Refuse a claim with a request of unknown form, or for a class that is not there."""
    for request in claim.spec.devices.requests:
        status = _form(claim.metadata.key, request, features)
        for name, class_name in _wanted(request) if status.ok else ():
            if not class_name:
                return failure(f"request {name}: unsupported request type")
            if class_name not in classes:
                return unresolvable(f"request {name}: device class {class_name} does not exist")
        if not status.ok:
            return status
    return SUCCESS


def _form(key: str, request: DeviceRequest, features: Features) -> Status:
    if request.exactly is not None:
        return SUCCESS
    if not request.first_available:
        return unresolvable(f"resource claim {key}, request {request.name}: unknown request type")
    if not features.prioritized_list:
        return unresolvable(
            f"resource claim {key}, request {request.name}: has subrequests, but the "
            "DRAPrioritizedList feature is disabled"
        )
    return SUCCESS


def _wanted(request: DeviceRequest) -> list[tuple[str, str]]:
    """Return the class of the request, or of each of its alternatives, by name."""
    if request.exactly is not None:
        return [(request.name, request.exactly.device_class_name)]
    return [
        (f"{request.name}/{other.name}", other.device_class_name)
        for other in request.first_available
    ]


def is_readable(claim: ResourceClaim) -> Status:
    """Say whether the node selector of an allocated claim can be read."""
    allocation = claim.status.allocation
    if allocation is None or allocation.node_selector is None:
        return SUCCESS
    try:
        selects(allocation.node_selector, Node())
    except AllocationError as error:
        return failure(str(error))
    return SUCCESS


# ------------------------------------------------------------------------------------------------
# The plugin: claims of a pod from the queue to the binding, and back if that fails.

FIRST_VERSION: Final = 34
"""The first minor version of Kubernetes that serves ``resource.k8s.io/v1``."""
NOT_SERVED: Final = unresolvable(
    "pod has resource claims (dynamic resource allocation), which need Kubernetes 1.34 or later"
)
NO_ACTIONS: Final = failure("claims cannot be allocated: this process has no way to change them")
_ELSEWHERE: Final = EventKind.POD_ADDED | EventKind.POD_DELETED | EventKind.TOPOLOGY_CHANGED
"""What makes the kubelet choose other NUMA nodes, which may have devices."""
_SEARCH: Final = StateKey[NodeSearch]("DynamicResources.search")
_TAKEN: Final = StateKey["AllocatedState"]("DynamicResources.taken")
"""What claims hold, and what those of pods are to have for which room is kept."""


class DynamicResources(
    PreEnqueue,
    PreFilter,
    Filter,
    VectorFilter,
    PostFilter,
    Score,
    VectorScore,
    NormalizesScores,
    Confirm,
    Reserve,
    PreBind,
):
    """Allocates devices to the claims of pods."""

    name = "DynamicResources"
    wakes_on = (
        EventKind.NODE_ADDED
        | EventKind.NODE_UPDATED
        | EventKind.CLAIM_CHANGED
        | EventKind.DEVICES_CHANGED
        | EventKind.UNSCHEDULED_POD_UPDATED
        | _ELSEWHERE
    )

    def __init__(
        self,
        args: DynamicResourcesArgs | None = None,
        *,
        objects: ClusterObjects | None = None,
        actions: ClaimActions | None = None,
        minor: int = LATEST,
    ) -> None:
        self.args = args or DynamicResourcesArgs()
        self.actions = actions
        self.features: Features = features_of(self.args.feature_gates, minor=minor)
        self._served = minor >= FIRST_VERSION
        self._objects = objects
        self._tracker = ClaimTracker(self.features)
        self._places = DevicePlaces(self.args.device_attributes)
        self._trees = PairTrees()
        self._aligns = self.args.device_choice != "FirstFit"
        self._extended = ServedResources(
            on=self.features.extended_resource, detects=GATE not in self.args.feature_gates
        )
        self._verdicts = KindVerdicts()

    @classmethod
    def from_args(
        cls,
        args: Mapping[str, object],
        *,
        objects: ClusterObjects | None = None,
        actions: ClaimActions | None = None,
        minor: int = LATEST,
    ) -> DynamicResources:
        """Return the plugin for *args* as they stand in a configuration."""
        read = read_args(DynamicResourcesArgs, args)
        return cls(read, objects=objects, actions=actions, minor=minor)

    def serves(self, resource: str) -> bool:
        """Tell whether claims serve an extended resource on nodes that have none allocatable."""
        if not self._served or self._objects is None:
            return False
        return resource in self._extended.classes(self._objects)

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Keep a pod back whose claims do not exist yet."""
        if not self._served or self._objects is None or not pod.pod.spec.resource_claims:
            return SUCCESS
        problem = self._problem(pod, self._objects)
        return unresolvable(problem) if problem else SUCCESS

    def opened_by(self, pod: PodInfo) -> Iterable[str]:
        """A claim of the pod; those that it does not name yet, it is told by its own status."""
        return claim_keys(pod.pod)

    def _problem(self, pod: PodInfo, objects: ClusterObjects) -> str:
        try:
            list(pod_claims(pod.pod, lambda key: self._tracker.find(objects, key)))
        except InvalidValue as error:
            return str(error)
        return ""

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Find the claims, and what is allocated; skip a pod without claims."""
        return self._begin(state, pod, snapshot.objects)

    def _begin(
        self,
        state: CycleState,
        pod: PodInfo,
        objects: ClusterObjects,
        taken: AllocatedState | None = None,
        time: AttemptTime | None = None,
    ) -> PreFilterResult:
        """Prepare the search for *pod*; what is *taken* may be more than what claims hold."""
        if not self._served:
            return PreFilterResult(NOT_SERVED if pod.pod.spec.resource_claims else SKIP)
        if not pod.pod.spec.resource_claims and not objects.device_classes:
            return PreFilterResult(SKIP)
        try:
            named = list(pod_claims(pod.pod, lambda key: self._tracker.find(objects, key)))
        except InvalidValue as error:
            state.is_one_of_a_kind = True
            return PreFilterResult(unresolvable(str(error)))
        known = CycleClaims(objects, [name for name, _ in named], [claim for _, claim in named])
        known.places, known.trees = self._places, self._trees
        known.inventory = self._tracker.inventory(objects)
        self._extended.add_claim(known, pod, self._tracker)
        state.is_one_of_a_kind = known.has_leftovers(pod.pod)
        if not known.claims:
            return PreFilterResult(SKIP)
        known.time = time
        status = self._check(known, taken)
        if not status.ok:
            return PreFilterResult(status)
        state.write(CYCLE_CLAIMS, known)
        kinds = self._tracker.kinds(objects)
        waiting = (claim for _, claim in known.to_allocate())
        search = NodeSearch(
            known,
            self.features,
            known.inventory,
            self._extended.classes(objects),
            kinds=kinds,
            verdicts=self._verdicts.of(waiting, kinds, objects.device_classes.version),
            now=self.actions.now() if self.actions is not None else None,
            timeout_seconds=self.args.binding_timeout_seconds,
            alone=taken is not None,
        )
        state.write(_SEARCH, search)
        return PreFilterResult()

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Let the claims of a pod for which room is kept on *node* have their devices first."""
        known = state.read(CYCLE_CLAIMS)
        if known is None or known.allocator is None:
            return
        theirs, objects = CycleState(), known.objects
        taken = (state.read(_TAKEN) or self._tracker.state(objects)).copy()
        prepared = self._begin(theirs, added, objects, taken, known.time)
        search = theirs.read(_SEARCH) if prepared.status.ok else None
        if search is None or not search.judge(added, node).ok:
            # It waits for devices itself.
            return
        found = search.found(node)
        for allocation in found.allocations if found is not None else ():
            taken.add(allocation, sharing=self.features.consumable_capacity)
        state.write(_TAKEN, taken)
        self._begin(state, pod, objects, taken, known.time)

    def _check(self, known: CycleClaims, taken: AllocatedState | None) -> Status:
        """Refuse claims that are being allocated, or whose class is missing; prepare the search."""
        for index, claim in enumerate(known.claims):
            if claim.status.allocation is not None:
                status = is_readable(claim)
            elif self._tracker.pending(claim.metadata.uid) is not None:
                key = claim.metadata.key
                status = unresolvable(f"resource claim {key} is in the process of being allocated")
            else:
                status = (
                    SUCCESS
                    if index == known.extended
                    else classes_exist(claim, known.objects.device_classes, self.features)
                )
            if not status.ok:
                return status
        slices = self._tracker.inventory(known.objects).slices
        if self.features.node_allocatable_resources:
            known.mapped = {
                claim.metadata.uid: has_mapping(claim.status.allocation, slices)
                for claim in known.claims
                if claim.status.allocation is not None
            }
        if any(True for _ in known.to_allocate()):
            limit = self.args.filter_timeout_seconds
            limit = limit if self.features.scheduler_filter_timeout else 0
            known.time = known.time or AttemptTime(self.actions, limit)
            state = self._tracker.state(known.objects) if taken is None else taken
            known.allocator = self._allocator(known.objects, state, known.time)
        return SUCCESS

    def _allocator(
        self, objects: ClusterObjects, state: AllocatedState, time: AttemptTime
    ) -> Allocator:
        actions = self.actions
        return Allocator(
            self._tracker.inventory(objects),
            state,
            objects.device_classes,
            new_id=actions.new_id if actions is not None else lambda: "",
            expired=time.search,
            cpu_seconds=actions.cpu_seconds if actions is not None else None,
        )

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node that cannot use an allocated claim, or has no devices for another."""
        search = state.read(_SEARCH)
        return SUCCESS if search is None else search.judge(pod, node)

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse the nodes that `filter` refuses, and those that would fail `confirm` again."""
        search = state.read(_SEARCH)
        if search is None:
            return None
        verdicts = search.judge_all(pod, asker_of(pod), snapshot, rows)
        if search.recalls:
            self._refuse_place(state, pod)
        if search.over is not None:
            # The next attempt gets further: selectors need not judge the same devices again.
            state.is_one_of_a_kind = True
        return verdicts

    def _refuse_place(self, state: CycleState, pod: PodInfo) -> None:
        """Take note that a node was refused for where its devices are: any pod may change that."""
        state.is_one_of_a_kind = True
        self._verdicts.add_unaligned(asker_of(pod))

    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, refusals: Mapping[str, Status]
    ) -> tuple[Nomination | None, Status]:
        """Free a claim that keeps the pod from every node, if nobody else uses it."""
        known = state.read(CYCLE_CLAIMS)
        if known is None or self.actions is None:
            return None, unschedulable()
        extended = known.extended_claim
        for index in sorted(known.unavailable):
            claim = known.claims[index]
            if index == known.extended:
                continue
            users = claim.status.reserved_for
            if not users or (len(users) == 1 and users[0].uid == pod.uid):
                self.actions.later(self._deallocate(claim))
                return None, unschedulable("deallocation of ResourceClaim completed")
        if extended is not None and extended.metadata.name != IN_MEMORY_NAME:
            self.actions.later(delete_claim(self.actions, extended))
            return None, unschedulable("deletion of ResourceClaim completed")
        return None, unschedulable()

    async def _deallocate(self, claim: ResourceClaim) -> None:
        if self.actions is not None:
            self._tracker.assume(await deallocate(self.actions, claim))

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate a node by how far up in their lists the alternatives are that it can serve."""
        known, search = state.read(CYCLE_CLAIMS), state.read(_SEARCH)
        found = search.found(node) if search is not None else None
        if known is None or found is None or not self.features.prioritized_list:
            return 0
        return preference_score(known.claims, found.allocations)

    def score_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> IntArray:
        """Rate nodes; pods without alternatives in their claims have 0 on every node."""
        if (known := state.read(CYCLE_CLAIMS)) is None or not known.has_alternatives:
            return uniform(0, len(rows))
        scores = [self.score(state, pod, snapshot.at(int(row))) for row in rows]
        return np.array(scores, dtype=np.int64)

    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        """Bring the best to 100."""
        top = int(scores.max(initial=0))
        return scores if top == 0 else (scores * 100 // top).astype(np.int64)

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Take devices near what the kubelet will give the pod, unless configured otherwise."""
        known, search = state.read(CYCLE_CLAIMS), state.read(_SEARCH)
        if known is None or search is None:
            return SUCCESS
        if known.time is not None:
            known.time.begin_final_checks()
        found, allots = search.found(node), state.read(ALLOTS)
        chosen, status, lasts = found or NodeAllocation(), SUCCESS, False
        if self._aligns:
            alignment = ClaimAlignment(known, pod, node, allots)
            chosen, status = (
                search.aligned(asker_of(pod), node, alignment, chosen)
                if allots is None
                else alignment.choose(chosen)
            )
            if status.ok and status.reasons:
                known.far[node.name] = status.message
            # With more time, a search that had to stop may find devices.
            lasts = allots is None and alignment.is_complete
        if not status.ok:
            self._refuse_place(state, pod)
            if lasts:
                search.fail(asker_of(pod), node, status)
        elif found is not None:
            chosen, exact = search.exact(node, chosen)
            known.nodes[node.name], counted = search.counted(pod, node, chosen)
            status = next((one for one in (exact, counted) if not one.ok), status)
        return status

    def reserve(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Booking:
        """Let the allocations for *node* be in flight."""
        return Booking(self._reserve(state, node))

    def _reserve(self, state: CycleState, node: NodeInfo) -> Status:
        known, search = state.read(CYCLE_CLAIMS), state.read(_SEARCH)
        found = search.found(node) if search is not None else None
        if found is not None and found.resources:
            add_claimed(state, found.resources)
        if known is None or known.allocator is None:
            return SUCCESS
        waiting = list(known.to_allocate())
        if search is None or found is None or not found.allocations:
            if all(index == known.extended for index, _ in waiting):
                return SUCCESS
            return failure("claim allocation not found for node")
        if len(found.allocations) != len(waiting):
            return failure(
                f"internal error, have {len(found.allocations)} allocations, {len(waiting)} claims "
                f"to allocate, want {len(waiting)} claims"
            )
        found, status = search.exact(node, found)
        if not status.ok:
            return status
        known.nodes[node.name] = found
        for (index, claim), allocation in zip(waiting, found.allocations, strict=True):
            known.reserved[index] = allocation
            real = found.extended if index == known.extended and found.extended else claim
            self._tracker.signal(claim.metadata.uid, in_flight(real, allocation))
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """End the flight; give back what was written already."""
        known = state.read(CYCLE_CLAIMS)
        if known is None:
            return NOTHING
        for index, claim in enumerate(known.claims):
            if index == known.extended:
                continue
            # The flight may be that of another pod that shares the claim.
            if index in known.reserved and self._tracker.settle(claim.metadata.uid):
                self._tracker.restore(claim)
            written = claim.status.allocation is not None and is_reserved_for(claim, pod.pod)
            if written and self.actions is not None:
                self.actions.later(self.actions.drop_reservation(claim, pod.pod))
        self._unreserve_extended(known)
        found = known.nodes.get(node)
        if found is not None and found.resources and self.actions is not None:
            self.actions.later(self.actions.set_pod_status(pod.pod, claim_status()))
        return NOTHING

    def _unreserve_extended(self, known: CycleClaims) -> None:
        claim = known.extended_claim
        if claim is None:
            return
        self._tracker.settle(known.extended_uid)
        if claim.metadata.name != IN_MEMORY_NAME and self.actions is not None:
            self._tracker.restore(claim)
            self.actions.later(delete_claim(self.actions, claim))

    def waits_for_others(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        """Tell whether devices of the claims have conditions that must be met first."""
        known = state.read(CYCLE_CLAIMS)
        if known is None or not self.features.binding_conditions:
            return False
        made = (
            result.binding_conditions
            for allocation in known.reserved.values()
            for result in allocation.devices.results
        )
        return any(made) or any(map(has_conditions, known.claims))

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Write allocations and reservations down, then wait for the devices to be ready."""
        known = state.read(CYCLE_CLAIMS)
        if known is None:
            return SUCCESS
        if self.actions is None:
            return NO_ACTIONS
        try:
            await write_claims(
                self.actions,
                known,
                pod.pod,
                node,
                assume=self._tracker.assume,
                timestamps=self.features.binding_conditions,
            )
        except NumakubeError as error:
            return failure(str(error))
        status = await self._ready(known, pod, node, self.actions)
        if status.ok:
            if node in known.far:
                self.actions.note(pod.pod, "ClaimsNotAligned", known.far[node])
            for index in known.reserved:
                uid = known.claims[index].metadata.uid
                self._tracker.settle(known.extended_uid if index == known.extended else uid)
        return status

    async def _ready(
        self, known: CycleClaims, pod: PodInfo, node: str, actions: ClaimActions
    ) -> Status:
        if not self.features.binding_conditions or not any(map(has_conditions, known.claims)):
            return SUCCESS
        find, limit = partial(self._tracker.find, known.objects), self.args.binding_timeout_seconds
        return await devices_ready(actions, known, pod.pod, node, find, limit)

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A claim must be the pod's, or give devices back; pods change where devices are near."""
        if event.kind in _ELSEWHERE:
            return asker_of(pod) in self._verdicts.unaligned
        if event.kind is not EventKind.CLAIM_CHANGED or self._objects is None:
            return True
        return self.claim_helps(pod, event.claim_before, event.claim_now, self._objects)

    def claim_helps(
        self,
        pod: PodInfo,
        before: ResourceClaim | None,
        now: ResourceClaim | None,
        objects: ClusterObjects,
    ) -> bool:
        """Tell whether the change of a claim may help *pod*: kube-scheduler's queueing hint.

        Besides, a pod need not wait any longer when its own left-over claim is gone.
        """
        had_devices = before is not None and before.status.allocation is not None
        if now is None:
            return had_devices or (before is not None and is_for(before, pod.pod))
        if self._problem(pod, objects):
            return False
        if had_devices and now.status.allocation is None:
            return True
        if now.metadata.key not in claim_keys(pod.pod):
            return False
        return before is None or before.status != now.status
