"""Pools of devices as one node sees them: who reaches them, what is in them, and its taints.

Follows ``GatherPools`` of kube-scheduler 1.37. Slices that no longer count are ignored. A pool of
which slices are missing is incomplete, one that contradicts itself is invalid; nothing is allocated
from either, and both stay in the list, because requests for all devices fail on them.

The same goes for a pool with a device that takes from a counter what a request asks for, and not a
fixed amount (KEP-5941, beta in 1.38 by its milestones). Where a claim keeps what it took is not
settled upstream. A scheduler that does not know the field takes such a device to consume nothing,
and promises the counter many times over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from numakube.api.affinity_and_taints import NAME_FIELD, tolerates
from numakube.api.selectors import IN, NOT_IN, accepts, requirement
from numakube.dra.device_ids import AllocationError, DeviceId, PoolId
from numakube.errors import InvalidValue
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numakube.api.affinity_and_taints import (
        NodeSelector,
        NodeSelectorRequirement,
        NodeSelectorTerm,
    )
    from numakube.api.nodes import Node
    from numakube.api.resource_claims import DeviceToleration
    from numakube.api.resource_slices import (
        CounterSet,
        Device,
        DeviceTaint,
        DeviceTaintRule,
        DeviceTaintSelector,
        ResourceSlice,
        ResourceSliceSpec,
    )
    from numakube.dra.features import Features


# ------------------------------------------------------------------------------------------------
# Which nodes can reach a slice or a device: by name, all, or by a node selector.


def reaches(place: Device | ResourceSliceSpec, node: Node) -> bool:
    """Tell whether what *place* says of itself includes *node*."""
    if place.node_name:
        return place.node_name == node.metadata.name
    if place.all_nodes:
        return True
    return place.node_selector is not None and selects(place.node_selector, node)


def selects(selector: NodeSelector, node: Node) -> bool:
    """Tell whether any term of *selector* matches *node*.

    Raises:
        AllocationError: the selector cannot be read.
    """
    problems = [text for text in _problems(selector) if text]
    if problems:
        shown = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        raise AllocationError(f"failed to parse node selector {_dump(selector)}: {shown}")
    return any(_term_matches(term, node) for term in selector.node_selector_terms)


def _term_matches(term: NodeSelectorTerm, node: Node) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    labels = node.metadata.labels
    return all(
        accepts(expression.operator, expression.values, labels.get(expression.key))
        for expression in term.match_expressions
    ) and all(
        accepts(match_field.operator, match_field.values, _field(match_field, node))
        for match_field in term.match_fields
    )


def _field(one: NodeSelectorRequirement, node: Node) -> str:
    return node.metadata.name if one.key == NAME_FIELD else ""


def _problems(selector: NodeSelector) -> Iterator[str]:
    for index, term in enumerate(selector.node_selector_terms):
        for place, one in enumerate(term.match_expressions):
            yield _label_problem(one, f"[{index}].matchExpressions[{place}]")
        for place, one in enumerate(term.match_fields):
            yield _field_problem(one, f"[{index}].matchFields[{place}]")


def _label_problem(one: NodeSelectorRequirement, path: str) -> str:
    known = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
    if one.operator not in known:
        return _unsupported(one.operator, path, known)
    try:
        requirement(one.key, one.operator, one.values)
    except InvalidValue as error:
        values = f"[]string{{{', '.join(map(go_quote, one.values))}}}"
        return f"{path}.values: Invalid value: {values}: {error.reason}"
    return ""


def _field_problem(one: NodeSelectorRequirement, path: str) -> str:
    if one.operator not in (IN, NOT_IN):
        return _unsupported(one.operator, path, (IN, NOT_IN))
    if len(one.values) != 1:
        values = f"[]string{{{', '.join(map(go_quote, one.values))}}}"
        return f"{path}.values: Invalid value: {values}: must have one element"
    return ""


def _unsupported(operator: str, path: str, known: tuple[str, ...]) -> str:
    listed = ", ".join(map(go_quote, sorted(known)))
    shown = go_quote(operator)
    return f"{path}.operator: Unsupported value: {shown}: supported values: {listed}"


def _dump(selector: NodeSelector) -> str:
    """Return *selector* as Go prints the object."""
    terms = "".join(
        f"NodeSelectorTerm{{MatchExpressions:{_dump_all(term.match_expressions)},"
        f"MatchFields:{_dump_all(term.match_fields)},}},"
        for term in selector.node_selector_terms
    )
    return f"&NodeSelector{{NodeSelectorTerms:[]NodeSelectorTerm{{{terms}}},}}"


def _dump_all(requirements: tuple[NodeSelectorRequirement, ...]) -> str:
    parts = "".join(
        f"NodeSelectorRequirement{{Key:{one.key},Operator:{one.operator},"
        f"Values:[{' '.join(one.values)}],}},"
        for one in requirements
    )
    return f"[]NodeSelectorRequirement{{{parts}}}"


# ------------------------------------------------------------------------------------------------
# Pools of devices as one node sees them: generations, completeness, validity and order.


@dataclass(slots=True, eq=False)
class CandidateDevice:
    """A device where it is offered.

    Attributes:
        verdicts: those of selectors that judged it before, or that took too much to say why; equal
            devices of nodes share them.
    """

    id: DeviceId
    device: Device
    slice: ResourceSlice
    pool: DevicePool
    verdicts: dict[str, bool | AllocationError] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class DevicePool:
    """A pool of devices as one node sees it.

    Attributes:
        candidates: devices that the node can reach, in order.
        elsewhere: devices of slices that the node cannot reach; they may consume counters, too.
        problem: why the pool is invalid; empty if it is not.
        beyond: what it uses that is not known how to count; empty if there is nothing.
    """

    id: PoolId
    candidates: tuple[CandidateDevice, ...] = ()
    elsewhere: tuple[tuple[DeviceId, Device], ...] = ()
    counter_sets: Mapping[str, CounterSet] = field(default_factory=dict)
    incomplete: bool = False
    problem: str = ""
    beyond: str = ""

    @property
    def usable(self) -> bool:
        """Whether devices can be allocated from it."""
        return not self.incomplete and not self.problem and not self.beyond


class DeviceInventory:
    """All slices of a cluster, with the order in which the API lists them, found by node and pool.

    Pools are built when a node is first asked for and kept for as long as the slices are the same.
    """

    def __init__(self, slices: Iterable[ResourceSlice], features: Features) -> None:
        self.slices = tuple(slices)
        self.features = features
        self._local: dict[str, list[int]] = {}
        self._shared: list[int] = []
        self._by_pool: dict[PoolId, list[ResourceSlice]] = {}
        self._kinds: dict[str, tuple[list[DevicePool], int | None]] = {}
        self._firsts: dict[bytes, tuple[int, Sequence[DevicePool]]] = {}
        self._pools: dict[str, tuple[Mapping[str, str], list[DevicePool]]] = {}
        for position, one in enumerate(self.slices):
            self._by_pool.setdefault(pool_id(one), []).append(one)
            # The stable allocator lets every node see the counters of all others.
            if one.spec.node_name and not (features.stable and one.spec.shared_counters):
                self._local.setdefault(one.spec.node_name, []).append(position)
            else:
                self._shared.append(position)

    @cached_property
    def counts_node_resources(self) -> bool:
        """Whether any device stands for resources of its node, or takes some (KEP-5517)."""
        return self.features.node_allocatable_resources and any(
            device.node_allocatable_resources
            for resource_slice in self.slices
            for device in resource_slice.spec.devices
        )

    def pools_for(self, node: Node) -> list[DevicePool]:
        """Return the pools that *node* sees, in the order in which they are searched.

        Raises:
            AllocationError: a node selector cannot be read.
        """
        labels = node.metadata.labels
        known = self._pools.get(node.metadata.name)
        if known is None or known[0] != labels:
            known = self._pools[node.metadata.name] = (labels, self._gathered(node))
        return known[1]

    def _gathered(self, node: Node) -> list[DevicePool]:
        grouped = self._grouped(node)
        pools = [
            pool
            for identity, slices in grouped.items()
            if (pool := self._pool(identity, slices)) is not None
        ]
        if self.features.stable:
            return pools
        return sorted(pools, key=lambda pool: (_has_conditions(pool), pool.id))

    def kind_of(self, node: Node) -> int | None:
        """Return a number for nodes whose own devices differ in nothing but the names of pools.

        None means that the node reaches devices that are not its own.

        Raises:
            AllocationError: a node selector cannot be read.
        """
        pools = self.pools_for(node)
        known = self._kinds.get(node.metadata.name)
        if known is None or known[0] is not pools:
            known = self._kinds[node.metadata.name] = pools, self._kind(pools)
        return known[1]

    def _kind(self, pools: Sequence[DevicePool]) -> int | None:
        foreign = any(
            not candidate.slice.spec.node_name for pool in pools for candidate in pool.candidates
        )
        if foreign or any(pool.elsewhere for pool in pools):
            return None
        kind = msgspec.json.encode([_told(pool) for pool in pools])
        number, first = self._firsts.setdefault(kind, (len(self._firsts), pools))
        for pool, equal in zip(pools, first, strict=True):
            for one, other in zip(pool.candidates, equal.candidates, strict=True):
                one.verdicts = other.verdicts
        return number

    def _grouped(self, node: Node) -> dict[PoolId, list[ResourceSlice]]:
        """Return the newest slices of each pool among those that *node* can reach."""
        grouped: dict[PoolId, list[ResourceSlice]] = {}
        for piece in self._considered(node):
            if not self._is_known(piece) or not self._is_relevant(piece, node):
                continue
            identity = pool_id(piece)
            found = grouped.get(identity)
            generation = piece.spec.pool.generation
            if not found or generation > found[0].spec.pool.generation:
                grouped[identity] = [piece]
            elif generation == found[0].spec.pool.generation:
                found.append(piece)
        return grouped

    def _considered(self, node: Node) -> Iterator[ResourceSlice]:
        """Yield the slices that *node* may reach: in the API's order, or its own ones first."""
        positions = [*self._local.get(node.metadata.name, ()), *self._shared]
        if self.features.stable:
            positions.sort()
        return map(self.slices.__getitem__, positions)

    def _is_known(self, one: ResourceSlice) -> bool:
        spec = one.spec
        if not self.features.partitionable_devices and (
            spec.per_device_node_selection is not None or spec.shared_counters
        ):
            return False
        return self.features.device_compatibility_groups or not uses_groups(one)

    def _is_relevant(self, one: ResourceSlice, node: Node) -> bool:
        spec = one.spec
        if self.features.stable and spec.shared_counters:
            return True
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            return _reaches(one, node)
        if not spec.per_device_node_selection:
            return False
        return any(_device_reaches(device, one, node) for device in spec.devices)

    def _pool(self, identity: PoolId, slices: list[ResourceSlice]) -> DevicePool | None:
        wanted = slices[0].spec.pool.resource_slice_count
        if len(slices) == wanted:
            return self._built(identity, slices, None)
        generation = slices[0].spec.pool.generation
        every = [
            piece for piece in self._by_pool[identity] if piece.spec.pool.generation >= generation
        ]
        if any(piece.spec.pool.generation > generation for piece in every):
            return None
        if not self.features.device_compatibility_groups:
            every = [piece for piece in every if not uses_groups(piece)]
        if len(every) != wanted:
            return DevicePool(identity, incomplete=True)
        return self._built(identity, slices, every)

    def _built(
        self, identity: PoolId, slices: list[ResourceSlice], every: list[ResourceSlice] | None
    ) -> DevicePool:
        if not self.features.stable:
            slices = sorted(slices, key=lambda one: one.metadata.name)
        own = {resource_slice.metadata.name for resource_slice in slices}
        others = [piece for piece in every or () if piece.metadata.name not in own]
        partitioned = self.features.partitionable_devices
        with_counters = [other for other in (*slices, *others) if other.spec.shared_counters]
        pool = DevicePool(identity)
        pool.candidates = tuple(
            CandidateDevice(DeviceId(*identity, device.name), device, resource_slice, pool)
            for resource_slice in slices
            if not (partitioned and resource_slice.spec.shared_counters)
            for device in resource_slice.spec.devices
        )
        pool.elsewhere = tuple(
            (DeviceId(*identity, device.name), device)
            for other in others
            if not (partitioned and other.spec.shared_counters)
            for device in other.spec.devices
        )
        pool.problem = _problem(pool, with_counters if partitioned else None)
        pool.beyond = _beyond(pool)
        return pool


def pool_id(one: ResourceSlice) -> PoolId:
    """Return the pool that a slice belongs to."""
    return PoolId(one.spec.driver, one.spec.pool.name)


def uses_groups(one: ResourceSlice) -> bool:
    """Tell whether any device of the slice names compatibility groups."""
    return any(
        consumption.compatibility_groups
        for device in one.spec.devices
        for consumption in device.consumes_counters
    )


def _reaches(one: ResourceSlice, node: Node) -> bool:
    try:
        return reaches(one.spec, node)
    except AllocationError as error:
        raise AllocationError(
            "gather pool information: failed to perform node selection for slice "
            f"{one.metadata.name}: {error}"
        ) from None


def _device_reaches(device: Device, one: ResourceSlice, node: Node) -> bool:
    try:
        return reaches(device, node)
    except AllocationError as error:
        raise AllocationError(
            "gather pool information: failed to perform node selection for device "
            f"{device.name} in slice {one.metadata.name}: {error}"
        ) from None


def _has_conditions(pool: DevicePool) -> bool:
    return pool.usable and any(
        candidate.device.binding_conditions is not None for candidate in pool.candidates
    )


def _problem(pool: DevicePool, with_counters: list[ResourceSlice] | None) -> str:
    """Return what is wrong with *pool*, and give it its counter sets."""
    seen: set[str] = set()
    for candidate in pool.candidates:
        if candidate.device.name in seen:
            return f"duplicate device name {candidate.device.name}"
        seen.add(candidate.device.name)
    if with_counters is None:
        return ""
    sets: dict[str, CounterSet] = {}
    for resource_slice in with_counters:
        for counters in resource_slice.spec.shared_counters:
            if counters.name in sets:
                return f"duplicate counter set name {counters.name}"
            sets[counters.name] = counters
    pool.counter_sets = sets
    devices = [candidate.device for candidate in pool.candidates]
    return _consumption_problem([*devices, *(device for _, device in pool.elsewhere)], sets)


def _consumption_problem(devices: list[Device], sets: Mapping[str, CounterSet]) -> str:
    for device in devices:
        for consumption in device.consumes_counters:
            counters = sets.get(consumption.counter_set)
            if counters is None:
                return f"counter set {consumption.counter_set} not found"
            for name in consumption.counters:
                if name not in counters.counters:
                    return f"counter {name} not found in counter set {counters.name}"
    return ""


def _beyond(pool: DevicePool) -> str:
    """Return which device makes the pool one that cannot be counted, if there is one."""
    devices = (
        *(candidate.device for candidate in pool.candidates),
        *(device for _, device in pool.elsewhere),
    )
    for device in devices:
        for consumption in device.consumes_counters:
            for name, counter in consumption.counters.items():
                if counter.value_from is not None:
                    return (
                        f"device {device.name} takes from counter {name} of set "
                        f"{consumption.counter_set} what a request asks for (valueFrom, KEP-5941), "
                        "which is not supported"
                    )
    return ""


def _told(pool: DevicePool) -> tuple[object, ...]:
    """Return what counts of a pool of a node's own devices, besides its name."""
    devices = [candidate.device for candidate in pool.candidates]
    return pool.id.driver, pool.incomplete, pool.problem, pool.counter_sets, devices


# ------------------------------------------------------------------------------------------------
# Taints of devices: which of them keep a request away, and the DeviceTaintRules that add some.

_EFFECTS: Final = ("NoSchedule", "NoExecute")
"""Of taints, those that keep requests away."""


def repelling_taint(
    device: Device, tolerations: Iterable[DeviceToleration] = ()
) -> DeviceTaint | None:
    """Return the first taint of *device* that keeps away a request with *tolerations*."""
    for taint in device.taints:
        if taint.effect in _EFFECTS and not any(
            tolerates(toleration, taint) for toleration in tolerations
        ):
            return taint
    return None


def with_taints(
    slices: Iterable[ResourceSlice], rules: Sequence[DeviceTaintRule]
) -> list[ResourceSlice]:
    """Return *slices* with the taints of *rules* appended to the devices that they select."""
    return [_tainted(resource_slice, rules) for resource_slice in slices] if rules else list(slices)


def _tainted(one: ResourceSlice, rules: Sequence[DeviceTaintRule]) -> ResourceSlice:
    relevant = [rule for rule in rules if _selects_slice(rule.spec.device_selector, one)]
    if not relevant:
        return one
    devices = tuple(_device(device, relevant) for device in one.spec.devices)
    return replace(one, spec=replace(one.spec, devices=devices))


def _device(device: Device, rules: Sequence[DeviceTaintRule]) -> Device:
    taints = tuple(
        rule.spec.taint for rule in rules if _selects_device(rule.spec.device_selector, device)
    )
    return replace(device, taints=(*device.taints, *taints)) if taints else device


def _selects_slice(selector: DeviceTaintSelector | None, one: ResourceSlice) -> bool:
    # A rule without selector should select nothing; kube-scheduler 1.37 takes it for everything.
    if selector is None:
        return True
    return selector.driver in (None, one.spec.driver) and selector.pool in (
        None,
        one.spec.pool.name,
    )


def _selects_device(selector: DeviceTaintSelector | None, device: Device) -> bool:
    return selector is None or selector.device in (None, device.name)
