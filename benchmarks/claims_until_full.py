"""CPUs, memory and devices by claim: how many pods find a place until nodes are full.

Nodes have eight NUMA nodes as the DRA driver offers them, and network functions on two of these.
Pods of random sizes come one after the other; each has a claim for CPUs and memory of one NUMA
node, some for a network function too. First fit is what kube-scheduler does: it takes the first
devices that will do. Both schedulers see the same pods in the same order, until pods have asked for
as many CPUs as there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from numakube.api.codec import convert, to_tree
from numakube.api.kubelet_config import KubeletConfiguration, MemoryReservation
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.api.resource_claims import ResourceClaim
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.cpu_topology import CpuTopology
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.scheduling.assembly import all_plugins, assemble, default_configuration
from numakube.scheduling.cycle import Chosen, Cycle
from numakube.scheduling.plugins.dynamic_resources import DynamicResources
from numakube.scheduling.plugins.dynamic_resources.claim_tracker import CYCLE_CLAIMS
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing.claim_api import ReplayedApi
from numakube.values.cpuset import CpuSet
from numakube.values.resources import MEMORY
from numakube_dra_driver.device_classes import class_documents
from numakube_dra_driver.devices import DRIVER
from numakube_dra_driver.offer import OfferOptions, make_offer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numakube.kube.resource_types import Document
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.framework.registry import Handle

SHAPE: Final = "2 sockets, 4 numa each, 8 cores, smt 2, 64Gi"
RESERVED: Final = "0,64"
"""The core that kubelets keep for themselves; and 1Gi of the same NUMA node."""
NETWORK_NODES: Final = (0, 4)
FUNCTIONS: Final = 16
NETWORK_PODS: Final = 0.2
"""The part of pods that want a network function."""
SEEDS: Final = 10
CPUS: Final = (2, 4, 6, 8, 10, 12)
GIB: Final = (4, 8, 16, 24, 32, 48)
_NIC: Final = "nic.example"
_NUMA: Final = "resource.kubernetes.io/numaNode"
_GIB: Final = 1 << 30
_NOWHERE: Final = Path("/none")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one pod wants of one NUMA node."""

    cpus: int
    gib: int
    functions: int = 0


@dataclass(slots=True)
class Filled:
    """What found a place."""

    pods: int = 0
    cpus: int = 0
    asked: int = 0


def run(sizes: tuple[int, ...] = (1, 4)) -> Iterator[dict[str, Any]]:
    """Fill clusters of some *sizes* with the same pods, by first fit and by ours."""
    for nodes in sizes:
        for choice, name in CHOICES.items():
            runs = [fill(choice, seed, nodes) for seed in range(SEEDS)]
            where = f"{nodes} node{'s' if nodes > 1 else ''}, {name}"
            pods, asked = (sum(getattr(one, what) for one in runs) for what in ("pods", "asked"))
            yield {
                "metric": f"pods placed, {where}",
                "value": pods,
                "unit": f"pods of {asked}",
            }
            claimed = 100 * sum(one.cpus for one in runs) / (SEEDS * total_cpus(nodes))
            yield {"metric": f"CPUs claimed, {where}", "value": round(claimed, 1), "unit": "%"}

    yield from _beside_the_kubelet()


def _beside_the_kubelet() -> Iterator[dict[str, Any]]:
    """Fill one node with pods that want no network function, by claims and by its kubelet."""
    ways: dict[str, Callable[[int], Filled]] = {
        **{
            f"claims, {name}": partial(_fill_without_functions, choice)
            for choice, name in CHOICES.items()
        },
        "Topology Manager": fill_kubelet,
    }
    for way, fill_row in ways.items():
        runs = [fill_row(seed) for seed in range(SEEDS)]
        pods, asked = (sum(getattr(one, what) for one in runs) for what in ("pods", "asked"))
        yield {"metric": f"pods placed, {way}", "value": pods, "unit": f"pods of {asked}"}
        given = 100 * sum(one.cpus for one in runs) / (SEEDS * total_cpus(1))
        yield {"metric": f"CPUs given, {way}", "value": round(given, 1), "unit": "%"}


def _fill_without_functions(choice: str, seed: int) -> Filled:
    return fill(choice, seed, functions=False)


def fill_kubelet(seed: int) -> Filled:
    """Return what a kubelet admits that aligns each pod to one NUMA node."""
    settings = KubeletSettings(
        topology_policy="single-numa-node",
        topology_scope="pod",
        cpu_policy="static",
        reserved_cpus=CpuSet.parse(RESERVED),
        memory_policy="Static",
        reserved_memory={0: {MEMORY: _GIB}},
        memory_reservation={MEMORY: _GIB},
    )
    kubelet, filled = KubeletNode(from_shape(SHAPE), settings), Filled()
    for number, wanted in enumerate(stream(seed, 1)):
        filled.asked += 1
        if isinstance(kubelet.admit(_pod(number, wanted)), Admitted):
            filled.pods += 1
            filled.cpus += wanted.cpus
    return filled


CHOICES: Final = {"FirstFit": "first fit", "Aligned": "ours"}


def total_cpus(nodes: int) -> int:
    """Return the CPUs of all nodes."""
    return nodes * CpuTopology.of(from_shape(SHAPE)).all_cpus.bit_count()


def stream(seed: int, nodes: int) -> Iterator[Wanted]:
    """Yield pods until they have asked for all CPUs."""
    rng, left = Random(seed), total_cpus(nodes)
    while left > 0:
        wanted = Wanted(rng.choice(CPUS), rng.choice(GIB), int(rng.random() < NETWORK_PODS))
        left -= wanted.cpus
        yield wanted


def fill(choice: str, seed: int, nodes: int = 1, *, functions: bool = True) -> Filled:
    """Return what found a place; with no *functions*, nobody asks for one."""
    filling, filled = Filling(choice, nodes), Filled()
    for one in stream(seed, nodes):
        wanted = one if functions else replace(one, functions=0)
        filled.asked += 1
        if filling.place(wanted) >= 0:
            filled.pods += 1
            filled.cpus += wanted.cpus
    return filled


class Filling:
    """Nodes, and a scheduler that places one pod after the other."""

    def __init__(self, choice: str, nodes: int) -> None:
        self._engine = _engine(choice, nodes)
        cluster, nominations = self._engine.cluster, self._engine.nominations
        self._cycle = Cycle(cluster, nominations, np.random.default_rng(1))
        self._count = 0

    def place(self, wanted: Wanted) -> int:
        """Place a pod; return the NUMA node of its devices, or -1 if it fits nowhere."""
        number, self._count = self._count, self._count + 1
        claim = _claim(number, wanted)
        cluster = self._engine.cluster
        cluster.objects.resource_claims[claim.metadata.key] = claim
        pod = PodInfo(_pod(number, wanted))
        runtime = self._engine.runtime_for(pod.pod.spec.scheduler_name)
        decision = self._cycle.decide(pod, runtime)
        if not isinstance(decision, Chosen):
            return -1
        node = cluster.node(decision.node)
        assert node is not None
        assert runtime.reserve(decision.state, pod, node).ok
        cluster.place(pod, decision.node)
        known = decision.state.read(CYCLE_CLAIMS)
        assert known is not None
        names = {result.device for result in known.reserved[0].devices.results}
        (zone,) = {int(name.rpartition("numa")[2]) for name in names if "numa" in name}
        return zone


def _engine(choice: str, nodes: int) -> Engine:
    def dynamic_resources(args: Mapping[str, object], handle: Handle) -> DynamicResources:
        objects = handle.cluster.objects
        told = {**args, "deviceChoice": choice}
        return DynamicResources.from_args(told, objects=objects, actions=ReplayedApi(objects))

    registry = {**all_plugins(_no_binder), "DynamicResources": dynamic_resources}
    engine = assemble(default_configuration(), registry)
    objects = engine.cluster.objects
    for number in range(nodes):
        name = f"node-{number}"
        engine.cluster.set_node(_node(name))
        for document in _slices(name):
            piece = convert(ResourceSlice, document)
            objects.resource_slices[piece.metadata.key] = piece
    for document in (*class_documents(), _nic_class()):
        device_class = convert(DeviceClass, document)
        objects.device_classes[device_class.metadata.name] = device_class
    return engine


def _no_binder(args: Mapping[str, object], handle: Handle) -> Any:  # noqa: ANN401
    from numakube.insight.scheduler_engine import BindsNothing

    return BindsNothing.make(args, handle)


def _node(name: str) -> Node:
    machine = from_shape(SHAPE)
    memory = sum(node.memory_bytes for node in machine.nodes)
    room = {
        "cpu": str(CpuTopology.of(machine).all_cpus.bit_count()),
        "memory": str(memory),
        "pods": "500",
    }
    labels = {"kubernetes.io/hostname": name}
    status = {"capacity": room, "allocatable": room}
    return convert(Node, {"metadata": {"name": name, "labels": labels}, "status": status})


def _slices(node: str) -> Iterator[Document]:
    """Yield what the driver publishes of a node, and its network functions."""
    options = OfferOptions(sysfs=_NOWHERE, kubelet_config=_NOWHERE)
    reserved = MemoryReservation(numa_node=0, limits={MEMORY: "1Gi"})
    config = KubeletConfiguration(reserved_system_cpus=RESERVED, reserved_memory=(reserved,))
    offer = make_offer(from_shape(SHAPE), config, options)
    yield _slice(node, DRIVER, [to_tree(device) for device in offer.devices])
    functions = [
        {"name": f"vf-{zone}-{number}", "attributes": {_NUMA: {"int": zone}}}
        for zone in NETWORK_NODES
        for number in range(FUNCTIONS)
    ]
    yield _slice(node, _NIC, functions)


def _slice(node: str, driver: str, devices: list[Document]) -> Document:
    pool = {"name": f"{node}/{driver}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{node}-{driver}", "uid": f"{node}-{driver}"}, "spec": spec}


def _nic_class() -> Document:
    selector = {"cel": {"expression": f'device.driver == "{_NIC}"'}}
    return {"metadata": {"name": "nics"}, "spec": {"selectors": [selector]}}


def _claim(number: int, wanted: Wanted) -> ResourceClaim:
    requests = [
        _request("cpus", "numa-cpus", {f"{DRIVER}/cpu": str(wanted.cpus)}),
        _request("memory", "numa-memory", {f"{DRIVER}/memory": f"{wanted.gib}Gi"}),
        *([_request("nic", "nics", {})] if wanted.functions else []),
    ]
    devices = {"requests": requests, "constraints": [{"matchAttribute": _NUMA}]}
    metadata = {"name": f"claim-{number}", "namespace": "default", "uid": f"claim-{number}"}
    return convert(ResourceClaim, {"metadata": metadata, "spec": {"devices": devices}})


def _request(name: str, device_class: str, amounts: Mapping[str, str]) -> Document:
    exactly: Document = {"deviceClassName": device_class, "count": 1}
    if amounts:
        exactly["capacity"] = {"requests": dict(amounts)}
    return {"name": name, "exactly": exactly}


def _pod(number: int, wanted: Wanted) -> Pod:
    amounts = {"cpu": str(wanted.cpus), "memory": f"{wanted.gib}Gi"}
    resources = {"requests": amounts, "limits": amounts, "claims": [{"name": "numa"}]}
    spec = {
        "containers": [{"name": "main", "resources": resources}],
        "resourceClaims": [{"name": "numa", "resourceClaimName": f"claim-{number}"}],
    }
    metadata = {"name": f"pod-{number}", "namespace": "default", "uid": f"pod-{number}"}
    return convert(Pod, {"metadata": metadata, "spec": spec})
