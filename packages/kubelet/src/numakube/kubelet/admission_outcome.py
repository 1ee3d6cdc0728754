"""What admission gives: a placement for every container, or a rejection in the kubelet's words.

Reasons and messages are those of ``status.reason`` and ``status.message`` (without the prefix
"Pod was rejected: ").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.errors import NumakubeError
from numakube.kubelet.topology_hints import NOWHERE, Hint
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Mapping


UNEXPECTED: Final = "UnexpectedAdmissionError"
NO_ANSWER: Final = "NoAnswer"
"""The reason of a rejection that no kubelet gives: it would be busy for minutes, or for ever."""


class NoAnswer(NumakubeError):
    """The kubelet would be busy with a pod for so long that it does not answer.

    Managers raise it from the depth of a search; `KubeletNode.admit` turns it into a rejection.
    """


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """Memory of one type taken from a group of NUMA nodes."""

    numa_nodes: tuple[int, ...]
    type: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlacement:
    """What one container got.

    Attributes:
        cpus: exclusive CPUs; empty if the container runs in the shared pool.
        devices: device ids by resource name.
        hint: the alignment that the Topology Manager settled on.
    """

    cpus: CpuSet = field(default_factory=CpuSet)
    memory: tuple[MemoryBlock, ...] = ()
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    hint: Hint = NOWHERE


@dataclass(frozen=True, slots=True)
class Admitted:
    """The pod runs; ``shared_cpus`` is the shared pool afterwards."""

    containers: Mapping[str, ContainerPlacement]
    shared_cpus: CpuSet


@dataclass(frozen=True, slots=True)
class Rejected:
    """The pod is refused in the kubelet's words; ``container`` is the one that failed."""

    reason: str
    message: str
    container: str | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A manager could not allocate."""

    reason: str
    message: str


def unexpected(text: str) -> Failure:
    """Wrap a manager's error as admission does for errors that have no type of their own."""
    return Failure(UNEXPECTED, f"Allocate failed due to {text}, which is unexpected")
