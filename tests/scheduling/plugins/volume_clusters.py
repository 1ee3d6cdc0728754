"""Clusters with volumes and claims, and what the plugins say of their nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numakube.api.codec import convert
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.api.storage_objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import Filter, Plugin, PreFilter
from numakube.scheduling.framework.status import Code, Status
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
from numakube.scheduling.snapshot.pods import PodInfo

ZONE = "topology.kubernetes.io/zone"


def cluster(zones: str = "ab") -> Cluster:
    """A node a zone, called after it, and two storage classes."""
    made = Cluster()
    for zone in zones:
        made.set_node(Node(metadata=ObjectMeta(name=zone, labels={ZONE: zone})))
    for name, mode in (("late", "WaitForFirstConsumer"), ("now", "Immediate")):
        made.objects.storage_classes[name] = StorageClass(
            metadata=ObjectMeta(name=name), provisioner="csi.example", volume_binding_mode=mode
        )
    return made


def claim(objects: ClusterObjects, name: str, *, size: str = "1Gi", **fields: Any) -> None:
    """Add a claim."""
    annotations = fields.pop("annotations", {})
    tree = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "resourceVersion": "1",
            "annotations": annotations,
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            **fields,
        },
    }
    one = convert(PersistentVolumeClaim, tree)
    objects.claims[one.metadata.key] = one


def volume(
    objects: ClusterObjects, name: str, *, zone: str = "", size: str = "1Gi", **fields: Any
) -> None:
    """Add a volume, reached from *zone* if one is given."""
    affinity = {
        "required": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
            ]
        }
    }
    tree = {
        "metadata": {
            "name": name,
            "resourceVersion": "1",
            "labels": fields.pop("labels", {}),
        },
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            **({"nodeAffinity": affinity} if zone else {}),
            **fields,
        },
        "status": {"phase": "Available"},
    }
    objects.volumes[name] = convert(PersistentVolume, tree)


def pod(*claims: str, name: str = "new", others: Mapping[str, object] | None = None) -> PodInfo:
    """A pod with these claims and other volumes."""
    listed: list[Mapping[str, object]] = [
        {"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims
    ]
    listed += [{"name": key, key: source} for key, source in (others or {}).items()]
    tree = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "c"}], "volumes": listed},
    }
    return PodInfo(convert(Pod, tree))


def verdicts(plugin: Plugin, made: Cluster, new: PodInfo) -> dict[str, tuple[Code, str]] | Status:
    """What the plugin says of every node, or of the pod as a whole."""
    state = CycleState()
    assert isinstance(plugin, PreFilter)
    assert isinstance(plugin, Filter)
    result = plugin.pre_filter(state, new, made.snapshot())
    if not result.status.ok:
        return result.status
    statuses = {node.name: plugin.filter(state, new, node) for node in made.nodes()}
    return {name: (status.code, status.message) for name, status in statuses.items()}


FITS = (Code.SUCCESS, "")
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
