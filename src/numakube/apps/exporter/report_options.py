"""The options that decide what is made of a scan, and what a report could not tell.

They are read without an exporter, too: `numakube deploy` looks at a configuration before it hands
it to one. So nothing here needs the libraries that talk to a kubelet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.errors import InvalidValue
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Mapping


ALL_PODS: Final = "all"
EXCLUSIVE_PODS: Final = "with-exclusive-resources"
METHODS: Final = (ALL_PODS, EXCLUSIVE_PODS)
_PARTS_OF_A_REFERENCE: Final = 3


@dataclass(frozen=True, slots=True)
class PodPattern:
    """Shell patterns for namespace and name; a pod that matches both is left out everywhere."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ReferenceContainer:
    """A container of a pod."""

    namespace: str
    pod: str
    container: str

    @classmethod
    def parse(cls, text: str) -> ReferenceContainer | None:
        """Read ``namespace/pod/container``; nothing for an empty text."""
        parts = [part.strip() for part in text.split("/")]
        if not text.strip():
            return None
        if len(parts) != _PARTS_OF_A_REFERENCE:
            raise InvalidValue(f"malformed ident: {go_quote(text)}")
        return cls(*parts)


class Accounting(StrEnum):
    """How amounts that several NUMA nodes share, or that are reported twice, are counted."""

    KUBELET = "kubelet"
    """As the kubelet's own books do: every byte and CPU once."""
    RTE = "rte"
    """As the Resource Topology Exporter does, its double counting included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What the user can choose about the content of a report.

    Attributes:
        watch_namespace: only pods of this namespace count as users; fingerprints cover all.
        resource_exclude: resources that are not published, by node name or ``*``.
        reference_container: its CPUs are the shared pool and count as unused.
        fingerprint: publish the fingerprint of the pods.
        numa_placement: publish on which NUMA node each container is, with the fingerprint and
            under the policy ``single-numa-node`` only.
        exact: publish the exact data, if it is known.
        exporter: the pod that the exporter runs in, ``namespace/name``; empty if it is in none.
    """

    node_name: str = ""
    watch_namespace: str = ""
    resource_exclude: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    pod_exclude: tuple[PodPattern, ...] = ()
    reference_container: ReferenceContainer | None = None
    fingerprint: bool = True
    fingerprint_method: str = EXCLUSIVE_PODS
    numa_placement: bool = True
    exact: bool = True
    exporter: str = ""
    accounting: Accounting = Accounting.KUBELET


# What a report could not tell, as values: a scan never fails because one fact is odd.


class Trouble(StrEnum):
    """Kinds of problems; the texts are labels of a metric and stay as they are."""

    NO_ZONES = "no-zones"
    NO_DISTANCES = "no-distances"
    NO_MEMORY_SIZE = "no-memory-size"
    NO_HUGEPAGES = "no-hugepages"
    NO_CPU_DETAILS = "no-cpu-details"
    UNKNOWN_CPU = "unknown-cpu"
    UNKNOWN_ZONE = "unknown-zone"
    OVER_CAPACITY = "over-capacity"
    OVER_ALLOCATABLE = "over-allocatable"
    UNPLACED_CONTAINER = "unplaced-container"
    BAD_CHECKPOINT = "bad-checkpoint"
    NO_EXACT_DATA = "no-exact-data"
    NO_POLICY = "no-policy"
    ODD_ANNOTATION = "odd-annotation"


@dataclass(frozen=True, slots=True)
class Problem:
    """One fact that is missing or contradicts others, with what was done about it."""

    kind: Trouble
    detail: str

    def __str__(self) -> str:
        return self.detail
