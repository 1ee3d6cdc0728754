"""The names of all fields on the wire are those of Kubernetes."""

import importlib
import pkgutil
import re
from typing import Any

import msgspec
import pytest

import numakube.api
from numakube.api.affinity_and_taints import NodeAffinity
from numakube.api.checkpoints import cpu_manager_state as cpu_state_structs
from numakube.api.codec import Wire, convert, decode, encode
from numakube.api.kubelet_config import KubeletConfiguration
from numakube.api.meta import (
    CoreEvent,
    Event,
    Lease,
    LeaseSpec,
    ListMeta,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
)
from numakube.api.nodes import DaemonEndpoint, Node, NodeSpec, NodeSystemInfo
from numakube.api.pod import Binding, ContainerPort, ContainerStatus, Pod, PodSpec, PodStatus
from numakube.api.resource_slices import DeviceAttribute

# Words that Kubernetes writes in capitals when they are not the first word of a name.
ACRONYMS = frozenset(
    {
        "api",
        "id",
        "ids",
        "ip",
        "ips",
        "cidr",
        "cidrs",
        "uuid",
        "pid",
        "ipc",
        "cpus",
        "uri",
        "cpu",
        "numa",
    }
)
# Names that Kubernetes spells otherwise than by its own rules.
EXCEPTIONS = {
    (PodStatus, "qos_class"): "qosClass",
    (ListMeta, "continue_"): "continue",
    (DaemonEndpoint, "port"): "Port",
    (cpu_state_structs.FileV1, "default_cpu_set"): "defaultCpuSet",
    (cpu_state_structs.File, "default_cpu_set"): "defaultCpuSet",
    (DeviceAttribute, "integer"): "int",
    (DeviceAttribute, "integers"): "ints",
    (DeviceAttribute, "boolean"): "bool",
    (DeviceAttribute, "booleans"): "bools",
    (NodeAffinity, "required"): "requiredDuringSchedulingIgnoredDuringExecution",
    (NodeAffinity, "preferred"): "preferredDuringSchedulingIgnoredDuringExecution",
}


def wire_types() -> list[type[Wire]]:
    """Return every wire type of the package."""
    for module in pkgutil.walk_packages(numakube.api.__path__, "numakube.api."):
        importlib.import_module(module.name)
    found: list[type[Wire]] = []
    pending: list[type[Wire]] = [Wire]
    while pending:
        children = pending.pop().__subclasses__()
        found += children
        pending += children
    return [kind for kind in found if kind.__module__.startswith("numakube.")]


def spelled(attribute: str) -> str:
    """Return the JSON name that Kubernetes would give to *attribute*."""
    first, *rest = attribute.split("_")
    return first + "".join(
        {"ids": "IDs", "ips": "IPs", "cidrs": "CIDRs", "cpus": "CPUs"}.get(word, word.upper())
        if word in ACRONYMS
        else word.capitalize()
        for word in rest
    )


def test_every_json_name_is_spelled_as_kubernetes_spells_it() -> None:
    """Acronyms are the trap: ``hostIP``, ``podCIDR``, ``providerID``."""
    wrong = {
        (kind.__name__, field.name): field.encode_name
        for kind in wire_types()
        for field in msgspec.structs.fields(kind)
        if field.encode_name != EXCEPTIONS.get((kind, field.name), spelled(field.name))
        and not re.search("During", field.encode_name)
    }

    assert len(wire_types()) > 80
    assert wrong == {}


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (ObjectMeta, "uid resourceVersion creationTimestamp deletionTimestamp ownerReferences"),
        (OwnerReference, "apiVersion kind name uid controller blockOwnerDeletion"),
        (ObjectReference, "kind namespace name uid apiVersion resourceVersion fieldPath"),
        (PodSpec, "hostPID hostIPC hostNetwork nodeName schedulerName priorityClassName os"),
        (PodStatus, "hostIP hostIPs podIP podIPs qosClass nominatedNodeName startTime"),
        (ContainerPort, "containerPort hostPort hostIP protocol name"),
        (ContainerStatus, "imageID containerID restartCount allocatedResources"),
        (NodeSpec, "podCIDR podCIDRs providerID unschedulable taints"),
        (NodeSystemInfo, "machineID systemUUID bootID kernelVersion osImage kubeletVersion"),
        (DaemonEndpoint, "Port"),
        (CoreEvent, "involvedObject firstTimestamp eventTime reportingComponent"),
        (Event, "regarding note reportingController reportingInstance deprecatedCount"),
        (LeaseSpec, "holderIdentity leaseDurationSeconds renewTime leaseTransitions"),
        (KubeletConfiguration, "reservedSystemCPUs cpuManagerPolicy reservedMemory kubeReserved"),
    ],
)
def test_names_that_others_depend_on(kind: type[Wire], names: str) -> None:
    """Spelled out, so that a rename cannot pass unnoticed."""
    assert set(names.split()) <= {field.encode_name for field in msgspec.structs.fields(kind)}


@pytest.mark.parametrize(
    ("value", "version", "kind"),
    [
        (Pod(), "v1", "Pod"),
        (Node(), "v1", "Node"),
        (Binding(metadata=ObjectMeta(), target=ObjectReference()), "v1", "Binding"),
        (CoreEvent(), "v1", "Event"),
        (Event(), "events.k8s.io/v1", "Event"),
        (Lease(), "coordination.k8s.io/v1", "Lease"),
        (KubeletConfiguration(), "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"),
    ],
)
def test_objects_say_what_they_are(value: Wire, version: str, kind: str) -> None:
    """Although all else that is a default is left out."""
    tree: dict[str, Any] = msgspec.json.decode(encode(value))

    assert (tree["apiVersion"], tree["kind"]) == (version, kind)


def test_a_pod_with_everything_survives() -> None:
    """Every field that decides where a pod runs is read and written back."""
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-0",
            "namespace": "shop",
            "uid": "u",
            "labels": {"app": "web"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "s",
                 "controller": True}
            ],
        },
        "spec": {
            "containers": [
                {"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}],
                 "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
                 "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}
            ],
            "initContainers": [{"name": "s", "restartPolicy": "Always"}],
            "resources": {"requests": {"cpu": "2"}},
            "overhead": {"cpu": "250m"},
            "volumes": [
                {"name": "a", "persistentVolumeClaim": {"claimName": "x"}},
                {"name": "b", "ephemeral": {"volumeClaimTemplate": {
                    "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}}}},
                {"name": "c", "hostPath": {"path": "/dev"}},
                {"name": "d", "awsElasticBlockStore": {"volumeID": "v"}},
            ],
            "nodeName": "n",
            "schedulerName": "numakube",
            "priority": 10,
            "priorityClassName": "high",
            "preemptionPolicy": "Never",
            "nodeSelector": {"disk": "ssd"},
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [
                        {"key": "zone", "operator": "In", "values": ["a"]}]}]}},
                "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "podAffinityTerm": {"topologyKey": "zone",
                                                      "labelSelector": {"matchLabels": {"a": "b"}}}}
                ]},
            },
            "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 5}],
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                 "minDomains": 2, "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["rev"]}
            ],
            "schedulingGates": [{"name": "g"}],
            "resourceClaims": [{"name": "r", "resourceClaimTemplateName": "t"}],
            "hostNetwork": True,
        },
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
            "nominatedNodeName": "m",
            "podIPs": [{"ip": "10.0.0.1"}],
            "containerStatuses": [
                {"name": "c", "ready": True, "state": {"running": {"startedAt": "t"}},
                 "allocatedResources": {"cpu": "1"}}
            ],
        },
    }  # fmt: skip

    pod = convert(Pod, tree)

    assert msgspec.json.decode(encode(pod)) == tree
    assert decode(Pod, encode(pod)) == pod
    assert pod.metadata.key == "shop/web-0"
    assert pod.metadata.controller == OwnerReference(
        api_version="apps/v1", kind="StatefulSet", name="web", uid="s", controller=True
    )
    assert ObjectMeta(name="node").key == "node"
    assert ObjectMeta(name="node").controller is None


def test_a_node_with_everything_survives() -> None:
    """What a scheduler reads of a node."""
    tree = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {
            "podCIDR": "10.0.0.0/24",
            "podCIDRs": ["10.0.0.0/24"],
            "providerID": "lab://n",
            "unschedulable": True,
            "taints": [{"key": "k", "effect": "NoSchedule"}],
        },
        "status": {
            "capacity": {"cpu": "4", "pods": "110"},
            "allocatable": {"cpu": "3800m", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {"machineID": "m", "systemUUID": "s", "bootID": "b", "osImage": "lab"},
            "images": [{"names": ["i:1"], "sizeBytes": 5}],
        },
    }

    assert msgspec.json.decode(encode(convert(Node, tree))) == tree
