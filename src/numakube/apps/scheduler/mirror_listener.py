"""What the scheduler makes of the changes that the mirror tells of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.scheduling.framework.cluster_events import EventKind

if TYPE_CHECKING:
    from collections.abc import Collection

    from numakube.apps.scheduler.attempt_results import Results
    from numakube.apps.scheduler.binding_cycle import BindingCycle
    from numakube.apps.scheduler.claim_writer import ApiClaimActions
    from numakube.apps.scheduler.held_room import Holds
    from numakube.apps.scheduler.pod_queue import PodQueue
    from numakube.apps.scheduler.preemption_actions import Preemptions
    from numakube.apps.scheduler.rejected_pods import Rejections
    from numakube.apps.scheduler.volume_binder import ApiVolumeActions
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.numa.caches.cache_contract import Changes
    from numakube.scheduling.plugins.gang_scheduling.gang_members import GangMembers
    from numakube.scheduling.plugins.node_shards import NodeShards
    from numakube.scheduling.snapshot.pods import PodInfo


class SchedulerListener:
    """Keeps the queue up to date; a `numakube.apps.cluster_mirror.Listener`.

    Args:
        profiles: names of schedulers whose pods are ours.
        queue: where they wait.
        bindings: those on their way.
        preemptions: those for which room is being made.
        rejections: what is learnt from those that kubelets rejected.
        results: who else learns of things.
        volumes: what waits for volumes to be bound.
        claims: what waits for claims for devices.
        gangs: pods that are scheduled together.
        holds: room for pods that are still to come.
        shards: which pods are tried by other schedulers first.
    """

    def __init__(
        self,
        profiles: Collection[str],
        queue: PodQueue,
        *,
        bindings: BindingCycle,
        preemptions: Preemptions,
        rejections: Rejections,
        results: Results,
        volumes: ApiVolumeActions,
        claims: ApiClaimActions,
        gangs: GangMembers,
        holds: Holds,
        shards: NodeShards,
    ) -> None:
        self._profiles = profiles
        self._queue = queue
        self._bindings = bindings
        self._preemptions = preemptions
        self._rejections = rejections
        self._results = results
        self._volumes = volumes
        self._claims = claims
        self._gangs = gangs
        gangs.on_growth = queue.ask_gates
        self._holds = holds
        self._shards = shards

    def pod_waits(self, pod: PodInfo) -> None:
        """Queue a pod of ours."""
        if pod.scheduler_name not in self._profiles or pod.is_being_deleted:
            self._queue.remove(pod.uid)
            self._gangs.gone(pod, deleted=True)
            return
        if pod.uid not in self._bindings:  # its room is booked, and would be kept twice
            self._preemptions.seen(pod)
        self._holds.seen(pod)
        if self._is_last_resort(pod):
            self._queue.activate(pod.uid, "every shard has refused it")
        self._gangs.waits(pod)
        self._queue.add(pod)

    def _is_last_resort(self, pod: PodInfo) -> bool:
        """Tell whether *pod* has just become one for which this shard may evict others."""
        known = self._queue.waiting.get(pod.uid)
        may_preempt = self._shards.may_preempt
        return known is not None and not may_preempt(known.pod) and may_preempt(pod)

    def pod_placed(self, pod: PodInfo) -> None:
        """Wait no longer for a pod that has a node."""
        self._holds.seen(pod)
        self._preemptions.forget(pod, pod.node_name)
        self._gangs.placed(pod)
        self._results.recording.placed(pod)
        if pod.uid not in self._bindings:
            self._queue.remove(pod.uid)

    def pod_gone(self, pod: PodInfo, *, deleted: bool) -> None:
        """Forget a pod."""
        self._queue.remove(pod.uid)
        self._holds.gone(pod)
        self._gangs.gone(pod, deleted=deleted)
        self._results.outcomes.forget(pod.uid)
        self._preemptions.forget(pod)
        if not pod.has_ended:
            self._results.recording.deleted(pod)
        self._preemptions.victim_is_gone(pod.uid)

    def pod_ended(self, pod: PodInfo) -> None:
        """Learn from a pod that a kubelet rejected."""
        self._results.recording.ended(pod)
        if pod.scheduler_name in self._profiles:
            self._rejections.pod_ended(pod)

    def happened(self, event: ClusterEvent) -> None:
        """Remember an event until the next cycle."""
        self._queue.happened(event)
        if event.kind is EventKind.NODE_REMOVED:
            self._results.recording.flush()
        if event.kind is EventKind.STORAGE_CHANGED:
            self._volumes.storage_changed()
        if event.kind is EventKind.CLAIM_CHANGED:
            self._claims.claims_changed()
            self._queue.ask_gates(event.claim)
        if event.pod_group is not None:
            self._queue.ask_gates(event.pod_group)

    def cache_changed(self, changes: Changes) -> None:
        """Count and log what the NUMA cache found."""
        self._results.cache_changed(changes)
