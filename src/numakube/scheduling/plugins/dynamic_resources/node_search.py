"""The filter: whether a node can use claims that are allocated, and has devices for the rest."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from numakube.api.pod_resources import (
    claimed_by,
    claimed_resources,
    effective_limits,
    effective_requests,
    with_claimed,
)
from numakube.dra import pod_claims as conditions
from numakube.dra.alike_nodes import OWN, has_shares, moved
from numakube.dra.candidate_checks import OPTIONAL_OPERATIONS
from numakube.dra.device_ids import AllocationError, SearchStopped
from numakube.dra.extended_resources import (
    claim_statuses,
    is_served_name,
    requests_and_mappings,
    with_requests,
)
from numakube.dra.pod_claims import is_reserved_for
from numakube.dra.pools import selects
from numakube.scheduling.framework.status import (
    SUCCESS,
    TOO_COSTLY,
    Code,
    Status,
    Verdicts,
    failure,
    unresolvable,
)
from numakube.scheduling.plugins.dynamic_resources.claim_tracker import NodeAllocation
from numakube.scheduling.plugins.dynamic_resources.kind_verdicts import (
    ALONE,
    FAILED,
    FITS,
    LACKS_DEVICES,
    NO_DEVICES,
    FoundOnKind,
)
from numakube.scheduling.snapshot.zone_belief import foresees
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_hugepages, is_pod_level

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from numakube.api.codec import QuantityText
    from numakube.api.pod import ContainerExtendedResourceRequest, Pod
    from numakube.api.resource_claims import AllocationResult, ResourceClaim
    from numakube.api.resource_slices import ResourceSlice
    from numakube.dra.alike_nodes import NodeKinds
    from numakube.dra.features import Features
    from numakube.dra.pools import DeviceInventory
    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.plugins.dynamic_resources.claim_alignment import ClaimAlignment
    from numakube.scheduling.plugins.dynamic_resources.claim_binding import ClaimActions
    from numakube.scheduling.plugins.dynamic_resources.claim_tracker import CycleClaims
    from numakube.scheduling.plugins.dynamic_resources.kind_verdicts import (
        NodeVerdicts,
        ShapeVerdicts,
    )
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


# ------------------------------------------------------------------------------------------------
# How long the claims of one pod may be searched for, on one node and in one attempt.
#
# kube-scheduler limits the search on each node (``filterTimeout``), and searches beside its loop.
# Here nobody else is served meanwhile, so the attempt as a whole is limited, too, by processor
# time. Selectors that have judged a device are not asked again in the next attempt, so one that
# stops early in a huge cluster is not made in vain.

ATTEMPT_SECONDS: Final = 1.0
"""Processor time for the claims of a pod; a search among a thousand nodes takes a tenth of it."""
FINAL_SECONDS: Final = 0.5
"""What there is left at least to choose devices on the nodes that were found."""
MOST_STEPS: Final = 1_000_000
"""Steps of a search that no clock limits."""


class AttemptTime:
    """The time of one attempt.

    Attributes:
        is_over: whether a search was stopped because the attempt had no more time.
    """

    def __init__(self, actions: ClaimActions | None, node_seconds: float) -> None:
        self.is_over = False
        self._is_final = False
        self._actions = actions
        self._node_seconds = node_seconds
        self._ends = actions.cpu_seconds() + ATTEMPT_SECONDS if actions is not None else 0.0

    def search(self) -> Callable[[], bool]:
        """Return what tells whether a search that begins now has to stop.

        Without a clock it stops after many steps.
        """
        actions = self._actions
        if actions is None:
            left = iter(range(MOST_STEPS))
            return lambda: next(left, None) is None
        if not self._node_seconds:
            return lambda: self._is_over(actions)
        end = actions.now() + timedelta(seconds=self._node_seconds)
        return lambda: self._is_over(actions) or actions.now() > end

    def begin_final_checks(self) -> None:
        """Leave some time, once, to choose among the devices of nodes that were found."""
        if self._actions is not None and not self._is_final:
            self._is_final, self.is_over = True, False
            self._ends = max(self._ends, self._actions.cpu_seconds() + FINAL_SECONDS)

    def problem(self, claims: Iterable[ResourceClaim]) -> str:
        """Say what came of it."""
        keys = ", ".join(claim.metadata.key for claim in claims)
        return (
            f"claim {keys}: no devices found within {ATTEMPT_SECONDS:g} s of processor time, which "
            "is what an attempt may take"
        )

    def _is_over(self, actions: ClaimActions) -> bool:
        self.is_over = self.is_over or actions.cpu_seconds() > self._ends
        return self.is_over


# ------------------------------------------------------------------------------------------------
# Whether a node has room for what devices of claims stand for (KEP-5517, alpha).

_ZERO: Final = Quantity(0)


def node_resources(
    known: CycleClaims,
    pod: PodInfo,
    node: NodeInfo,
    found: NodeAllocation,
    slices: Sequence[ResourceSlice],
) -> tuple[NodeAllocation, Status]:
    """Return *found* with what its devices stand for, and whether *node* has that to give."""
    try:
        statuses = claim_statuses(pod.pod, _allocations(known, found), slices, node.node)
    except AllocationError as error:
        return found, failure(str(error))
    if not statuses:
        return replace(found, resources=()), SUCCESS
    counted = with_claimed(pod.pod, statuses)
    problem = _uncovered(counted) or _over_limit(counted)
    if problem:
        return found, unresolvable(problem)
    return replace(found, resources=statuses), _fits(counted, node)


def _allocations(
    known: CycleClaims, found: NodeAllocation
) -> dict[str, tuple[ResourceClaim, AllocationResult]]:
    fresh = dict(zip((index for index, _ in known.to_allocate()), found.allocations, strict=False))
    by_name: dict[str, tuple[ResourceClaim, AllocationResult]] = {}
    for index, claim in enumerate(known.claims):
        allocation = fresh.get(index, claim.status.allocation)
        if allocation is not None:
            name = known.names[index] if index < len(known.names) else claim.metadata.name
            by_name[name] = (claim, allocation)
    return by_name


def _uncovered(pod: Pod) -> str:
    """Return which pod-level request is less than what containers and claims need together."""
    level = pod.spec.resources
    if level is None:
        return ""
    needed = effective_requests(pod, overhead=False, pod_level_resources=False)
    for name, amount in level.requests.items():
        if is_pod_level(name) and name in needed and needed[name] > parse_quantity(amount):
            return (
                f"pod level request for {name} is insufficient to cover the aggregated container "
                "and node-allocatable DRA requests"
            )
    return ""


def _over_limit(pod: Pod) -> str:
    """Return which pod-level limit is less than what containers and claims may use."""
    level = pod.spec.resources
    if level is None or not level.limits:
        return ""
    claimed = claimed_resources(pod)
    limits = effective_limits(pod, overhead=False, pod_level_resources=False)
    for name in sorted({*limits, *claimed} & level.limits.keys()):
        total = limits.get(name, _ZERO) + claimed.get(name, _ZERO)
        if is_hugepages(name) and total > parse_quantity(level.limits[name]):
            return (
                f"pod level limit for {name} is insufficient to cover the aggregated container "
                "and node-allocatable DRA limits"
            )
    return next(_containers_over(pod, level.limits), "")


def _containers_over(pod: Pod, limits: Mapping[str, QuantityText]) -> Iterator[str]:
    for container in pod.spec.containers:
        own = container.resources.limits if container.resources is not None else {}
        claimed = claimed_by(pod, container.name)
        for name in own.keys() & limits.keys():
            total = parse_quantity(own[name]) + claimed.get(name, _ZERO)
            if not is_hugepages(name) and total > parse_quantity(limits[name]):
                yield (
                    f"pod level limit for {name} is insufficient to cover the limit and DRA "
                    f"overhead for container {container.name}"
                )


def _fits(pod: Pod, node: NodeInfo) -> Status:
    reasons, hopeless = [], False
    for name, quantity in sorted(effective_requests(pod).items(), key=_order):
        amount = quantity.milli_value() if name == CPU else quantity.value()
        if name not in (CPU, MEMORY, EPHEMERAL_STORAGE) and not is_hugepages(name):
            continue
        offered = node.allocatable.get(name, 0)
        if amount > 0 and amount > offered - node.requested.get(name, 0):
            reasons.append(f"Insufficient {name}")
            hopeless = hopeless or amount > offered
    if not reasons:
        return SUCCESS
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE
    return Status(code, tuple(reasons))


def _order(one: tuple[str, object]) -> tuple[int, str]:
    first = (CPU, MEMORY, EPHEMERAL_STORAGE)
    return (first.index(one[0]) if one[0] in first else len(first), one[0])


# ------------------------------------------------------------------------------------------------
# The filter: whether a node can use claims that are allocated, and has devices for the rest.

Served: TypeAlias = "tuple[ResourceClaim, tuple[ContainerExtendedResourceRequest, ...]]"
"""The claim for extended resources, and which containers use which of its requests."""

ELSEWHERE: Final = unresolvable("resourceclaim not available on the node")


class NodeSearch:
    """Judges one node after the other for one pod.

    Attributes:
        recalls: whether nodes were refused because they failed the final check before.
        over: the refusal of nodes that are not searched, because the others took all the time.
        alone: whether what is found on a node says nothing of others of its kind.
    """

    def __init__(
        self,
        known: CycleClaims,
        features: Features,
        inventory: DeviceInventory,
        classes: Mapping[str, str],
        *,
        kinds: NodeKinds,
        verdicts: ShapeVerdicts,
        now: datetime | None,
        timeout_seconds: float,
        alone: bool = False,
    ) -> None:
        self.recalls = False
        self._known = known
        self._features = features
        self._inventory = inventory
        self._classes = classes
        self._counts = inventory.counts_node_resources
        self._kinds = kinds
        self._verdicts = verdicts
        self._alone = alone
        # What is found depends on the kind of node alone, unless the node's name is in question.
        allocated = any(claim.status.allocation is not None for claim in known.claims)
        self._by_kind = (
            known.allocator is not None
            and known.extended < 0
            and not (self._counts or allocated or alone)
        )
        self._served: dict[tuple[str, ...], Served] = {}
        self._for_served: dict[tuple[int, int], FoundOnKind] = {}
        self._now = now
        self._timeout = timeout_seconds
        self.over: Status | None = None

    def judge(self, pod: PodInfo, node: NodeInfo) -> Status:
        """Say whether *node* is possible, and keep what was found for it."""
        known = self._known
        extended, mappings, status = self._extended(pod, node)
        if not status.ok:
            return status
        if extended is None and not known.has_user_claims:
            return SUCCESS
        unavailable, status = self._unavailable(pod.pod, node)
        if not status.ok:
            return status
        found, status = self._found(node, extended)
        if not status.ok:
            return status
        found = replace(found, extended=extended, mappings=mappings)
        found, status = self.counted(pod, node, found)
        if not status.ok:
            return status
        if unavailable:
            known.unavailable |= unavailable
            return ELSEWHERE
        if known.allocator is not None or found.resources:
            known.nodes[node.name] = found
        return SUCCESS

    def judge_all(self, pod: PodInfo, asker: Hashable, snapshot: Snapshot, rows: Rows) -> Verdicts:
        """Say which of *rows* are possible.

        Nodes that failed the final check for pods like *asker* are refused for the same reason.
        """
        if not self._by_kind:
            return Verdicts.each(rows, lambda row: self.judge(pod, snapshot.at(row)))
        known = self._verdicts.for_pods_like(asker)
        verdicts = known.read(snapshot, rows, self._kinds, partial(self._verdict, known))
        self.recalls = int(verdicts.choice.max(initial=FITS)) >= FAILED
        if int(verdicts.choice.min(initial=FITS)) != ALONE:
            return verdicts
        alone = verdicts.choice == ALONE
        judged = Verdicts.each(rows[alone], lambda row: self.judge(pod, snapshot.at(row)))
        return verdicts.replaced(alone, judged)

    def _verdict(self, known: NodeVerdicts, node: NodeInfo) -> int:
        """Say what is *known* of nodes like *node*, if that can be said of each of them."""
        kind = self._kinds.of(node.node)
        if kind == OWN:
            return ALONE
        failure = known.failure(self._state(kind, node))
        if failure is not None:
            return failure
        status = self._of_kind(kind, node).status
        if status is NO_DEVICES:
            return LACKS_DEVICES
        return FITS if status.ok else ALONE

    def _of_kind(self, kind: int, node: NodeInfo) -> FoundOnKind:
        """Return what was found on a node of that *kind*; searches *node* if none was searched."""
        known = self._verdicts.by_kind.get(kind)
        if known is None:
            known = self._found_on(node, None)
            if known.status.ok or known.status is NO_DEVICES:
                self._verdicts.by_kind[kind] = known
        return known

    def found(self, node: NodeInfo) -> NodeAllocation | None:
        """Return what was found on a node that passed."""
        found = self._known.nodes.get(node.name)
        if found is None and self._by_kind:
            known = self._verdicts.by_kind.get(self._kinds.of(node.node))
            if known is not None and known.status.ok:
                return NodeAllocation(known.allocations, alike=known.pools)
        return found

    def aligned(
        self, asker: Hashable, node: NodeInfo, alignment: ClaimAlignment, found: NodeAllocation
    ) -> tuple[NodeAllocation, Status]:
        """Return *found* with the devices that *alignment* chooses on nodes of that kind."""
        kind = self._kinds.of(node.node)
        if not self._by_kind or kind == OWN or not found.allocations:
            return alignment.choose(found)
        question = asker, kind, alignment.surroundings
        known = self._verdicts.aligned(question)
        if known is not None:
            return replace(found, allocations=known.allocations, alike=known.pools), known.status
        chosen, status = alignment.choose(found)
        if alignment.is_complete and not has_shares(chosen.allocations):
            pools = chosen.alike or self._inventory.pools_for(node.node)
            self._verdicts.remember_aligned(
                question, FoundOnKind(chosen.allocations, status, pools)
            )
        return chosen, status

    def fail(self, asker: Hashable, node: NodeInfo, status: Status) -> None:
        """Remember that *node* failed the final check for pods like *asker*."""
        kind = self._kinds.of(node.node)
        if self._by_kind and kind != OWN:
            state = self._state(kind, node)
            self._verdicts.for_pods_like(asker).fail(node, state, status)

    def _state(self, kind: int, node: NodeInfo) -> Hashable:
        """Return all that the final check of claims depends on, besides claims and pod."""
        belief = node.numa
        if belief is None or not foresees(belief):
            return kind, belief
        topology = belief.topology
        insists = topology is not None and topology.policy.insists
        return kind, belief.state, insists, self._known.trees.told_by(node)

    def _extended(
        self, pod: PodInfo, node: NodeInfo
    ) -> tuple[ResourceClaim | None, tuple[ContainerExtendedResourceRequest, ...], Status]:
        claim = self._known.extended_claim
        if claim is None:
            return None, (), SUCCESS
        if claim.spec.devices.requests:
            return None, (), unresolvable("cannot schedule extended resource claim")
        wanted: list[str] = []
        for name, amount in pod.requests.items():
            if not amount or not is_served_name(name):
                continue
            if name in self._classes and node.allocatable.get(name, 0) == 0:
                wanted.append(name)
            elif name not in node.allocatable:
                return None, (), unresolvable("cannot fit resource")
        if not self._known.has_user_claims and not wanted:
            return None, (), SUCCESS
        if claim.status.allocation is not None:
            return None, (), SUCCESS
        key = tuple(wanted)
        if key not in self._served:
            requests, mappings = requests_and_mappings(pod.pod, wanted, self._classes)
            self._served[key] = with_requests(claim, requests), mappings
        return *self._served[key], SUCCESS

    def _unavailable(self, pod: Pod, node: NodeInfo) -> tuple[set[int], Status]:
        found: set[int] = set()
        for index, claim in enumerate(self._known.claims):
            allocation = claim.status.allocation
            if allocation is None:
                continue
            if not self._is_available(claim, allocation, node):
                found.add(index)
                continue
            if self._is_broken(claim):
                found.add(index)
            if self._is_taken(claim, pod):
                return found, unresolvable(
                    f"node allocatable resource claim {claim.metadata.name} has a mapped device "
                    "and cannot be shared across pods"
                )
        return found, SUCCESS

    def _is_available(
        self, claim: ResourceClaim, allocation: AllocationResult, node: NodeInfo
    ) -> bool:
        selector = allocation.node_selector
        if selector is not None and not selects(selector, node.node):
            return False
        skipping = any(result.skip_node_operations for result in allocation.devices.results)
        return not skipping or OPTIONAL_OPERATIONS in node.node.status.declared_features

    def _is_broken(self, claim: ResourceClaim) -> bool:
        """Tell whether a driver failed to get the devices ready, or takes too long."""
        if not self._features.binding_conditions or not conditions.has_conditions(claim):
            return False
        if conditions.failed_condition(claim):
            return True
        late = self._now is not None and conditions.is_late(claim, self._now, self._timeout)
        return late and not conditions.is_ready(claim)

    def _is_taken(self, claim: ResourceClaim, pod: Pod) -> bool:
        return (
            self._features.node_allocatable_resources
            and self._known.mapped.get(claim.metadata.uid, False)
            and bool(claim.status.reserved_for)
            and not is_reserved_for(claim, pod)
        )

    def exact(self, node: NodeInfo, found: NodeAllocation) -> tuple[NodeAllocation, Status]:
        """Return *found* with the devices of *node* itself, if they are those of another one."""
        if found.alike is None:
            return found, SUCCESS
        if has_shares(found.allocations):
            allocations, status = self._allocated(node, found.extended)
        else:
            pools = self._inventory.pools_for(node.node)
            allocations = moved(found.allocations, found.alike, pools, node.name)
            status = SUCCESS
        return replace(found, allocations=allocations, alike=None), status

    def _found(
        self, node: NodeInfo, extended: ResourceClaim | None
    ) -> tuple[NodeAllocation, Status]:
        """Search the node, unless one of its kind has been searched."""
        kind = OWN if self._alone else self._kinds.of(node.node)
        if self._known.allocator is None or self._counts or kind == OWN:
            allocations, status = self._allocated(node, extended)
            return NodeAllocation(allocations), status
        if extended is not None:
            return self._found_extended(kind, node, extended)
        known = self._of_kind(kind, node)
        return NodeAllocation(known.allocations, alike=known.pools), known.status

    def _found_extended(
        self, kind: int, node: NodeInfo, extended: ResourceClaim
    ) -> tuple[NodeAllocation, Status]:
        """Search the node for the claim for extended resources, unless one like it was searched."""
        key = kind, id(extended)
        known = self._for_served.get(key)
        if known is None:
            known = self._found_on(node, extended)
            if known.status.ok or known.status is NO_DEVICES:
                self._for_served[key] = known
        return NodeAllocation(known.allocations, alike=known.pools), known.status

    def _found_on(self, node: NodeInfo, extended: ResourceClaim | None) -> FoundOnKind:
        """Search *node*, which has a kind."""
        allocations, status = self._allocated(node, extended)
        return FoundOnKind(allocations, status, self._inventory.pools_for(node.node))

    def _allocated(
        self, node: NodeInfo, extended: ResourceClaim | None
    ) -> tuple[tuple[AllocationResult, ...], Status]:
        known = self._known
        if known.allocator is None:
            return (), SUCCESS
        if self.over is not None:
            return (), self.over
        claims = [
            extended if index == known.extended and extended is not None else claim
            for index, claim in known.to_allocate()
        ]
        try:
            found = known.allocator.allocate(node.node, claims)
        except SearchStopped:
            if known.time is None or not known.time.is_over:
                return (), failure(f"node {node.name}: timed out trying to allocate devices")
            self.over = _too_costly(known.time.problem(claims))
            return (), self.over
        except AllocationError as error:
            if error.costly:
                self.over = _too_costly(str(error))
                return (), self.over
            refuse = unresolvable if error.node_only else failure
            return (), refuse(str(error))
        if found is None:
            return (), NO_DEVICES
        return tuple(found), SUCCESS

    def counted(
        self, pod: PodInfo, node: NodeInfo, found: NodeAllocation
    ) -> tuple[NodeAllocation, Status]:
        """Return *found* with what its devices stand for, if that counts, and whether it fits."""
        if not self._counts:
            return found, SUCCESS
        return node_resources(self._known, pod, node, found, self._inventory.slices)


def _too_costly(problem: str) -> Status:
    """Refuse the node, and all that are not yet searched: what was found by then is kept."""
    return failure(problem, detail=TOO_COSTLY)
