"""The domains that Kueue's topology-aware scheduling has given to the pods of a workload.

Kueue 0.19 counts what nodes have by amounts. Its choice stands in the workload before any pod does,
in either of two encodings: v1beta1 lists domains, v1beta2 packs the values of a label that domains
have in common. Pods get the values as a node selector when they lose Kueue's gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.api.kueue import LevelValues, TopologyAssignment, TopologyAssignmentSlice

HOSTNAME: Final = "kubernetes.io/hostname"
MOST_DOMAINS: Final = 1_000
"""As many as a workload may have pods that are asked about."""
MOST_LEVELS: Final = 16
"""As many as Kueue allows."""
_LONGEST_VALUE: Final = 63
"""As long as the value of a label may be."""


@dataclass(frozen=True, slots=True)
class AssignedPods:
    """So many pods of a kind, and the labels of the nodes that Kueue chose for them."""

    selector: dict[str, str]
    count: int

    def __str__(self) -> str:
        """Return what the domain is called."""
        if HOSTNAME in self.selector:
            return f"node {self.selector[HOSTNAME]}"
        return ",".join(f"{label}={value}" for label, value in self.selector.items())


def assigned_pods(assignment: TopologyAssignment) -> list[AssignedPods]:
    """Return the domains of *assignment* that get pods.

    Raises:
        InvalidValue: it contradicts itself, or has more domains than a workload may have pods.
    """
    for at, packed in enumerate(assignment.slices):
        if packed.domain_count < 0:
            where = f"topologyAssignment.slices[{at}].domainCount"
            raise InvalidValue(f"{where}: {packed.domain_count} is negative")
    if len(assignment.levels) > MOST_LEVELS:
        told = f"{len(assignment.levels)}; there may be {MOST_LEVELS}"
        raise InvalidValue(f"topologyAssignment.levels: {told}")
    total = len(assignment.domains) + sum(one.domain_count for one in assignment.slices)
    if total > MOST_DOMAINS:
        raise InvalidValue(f"topologyAssignment: {total} domains; there may be {MOST_DOMAINS}")
    rows = [(one.values, one.count) for one in assignment.domains]
    for at, packed in enumerate(assignment.slices):
        where = f"topologyAssignment.slices[{at}]"
        if len(packed.values_per_level) != len(assignment.levels):
            told = f"{len(packed.values_per_level)} values for {len(assignment.levels)} levels"
            raise InvalidValue(f"{where}.valuesPerLevel: {told}")
        rows += _unpacked(packed, where)
    found: list[AssignedPods] = []
    for values, count in rows:
        if len(values) != len(assignment.levels) or not all(values):
            told = f"{len(values)} values for {len(assignment.levels)} levels"
            raise InvalidValue(f"topologyAssignment: a domain has {told}")
        if count > 0:
            selector = dict(zip(assignment.levels, values, strict=True))
            found.append(AssignedPods(selector, count))
    return found


def _unpacked(packed: TopologyAssignmentSlice, where: str) -> Iterator[tuple[tuple[str, ...], int]]:
    count = packed.domain_count
    columns = [
        _values(one, count, f"{where}.valuesPerLevel[{at}]")
        for at, one in enumerate(packed.values_per_level)
    ]
    counts: Sequence[int] = packed.pod_counts.individual
    if packed.pod_counts.universal is not None:
        counts = [packed.pod_counts.universal] * count
    if len(counts) != count:
        raise InvalidValue(f"{where}.podCounts: {len(counts)} for {count} domains")
    for at in range(count):
        yield tuple(column[at] for column in columns), counts[at]


def _values(packed: LevelValues, count: int, where: str) -> Sequence[str]:
    if packed.universal is not None:
        return [packed.universal] * count
    some = packed.individual
    roots = () if some is None else some.roots
    if some is None or len(roots) != count:
        raise InvalidValue(f"{where}: {len(roots)} values for {count} domains")
    longest = max(map(len, roots), default=0) + len(some.prefix) + len(some.suffix)
    if longest > _LONGEST_VALUE:
        raise InvalidValue(f"{where}: a value has {longest} characters; a label has at most 63")
    return [f"{some.prefix}{root}{some.suffix}" for root in roots]
