"""Which gang a pod belongs to, and what the gang needs.

A pod names its group by ``spec.schedulingGroup`` (Kubernetes 1.37), by coscheduling's label, or by
Volcano's annotation. Two labels without any object do as well, as in early versions of
coscheduling. Annotations of the group, or of the pods if there is no object, ask for one value of
a node label for all members, and say that they are evicted together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.pod import Pod
    from numakube.api.pod_groups import MemberGroup, PodGroup
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.pods import PodInfo


COSCHEDULING_LABEL: Final = "scheduling.x-k8s.io/pod-group"
VOLCANO_ANNOTATION: Final = "scheduling.k8s.io/group-name"
NAME_LABEL: Final = "pod-group.scheduling.sigs.k8s.io/name"
MIN_LABEL: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
REQUIRED_TOPOLOGY: Final = "numakube.dev/gang-topology"
PREFERRED_TOPOLOGY: Final = "numakube.dev/gang-preferred-topology"
DISRUPTION_MODE: Final = "numakube.dev/gang-disruption-mode"
"""``all`` if the gang is evicted as a whole, as `DisruptionMode` of Kubernetes' own group."""

_KUBERNETES: Final = "scheduling.k8s.io"
_COSCHEDULING: Final = "scheduling.x-k8s.io"
_VOLCANO: Final = "scheduling.volcano.sh"
_LABELS: Final = "labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """What a group of pods needs to run.

    Attributes:
        name: for people, ``namespace/name``.
        min_count: pods that have to run together.
        timeout_seconds: how long fewer may run; ``None`` for the scheduler's own limit.
        required_topology: a node label of which all members get one value.
        preferred_topology: likewise, if that is possible.
        evicted_together: whether eviction of one member takes the others with it.
        priority: the priority that all members must have, if the group says so.
        preemption_policy: whether others are evicted for it, if the group says so.
        changed: whether the group was changed since its creation, its minimum perhaps.
    """

    name: str
    min_count: int
    timeout_seconds: float | None = None
    required_topology: str = ""
    preferred_topology: str = ""
    evicted_together: bool = False
    priority: int | None = None
    preemption_policy: str | None = None
    changed: bool = False

    @property
    def has_topology(self) -> bool:
        """Whether its members belong together in the cluster."""
        return bool(self.required_topology or self.preferred_topology)


@dataclass(frozen=True, slots=True)
class MissingGang:
    """A group that a pod names and that is not there."""

    name: str


def gang_key(pod: PodInfo) -> tuple[str, str, str] | None:
    """Return API, namespace and name of the group that *pod* belongs to."""
    return group_named_by(pod.pod)


def group_named_by(pod: Pod) -> tuple[str, str, str] | None:
    """Return API, namespace and name of the group that *pod* names."""
    group, metadata = pod.spec.scheduling_group, pod.metadata
    if group is not None and group.pod_group_name:
        return _KUBERNETES, metadata.namespace, group.pod_group_name
    if name := metadata.labels.get(COSCHEDULING_LABEL):
        return _COSCHEDULING, metadata.namespace, name
    if name := metadata.annotations.get(VOLCANO_ANNOTATION):
        return _VOLCANO, metadata.namespace, name
    if name := metadata.labels.get(NAME_LABEL):
        return _LABELS, metadata.namespace, name
    return None


def group_of(pod: PodInfo, objects: ClusterObjects) -> PodGroup | MemberGroup | None:
    """Return the object of the group of *pod*, whichever API it is of."""
    api, namespace, name = gang_key(pod) or ("", "", "")
    groups: Mapping[str, Mapping[str, PodGroup | MemberGroup]] = {
        _KUBERNETES: objects.pod_groups,
        _COSCHEDULING: objects.coscheduling_groups,
        _VOLCANO: objects.volcano_groups,
    }
    return groups[api].get(f"{namespace}/{name}") if api in groups else None


def pod_group_of(pod: PodInfo, objects: ClusterObjects) -> PodGroup | None:
    """Return Kubernetes' own group of *pod*, if that is what it belongs to."""
    key = gang_key(pod)
    if key is None or key[0] != _KUBERNETES:
        return None
    return objects.pod_groups.get(f"{key[1]}/{key[2]}")


def gang_of(pod: PodInfo, objects: ClusterObjects) -> Gang | MissingGang | None:
    """Return the gang that *pod* belongs to; nothing for a pod on its own."""
    key = gang_key(pod)
    if key is None:
        return None
    api, namespace, name = key
    full = f"{namespace}/{name}"
    if api == _LABELS:
        return _of_labels(pod, full)
    if api == _KUBERNETES:
        group = objects.pod_groups.get(full)
        return MissingGang(full) if group is None else _of_pod_group(group, full)
    groups = objects.coscheduling_groups if api == _COSCHEDULING else objects.volcano_groups
    members = groups.get(full)
    return MissingGang(full) if members is None else _of_member_group(members, full)


def _of_pod_group(group: PodGroup, name: str) -> Gang | None:
    """Return the gang; one of which any number may run, if a basic group is to be together."""
    gang = group.spec.scheduling_policy.gang
    constraints, mode = group.spec.scheduling_constraints, group.spec.disruption_mode
    topology = constraints.topology if constraints is not None else ()
    annotations = group.metadata.annotations
    if gang is None and not topology:
        return None
    return Gang(
        name=name,
        min_count=1 if gang is None else gang.min_count,
        required_topology=topology[0].key if topology else annotations.get(REQUIRED_TOPOLOGY, ""),
        preferred_topology=annotations.get(PREFERRED_TOPOLOGY, ""),
        evicted_together=mode is not None and mode.all is not None,
        priority=group.spec.priority,
        preemption_policy=group.spec.preemption_policy,
        changed=group.metadata.generation > 1,
    )


def _of_member_group(group: MemberGroup, name: str) -> Gang:
    timeout, annotations = group.spec.schedule_timeout_seconds, group.metadata.annotations
    return Gang(
        name=name,
        min_count=group.spec.min_member,
        timeout_seconds=None if timeout is None else float(timeout),
        required_topology=annotations.get(REQUIRED_TOPOLOGY, ""),
        preferred_topology=annotations.get(PREFERRED_TOPOLOGY, ""),
        evicted_together=annotations.get(DISRUPTION_MODE) == "all",
        changed=group.metadata.generation > 1,
    )


def _of_labels(pod: PodInfo, name: str) -> Gang | None:
    text = pod.labels.get(MIN_LABEL, "")
    if not text.isdecimal():
        return None
    annotations = pod.pod.metadata.annotations
    return Gang(
        name=name,
        min_count=int(text),
        required_topology=annotations.get(REQUIRED_TOPOLOGY, ""),
        preferred_topology=annotations.get(PREFERRED_TOPOLOGY, ""),
        evicted_together=annotations.get(DISRUPTION_MODE) == "all",
    )
