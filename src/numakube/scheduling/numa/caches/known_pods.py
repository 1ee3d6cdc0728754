"""Which pods are on which node or on their way to it, and how far each has come.

The order of a node's pods is the order in which its kubelet meets them. Pods seen on the node come
first, by the second in which they were bound. Of those bound in the same second, pods that their
kubelet has acknowledged come first, then the others by their resource version, because nothing has
changed them since; after a restart they are listed by name. Pods that we have merely reserved
follow in the order of the reservations. Those that wait before they are bound come last, the latest
first: in that order was each of them found to fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from itertools import count
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.api.pod import has_ended
from numakube.scheduling.numa.caches.counts_belief import claim_on

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numakube.api.pod import Pod
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.topology.topology_view import NodeTopology


Order: TypeAlias = tuple[int, str, int, int]

_SEEN: Final = 0
_RESERVED: Final = 1
_WAITING: Final = 2
"""How orders begin."""


class PodStage(IntEnum):
    """How far a pod has come."""

    RESERVED = 0
    """We are about to bind it, or have, but the API server has not told of it yet."""
    BOUND = 1
    """It is bound; whether the kubelet has admitted it is not known."""
    TAKEN = 2
    """The kubelet has acknowledged it, so its resources are allocated."""
    ENDED = 3
    """It runs no more and holds nothing, though the object still exists."""


@dataclass(frozen=True, slots=True)
class KnownPod:
    """One pod on one node.

    Attributes:
        order: position among the pods of the node.
        first_stage: in which it was seen first; a pod that was first seen taken may have been there
            for long.
    """

    info: PodInfo
    node: str
    stage: PodStage
    order: Order
    first_stage: PodStage

    @property
    def uid(self) -> str:
        """The uid of the pod."""
        return self.info.uid

    @property
    def waits(self) -> bool:
        """Whether pods that are reserved for later are bound before it."""
        return self.order[0] == _WAITING


class KnownPods:
    """All pods that are on a node or reserved for one."""

    def __init__(self) -> None:
        self._pods: dict[str, KnownPod] = {}
        self._by_node: dict[str, dict[str, KnownPod]] = {}
        self._sequence = count()

    def __iter__(self) -> Iterator[KnownPod]:
        """Yield every pod."""
        return iter(self._pods.values())

    def get(self, uid: str) -> KnownPod | None:
        """Return the pod with that uid."""
        return self._pods.get(uid)

    def on(self, node: str) -> list[KnownPod]:
        """Return the pods of *node* in the order in which the kubelet meets them."""
        return sorted(self._by_node.get(node, {}).values(), key=lambda pod: pod.order)

    def at(self, node: str) -> Collection[KnownPod]:
        """Return the pods of *node* in any order, which costs nothing."""
        return self._by_node.get(node, {}).values()

    def reserve(self, pod: PodInfo, node: str) -> KnownPod | None:
        """Note that *pod* is about to be bound to *node*; return what was known of it."""
        before = self._pods.get(pod.uid)
        if before is not None and before.node == node:
            return before
        order = (_RESERVED, "", 0, next(self._sequence))
        self._put(KnownPod(pod, node, PodStage.RESERVED, order, PodStage.RESERVED))
        return before

    def unreserve(self, uid: str, node: str) -> KnownPod | None:
        """Forget a pod that was not bound after all; return it, unless it was seen on the node."""
        known = self._pods.get(uid)
        if known is None or known.node != node or known.stage is not PodStage.RESERVED:
            return None
        return self.remove(uid)

    def postpone(self, uid: str, node: str) -> bool:
        """Let others come before a pod that was reserved for; tell whether it is one."""
        return self._reorder(uid, node, (_WAITING, "", 0, -next(self._sequence)))

    def resume(self, uid: str, node: str) -> bool:
        """Let a pod that was reserved for come after all others but those that wait."""
        return self._reorder(uid, node, (_RESERVED, "", 0, next(self._sequence)))

    def _reorder(self, uid: str, node: str, order: Order) -> bool:
        known = self._pods.get(uid)
        if known is None or known.node != node or known.stage is not PodStage.RESERVED:
            return False
        self._put(replace(known, order=order))
        return True

    def see(self, pod: PodInfo) -> tuple[KnownPod | None, KnownPod | None]:
        """Take a version of a pod from the API; return what was known of it and what is now."""
        before = self._pods.get(pod.uid)
        if not pod.node_name:
            return before, before
        stage = stage_of(pod.pod)
        if before is not None and before.node == pod.node_name and before.stage > PodStage.RESERVED:
            after = replace(before, info=pod, stage=max(stage, before.stage))
        else:
            version = _version(pod.pod) if stage is PodStage.BOUND else 0
            order = (_SEEN, scheduled_at(pod.pod), version, next(self._sequence))
            first = before.first_stage if before is not None else stage
            after = KnownPod(pod, pod.node_name, stage, order, first)
        self._put(after)
        return before, after

    def remove(self, uid: str) -> KnownPod | None:
        """Forget a pod; return it if it was known."""
        known = self._pods.pop(uid, None)
        if known is not None:
            pods = self._by_node[known.node]
            del pods[uid]
            if not pods:
                del self._by_node[known.node]
        return known

    def _put(self, pod: KnownPod) -> None:
        self.remove(pod.uid)
        self._pods[pod.uid] = pod
        self._by_node.setdefault(pod.node, {})[pod.uid] = pod


def stage_of(pod: Pod) -> PodStage:
    """Return how far a bound *pod* has come.

    The phase stays ``Pending`` while images are pulled, but the kubelet sets the start time as soon
    as it has admitted the pod.
    """
    status = pod.status
    if status is None:
        return PodStage.BOUND
    if has_ended(pod):
        return PodStage.ENDED
    if status.start_time is not None or status.phase not in ("", "Pending"):
        return PodStage.TAKEN
    return PodStage.BOUND


def scheduled_at(pod: Pod) -> str:
    """Return when *pod* was bound, as a text that sorts by time; empty if it does not say."""
    for condition in pod.status.conditions if pod.status else ():
        if condition.type == "PodScheduled":
            return condition.last_transition_time or ""
    return ""


def _version(pod: Pod) -> int:
    """Return the resource version as the number that it is on all servers we know."""
    text = pod.metadata.resource_version
    return int(text) if text.isdecimal() else 0


# ------------------------------------------------------------------------------------------------
# Pods of other schedulers, whose places are unknown: which of them block a node.


class ForeignPods(StrEnum):
    """Which pods of other schedulers raise doubts; upstream's ``cache.foreignPodsDetect``."""

    NONE = "None"
    ALL = "All"
    ONLY_EXCLUSIVE = "OnlyExclusiveResources"

    def counts(self, pod: KnownPod, topology: NodeTopology) -> bool:
        """Tell whether *pod* raises doubts about a node with *topology*."""
        if self is ForeignPods.ONLY_EXCLUSIVE:
            return bool(claim_on(pod.info, topology))
        return self is ForeignPods.ALL


def is_ours(pod: KnownPod, profiles: Collection[str]) -> bool:
    """Tell whether a scheduler of this process, one of *profiles*, placed *pod*."""
    if pod.first_stage is PodStage.RESERVED:
        return True
    return pod.info.pod.spec.scheduler_name in profiles


def blocked_by(foreign: Sequence[KnownPod]) -> str:
    """Say which pods block a node; empty if nothing does."""
    if not foreign:
        return ""
    shown = ", ".join(pod.info.key for pod in foreign[:3]) + (", ..." if len(foreign) > 3 else "")
    return f"no report yet has the pods of other schedulers: {shown}"
