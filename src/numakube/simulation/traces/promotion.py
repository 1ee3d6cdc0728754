"""The rules by which rows of a public trace become NUMA machines and pods.

A trace has amounts by node and no NUMA nodes; classes of its own instead of Kubernetes' QoS; CPUs
by the thousandth; and parts of GPUs, which no kubelet gives out. What is made of that decides what
a simulation says, so every rule is a field of `Promotion`, and `Promotion.notes` goes with every
result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.simulation.traces.trace_rows import TraceNode


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


class Nodes(StrEnum):
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
    nodes: Nodes = Nodes.GPU
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
