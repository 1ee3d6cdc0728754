"""Which fields of an object are names, and of what.

An object is a tree of plain values that holds only what numakube reads (see `anonymise`). `renamed`
returns it with every name replaced; called with a `Collector` it only learns them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from numakube.api.pod import is_rejection
from numakube.apps.anonymising.pseudonyms import Sort
from numakube.scheduling.plugins.pod_gangs import (
    COSCHEDULING_LABEL,
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    VOLCANO_ANNOTATION,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Rename: TypeAlias = Callable[[Sort, str], str]

Tree: TypeAlias = Any

_SORT_OF_KIND: Final = {
    "nodes": Sort.NODE,
    "csinodes": Sort.NODE,
    "noderesourcetopologies": Sort.NODE,
    "numatopologies": Sort.NODE,
    "devices": Sort.NODE,
    "pods": Sort.POD,
    "namespaces": Sort.NAMESPACE,
}
_KEPT_KINDS: Final = frozenset({"priorityclasses", "csidrivers", "deviceclasses"})
"""Kinds whose names other objects depend on in ways that a number would hide."""

_NAMES: Final = {
    "namespace": Sort.NAMESPACE,
    "nodeName": Sort.NODE,
    "nominatedNodeName": Sort.NODE,
    "nodeID": Sort.NODE,
    "claimName": Sort.OBJECT,
    "resourceClaimName": Sort.OBJECT,
    "resourceClaimTemplateName": Sort.OBJECT,
    "pool": Sort.POOL,
    "device": Sort.DEVICE,
    "volumeName": Sort.OBJECT,
    "persistentVolumeName": Sort.OBJECT,
    "storageClassName": Sort.OBJECT,
    "volumeHandle": Sort.OBJECT,
    "image": Sort.IMAGE,
    "topologyKey": Sort.LABEL,
    "holderIdentity": Sort.OBJECT,
    "podGroupName": Sort.OBJECT,
}
_NAMED_ENTRIES: Final = {
    "pool": Sort.POOL,
    "devices": Sort.DEVICE,
    "reservedFor": Sort.POD,
}
"""Objects, or lists of them, that have a name of their own."""
_LABEL_MAPS: Final = frozenset({"labels", "matchLabels", "nodeSelector", "selector"})
_LABEL_LISTS: Final = frozenset({"matchLabelKeys", "mismatchLabelKeys"})
_WITH_KEY_AND_VALUES: Final = frozenset(
    {
        "matchExpressions", "matchFields", "matchLabelExpressions", "taint", "taints",
        "tolerations", "topology",
    }
)  # fmt: skip
_DROPPED: Final = frozenset(
    {
        "env", "command", "args", "workingDir", "volumeMounts", "serviceAccountName", "hostname",
        "subdomain",
        "message", "podIP", "podIPs", "hostIP", "hostIPs", "imageID", "containerID", "addresses",
        "nodeInfo", "generateName", "podCIDR", "podCIDRs", "providerID", "note", "source",
        "reportingInstance", "fieldPath", "selfLink", "finalizers", "config", "data", "networkData",
    }
)  # fmt: skip
"""Fields that say something about their owner, and nothing about where pods go."""
_ANNOTATIONS: Final = (
    "kubernetes.io/config.mirror", "kubernetes.io/config.source", "topology.numakube.dev/",
    "topology.node.k8s.io/",
    "pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/", "k8stopoaware",
    "scheduling.koordinator.sh/", "numa-topology-spec.scheduling.koordinator.sh/",
    "resource-spec.scheduling.koordinator.sh/", "kubelet.koordinator.sh/", "kai.scheduler/numa-",
    "node.koordinator.sh/cpu-topology", "node.koordinator.sh/reservation",
    "node.koordinator.sh/system-qos-resource", "node.koordinator.sh/resource-amplification-ratio",
    "volcano.sh/numa-topology-policy", "resource.kubernetes.io/", "numakube.dev/claim-alignment",
    "numakube.dev/closeness", "numakube.dev/gang-", VOLCANO_ANNOTATION,
)  # fmt: skip
_NAMES_IN_ANNOTATIONS: Final = {
    "volume.kubernetes.io/selected-node": Sort.NODE,
    "volume.beta.kubernetes.io/storage-class": Sort.OBJECT,
    VOLCANO_ANNOTATION: Sort.OBJECT,
    REQUIRED_TOPOLOGY: Sort.LABEL,
    PREFERRED_TOPOLOGY: Sort.LABEL,
}


def renamed(tree: Tree, plural: str, rename: Rename) -> Tree:
    """Return one object of a kind with its names replaced."""
    done = {key: _field(key, value, rename) for key, value in tree.items() if key not in _DROPPED}
    done["metadata"] = _metadata(tree.get("metadata") or {}, plural, rename)
    status = tree.get("status")
    if isinstance(status, dict) and is_rejection(status.get("reason", "")) and "message" in status:
        # The words of a kubelet that refuses are the same everywhere.
        done["status"]["message"] = status["message"]
    return done


def _metadata(meta: Tree, plural: str, rename: Rename) -> Tree:
    done = {key: _field(key, value, rename) for key, value in meta.items() if key not in _DROPPED}
    sort = _SORT_OF_KIND.get(plural, Sort.OBJECT)
    if plural == "leases" and meta.get("namespace") == "kube-node-lease":
        sort = Sort.NODE
    if plural not in _KEPT_KINDS and "name" in meta:
        done["name"] = rename(sort, meta["name"])
    if "annotations" in meta:
        done["annotations"] = _annotations(meta["annotations"], rename)
    return done


def _annotations(annotations: dict[str, str], rename: Rename) -> dict[str, str]:
    return {
        key: rename(_NAMES_IN_ANNOTATIONS[key], value) if key in _NAMES_IN_ANNOTATIONS else value
        for key, value in annotations.items()
        if key.startswith(_ANNOTATIONS)
    }


def _field(key: str, value: Tree, rename: Rename) -> Tree:
    if isinstance(value, str):
        return rename(_NAMES[key], value) if key in _NAMES else value
    if key in _LABEL_MAPS and _is_label_map(value):
        return {rename(Sort.LABEL, k): rename(_sort_of_value(k), v) for k, v in value.items()}
    if key in _LABEL_LISTS:
        return [rename(Sort.LABEL, one) for one in value]
    if key in _WITH_KEY_AND_VALUES:
        return _requirements(value, rename)
    if key == "namespaces" and isinstance(value, list):
        return [rename(Sort.NAMESPACE, one) for one in value]
    if key in ("involvedObject", "related", "claimRef", "regarding") and isinstance(value, dict):
        return _reference(value, rename)
    if key == "ownerReferences":
        return [_reference(one, rename) for one in value]
    if key in _NAMED_ENTRIES:
        return _named(value, _NAMED_ENTRIES[key], rename)
    if key == "images":
        return [_image(one, rename) for one in value]
    return _deep(value, rename)


def _sort_of_value(label: str) -> Sort:
    """Return what the value of a label is; one is the name of an object."""
    return Sort.OBJECT if label == COSCHEDULING_LABEL else Sort.VALUE


def _named(value: Tree, sort: Sort, rename: Rename) -> Tree:
    """Replace the name of an entry, or of each in a list, besides those inside it."""
    if isinstance(value, list):
        return [_named(one, sort, rename) for one in value]
    done = _deep(value, rename)
    return {**done, "name": rename(sort, done["name"])} if "name" in done else done


def _is_label_map(value: Tree) -> bool:
    """Tell whether a selector is of the plain kind; others have ``matchLabels`` inside."""
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def _requirements(value: Tree, rename: Rename) -> Tree:
    if isinstance(value, dict):
        return _requirement(value, rename)
    return [_requirement(one, rename) for one in value]


def _requirement(one: Tree, rename: Rename) -> Tree:
    done = dict(one)
    if "key" in one and one["key"] != "metadata.name":
        done["key"] = rename(Sort.LABEL, one["key"])
    if "values" in one:
        done["values"] = [rename(Sort.VALUE, value) for value in one["values"]]
    if "value" in one:
        done["value"] = rename(Sort.VALUE, one["value"])
    return done


def _reference(one: Tree, rename: Rename) -> Tree:
    sort = {"Pod": Sort.POD, "Node": Sort.NODE}.get(one.get("kind", ""), Sort.OBJECT)
    done = {key: value for key, value in one.items() if key not in _DROPPED}
    if "namespace" in one:
        done["namespace"] = rename(Sort.NAMESPACE, one["namespace"])
    if "name" in one:
        done["name"] = rename(sort, one["name"])
    return done


def _image(one: Tree, rename: Rename) -> Tree:
    return {**one, "names": [rename(Sort.IMAGE, name) for name in one.get("names") or ()]}


def _deep(value: Tree, rename: Rename) -> Tree:
    if isinstance(value, dict):
        return {
            key: _field(key, below, rename) for key, below in value.items() if key not in _DROPPED
        }
    if isinstance(value, list):
        return [_deep(one, rename) for one in value]
    return value
