"""What the relations of a pod come to on a node, by the model of its kubelet. Pure.

Pods of other namespaces count for nothing, whatever their labels are: who may not create pods in a
namespace can neither keep its pods apart nor off a node.

A relation of a pod that is there already binds others too if it is a required anti-affinity, as in
Kubernetes: a pod that it selects is not put beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Final

from numakube.api.node_islands import NONE_TOLD, told_islands
from numakube.api.zone_relations import ANTI_AFFINITY, NO_WISH, ZoneLevel, zone_wish_of
from numakube.kubelet import Admitted
from numakube.kubelet.held_zones import ForeseenZones, ZoneMap, numa_zone
from numakube.scheduling.snapshot.pod_equivalence import kubelet_demand
from numakube.scheduling.snapshot.pods import held_by
from numakube.scheduling.snapshot.zone_belief import KubeletRejection, foresees
from numakube.topology import uid_hash
from numakube.values.numamask import nodes_of
from numakube.values.topology_policy import TopologyPolicy
from numakube_zone_affinity.zone_verdicts import (
    HOLDS,
    IS_IN,
    WOULD_GET,
    WOULD_TAKE,
    Others,
    luck,
    not_seen,
    nowhere,
    unreported,
    verdict,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numakube.api.node_islands import ToldIslands
    from numakube.api.pod import Pod
    from numakube.api.zone_relations import ZoneRelation, ZoneWish
    from numakube.kubelet import KubeletNode
    from numakube.scheduling.framework.cycle_state import Allots, Places
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief
    from numakube.topology.allotments import Share
    from numakube_zone_affinity.zone_verdicts import ZoneVerdict

    _Place = Callable[[PodInfo, ZoneLevel], ForeseenZones | None]

_WISH: Final = "zone-wish"


def wish_of(pod: PodInfo) -> ZoneWish:
    """Return what *pod* wishes about others within its node."""
    if not pod.pod.metadata.annotations:
        return NO_WISH
    return pod.memo(_WISH, _wish)


def _wish(pod: Pod) -> ZoneWish:
    return zone_wish_of(pod.metadata.annotations)


@dataclass(frozen=True, slots=True)
class _Bond:
    """A relation that matters to a pod: its own, or that of one that is there.

    Attributes:
        selected: the pods of the node that it is about.
        is_required: whether it has to hold.
        owner: whose relation it is, if it is another's.
    """

    relation: ZoneRelation
    level: ZoneLevel
    selected: tuple[PodInfo, ...]
    is_required: bool
    owner: str = ""

    def __str__(self) -> str:
        return f"{self.relation} of {self.owner}" if self.owner else str(self.relation)


def is_concerned(pod: PodInfo, node: NodeInfo) -> bool:
    """Tell whether where *pod* will be on *node* matters to it, or to a pod that is there."""
    return bool(wish_of(pod).relations) or any(True for _ in _bonds_of_others(pod, node.pods))


def prospect(pod: PodInfo, node: NodeInfo) -> ZoneVerdict:
    """Return what becomes of the relations on *node* if *pod* comes next."""
    bonds = tuple(_bonds(pod, tuple(_neighbours(pod, node.pods))))
    if not bonds:
        return HOLDS
    zones = _zones_on(node)
    # A pod may be told to keep away by every other: its kubelet is asked once for all of them.
    return zones.worst(pod, bonds, cache(partial(_foreseen, zones, node.numa)))


def present(pod: PodInfo, node: NodeInfo) -> ZoneVerdict:
    """Return what becomes of the relations for *pod*, which has been reserved for on *node*.

    Only those that its kubelet meets before it count: the others were put beside it.
    """
    zones = _zones_on(node)
    before = zones.before(pod)
    neighbours = [one for one in _neighbours(pod, node.pods) if one.uid in before]
    bonds = tuple(_bonds(pod, neighbours))
    return zones.worst(pod, bonds, zones.held_now) if bonds else HOLDS


def foreseen_zones(pod: PodInfo, node: NodeInfo, level: ZoneLevel) -> ForeseenZones | None:
    """Return where *pod* will be if it comes next; ``None`` if that is not known."""
    return _foreseen(_zones_on(node), node.numa, pod, level)


def reported(pod: PodInfo, zones: NodeZones) -> tuple[tuple[str, ZoneVerdict], ...]:
    """Return what has become of each of its own relations for *pod*, which runs."""
    own = [bond for bond in _bonds(pod, tuple(_neighbours(pod, zones.pods))) if not bond.owner]

    def judged(bond: _Bond) -> ZoneVerdict:
        if zones.model is not None and zones.held(pod, bond.level) is None:
            return not_seen()
        return zones.judged(pod, bond, zones.held_now)

    return tuple((str(bond), judged(bond)) for bond in own)


def allotted(pod: PodInfo, node: NodeInfo, allots: Allots) -> ZoneVerdict | None:
    """Return what becomes of the relations on *node* if a scheduler plugin decides where it goes.

    It is asked for a place where they hold. ``None`` if it is not the scheduler that decides.
    """
    bonds = tuple(_bonds(pod, tuple(_neighbours(pod, node.pods))))
    zones, offered = _zones_on(node), _offered_by_scheduler(node)

    def judged(places: Places) -> ZoneVerdict:
        named = frozenset(numa_zone(one) for mask in places.values() for one in nodes_of(mask))
        found = ForeseenZones(named, named)
        for bond in sorted(bonds, key=lambda one: not one.is_required):
            one = (
                luck()
                if bond.level is not ZoneLevel.NUMA
                else zones.decided(pod, bond, found, offered)
            )
            if not one.holds:
                reason = f"{bond}: {one.reason}"
                return replace(one, reason=reason, is_required=bond.is_required)
        return HOLDS

    found = allots.allot(node, lambda places: judged(places).holds)
    return None if found is None else judged(found.places)


def _offered_by_scheduler(node: NodeInfo) -> frozenset[str]:
    topology = None if node.numa is None else node.numa.topology
    return frozenset(numa_zone(zone.id) for zone in topology.zones) if topology else frozenset()


def _zones_of_share(share: Share, model: KubeletNode | None) -> frozenset[str] | None:
    """Return where a pod is that a scheduler plugin has put there; ``None`` if that is not told."""
    nodes = {*share.zones, *nodes_of(share.mask)}
    if share.cpus and model is not None:
        nodes |= {
            node.id
            for node in model.machine.nodes
            if any(share.cpus >> cpu & 1 for core in node.cores for cpu in core.threads)
        }
    return frozenset(map(numa_zone, nodes)) if nodes or not share.cpus else None


def _zones_on(node: NodeInfo) -> NodeZones:
    told = told_islands(node.node.metadata.annotations)
    return NodeZones(None if node.numa is None else node.numa.model(), node.pods, told)


def _foreseen(
    zones: NodeZones, belief: NumaBelief | None, pod: PodInfo, level: ZoneLevel
) -> ForeseenZones | None:
    """Return where *pod* will be if it comes next; ``None`` if its kubelet refuses it."""
    model = zones.model
    if model is None or belief is None:
        return None
    demand = kubelet_demand(pod, model)
    outcome = belief.outcome_of(pod) if foresees(belief) else model.clone().admit(demand)
    if not isinstance(outcome, Admitted):
        return None
    return zones.zone_map(level, model).foreseen(demand, outcome)


def _neighbours(pod: PodInfo, there: Mapping[str, PodInfo]) -> Iterator[PodInfo]:
    for other in there.values():
        if other.namespace == pod.namespace and other.uid != pod.uid and not other.has_ended:
            yield other


def _bonds(pod: PodInfo, neighbours: Sequence[PodInfo]) -> Iterator[_Bond]:
    wish = wish_of(pod)
    for relation in wish.relations:
        selected = tuple(one for one in neighbours if relation.selector.matches(one.labels))
        yield _Bond(relation, wish.level, selected, wish.is_required)
    yield from _bonds_of_others(pod, {one.uid: one for one in neighbours})


def _bonds_of_others(pod: PodInfo, there: Mapping[str, PodInfo]) -> Iterator[_Bond]:
    for other in there.values():
        wish = wish_of(other)
        if not wish.is_required:  # nearly all: every binding goes through the pods of its node
            continue
        if other.namespace != pod.namespace or other.uid == pod.uid or other.has_ended:
            continue
        relation = wish.relation(ANTI_AFFINITY)
        if relation is not None and relation.selector.matches(pod.labels):
            yield _Bond(relation, wish.level, (other,), is_required=True, owner=other.key)


class NodeZones:
    """The zones of one node: who has what in them.

    Attributes:
        model: of its kubelet; ``None`` if the node does not say enough.
        pods: of the node, by uid.
        told: its islands, as far as an annotation of the node tells them.
    """

    def __init__(
        self,
        model: KubeletNode | None,
        pods: Mapping[str, PodInfo],
        told: ToldIslands = NONE_TOLD,
    ) -> None:
        self.model = model
        self.pods = pods
        self.told = told
        self._maps: dict[ZoneLevel, ZoneMap] = {}

    def worst(self, pod: PodInfo, bonds: Sequence[_Bond], place: _Place) -> ZoneVerdict:
        """Return the first verdict that is not good, of relations that have to hold if possible."""
        for bond in sorted(bonds, key=lambda one: not one.is_required):
            judged = self.judged(pod, bond, place)
            if not judged.holds:
                reason = f"{bond}: {judged.reason}"
                return replace(judged, reason=reason, is_required=bond.is_required)
        return HOLDS

    def judged(self, pod: PodInfo, bond: _Bond, place: _Place) -> ZoneVerdict:
        """Return what becomes of one relation."""
        model = self.model
        if model is None:
            return unreported()
        zones = place(pod, bond.level)
        if zones is None:
            return HOLDS  # others refuse the pod
        offered = self.zone_map(bond.level, model).offered(kubelet_demand(pod, model))
        is_luck = model.settings.topology_policy == TopologyPolicy.NONE and len(offered) > 1
        is_there = place == self.held_now
        if zones.possible and is_luck and not is_there:
            return luck()
        return self.decided(pod, bond, zones, offered, takes=IS_IN if is_there else WOULD_TAKE)

    def decided(
        self,
        pod: PodInfo,
        bond: _Bond,
        zones: ForeseenZones,
        offered: frozenset[str],
        *,
        takes: str = WOULD_GET,
    ) -> ZoneVerdict:
        """Return what becomes of one relation of a pod in *zones*."""
        if not zones.possible:
            # Who is nowhere is not beside anybody: only its own wish comes to nothing.
            return HOLDS if bond.owner else nowhere(bond.level)
        places = {other.key: self.held(other, bond.level) for other in bond.selected}
        others = Others(
            zones={key: zones for key, zones in places.items() if zones is not None},
            unknown=sorted(key for key, zones in places.items() if zones is None),
            counts_itself=bond.relation.selector.matches(pod.labels),
        )
        return verdict(bond.relation, others, zones, offered, takes=takes)

    def held_now(self, pod: PodInfo, level: ZoneLevel) -> ForeseenZones | None:
        """Return where *pod* is in the model."""
        zones = self.held(pod, level)
        return None if zones is None else ForeseenZones(zones, zones)

    def before(self, pod: PodInfo) -> set[str]:
        """Return the uids of the pods of the node that its kubelet meets before *pod*."""
        hashes = {uid_hash(uid): uid for uid in self.pods}
        known: set[str] = set()
        for uid in self.model.pods if self.model is not None else ():
            if uid == pod.uid:
                break
            known.add(hashes.get(uid, uid))
        return known

    def held(self, pod: PodInfo, level: ZoneLevel) -> frozenset[str] | None:
        """Return where a pod of the node has something; ``None`` if that is not known."""
        model, allotment = self.model, held_by(self.pods.get(pod.uid, pod))
        if allotment is not None and level is ZoneLevel.NUMA:
            return _zones_of_share(allotment.total, model)
        name = self.name_of(pod)
        return None if model is None or not name else self.zone_map(level, model).held(name)

    def name_of(self, pod: PodInfo) -> str:
        """Return by which uid the model knows *pod*; empty if it does not."""
        return next((name for name in (pod.uid, uid_hash(pod.uid)) if name in self._known), "")

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.model.pods if self.model is not None else ())

    def zone_map(self, level: ZoneLevel, model: KubeletNode) -> ZoneMap:
        """Return the zones of *level*."""
        if level not in self._maps:
            self._maps[level] = ZoneMap(model, level, self.told)
        return self._maps[level]


def coming_before(pod: PodInfo, node: NodeInfo) -> tuple[str, ...]:
    """Return pods on their way to *node* that its kubelet might meet after *pod*.

    It was foreseen that they come before it. A kubelet that learns of several pods at a time goes
    by when they were created, so one that was created later may have to be there first: reported,
    or started by its status. That matters if either insists on its relations.
    """
    required = {one.uid for one in (*node.pods.values(), pod) if wish_of(one).is_required}
    if not required:
        return ()
    coming = getattr(node.numa, "foreseen", {})
    if not coming:
        return ()
    zones = _zones_on(node)
    return tuple(
        node.pods[uid].key
        for uid in zones.before(pod)
        if uid in coming
        and uid in node.pods
        and not isinstance(coming[uid], KubeletRejection)
        and (uid in required or pod.uid in required)
        and not _is_started(node.pods[uid])
        and not _created(node.pods[uid]) < _created(pod)
    )


def may_hold_up(other: str, pod: PodInfo) -> bool:
    """Tell whether *pod* is not bound at all while *other*, by its key, is not there.

    Pods of another namespace delay it at most, if it insists on nothing.
    """
    return wish_of(pod).is_required or other.startswith(f"{pod.namespace}/")


def _is_started(pod: PodInfo) -> bool:
    """Tell whether a kubelet has met *pod*: it says so before reports do, which may say nothing."""
    return pod.pod.status is not None and pod.pod.status.start_time is not None


def _created(pod: PodInfo) -> str:
    """Return when a pod was created; such texts are in the order of the times."""
    return pod.pod.metadata.creation_timestamp or ""
