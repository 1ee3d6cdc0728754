"""VolumeBinding: every claim of the pod must have, find or get a volume that the node reaches.

Claims of classes that wait for the first consumer are decided with the pod. The volumes chosen are
assumed taken at once; before the pod is bound they are bound themselves, or the node is written on
the claim so that the provisioner makes a volume there. Nodes are rated by how much of their storage
the volumes take. Follows kube-scheduler 1.37.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import numpy as np

from numakube.api.meta import ObjectReference
from numakube.api.storage_objects import BOUND_BY_CONTROLLER, SELECTED_NODE
from numakube.errors import NumakubeError
from numakube.scheduling.arrays import uniform
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import (
    BOOKED,
    Booking,
    Filter,
    PreBind,
    PreFilter,
    PreFilterResult,
    PreScore,
    Reserve,
    Score,
    VectorFilter,
    VectorScore,
)
from numakube.scheduling.framework.status import (
    SKIP,
    SUCCESS,
    Status,
    Verdicts,
    failure,
    unresolvable,
)
from numakube.scheduling.plugins.plugin_arguments import VolumeBindingArgs, read_args
from numakube.scheduling.plugins.volumes.volume_claims import (
    Assumed,
    PodVolumeClaims,
    claim_uses,
    claims_problem,
    pod_claims,
    uses_claim,
    volume_likeness,
)
from numakube.scheduling.plugins.volumes.volume_search import (
    Finder,
    NodeVolumes,
    StorageRating,
    alike_rows,
    is_for,
    reaches,
)
from numakube.scheduling.snapshot.zone_belief import NOTHING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.storage_objects import PersistentVolume, PersistentVolumeClaim
    from numakube.scheduling.arrays import IntArray, Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.plugins.volumes.volume_claims import VolumeActions
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges

T = TypeVar("T", "PersistentVolume", "PersistentVolumeClaim")

IMMEDIATE: Final = unresolvable("pod has unbound immediate PersistentVolumeClaims")


@dataclass(slots=True)
class _Booked:
    """What was assumed for the pod on the node that it goes to."""

    node: str
    labels: Mapping[str, str]
    volumes: list[PersistentVolume] = field(default_factory=list)
    claims: list[PersistentVolumeClaim] = field(default_factory=list)
    matched: list[str] = field(default_factory=list)


class _State:
    """The claims of the pod and what was booked for them; what-ifs share it."""

    def __init__(self, finder: Finder) -> None:
        self.finder = finder
        self.booked: _Booked | None = None


_STATE: Final = StateKey[_State]("VolumeBinding")


class VolumeBinding(
    PreFilter, Filter, VectorFilter, PreScore, Score, VectorScore, Reserve, PreBind
):
    """Finds, books and binds the volumes of pods."""

    name = "VolumeBinding"
    wakes_on = EventKind.STORAGE_CHANGED | EventKind.NODE_ADDED | EventKind.NODE_UPDATED

    def __init__(
        self, args: VolumeBindingArgs | None = None, *, actions: VolumeActions | None = None
    ) -> None:
        self.args = args or VolumeBindingArgs()
        self.actions = actions
        self._rating = StorageRating(self.args.shape)
        self._volumes: Assumed[PersistentVolume] = Assumed()
        self._claims: Assumed[PersistentVolumeClaim] = Assumed()

    @classmethod
    def from_args(
        cls, args: Mapping[str, object], *, actions: VolumeActions | None = None
    ) -> VolumeBinding:
        """Return the plugin for *args* as they stand in a configuration."""
        return cls(read_args(VolumeBindingArgs, args), actions=actions)

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Refuse a pod whose claims cannot be used yet; skip one without claims."""
        objects = snapshot.objects
        problem = claims_problem(pod, objects)
        if problem:
            return PreFilterResult(unresolvable(problem))
        if not any(True for _ in claim_uses(pod)):
            return PreFilterResult(SKIP)
        claims = pod_claims(pod, objects, lambda key: self._claim(key, objects))
        if not isinstance(claims, PodVolumeClaims):
            return PreFilterResult(failure(claims))
        if claims.immediate:
            return PreFilterResult(IMMEDIATE)
        state.write(_STATE, _State(Finder(claims, objects, self._volumes.latest)))
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node on which a claim cannot have its volume."""
        known = state.read(_STATE)
        return known.finder.find(node).status if known is not None else SUCCESS

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse nodes on which a claim cannot have its volume; alike nodes are judged once."""
        known = state.read(_STATE)
        if known is None:
            return None
        first, group = alike_rows(known.finder, snapshot, rows)
        judged = Verdicts.each(first, lambda row: known.finder.find(snapshot.at(row)).status)
        if judged.ok.all():
            return None
        return Verdicts(judged.choice[group].astype(np.int32), judged.statuses)

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip pods whose claims all have their volumes."""
        known = state.read(_STATE)
        return SUCCESS if known is not None and known.finder.claims.delayed else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate *node* by how much of its storage the claims would use."""
        known = state.read(_STATE)
        return self._rating.of(known.finder, node) if known is not None else 0

    def score_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> IntArray:
        """Rate nodes by how much of their storage the claims would use; alike nodes once."""
        known = state.read(_STATE)
        if known is None:
            return uniform(0, len(rows))
        first, group = alike_rows(known.finder, snapshot, rows)
        rated = [self._rating.of(known.finder, snapshot.at(row)) for row in first.tolist()]
        return np.array(rated, dtype=np.int64)[group]

    def reserve(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Booking:
        """Assume that the volumes chosen on *node* are taken."""
        known = state.read(_STATE)
        if known is None:
            return BOOKED
        found = known.finder.find(node)
        if not found.status.ok:
            return Booking(found.status)
        known.booked = self._book(node, found)
        return BOOKED

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """Take the assumptions back."""
        known = state.read(_STATE)
        if known is not None and known.booked is not None:
            self._forget(known.booked)
            known.booked = None
        return NOTHING

    def waits_for_others(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        """Tell whether volumes of the pod are still to be bound or made."""
        known = state.read(_STATE)
        booked = known.booked if known is not None else None
        return booked is not None and bool(booked.volumes or booked.claims)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Write the choices down and wait until all claims are bound."""
        known = state.read(_STATE)
        booked = known.booked if known is not None else None
        if known is None or booked is None or not (booked.volumes or booked.claims):
            return SUCCESS
        if self.actions is None:
            return failure("volumes cannot be bound: this process has no way to change them")
        try:
            for volume in booked.volumes:
                await self.actions.bind_volume(volume)
            for claim in booked.claims:
                await self.actions.select_node(claim)
        except NumakubeError as error:
            return failure(f"binding volumes: {error}")
        objects = known.finder.objects
        status = await self.actions.until(
            lambda: _progress(booked, objects), timeout_seconds=self.args.bind_timeout_seconds
        )
        if status.ok:
            self._forget(booked)
        return status

    def likeness(self, pod: PodInfo) -> bytes:
        """Its volumes."""
        return volume_likeness(pod)

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A claim that changed must be one of the pod's."""
        if event.kind is EventKind.STORAGE_CHANGED and event.claim:
            return uses_claim(pod, event.claim)
        return True

    def _claim(self, key: str, objects: ClusterObjects) -> PersistentVolumeClaim | None:
        known = objects.claims.get(key)
        return None if known is None else self._claims.latest(known)

    def _book(self, node: NodeInfo, found: NodeVolumes) -> _Booked:
        booked = _Booked(node.name, node.labels)
        for match in found.matches:
            volume = _set_aside(match.volume, match.claim)
            booked.volumes.append(volume)
            booked.matched.append(match.claim.metadata.key)
            self._volumes.assume(volume)
        for claim in found.to_make:
            chosen = _annotated(claim, SELECTED_NODE, node.name)
            booked.claims.append(chosen)
            self._claims.assume(chosen)
        return booked

    def _forget(self, booked: _Booked) -> None:
        for volume in booked.volumes:
            self._volumes.restore(volume)
        for claim in booked.claims:
            self._claims.restore(claim)


def _set_aside(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return *volume* as it is once it refers to *claim*."""
    meta = claim.metadata
    if not is_for(volume, claim):
        volume = _annotated(volume, BOUND_BY_CONTROLLER, "yes")
    ref = ObjectReference(
        kind="PersistentVolumeClaim",
        api_version="v1",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
    return msgspec.structs.replace(volume, spec=msgspec.structs.replace(volume.spec, claim_ref=ref))


def _progress(booked: _Booked, objects: ClusterObjects) -> Status | None:
    """Say whether all claims are bound, or cannot be any more; ``None`` to go on waiting."""
    for volume, key in zip(booked.volumes, booked.matched, strict=True):
        now = objects.volumes.get(volume.metadata.name)
        if now is None:
            return failure(f'binding volumes: persistentvolume "{volume.metadata.name}" is gone')
        if not reaches(now, booked.labels):
            return _out_of_reach(now, booked.node)
        if _is_newer(now, volume) and (now.spec.claim_ref is None or not now.spec.claim_ref.uid):
            return failure(f'binding volumes: ClaimRef got reset for pv "{volume.metadata.name}"')
        claim = objects.claims.get(key)
        if claim is None or not claim.is_bound:
            return None
    for claim in booked.claims:
        status = _made(claim, booked, objects)
        if status is None or not status.ok:
            return status
    return SUCCESS


def _made(claim: PersistentVolumeClaim, booked: _Booked, objects: ClusterObjects) -> Status | None:
    now = objects.claims.get(claim.metadata.key)
    if now is None:
        return failure(f'binding volumes: persistentvolumeclaim "{claim.metadata.name}" is gone')
    if not _is_newer(now, claim):
        return None
    if now.metadata.annotations.get(SELECTED_NODE) != booked.node:
        return failure(f'binding volumes: provisioning failed for PVC "{claim.metadata.name}"')
    volume = objects.volumes.get(now.spec.volume_name) if now.spec.volume_name else None
    if volume is not None and not reaches(volume, booked.labels):
        return _out_of_reach(volume, booked.node)
    return SUCCESS if now.is_bound and volume is not None else None


def _out_of_reach(volume: PersistentVolume, node: str) -> Status:
    return failure(
        f'binding volumes: pv "{volume.metadata.name}" node affinity doesn\'t match node "{node}"'
    )


def _is_newer(
    now: PersistentVolume | PersistentVolumeClaim, before: PersistentVolume | PersistentVolumeClaim
) -> bool:
    return now.metadata.resource_version != before.metadata.resource_version


def _annotated(one: T, key: str, text: str) -> T:
    annotations = {**one.metadata.annotations, key: text}
    metadata = msgspec.structs.replace(one.metadata, annotations=annotations)
    return msgspec.structs.replace(one, metadata=metadata)
