"""Volumes for the claims of a pod on one node: those there are or can be made, and their rating."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.api.selectors import selector_of
from numakube.api.storage_objects import SELECTED_NODE, PersistentVolume, PersistentVolumeClaim
from numakube.errors import InvalidValue
from numakube.scheduling.framework.status import SUCCESS, Status, failure, unresolvable
from numakube.scheduling.matching import node_rule
from numakube.scheduling.plugins.node_resources_fit import RequestedToCapacityRatio
from numakube.scheduling.snapshot.cluster_objects import free_volumes
from numakube.values.quantity import parse_quantity, value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numakube.api.storage_objects import CSIStorageCapacity, StorageClass
    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.plugins.plugin_arguments import UtilizationShapePoint
    from numakube.scheduling.plugins.volumes.volume_claims import PodVolumeClaims
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.nodes import NodeInfo


NOT_REACHED: Final = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_TO_BIND: Final = "node(s) didn't find available persistent volumes to bind"
NO_SPACE: Final = "node(s) did not have enough free storage"
VOLUME_GONE: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

_NO_PROVISIONER: Final = ("", "kubernetes.io/no-provisioner")


@dataclass(frozen=True, slots=True)
class Match:
    """A claim and the volume that it gets."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class NodeVolumes:
    """What a pod's claims get on one node.

    Attributes:
        status: why the pod cannot have its volumes there.
        matches: volumes that exist.
        to_make: claims for which a volume is made there.
    """

    status: Status = SUCCESS
    matches: tuple[Match, ...] = ()
    to_make: tuple[PersistentVolumeClaim, ...] = ()


@dataclass(slots=True)
class Finder:
    """Finds volumes for the claims of one pod.

    Attributes:
        candidates: volumes that are free or set aside for a claim, by its key.
        latest: gives a volume as it is assumed to be.
    """

    claims: PodVolumeClaims
    objects: ClusterObjects
    latest: Callable[[PersistentVolume], PersistentVolume]
    candidates: dict[str, list[PersistentVolume]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        volumes = self.objects.volumes
        for claim in self.claims.delayed:
            own = volumes.group(claim.metadata.key).values()
            free = volumes.group(free_volumes(claim.class_name)).values()
            self.candidates[claim.metadata.key] = [
                volume
                for volume in map(self.latest, (*own, *free))
                if volume.class_name == claim.class_name
            ]

    def find(self, node: NodeInfo) -> NodeVolumes:
        """Return what the claims get on *node*."""
        reached, existing = self._bound(node)
        delayed = self._delayed(node)
        if delayed.status.code.label == "Error":
            return delayed
        reasons = [] if reached else [NOT_REACHED]
        reasons += delayed.status.reasons
        reasons += [] if existing else [VOLUME_GONE]
        if reasons:
            return NodeVolumes(unresolvable(*reasons))
        return delayed

    def _bound(self, node: NodeInfo) -> tuple[bool, bool]:
        """Tell whether the bound volumes are reached from *node*, and whether they exist."""
        for claim in self.claims.bound:
            known = self.objects.volumes.get(claim.spec.volume_name)
            if known is None:
                return True, False
            if not reaches(self.latest(known), node.labels):
                return False, True
        return True, True

    def _delayed(self, node: NodeInfo) -> NodeVolumes:
        to_match: list[PersistentVolumeClaim] = []
        to_make: list[PersistentVolumeClaim] = []
        for claim in self.claims.delayed:
            selected = claim.metadata.annotations.get(SELECTED_NODE)
            if selected is not None and selected != node.name:
                return NodeVolumes(unresolvable(NOTHING_TO_BIND))
            (to_match if selected is None else to_make).append(claim)
        matches, unmatched = self._match(to_match, node)
        to_make += unmatched
        status = self._can_make(to_make, node)
        return NodeVolumes(status, tuple(matches), tuple(to_make))

    def _match(
        self, claims: Sequence[PersistentVolumeClaim], node: NodeInfo
    ) -> tuple[list[Match], list[PersistentVolumeClaim]]:
        matches, unmatched = list[Match](), list[PersistentVolumeClaim]()
        for claim in sorted(claims, key=lambda one: parse_quantity(one.requested)):
            taken = {match.volume.metadata.name for match in matches}
            candidates = self.candidates[claim.metadata.key]
            free = (candidate for candidate in candidates if candidate.metadata.name not in taken)
            volume = best_volume(claim, free, node.labels)
            if volume is None:
                unmatched.append(claim)
            else:
                matches.append(Match(claim, volume))
        return matches, unmatched

    def _can_make(self, claims: Iterable[PersistentVolumeClaim], node: NodeInfo) -> Status:
        for claim in claims:
            found = self.objects.storage_classes.get(claim.class_name)
            if found is None:
                return failure(f'failed to find storage class "{claim.class_name}"')
            if found.provisioner in _NO_PROVISIONER or not _allows(found, node.labels):
                return unresolvable(NOTHING_TO_BIND)
            if self._is_limited(claim, found) and self.room_for(claim, node.labels) is None:
                return unresolvable(NO_SPACE)
        return SUCCESS

    def _is_limited(self, claim: PersistentVolumeClaim, made_by: StorageClass) -> bool:
        """Tell whether the driver says how much room it has, and the claim how much it needs."""
        driver = self.objects.csi_drivers.get(made_by.provisioner)
        resources = claim.spec.resources
        return (
            driver is not None
            and bool(driver.spec.storage_capacity)
            and resources is not None
            and "storage" in resources.requests
        )

    def room_for(
        self, claim: PersistentVolumeClaim, labels: Mapping[str, str]
    ) -> CSIStorageCapacity | None:
        """Return the capacity that a volume for *claim* comes from; ``None`` if none is known."""
        made_by = self.objects.storage_classes.get(claim.class_name)
        if made_by is None or not self._is_limited(claim, made_by):
            return None
        size = value(claim.requested)
        return next(
            (
                csi_capacity
                for csi_capacity in self.objects.csi_capacities.values()
                if csi_capacity.storage_class_name == claim.class_name
                and _has_room(csi_capacity, size, labels)
            ),
            None,
        )


def reaches(volume: PersistentVolume, labels: Mapping[str, str]) -> bool:
    """Tell whether *volume* is reached from a node with these *labels*."""
    affinity = volume.spec.node_affinity
    return affinity is None or node_rule(affinity.required).matches(labels, "")


def best_volume(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], labels: Mapping[str, str]
) -> PersistentVolume | None:
    """Return the volume made for *claim* if there is one, else the smallest that will do."""
    best: PersistentVolume | None = None
    for volume in volumes:
        if not _could_serve(claim, volume):
            continue
        if is_for(volume, claim):
            return volume if reaches(volume, labels) else None
        if not _is_free_for(claim, volume) or not reaches(volume, labels):
            continue
        if best is None or capacity_of(volume) < capacity_of(best):
            best = volume
    return best


def is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Tell whether *volume* is bound to *claim*, or set aside for it."""
    ref, meta = volume.spec.claim_ref, claim.metadata
    if ref is None or (ref.namespace, ref.name) != (meta.namespace, meta.name):
        return False
    return not ref.uid or ref.uid == meta.uid


def _could_serve(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    if volume.spec.claim_ref is not None and not is_for(volume, claim):
        return False
    if parse_quantity(_capacity_text(volume)) < parse_quantity(claim.requested):
        return False
    if (claim.spec.volume_mode or "Filesystem") != (volume.spec.volume_mode or "Filesystem"):
        return False
    wanted = claim.spec.volume_attributes_class_name or ""
    if wanted != (volume.spec.volume_attributes_class_name or ""):
        return False
    return volume.metadata.deletion_timestamp is None


def _is_free_for(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    if volume.status.phase != "Available" or volume.class_name != claim.class_name:
        return False
    try:
        selector = selector_of(claim.spec.selector)
    except InvalidValue:
        return False
    if claim.spec.selector is not None and not selector.matches(volume.metadata.labels):
        return False
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def _capacity_text(volume: PersistentVolume) -> str | int | float:
    return volume.spec.capacity.get("storage", 0)


def capacity_of(volume: PersistentVolume) -> int:
    """Return the size of *volume* in bytes."""
    return value(_capacity_text(volume))


def _allows(made_by: StorageClass, labels: Mapping[str, str]) -> bool:
    """Tell whether the class makes volumes for nodes with these *labels*."""
    terms = made_by.allowed_topologies
    return not terms or any(
        term.match_label_expressions
        and all(
            labels.get(match_label_expression.key) in match_label_expression.values
            for match_label_expression in term.match_label_expressions
        )
        for term in terms
    )


def _has_room(capacity: CSIStorageCapacity, size: int, labels: Mapping[str, str]) -> bool:
    largest = capacity.largest_volume
    if largest is None or value(largest) < size or capacity.node_topology is None:
        return False
    try:
        return selector_of(capacity.node_topology).matches(labels)
    except InvalidValue:
        return False


def alike_rows(finder: Finder, snapshot: Snapshot, rows: Rows) -> tuple[Rows, Rows]:
    """Return one row of each kind of node, and for each of *rows* the position of its kind.

    What a claim gets on a node depends on the labels that volumes, storage classes and capacities
    mention, and on whether the node is the one selected for a claim. Each kind is judged once.
    """
    kinds = np.zeros(len(rows), dtype=np.int64)
    for key in sorted(set(_keys(finder))):
        column = snapshot.label(key)
        _, kinds = np.unique(
            kinds * (len(column.values) + 1) + column.codes[rows], return_inverse=True
        )
    selected = [
        claim.metadata.annotations[SELECTED_NODE]
        for claim in finder.claims.delayed
        if SELECTED_NODE in claim.metadata.annotations
    ]
    for name in selected:
        kinds = kinds * 2 + (rows == snapshot.row_of.get(name, -1))
    _, first, group = np.unique(kinds, return_index=True, return_inverse=True)
    return rows[first], group


def _keys(finder: Finder) -> Iterator[str]:
    """Yield the labels that matter."""
    objects = finder.objects
    for claim in finder.claims.bound:
        volume = objects.volumes.get(claim.spec.volume_name)
        if volume is not None:
            yield from _affinity_keys(volume)
    for claim in finder.claims.delayed:
        for volume in finder.candidates[claim.metadata.key]:
            yield from _affinity_keys(volume)
        made_by = objects.storage_classes.get(claim.class_name)
        if made_by is None:
            continue
        for topology in made_by.allowed_topologies:
            yield from (
                match_label_expression.key
                for match_label_expression in topology.match_label_expressions
            )
        driver = objects.csi_drivers.get(made_by.provisioner)
        if driver is not None and driver.spec.storage_capacity:
            for capacity in objects.csi_capacities.values():
                if capacity.node_topology is not None:
                    yield from capacity.node_topology.match_labels
                    yield from (
                        expression.key for expression in capacity.node_topology.match_expressions
                    )


def _affinity_keys(volume: PersistentVolume) -> Iterator[str]:
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        for term in affinity.required.node_selector_terms:
            yield from (expression.key for expression in term.match_expressions)


# ------------------------------------------------------------------------------------------------
# Rating of nodes by how much of their storage the claims of a pod would use.
#
# Follows StorageCapacityScoring of kube-scheduler 1.37, where it is on by default. Volumes that
# exist count with their size; if no claim takes one of those, volumes that would be made count
# with the capacity that the CSI driver reports. Storage classes have the same weight.

Usage = dict[str, tuple[int, int]]
"""By storage class: how many bytes there are, and how many of them are requested."""


class StorageRating:
    """Rates nodes along a broken line from the used share to the score."""

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        self._line = RequestedToCapacityRatio((), shape)

    def of(self, finder: Finder, node: NodeInfo) -> int:
        """Return the mean over the storage classes; 0 if no capacity is known."""
        found = finder.find(node)
        if not found.status.ok:
            return 0
        usage = _of_matches(found) if found.matches else _of_new(found, finder, node)
        total = sum(self._worth(*amounts) for amounts in usage.values())
        return self._line.mean(total, len(usage)) if usage else 0

    def _worth(self, capacity: int, requested: int) -> int:
        # Nothing to take from is as bad as full.
        return self._line.worth(capacity, requested) if capacity else self._line.worth(0, 1)


def _of_matches(found: NodeVolumes) -> Usage:
    usage: Usage = {}
    for match in found.matches:
        capacity, requested = usage.get(match.claim.class_name, (0, 0))
        usage[match.claim.class_name] = (
            capacity + capacity_of(match.volume),
            requested + value(match.claim.requested),
        )
    return usage


def _of_new(found: NodeVolumes, finder: Finder, node: NodeInfo) -> Usage:
    usage: Usage = {}
    for claim in found.to_make:
        room = finder.room_for(claim, node.labels)
        if room is not None and room.capacity is not None:
            _, requested = usage.get(claim.class_name, (0, 0))
            # Volumes of one class share the capacity, so it is not added up.
            usage[claim.class_name] = value(room.capacity), requested + value(claim.requested)
    return usage
