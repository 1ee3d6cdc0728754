"""Why a pod cannot have its resources aligned on a node, as a value.

A refusal says which container, which resource, which zones came closest and how much was missing
there. The text for events is derived from it, is short, and is the same for equal refusals, so
that events of thousands of nodes add up to a few lines:

    0/5 nodes are available: 3 cannot align container (cpu: best zone has 6 of 8), ...

Refusals that differ in their numbers only are one group, with the numbers of the node that came
closest.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from numakube.kubelet.admission_outcome import NO_ANSWER
from numakube.kubelet.pod_demand import ContainerRole
from numakube.values.display import amount_text


class Kind(StrEnum):
    """What stands in the way."""

    BLOCKED = "blocked"
    """The node must not be used for now."""
    ANNOTATION = "annotation"
    """The pod says something that cannot be understood."""
    MISSING_DATA = "missing-data"
    """The node has no usable report, and the pod is to have one."""
    WEAKER_POLICY = "weaker-policy"
    """The kubelet's policy is weaker than the one that the pod asks for."""
    UNREPORTED = "unreported"
    """The node aligns a resource of which its report says nothing."""
    NODE = "node"
    """All zones together have too little, aligned or not."""
    SIZES = "sizes"
    """Resources need different numbers of zones, which the policy ``restricted`` never accepts."""
    ALIGN = "align"
    """No set of zones as small as the policy wants has enough of everything."""
    WHOLE_CORES = "whole-cores"
    """The node gives out whole cores only, and the CPUs asked for do not make up any number."""
    CLOSENESS = "closeness"
    """Devices would not be as close to each other as the pod asks for."""
    KUBELET = "kubelet"
    """Counts allow it; the kubelet model, with exact data, does not."""
    WAITING = "waiting"
    """A pod that waits to be bound would be refused if this one came before it."""


_SUBJECTS: Final = {
    None: "pod",
    ContainerRole.APP: "container",
    ContainerRole.INIT: "init container",
    ContainerRole.SIDECAR: "sidecar container",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignmentRefusal:
    """Why one node refused a pod.

    Attributes:
        container: the container that could not be aligned; empty if the pod as a whole.
        role: what kind of container that is; ``None`` for the pod.
        one_of_several: whether the pod has other containers, so that messages name this one.
        resource: the resource that was short; with `Kind.SIZES` all that disagree.
        zones: NUMA ids of the zones that came closest.
        wanted: amount of the resource in its base unit.
        free: what those zones have of it; with `Kind.WHOLE_CORES` what would do.
        reason: why a node is blocked, which sizes disagree, or the kubelet's reason; with
            `Kind.WAITING` the whole text.
        hopeless: whether no eviction helps: an idle node of the kind refuses too, and the numbers
            are those of an idle node.
        detail: what the kubelet model can tell beyond that, for `explain`; not in messages.
    """

    kind: Kind
    container: str = ""
    role: ContainerRole | None = None
    one_of_several: bool = False
    resource: str = ""
    zones: tuple[int, ...] = ()
    wanted: int = 0
    free: int = 0
    policy: str = ""
    scope: str = ""
    reason: str = ""
    hopeless: bool = False
    detail: str = ""

    @property
    def missing(self) -> int:
        """How much more of the resource the closest zones would have to have."""
        return max(0, self.wanted - self.free)

    @property
    def subject(self) -> str:
        """What could not be aligned: ``container``, ``init container prepare``, ``pod``."""
        return self.full_subject if self.one_of_several else _SUBJECTS[self.role]

    @property
    def full_subject(self) -> str:
        """What could not be aligned, with the name of the container if it is one."""
        return f"{_SUBJECTS[self.role]} {self.container}".rstrip()

    @property
    def key(self) -> tuple[str, ...]:
        """What refusals that are reported together have in common."""
        hopeless = "hopeless" if self.hopeless else ""
        return self.kind, self.container, self.subject, self.resource, self.reason, hopeless

    @property
    def message(self) -> str:
        """The short text for events."""
        match self.kind:
            case Kind.BLOCKED | Kind.ANNOTATION | Kind.WAITING:
                return self.reason
            case Kind.MISSING_DATA:
                return "node(s) without a usable NodeResourceTopology"
            case Kind.WEAKER_POLICY:
                return f"node(s) whose kubelet policy {self.reason}"
            case Kind.CLOSENESS:
                return f"devices not close enough ({self.reason})"
            case Kind.UNREPORTED:
                return f"no zone reports {self.resource}"
            case Kind.SIZES:
                return f"cannot align {self.subject} ({self.reason})"
            case Kind.WHOLE_CORES:
                wanted = amount_text(self.resource, self.wanted)
                return f"cannot align {self.subject} (cpu: {wanted} do not make whole cores)"
            case Kind.KUBELET if self.reason == NO_ANSWER:
                return f"kubelet would not answer for {self.subject}"
            case Kind.KUBELET:
                return f"kubelet would refuse {self.subject} ({self.reason})"
            case _:
                return f"cannot align {self.subject} ({self._shortage})"

    @property
    def _shortage(self) -> str:
        free = f"{amount_text(self.resource, self.free)} of "
        where = _where(len(self.zones)) if self.kind is Kind.ALIGN else "all zones have"
        idle = " even if idle" if self.hopeless else ""
        return f"{self.resource}: {where} {free}{amount_text(self.resource, self.wanted)}{idle}"


@dataclass(frozen=True, slots=True)
class AlignmentRefusalGroup:
    """Refusals that differ in their numbers only.

    Attributes:
        closest: the refusal of the node that lacked least.
    """

    nodes: int
    closest: AlignmentRefusal

    @property
    def hopeless(self) -> bool:
        """Whether the nodes refuse the pod even if nothing else is there."""
        return self.closest.hopeless

    @property
    def message(self) -> str:
        """The text of one line of an event: ``3 cannot align container (...)``."""
        return f"{self.nodes} {self.closest.message}"


def closeness(refusal: AlignmentRefusal) -> float:
    """Return the part of the wanted amount that is missing; smaller is closer."""
    return refusal.missing / refusal.wanted if refusal.wanted else 1.0


def _where(zones: int) -> str:
    return "best zone has" if zones == 1 else f"best {zones} zones have"
