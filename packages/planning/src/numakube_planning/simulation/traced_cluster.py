"""The machines and pods of a public trace, and the rules by which they are made.

The rules by which rows of a public trace become NUMA machines and pods.

A trace has amounts by node and no NUMA nodes; classes of its own instead of Kubernetes' QoS; CPUs
by the thousandth; and parts of GPUs, which no kubelet gives out. What is made of that decides what
a simulation says, so every rule is a field of `Promotion`, and `Promotion.notes` goes with every
result.

The machines and pods of a public trace, made by the rules of `promotion`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.api.affinity_and_taints import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, Pod, PodSpec, ResourceRequirements
from numakube.errors import ConfigError
from numakube.insight.node_setup import NodeSetup
from numakube.kubelet import from_shape, lab_configuration
from numakube.values.resources import CPU, MEMORY
from numakube_planning.simulation.simulated_cluster import SimulatedCluster
from numakube_planning.simulation.trace_rows import WHOLE_GPU, arrivals
from numakube_planning.simulation.workload import Arrival, ArrivingWork

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.kubelet.machine import Machine
    from numakube_planning.simulation.trace_rows import TraceNode, TracePod


class Guaranteed(StrEnum):
    """Which pods have limits like their requests."""

    ALL = "all"
    LATENCY_SENSITIVE = "latency-sensitive"
    """Those that the trace calls ``LS`` or ``Guaranteed``; others are Burstable."""
    NONE = "none"


class CpuRounding(StrEnum):
    """What becomes of a part of a CPU; the kubelet gives out whole ones only."""

    UP = "up"
    NEAREST = "nearest"
    NONE = "none"
    """Stays, so that such a pod shares CPUs and is not aligned by them."""


class SharedGpus(StrEnum):
    """What a pod with a part of a GPU gets."""

    WHOLE = "whole"
    """A GPU of its own, as a device plugin gives it."""
    NONE = "none"
    """No GPU: another component shares them out, without a place on a NUMA node."""
    LEFT_OUT = "left-out"
    """Nothing: the pod does not come."""


class TraceNodes(StrEnum):
    """Which nodes of the trace there are."""

    GPU = "gpu"
    ALL = "all"


class Order(StrEnum):
    """When pods come, and whether they go."""

    INFLATION = "inflation"
    """In random order at a steady pace until enough is asked for; none ends (FGD's protocol)."""
    TRACE = "trace"
    """At their times in the trace, and for as long as there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """The rules, with defaults.

    Attributes:
        two_zones_from: nodes with so many CPUs have two NUMA nodes, smaller ones have one; CPUs,
            memory and GPUs are split evenly, and an odd GPU is on the first.
        memory_manager: the kubelets' Memory Manager policy; only ``Static`` reports memory by zone.
        helper_cpus: each pod has a second container with so many of its CPUs, and the same part of
            its memory, if that leaves the first one any; 0 for one container.
        rdma_parts: into how many devices the bandwidth of an RDMA card is divided.
        nodes: whether nodes without GPUs count.
        every: every so many nodes of the trace, for a smaller cluster of the same kind.
        demand: with `Order.INFLATION`, what is asked for as a part of all GPUs.
        pods_per_second: with `Order.INFLATION`, how fast pods come.
        longest_gap: with `Order.TRACE`, pauses between pods are cut to so many seconds.
    """

    two_zones_from: int = 48
    guaranteed: Guaranteed = Guaranteed.ALL
    cpu_rounding: CpuRounding = CpuRounding.UP
    shared_gpus: SharedGpus = SharedGpus.WHOLE
    memory_manager: str = "Static"
    helper_cpus: int = 0
    rdma_parts: int = 4
    nodes: TraceNodes = TraceNodes.GPU
    every: int = 1
    order: Order = Order.INFLATION
    demand: float = 1.3
    pods_per_second: float = 1.0
    longest_gap: float = 60.0

    def __post_init__(self) -> None:
        for name in ("every", "demand", "pods_per_second", "rdma_parts"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"rule {name.replace('_', '-')}: must be greater than 0")

    def notes(self) -> tuple[str, ...]:
        """Return the rules as ``name: value``."""
        unused = (
            ("longest_gap",) if self.order is Order.INFLATION else ("demand", "pods_per_second")
        )
        return tuple(
            f"{name.replace('_', '-')}: {getattr(self, name)}"
            for name in self.__dataclass_fields__
            if name not in unused
        )

    def zones_of(self, node: TraceNode) -> int:
        """Return how many NUMA nodes *node* has."""
        return 2 if node.cpu_milli >= 1000 * self.two_zones_from else 1


DEFAULT: Final = Promotion()


def promotion_of(texts: Iterable[str]) -> Promotion:
    """Return the rules with what ``name=value`` says of some of them.

    Raises:
        ConfigError: there is no such rule, or it has no such value.
    """
    known = {name.replace("_", "-"): name for name in Promotion.__dataclass_fields__}
    told: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if name not in known or not equals:
            raise ConfigError(f"rule {text!r}: not like {', '.join(known)}=VALUE")
        told[known[name]] = _value(text, getattr(DEFAULT, known[name]), value)
    return replace(DEFAULT, **told)  # type: ignore[arg-type]


def _value(text: str, default: object, value: str) -> object:
    """Return *value* as the type of *default*."""
    kind = type(default)
    if isinstance(default, StrEnum):
        if value not in tuple(kind):  # type: ignore[arg-type]
            raise ConfigError(f"rule {text!r}: not one of {', '.join(kind)}")  # type: ignore[arg-type]
        return kind(value)  # type: ignore[call-arg]
    if isinstance(default, str):
        return value
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not number >= 0 or (isinstance(default, int) and number != int(number)):
        raise ConfigError(f"rule {text!r}: {value!r} is not a number of 0 or more")
    return int(number) if isinstance(default, int) else number


GPU: Final = "nvidia.com/gpu"
RDMA: Final = "rdma/hca"
MODEL: Final = "nvidia.com/gpu.product"
"""The label with the model of a node's GPUs."""


def trace_cluster(nodes: Sequence[TraceNode], rules: Promotion = DEFAULT) -> SimulatedCluster:
    """Return the machines of a trace, with kubelets that have a static CPU Manager."""

    @cache
    def machine_with_config(shape: str) -> tuple[Machine, KubeletConfiguration]:
        machine = from_shape(shape)
        return machine, lab_configuration(machine, {"memory": rules.memory_manager})

    chosen = [node for node in nodes if node.gpus or rules.nodes is TraceNodes.ALL][:: rules.every]
    made = []
    for node in chosen:
        machine, config = machine_with_config(shape_of(node, rules.zones_of(node)))
        labels = {MODEL: node.gpu_model} if node.gpu_model else {}
        made.append(NodeSetup(name=node.name, machine=machine, config=config, labels=labels))
    return SimulatedCluster(nodes=tuple(made))


def shape_of(node: TraceNode, zones: int) -> str:
    """Return the machine of *node* in one line; two threads a core where CPUs can be halved."""
    cpus = node.cpu_milli // 1000 // zones
    cores = f"{cpus // 2} cores, smt 2" if cpus % 2 == 0 else f"{cpus} cores"
    shape = f"{zones} sockets, {cores}, {node.memory_bytes // zones}B"
    if not node.gpus:
        return shape
    first = -(-node.gpus // zones)
    counts = [str(first), *([str(node.gpus - first)] if zones > 1 else [])]
    return f"{shape}, {GPU} {'/'.join(counts)}"


def promoted(pods: Sequence[TracePod], rules: Promotion = DEFAULT) -> Iterator[TracePod]:
    """Yield *pods* with whole CPUs and whole GPUs, as the rules say."""
    for pod in pods:
        gpus, milli = pod.gpus, WHOLE_GPU if pod.gpus else 0
        if pod.shares_gpu and rules.shared_gpus is SharedGpus.LEFT_OUT:
            continue
        if pod.shares_gpu and rules.shared_gpus is SharedGpus.NONE:
            gpus = milli = 0
        yield replace(pod, cpu_milli=_rounded(pod.cpu_milli, rules), gpus=gpus, gpu_milli=milli)


def _rounded(milli: int, rules: Promotion) -> int:
    match rules.cpu_rounding:
        case CpuRounding.UP:
            return -(-milli // 1000) * 1000
        case CpuRounding.NEAREST:
            return max(1, round(milli / 1000)) * 1000
        case CpuRounding.NONE:
            return milli


def trace_workload(
    pods: Sequence[TracePod],
    cluster: SimulatedCluster,
    rules: Promotion = DEFAULT,
    *,
    seed: int = 0,
) -> ArrivingWork:
    """Return the pods of a trace as they come to *cluster*, each of a ReplicaSet of its own."""
    whole = list(promoted(pods, rules))
    make = _PodMaker(rules)
    if rules.order is Order.TRACE:
        coming = list(_by_time(whole, rules))
    else:
        gpus = sum(len(node.machine.devices.get(GPU, ())) for node in cluster.nodes)
        rng = np.random.default_rng((seed, 1))
        drawn = arrivals(whole, rules.demand * gpus * WHOLE_GPU, rng)
        coming = [(number / rules.pods_per_second, None, pod) for number, pod in enumerate(drawn)]
    return ArrivingWork(
        arrivals=tuple(
            Arrival(at=at, pod=make(f"{pod.name}-{number}", pod), seconds=seconds)
            for number, (at, seconds, pod) in enumerate(coming)
        ),
        notes=rules.notes(),
    )


def _by_time(
    pods: Sequence[TracePod], rules: Promotion
) -> Iterator[tuple[float, float | None, TracePod]]:
    """Yield when each pod comes, how long it runs, and the pod; long pauses are cut."""
    now = last = 0.0
    for pod in sorted(pods, key=lambda pod: pod.created):
        now += min(pod.created - last, rules.longest_gap)
        last = pod.created
        seconds = None if pod.deleted is None else max(0.0, pod.deleted - pod.created)
        yield now, seconds, pod


class _PodMaker:
    """Makes pods; those that are alike share one spec."""

    def __init__(self, rules: Promotion) -> None:
        self._rules = rules
        self._specs: dict[object, PodSpec] = {}

    def __call__(self, name: str, pod: TracePod) -> Pod:
        key = (
            pod.cpu_milli, pod.memory_bytes, pod.gpus, pod.rdma_percent, pod.gpu_models,
            self._is_guaranteed(pod),
        )  # fmt: skip
        if key not in self._specs:
            self._specs[key] = self._spec(pod)
        metadata = ObjectMeta(name=name, namespace="trace", uid=name)
        return Pod(metadata=metadata, spec=self._specs[key])

    def _spec(self, pod: TracePod) -> PodSpec:
        devices = {}
        if pod.gpus:
            devices[GPU] = str(pod.gpus)
        if pod.rdma_percent:
            devices[RDMA] = str(-(-pod.rdma_percent * self._rules.rdma_parts // 100))
        return PodSpec(
            containers=tuple(self._containers(pod, devices)),
            affinity=_on_models(pod.gpu_models) if pod.gpu_models else None,
        )

    def _containers(self, pod: TracePod, devices: dict[str, str]) -> Iterator[Container]:
        """Yield the main container with the devices, and its helper if there is to be one."""
        helper = 1000 * self._rules.helper_cpus
        if not 0 < helper < pod.cpu_milli:
            helper = 0
        beside = pod.memory_bytes * helper // max(1, pod.cpu_milli)
        for name, cpu, memory, others in (
            ("main", pod.cpu_milli - helper, pod.memory_bytes - beside, devices),
            *([("helper", helper, beside, {})] if helper else []),
        ):
            plain = {CPU: f"{cpu}m", MEMORY: str(memory)}
            limits = {**(plain if self._is_guaranteed(pod) else {}), **others}
            resources = ResourceRequirements(requests={**plain, **others}, limits=limits)
            yield Container(name=name, resources=resources)

    def _is_guaranteed(self, pod: TracePod) -> bool:
        match self._rules.guaranteed:
            case Guaranteed.ALL:
                return True
            case Guaranteed.LATENCY_SENSITIVE:
                return pod.qos in ("LS", "Guaranteed")
            case Guaranteed.NONE:
                return False


def _on_models(models: tuple[str, ...]) -> Affinity:
    wanted = NodeSelectorRequirement(key=MODEL, operator="In", values=models)
    term = NodeSelectorTerm(match_expressions=(wanted,))
    return Affinity(node_affinity=NodeAffinity(required=NodeSelector(node_selector_terms=(term,))))
