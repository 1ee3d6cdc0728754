"""Clusters to look at: a small one whose nodes are kubelet models, and a very large one."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from types import MappingProxyType
from typing import Any

import msgspec

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo
from numakube.api.nrt import Attribute, Cost, NodeResourceTopology, Zone, ZoneResource
from numakube.api.pod import Pod
from numakube.kube.clock import Clock, SystemClock
from numakube.kube.store import Store
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.config_from_words import lab_configuration, parse_kubelet_options
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import settings_of
from numakube.topology import nrt_names
from numakube.topology.fingerprint import fingerprint_of
from numakube.topology.model_report import nrt_of
from numakube_pages.page_source import Source

SHAPE = "2 sockets, 2 numa each, 8 cores, smt 2, 64Gi, gpu 2, uncore 4"
CREATED = "2026-11-15T12:00:00Z"


def empty_source(clock: Clock | None = None, **others: Any) -> Source:
    """Return a source that knows nothing yet, and listens."""
    source = Source(
        nodes=Store(), pods=Store(), topologies=Store(), clock=clock or SystemClock(), **others
    )
    source.open()
    return source


def node_object(
    name: str,
    *,
    ready: bool = True,
    cordoned: bool = False,
    version: int = 1,
    labels: Mapping[str, str] = MappingProxyType({}),
) -> Node:
    """Return a node as the API server has it."""
    status = "True" if ready else "False"
    message = "kubelet is posting ready status" if ready else "PLEG is not healthy"
    return Node(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-{name}",
            resource_version=str(version),
            labels={"kubernetes.io/hostname": name, **labels},
        ),
        spec=NodeSpec(unschedulable=cordoned),
        status=NodeStatus(
            allocatable={"cpu": "62", "memory": "255Gi", "pods": "110", "vendor.example/gpu": "8"},
            conditions=(NodeCondition(type="Ready", status=status, message=message),),
            node_info=NodeSystemInfo(kubelet_version="v1.35.0"),
        ),
    )


def pod_object(name: str, *, namespace: str = "default", **spec: Any) -> Pod:
    """Return a pod with one container; *spec* has ``cpu``, ``memory``, ``node``, ``message``..."""
    amounts = {"cpu": spec.get("cpu", "1"), "memory": spec.get("memory", "1Gi")}
    amounts |= spec.get("devices", {})
    status: dict[str, Any] = {
        "phase": spec.get("phase", "Running" if spec.get("node") else "Pending")
    }
    if "message" in spec:
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": spec["message"],
                "lastTransitionTime": CREATED,
            }
        ]
    if "refused" in spec:
        status |= {"phase": "Failed", "reason": spec["refused"], "startTime": CREATED}
        status["message"] = "Pod was rejected: Resources cannot be allocated with Topology locality"
    document = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{namespace}-{name}",
            "resourceVersion": str(spec.get("version", 1)),
            "creationTimestamp": CREATED,
        },
        "spec": {
            "nodeName": spec.get("node", ""),
            "schedulerName": spec.get("scheduler", "numakube-scheduler"),
            "containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}],
        },
        "status": status,
    }
    return msgspec.convert(document, Pod)


def kubelet(words: str = "policy=single-numa-node", *, shape: str = SHAPE) -> KubeletNode:
    """Return the model of an idle node."""
    machine = from_shape(shape)
    config = lab_configuration(machine, parse_kubelet_options(words))
    return KubeletNode(machine, settings_of(config, machine))


def report_of(
    name: str, model: KubeletNode, *, version: int = 1, **others: Any
) -> NodeResourceTopology:
    """Return the exact report of a model, with metadata as from the server."""
    nrt = nrt_of(name, model, **others)
    metadata = msgspec.structs.replace(
        nrt.metadata, uid=f"uid-nrt-{name}", resource_version=str(version)
    )
    return msgspec.structs.replace(nrt, metadata=metadata)


def small_world(source: Source) -> dict[str, KubeletNode]:
    """Fill *source* with a cluster that has everything: busy nodes, trouble, waiting pods."""
    random = Random(7)
    models = {f"node-{number}": kubelet() for number in range(8)}
    for name, model in models.items():
        number = int(name.removeprefix("node-"))
        pool = {"pool": "batch" if number % 2 else "web"}
        source.nodes.put(node_object(name, ready=number != 6, cordoned=number == 5, labels=pool))
        placed = []
        for turn in range(min(number * 2, 9)):
            devices = {"vendor.example/gpu": "1"} if turn == 1 else {}
            pod = pod_object(
                f"worker-{number}-{turn}",
                namespace=random.choice(("default", "inference", "telco")),
                cpu=str(random.choice((2, 4, 6))),
                memory=f"{random.choice((4, 8, 16))}Gi",
                devices=devices,
                node=name,
            )
            if isinstance(model.admit(pod), Admitted):
                placed.append((pod.metadata.namespace, pod.metadata.name))
                source.pods.put(pod)
        told = {nrt_names.FINGERPRINT: fingerprint_of(placed)}
        if number == 4:
            told[nrt_names.STALE] = "the kubelet does not answer"
        if number != 7:
            source.topologies.put(report_of(name, model, attributes=told))
    for pod in waiting_pods():
        source.pods.put(pod)
    source.pods.put(pod_object("unlucky", node="node-3", refused="TopologyAffinityError"))
    return models


def waiting_pods() -> list[Pod]:
    """Return pods that wait for different reasons."""
    cannot = (
        "0/8 nodes are available: 6 cannot align container (cpu: best zone has {} of 20), "
        "2 node(s) were unschedulable."
    )
    short = (
        "0/8 nodes are available: 8 Insufficient memory. preemption: 0/8 nodes are available: "
        "8 No preemption victims found for incoming pod."
    )
    pods = [
        pod_object(f"wide-{number}", cpu="20", message=cannot.format(10 + number))
        for number in range(3)
    ]
    pods.append(pod_object("huge", memory="900Gi", message=short))
    pods.append(pod_object("orphan", scheduler="no-such-scheduler"))
    return pods


def large_world(source: Source, *, nodes: int = 5000, zones: int = 8, seed: int = 1) -> None:
    """Fill *source* with a cluster of counts, as loaded as real ones are."""
    random = Random(seed)
    for number in range(nodes):
        rack = number // 40
        name = f"rack{rack:03}-node{number % 40:02}"
        ready = random.random() > 0.004
        cordoned, pool = random.random() < 0.006, {"pool": f"pool-{rack % 3}"}
        source.nodes.put(node_object(name, ready=ready, cordoned=cordoned, labels=pool))
        if random.random() < 0.995:
            load = min(1.0, max(0.0, random.gauss(0.45 + 0.35 * ((rack * 37) % 100) / 100, 0.2)))
            source.topologies.put(counted_report(name, random, zones=zones, load=load))
    for number in range(260):
        message = (
            f"0/{nodes} nodes are available: {nodes - 12} cannot align container "
            f"(cpu: best zone has {random.randint(8, 15)} of 16), 12 node(s) were unschedulable."
        )
        source.pods.put(pod_object(f"train-{number}", namespace="ml", cpu="16", message=message))


def counted_report(
    name: str, random: Random, *, zones: int, load: float, version: int = 1
) -> NodeResourceTopology:
    """Return a report of counts with about so much load on each zone."""
    costs = tuple(
        tuple(Cost(name=f"node-{to}", value=10 if to == one else 21) for to in range(zones))
        for one in range(zones)
    )
    return NodeResourceTopology(
        metadata=ObjectMeta(name=name, uid=f"uid-nrt-{name}", resource_version=str(version)),
        attributes=(
            Attribute(name=nrt_names.TOPOLOGY_POLICY, value="single-numa-node"),
            Attribute(name=nrt_names.TOPOLOGY_SCOPE, value="container"),
        ),
        zones=tuple(
            Zone(
                name=f"node-{zone}", type="Node", costs=costs[zone], resources=_loaded(random, load)
            )
            for zone in range(zones)
        ),
    )


def _loaded(random: Random, load: float) -> tuple[ZoneResource, ...]:
    part = min(1.0, max(0.0, load + random.gauss(0, 0.15)))
    amounts = {"cpu": 16, "memory": 64, "vendor.example/gpu": 2}
    found = []
    for name, whole in amounts.items():
        unit = "Gi" if name == "memory" else ""
        free = whole - min(whole, round(whole * part))
        texts = (f"{whole}{unit}", f"{whole}{unit}", f"{free}{unit}")
        found.append(
            ZoneResource(name=name, capacity=texts[0], allocatable=texts[1], available=texts[2])
        )
    return tuple(found)
