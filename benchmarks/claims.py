"""Pods with claims for devices: what a decision costs on many nodes with GPUs and NICs by DRA.

Every node has two NUMA nodes, eight GPUs and eight NICs. A pod wants CPUs, a GPU and a NIC on one
PCIe root. After a pod of another shape has been placed, the first decision about a shape is
measured, and then those about pods like it. Times are CPU time, so that a busy machine does not
spoil them: a decision waits for nothing.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.api.resource_claims import ResourceClaim
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.scheduling.assembly import all_plugins, assemble, default_configuration
from numakube.scheduling.cycle import Chosen, Cycle
from numakube.scheduling.plugins.dynamic_resources import DynamicResources
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing.claim_api import ReplayedApi

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.kube.resource_types import Document
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.framework.registry import Handle

BUDGETS: Final = {1000: 20.0, 5000: 60.0}
"""Milliseconds of a first decision, by number of nodes."""
PODS: Final = 20
KINDS: Final = ("gpu", "nic")


def run() -> Iterator[dict[str, object]]:
    """Measure decisions at 1,000 and 5,000 nodes."""
    for nodes, budget in BUDGETS.items():
        engine = _engine(nodes)
        cycle = Cycle(engine.cluster, engine.nominations, np.random.default_rng(1))
        _placed(engine, cycle, PODS, kinds=("gpu",))
        first, *rest = [_placed(engine, cycle, number) for number in range(PODS)]
        yield {
            "metric": f"first decision, {nodes} nodes",
            "value": round(first * 1e3, 2),
            "unit": "ms",
            "budget": budget,
        }
        yield {
            "metric": f"decision like one before, {nodes} nodes",
            "value": round(sorted(rest)[len(rest) // 2] * 1e3, 2),
            "unit": "ms",
        }


def _placed(engine: Engine, cycle: Cycle, number: int, kinds: tuple[str, ...] = KINDS) -> float:
    """Place a pod; return the seconds that the decision and its reservation took."""
    claim = _claim(number, kinds)
    engine.cluster.objects.resource_claims[claim.metadata.key] = claim
    pod = PodInfo(_pod(number))
    runtime = engine.runtime_for(pod.pod.spec.scheduler_name)
    begin = time.thread_time()
    decision = cycle.decide(pod, runtime)
    assert isinstance(decision, Chosen), decision
    node = engine.cluster.node(decision.node)
    assert node is not None
    assert runtime.reserve(decision.state, pod, node).ok
    return time.thread_time() - begin


def _engine(nodes: int) -> Engine:
    def dynamic_resources(args: Mapping[str, object], handle: Handle) -> DynamicResources:
        objects = handle.cluster.objects
        return DynamicResources.from_args(args, objects=objects, actions=ReplayedApi(objects))

    registry = {**all_plugins(_no_binder), "DynamicResources": dynamic_resources}
    engine = assemble(default_configuration(), registry)
    for number in range(nodes):
        engine.cluster.set_node(_node(f"node-{number}"))
        for one in slices(f"node-{number}"):
            piece = convert(ResourceSlice, one)
            engine.cluster.objects.resource_slices[piece.metadata.key] = piece
    for kind in KINDS:
        engine.cluster.objects.device_classes[kind] = convert(DeviceClass, device_class(kind))
    return engine


def _no_binder(args: Mapping[str, object], handle: Handle) -> Any:  # noqa: ANN401
    from numakube.insight.scheduler_engine import BindsNothing

    return BindsNothing.make(args, handle)


def _node(name: str) -> Node:
    room = {"cpu": "64", "memory": "256Gi", "pods": "110"}
    status = {"capacity": room, "allocatable": room}
    labels = {"kubernetes.io/hostname": name}
    return convert(Node, {"metadata": {"name": name, "labels": labels}, "status": status})


def device_class(kind: str) -> Document:
    """Return the class of GPUs, or of NICs."""
    selector = {"cel": {"expression": f'device.driver == "{kind}.example"'}}
    return {"metadata": {"name": kind}, "spec": {"selectors": [selector]}}


def slices(node: str) -> Iterator[Document]:
    """Yield the slices of a node: eight GPUs and eight NICs, four of each on a NUMA node."""
    for kind in KINDS:
        devices = [
            {
                "name": f"{kind}-{number}",
                "attributes": {
                    "resource.kubernetes.io/numaNode": {"int": number // 4},
                    "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number:02x}"},
                    "model": {"string": "a"},
                },
            }
            for number in range(8)
        ]
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": f"{kind}.example", "nodeName": node, "pool": pool, "devices": devices}
        yield {"metadata": {"name": f"{node}-{kind}"}, "spec": spec}


def claim_spec(kinds: tuple[str, ...] = KINDS) -> Document:
    """Return what a claim for one device of each kind on one PCIe root says."""
    requests = [{"name": kind, "exactly": {"deviceClassName": kind, "count": 1}} for kind in kinds]
    constraint = {"matchAttribute": "resource.kubernetes.io/pcieRoot"}
    return {"devices": {"requests": requests, "constraints": [constraint]}}


def _claim(number: int, kinds: tuple[str, ...]) -> ResourceClaim:
    meta = {"name": f"c{number}", "namespace": "default", "uid": f"claim-{number}"}
    return convert(ResourceClaim, {"metadata": meta, "spec": claim_spec(kinds)})


def _pod(number: int) -> Pod:
    wanted = {"cpu": "4", "memory": "8Gi"}
    container = {
        "name": "main",
        "resources": {"requests": wanted, "limits": wanted, "claims": [{"name": "devices"}]},
    }
    meta = {"name": f"p{number}", "namespace": "default", "uid": f"pod-{number}"}
    claims = [{"name": "devices", "resourceClaimName": f"c{number}"}]
    spec = {
        "schedulerName": "numakube-scheduler",
        "containers": [container],
        "resourceClaims": claims,
    }
    return convert(Pod, {"metadata": meta, "spec": spec})
