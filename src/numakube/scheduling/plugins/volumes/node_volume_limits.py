"""NodeVolumeLimits: a node can attach only so many volumes of a CSI driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import (
    Filter,
    PreFilter,
    PreFilterResult,
    VectorFilter,
)
from numakube.scheduling.framework.status import (
    SKIP,
    SUCCESS,
    Status,
    failure,
    unresolvable,
    unschedulable,
)
from numakube.scheduling.framework.verdicts import Verdicts
from numakube.scheduling.plugins.volumes.csi_drivers import (
    attached_volume,
    inline_volume,
    is_migrated,
)
from numakube.scheduling.plugins.volumes.volume_claims import (
    claim_uses,
    ownership_problem,
    uses_claim,
    volume_likeness,
)
from numakube.scheduling.snapshot.pod_indexes import attachable_volumes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.storage_objects import CSINode
    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.plugins.volumes.csi_drivers import Attachable
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

_NO_LIMIT: Final = 1 << 31
TOO_MANY: Final = unschedulable("node(s) exceed max volume count")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the pod wants attached, or why that is unknown, and where the rest is looked up."""

    volumes: tuple[Attachable, ...] | Status
    objects: ClusterObjects


_STATE: Final = StateKey[_Wanted]("NodeVolumeLimits")


class NodeVolumeLimits(PreFilter, Filter, VectorFilter):
    """The volumes on the node, and the pod's, must not exceed the drivers' limits."""

    name = "NodeVolumeLimits"
    wakes_on = EventKind.POD_DELETED | EventKind.NODE_ADDED | EventKind.STORAGE_CHANGED

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> NodeVolumeLimits:
        """Return the plugin; it has no arguments."""
        return cls()

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Skip a pod without volumes that are attached."""
        if not attachable_volumes(pod):
            return PreFilterResult(SKIP)
        objects = snapshot.objects
        state.write(_STATE, _Wanted(_volumes(pod, objects, is_new=True), objects))
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node on which a driver would have too many volumes."""
        known = state.read(_STATE)
        if known is None:
            return SUCCESS
        if isinstance(known.volumes, Status):
            return known.volumes
        csi_node = known.objects.csi_nodes.get(node.name)
        limits = _limits(csi_node)
        if csi_node is None or not limits:
            return SUCCESS
        wanted = _attached(known.volumes, csi_node)
        if not any(driver in limits for driver in wanted.values()):
            return SUCCESS
        held = _held(node, csi_node, known.objects)
        if isinstance(held, Status):
            return held
        new = {volume: driver for volume, driver in wanted.items() if volume not in held}
        held |= _attachments(node.name, known.objects)
        return TOO_MANY if _exceeds(limits, held, new) else SUCCESS

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse nodes on which a driver would have too many volumes; count where it is close."""
        known = state.read(_STATE)
        if known is None:
            return None
        if isinstance(known.volumes, Status):
            return Verdicts.where(np.zeros(len(rows), dtype=np.bool_), known.volumes)
        drivers = {one.driver for one in known.volumes}
        objects, slots, wanted = known.objects, snapshot.pods.slots, len(known.volumes)

        def judge(row: int) -> Status:
            node = snapshot.at(row)
            csi_node = objects.csi_nodes.get(node.name)
            if csi_node is None:
                return SUCCESS
            room = _smallest_limit(csi_node, drivers) - slots.at(row) - wanted
            if room >= 0 and room >= len(objects.attachments.group(node.name)):
                return SUCCESS
            return self.filter(state, pod, node)

        verdicts = Verdicts.each(rows, judge)
        return None if verdicts.ok.all() else verdicts

    def likeness(self, pod: PodInfo) -> bytes:
        """Its volumes."""
        return volume_likeness(pod)

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A deleted pod must have had volumes, a claim that changed be the pod's."""
        if event.kind is EventKind.POD_DELETED and event.pod is not None:
            return attachable_volumes(event.pod) > 0
        if event.kind is EventKind.STORAGE_CHANGED and event.claim:
            return uses_claim(pod, event.claim)
        return True


def _volumes(
    pod: PodInfo, objects: ClusterObjects, *, is_new: bool
) -> tuple[Attachable, ...] | Status:
    """Return what *pod* wants attached; claims of a running pod that are gone do not matter."""
    if not pod.pod.spec.volumes:
        return ()
    found = []
    for use in claim_uses(pod):
        claim = objects.claims.get(use.key)
        if claim is None:
            if is_new:
                text = f'looking up PVC {use.key}: persistentvolumeclaim "{use.name}" not found'
                return unresolvable(text)
            continue
        problem = ownership_problem(pod, claim) if use.is_ephemeral else ""
        if problem:
            return failure(problem)
        found.append(attached_volume(claim, objects))
    inline = (inline_volume(volume) for volume in pod.pod.spec.volumes)
    return tuple(one for one in (*found, *inline) if one is not None)


def _limits(csi_node: CSINode | None) -> dict[str, int]:
    return {
        driver.name: driver.allocatable.count
        for driver in (csi_node.spec.drivers if csi_node is not None else ())
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _smallest_limit(csi_node: CSINode, drivers: set[str]) -> int:
    """Return the smallest limit of those *drivers* that have one on the node."""
    smallest = _NO_LIMIT
    for driver in csi_node.spec.drivers:
        if driver.name in drivers and driver.allocatable is not None:
            count = driver.allocatable.count
            if count is not None and count < smallest:
                smallest = count
    return smallest


def _attached(volumes: tuple[Attachable, ...], csi_node: CSINode) -> dict[str, str]:
    """Return driver by volume for those that a CSI driver attaches on that node."""
    return {
        one.unique_name: one.driver
        for one in volumes
        if not one.in_tree or is_migrated(one.in_tree, csi_node)
    }


def _held(node: NodeInfo, csi_node: CSINode, objects: ClusterObjects) -> dict[str, str] | Status:
    """Return driver by volume for what the pods on *node* have attached."""
    held: dict[str, str] = {}
    for pod in node.pods.values():
        volumes = _volumes(pod, objects, is_new=False)
        if isinstance(volumes, Status):
            return volumes
        held |= _attached(volumes, csi_node)
    return held


def _attachments(node: str, objects: ClusterObjects) -> dict[str, str]:
    found = {}
    for attachment in objects.attachments.group(node).values():
        spec = attachment.spec
        volume = objects.volumes.get(spec.source.persistent_volume_name or "")
        if spec.attacher and volume is not None and volume.spec.csi is not None:
            found[f"{spec.attacher}/{volume.spec.csi.volume_handle}"] = spec.attacher
    return found


def _exceeds(limits: Mapping[str, int], held: Mapping[str, str], new: Mapping[str, str]) -> bool:
    drivers = list(held.values())
    wanted = list(new.values())
    return any(
        driver in limits and drivers.count(driver) + wanted.count(driver) > limits[driver]
        for driver in set(wanted)
    )
