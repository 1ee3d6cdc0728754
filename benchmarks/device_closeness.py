"""GPUs and network cards behind one PCIe switch: how many pods of a training mix get them.

Pods with 1, 2, 4 or 8 GPUs and as many cards come and go on GPU servers of two kinds: one has a
card for each GPU behind its switch, the other two of each behind a switch. The kubelet model is the
arbiter, and it takes any devices of a NUMA node by lot, as a kubelet does. A pod that fits nowhere
when it comes is turned away.

(a) NUMA only: how close devices will be counts for nothing;
(b) preferred: nodes where they will be close score higher (the default);
(c) required: pods ask for ``same-switch``, and take nodes where luck decides;
(d) certain: pods ask for it and refuse luck;
(e) chosen: the scheduler chooses the devices itself, as for Koordinator's
    ``device-joint-allocate``.

The claim: (b) pairs more pods than (a), (c) no fewer, (e) more, and (d) all that it places.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.api.koordinator.devices import GPU as JOINT_GPU
from numakube.api.koordinator.devices import GPU_CORE, GPU_MEMORY_RATIO, RDMA, RDMA_SHARE
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.device_pairs import pairing
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Closeness
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.scheduling.cycle import Chosen, Cycle
from numakube.scheduling.framework.plugins import Nominations
from numakube.scheduling.framework.registry import profile_of
from numakube.scheduling.framework.runtime import Runtime
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.numa.native.native_engine import NativeEngine
from numakube.scheduling.numa.native.native_options import NativeOptions
from numakube.scheduling.numa.topology_match import NodeResourceTopologyMatch
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.allotments import Allotment, Share
from numakube.topology.model_report import nrt_of
from numakube.values.cpuset import CpuSet
from numakube_placement.koordinator.device_choice import allot_devices
from numakube_placement.koordinator.node_facts import DevicePlace, NodeFacts
from numakube_placement.koordinator.node_ledger import NodeLedger
from numakube_placement.koordinator.placement_rule import PlacementRefusal
from numakube_placement.koordinator.pod_wish import DeviceWish

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NODES: Final = 12
_PODS: Final = 300
_SEEDS: Final = (1, 2, 3)
_MACHINES: Final = ("dgx-h100", "hgx-b200")
_GPU, _NIC = "nvidia.com/gpu", "nvidia.com/hostdev"
_SIZES: Final = ((1, 40), (2, 30), (4, 20), (8, 10))
"""Numbers of GPUs, and how many pods in a hundred have them."""
_LIFE: Final = (10, 40)
"""Pods that come while one runs, at least and at most."""
_SETTINGS: Final = KubeletSettings(
    topology_policy="restricted", cpu_policy="static", reserved_cpus=CpuSet.parse("0")
)


class How(StrEnum):
    """What is done about closeness."""

    NUMA_ONLY = "NUMA only"
    PREFERRED = "preferred"
    REQUIRED = "required"
    CERTAIN = "certain"
    CHOSEN = "chosen"


_ANNOTATIONS: Final = {
    How.REQUIRED: {"numakube.dev/closeness": "same-switch"},
    How.CERTAIN: {
        "numakube.dev/closeness": "same-switch",
        "numakube.dev/closeness-luck": "Refuse",
    },
}


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod of the mix: how many devices of each kind, and when it ends."""

    number: int
    size: int
    ends: int


@dataclass(slots=True)
class Outcome:
    """What became of the mix."""

    placed: int = 0
    paired: int = 0
    turned_away: int = 0

    def add(self, closeness: Closeness | None) -> None:
        """Count a pod whose worst pair is that close."""
        self.placed += 1
        self.paired += closeness is not None and closeness <= Closeness.PXB

    @property
    def share(self) -> float:
        """The part of the placed pods whose devices are all behind one switch with a partner."""
        return round(self.paired / max(1, self.placed), 3)


def run() -> Iterator[dict[str, object]]:
    """Yield the shares, and check the claim."""
    totals = {how: Outcome() for how in How}
    for how, total in totals.items():
        for seed in _SEEDS:
            one = play(how, arrivals(_PODS, seed), nodes=_NODES, seed=seed)
            total.placed += one.placed
            total.paired += one.paired
            total.turned_away += one.turned_away
        name = f"{len(_SEEDS)} mixes of {_PODS} pods on {_NODES} nodes, {how}"
        yield {"metric": f"{name}: same-switch pairs", "value": total.share, "unit": "share"}
        yield {"metric": f"{name}: placed", "value": total.placed, "unit": "pods"}
        yield {"metric": f"{name}: turned away", "value": total.turned_away, "unit": "pods"}
    check(totals)


def check(outcomes: dict[How, Outcome]) -> None:
    """Raise an error if *outcomes* contradict the claim."""
    share = {how: outcome.share for how, outcome in outcomes.items()}
    rising = share[How.NUMA_ONLY] < share[How.PREFERRED] <= share[How.REQUIRED]
    if not rising or share[How.CERTAIN] < 1 or share[How.CHOSEN] <= share[How.REQUIRED]:
        raise AssertionError(f"shares of same-switch pairs: {share}")


def arrivals(count: int, seed: int) -> list[Arrival]:
    """Return the pods of a mix."""
    lots = random.Random(seed)
    sizes, weights = zip(*_SIZES, strict=True)
    return [
        Arrival(number, lots.choices(sizes, weights)[0], number + lots.randint(*_LIFE))
        for number in range(count)
    ]


def play(how: How, pods: Sequence[Arrival], *, nodes: int, seed: int) -> Outcome:
    """Let *pods* come and go."""
    world = ChosenWorld(nodes) if how is How.CHOSEN else KubeletWorld(how, nodes, seed)
    outcome = Outcome()
    running: list[tuple[Arrival, str]] = []
    for pod in pods:
        for one, node in [entry for entry in running if entry[0].ends <= pod.number]:
            world.end(one, node)
            running.remove((one, node))
        placed = world.place(pod)
        if placed is None:
            outcome.turned_away += 1
            continue
        node, closeness = placed
        running.append((pod, node))
        outcome.add(closeness)
    return outcome


class KubeletWorld:
    """A cluster whose kubelets choose devices, and report at once."""

    def __init__(self, how: How, nodes: int, seed: int) -> None:
        self._annotations = _ANNOTATIONS.get(how, {})
        self._lots = random.Random(seed)
        self._cluster, self._cache = Cluster(), Predict()
        weight = 0 if how is How.NUMA_ONLY else NativeOptions().closeness_weight
        engine = NativeEngine(NativeOptions(closeness_weight=weight))
        plugin = NodeResourceTopologyMatch(engine, self._cache, self._cluster)
        self._runtime = Runtime(profile_of("numakube", [plugin]))
        self._cycle = Cycle(self._cluster, Nominations(), np.random.default_rng(seed))
        self._kubelets: dict[str, KubeletNode] = {}
        for number in range(nodes):
            name = f"n{number:03d}"
            self._kubelets[name] = self._kubelet(_MACHINES[number % len(_MACHINES)])
            self._cluster.set_node(Node(metadata=ObjectMeta(name=name)))
            self._report(name)

    def _kubelet(self, machine: str) -> KubeletNode:
        node = KubeletNode(from_shape(machine), _SETTINGS)
        for resource, devices in node.machine.devices.items():
            node.register_devices(resource, devices, preferred=self._by_lot)
        return node

    def _by_lot(self, free: Sequence[str], must: Sequence[str], size: int) -> list[str]:
        others = sorted(set(free) - set(must))
        return [*must, *self._lots.sample(others, size - len(must))]

    def _report(self, name: str) -> None:
        changes = self._cache.set_report(nrt_of(name, self._kubelets[name]))
        self._cluster.take(changes, self._cache)

    def place(self, arrival: Arrival) -> tuple[str, Closeness | None] | None:
        """Return where a pod went and how close its devices are; ``None`` if it fits nowhere."""
        pod = _pod(arrival, self._annotations)
        decision = self._cycle.decide(PodInfo(pod), self._runtime)
        if not isinstance(decision, Chosen):
            return None
        kubelet = self._kubelets[decision.node]
        outcome = kubelet.admit(pod)
        assert isinstance(outcome, Admitted), outcome
        self._report(decision.node)
        groups = [
            tuple(device.pci for device in kubelet.devices.devices_of(name) if device.id in ids)
            for name, ids in outcome.containers["main"].devices.items()
        ]
        return decision.node, pairing(kubelet.machine.tree, groups)

    def end(self, arrival: Arrival, node: str) -> None:
        """Let a pod end."""
        self._kubelets[node].remove(_uid(arrival))
        self._report(node)


class ChosenWorld:
    """A cluster whose scheduler chooses devices."""

    def __init__(self, nodes: int) -> None:
        self._machines = {
            f"n{number:03d}": from_shape(_MACHINES[number % len(_MACHINES)])
            for number in range(nodes)
        }
        self._ledgers = {name: NodeLedger.of(self._facts(name), {}) for name in self._machines}

    def _facts(self, name: str) -> NodeFacts:
        machine = self._machines[name]
        sizes = {JOINT_GPU: {GPU_CORE: 100, GPU_MEMORY_RATIO: 100}, RDMA: {RDMA_SHARE: 100}}
        places = []
        for resource, kind in ((_GPU, JOINT_GPU), (_NIC, RDMA)):
            for minor, device in enumerate(machine.devices[resource]):
                path = machine.tree.paths[device.pci]
                place = DevicePlace(
                    type=kind,
                    minor=minor,
                    numa=path.numa_node,
                    pcie=path.root,
                    bridges=path.bridges,
                    resources=sizes[kind],
                )
                places.append(place)
        return NodeFacts(node=name, devices=tuple(places))

    def place(self, arrival: Arrival) -> tuple[str, Closeness | None] | None:
        """Return where a pod went, the fullest node first; ``None`` if it fits nowhere."""
        share = 100 * arrival.size
        wish = DeviceWish(
            requests={
                JOINT_GPU: {GPU_CORE: share, GPU_MEMORY_RATIO: share},
                RDMA: {RDMA_SHARE: share},
            },
            joint=(JOINT_GPU, RDMA),
        )
        for name in sorted(self._ledgers, key=self._free):
            for mask in (0b01, 0b10, None):
                given = allot_devices(self._ledgers[name], wish, mask=mask)
                if isinstance(given, PlacementRefusal):
                    continue
                allotment = Allotment(total=Share(devices=given))
                self._ledgers[name] = self._ledgers[name].with_pod(_uid(arrival), allotment)
                machine = self._machines[name]
                groups = [
                    tuple(
                        machine.devices[resource][device.minor].pci
                        for device in given
                        if device.type == kind
                    )
                    for resource, kind in ((_GPU, JOINT_GPU), (_NIC, RDMA))
                ]
                return name, pairing(machine.tree, groups)
        return None

    def end(self, arrival: Arrival, node: str) -> None:
        """Let a pod end."""
        self._ledgers[node] = self._ledgers[node].without([_uid(arrival)])

    def _free(self, name: str) -> int:
        return sum(not device.in_use for device in self._ledgers[name].free_devices)


def _uid(arrival: Arrival) -> str:
    return f"pod-{arrival.number}"


def _pod(arrival: Arrival, annotations: dict[str, str]) -> Pod:
    size = arrival.size
    wanted = {"cpu": str(8 * size), "memory": f"{32 * size}Gi", _GPU: str(size), _NIC: str(size)}
    main = Container(
        name="main", resources=ResourceRequirements(requests=dict(wanted), limits=dict(wanted))
    )
    meta = ObjectMeta(name=_uid(arrival), uid=_uid(arrival), annotations=annotations)
    return Pod(metadata=meta, spec=PodSpec(containers=(main,)))
