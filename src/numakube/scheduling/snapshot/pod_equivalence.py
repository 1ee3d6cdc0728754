"""Which pods are alike: to a scheduler, and to a kubelet.

Replicas of one workload differ in their names only. When one of them fits nowhere, the others need
not be tried until something has changed that could help; what a kubelet does with one it does with
the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from numakube.api.fit_question import HOLD
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.nrt_names import FORESEEN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.pod import Container, Pod, Volume
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.pod_demand import PodDemand


PodKey: TypeAlias = bytes
"""Equal for pods that are alike."""

_OWN_KEYS: Final = frozenset(
    {
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "kueue.x-k8s.io/pod-group-pod-index",
        "leaderworkerset.sigs.k8s.io/worker-index",
        FORESEEN,
        HOLD,
        "statefulset.kubernetes.io/pod-name",
        "training.kubeflow.org/replica-index",
    }
)
"""Labels and annotations by which owners of pods, and holds, tell pods apart."""

_OF_ONE_POD: Final = frozenset({HOLD, FORESEEN})
"""Annotations that say nothing about what a pod needs."""

_SCHEDULING_KEY: Final = "scheduling-key"
_KINDS_KEPT: Final = 1024
"""Kinds of pods for which is remembered what was worked out about them."""

_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class PodInfos:
    """Makes `PodInfo`s; what is worked out about one pod, its replicas know too."""

    def __init__(self) -> None:
        self._known: dict[PodKey, PodInfo] = {}

    def of(self, pod: Pod) -> PodInfo:
        """Return *pod* with what is known of pods like it."""
        if not _is_told_by_spec(pod):
            return PodInfo(pod)
        key = _scheduling_key(pod)
        known = self._known.get(key)
        if known is not None:
            return known.sibling(pod)
        if len(self._known) >= _KINDS_KEPT:
            self._known.clear()
        info = self._known[key] = PodInfo(pod)
        info.memo(_SCHEDULING_KEY, lambda _: key)
        return info


def _is_told_by_spec(pod: Pod) -> bool:
    """Tell whether the status of *pod* adds nothing to what it asks for."""
    status = pod.status
    return status is None or not (
        status.container_statuses
        or status.init_container_statuses
        or status.extended_resource_claim_status
        or status.claimed_node_resources
    )


def scheduling_key(pod: PodInfo) -> PodKey:
    """Return all of *pod* that a scheduler looks at: pods with equal keys fit the same nodes."""
    return _with_claims(pod, pod.memo(_SCHEDULING_KEY, _scheduling_key))


def kubelet_key(pod: PodInfo) -> PodKey:
    """Return all of *pod* that kubelets look at: pods with equal keys are admitted alike."""
    return pod.memo("kubelet-key", _kubelet_key)


def kubelet_demand(pod: PodInfo, kubelet: KubeletNode) -> PodDemand:
    """Return what *pod* demands of *kubelet*; worked out once for pods that are alike."""
    demand = pod.memo(("kubelet-demand", kubelet.demand_rules), kubelet.demand_of)
    return demand if demand.uid == pod.uid else replace(demand, uid=pod.uid)


def encoded(*parts: object) -> bytes:
    """Return parts of a pod as one value that can be compared and is hashed quickly."""
    return _encode(parts)


def replica_key(pod: PodInfo) -> PodKey:
    """Return the scheduling key without the number that a StatefulSet or an indexed Job gave.

    It tells the same unless pods are selected by their labels: by their own constraints, or by the
    terms of others.
    """
    own = _OWN_KEYS & (pod.labels.keys() | pod.pod.metadata.annotations.keys())
    if not own:
        return scheduling_key(pod)
    return _with_claims(pod, pod.memo("replica-key", _replica_key))


def depends_on_pods(pod: PodInfo) -> bool:
    """Tell whether a pod that arrives elsewhere can make *pod* fit."""
    return selects_pods(pod.pod)


def selects_pods(pod: Pod) -> bool:
    """Tell whether *pod* asks to be near or far from others, on whichever nodes they are."""
    affinity = pod.spec.affinity
    return bool(pod.spec.topology_spread_constraints) or (
        affinity is not None
        and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)
    )


def _with_claims(pod: PodInfo, key: PodKey) -> PodKey:
    """Return *key* with the claims of *pod*, in which alone replicas may differ."""
    claims = pod.pod.spec.resource_claims
    return key + _encode(claims) if claims else key


def _scheduling_key(pod: Pod) -> PodKey:
    annotations = pod.metadata.annotations
    if not annotations.keys().isdisjoint(_OF_ONE_POD):
        annotations = {key: one for key, one in annotations.items() if key not in _OF_ONE_POD}
    return _encoded(pod, pod.metadata.labels, annotations)


def _replica_key(pod: Pod) -> PodKey:
    labels, annotations = (
        {key: value for key, value in one.items() if key not in _OWN_KEYS}
        for one in (pod.metadata.labels, pod.metadata.annotations)
    )
    return _encoded(pod, labels, annotations)


def _encoded(pod: Pod, labels: Mapping[str, str], annotations: Mapping[str, str]) -> PodKey:
    spec = pod.spec
    # Volumes that are mounted from tokens and config maps have random names and fit anywhere.
    volumes = [volume for volume in spec.volumes if not is_local_to_pod(volume)]
    return _encode(
        (
            pod.metadata.namespace,
            labels,
            annotations,
            [_container(container) for container in (*spec.init_containers, *spec.containers)],
            (spec.resources, spec.overhead, volumes, spec.priority),
            (spec.node_selector, spec.affinity, spec.tolerations, spec.preemption_policy),
            (spec.topology_spread_constraints, spec.host_network),
            (spec.scheduler_name, spec.host_users),
        )
    )


def _container(container: Container) -> tuple[object, ...]:
    return (
        container.name,
        container.image,
        container.restart_policy,
        container.restart_policy_rules,
        container.resources,
        container.ports,
        [mount.bind_mount_options for mount in container.volume_mounts],
    )


def is_local_to_pod(volume: Volume) -> bool:
    """Tell whether *volume* is made for the pod alone, wherever it runs.

    So are sources that numakube does not know, which leave all fields of a volume empty. The token
    of a service account is one (``projected``): an API server adds it to nearly every pod, under a
    name of its own each time.
    """
    sources = (
        *(volume.persistent_volume_claim, volume.ephemeral, volume.host_path, volume.csi),
        *(volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd),
    )
    return all(source is None for source in sources)


def _kubelet_key(pod: Pod) -> PodKey:
    spec = pod.spec
    containers = [
        (container.name, container.restart_policy, container.resources)
        for container in (*spec.init_containers, *spec.containers)
    ]
    return _encode((len(spec.init_containers), containers, spec.resources))
