"""How an admission came about: hints of every resource, what they merged to, and what was short.

Pass an `AdmissionTrace` to `KubeletNode.admit` to have it filled; without one nothing here runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from numakube.kubelet.topology_manager import Decision
from numakube.kubelet.wide_hints import WideHints
from numakube.values.display import amount_text
from numakube.values.numamask import nodes_of
from numakube.values.resources import CPU, MILLI_PER_CPU
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.kubelet.pod_demand import ContainerDemand, PodDemand
    from numakube.kubelet.topology_hints import Hint, HintProvider, ProviderHints
    from numakube.kubelet.topology_manager import Decision
    from numakube.values.numamask import NumaMask


@dataclass(frozen=True, slots=True)
class Shortfall:
    """How much of *resource* the best NUMA node lacked."""

    resource: str
    numa_node: int
    wanted: int
    free: int

    @property
    def missing(self) -> int:
        """What the best node would have to have more."""
        return self.wanted - self.free


@dataclass(frozen=True, slots=True)
class ResourceTrace:
    """One resource of one alignment.

    Attributes:
        hints: what the provider offered, on machines of many NUMA nodes some of it; ``None`` if it
            does not care where.
        fits_nowhere: the provider cannot serve the demand on any set of nodes. The memory manager
            says so by not caring, and fails when it has to allocate.
    """

    provider: str
    resource: str
    wanted: int
    free_by_node: Mapping[int, int]
    hints: tuple[Hint, ...] | None
    fits_nowhere: bool

    @property
    def free(self) -> int:
        """What is free on the whole machine."""
        return sum(self.free_by_node.values())

    @property
    def preferred_masks(self) -> tuple[NumaMask, ...]:
        """The preferred sets of nodes, narrowest first."""
        return tuple(
            hint.mask for hint in self.hints or () if hint.preferred and hint.mask is not None
        )

    @property
    def shortfall(self) -> Shortfall | None:
        """What the NUMA node with most free lacks; ``None`` if one node could serve the demand."""
        if not self.free_by_node:
            return None
        best = max(self.free_by_node, key=lambda node: (self.free_by_node[node], -node))
        free = self.free_by_node[best]
        return Shortfall(self.resource, best, self.wanted, free) if free < self.wanted else None


@dataclass(frozen=True, slots=True)
class AlignmentTrace:
    """One merge: of a container, or of the whole pod if ``container`` is ``None``."""

    container: str | None
    policy: TopologyPolicy
    resources: tuple[ResourceTrace, ...]
    decision: Decision

    @property
    def shortfalls(self) -> tuple[Shortfall, ...]:
        """What each resource lacks on its best node."""
        found = (resource.shortfall for resource in self.resources)
        return tuple(one for one in found if one is not None)

    @property
    def why(self) -> str:
        """Say in a sentence why the result is, or is not, preferred."""
        if self.decision.hint.preferred:
            return _why_preferred(self)
        hopeless = [
            resource
            for resource in self.resources
            if resource.fits_nowhere and resource.hints is not None
        ]
        if hopeless:
            return "; ".join(_why_nowhere(trace) for trace in hopeless)
        crowded = [
            resource for resource in self.resources if _has_no_good_place(resource, self.policy)
        ]
        if crowded:
            return "; ".join(_why_crowded(trace) for trace in crowded)
        return _why_disagreement(self)


@dataclass(slots=True)
class AdmissionTrace:
    """Everything recorded about one admission, in order.

    Attributes:
        failed: what the provider that could not allocate was asked for, if one failed.
    """

    alignments: list[AlignmentTrace] = field(default_factory=list)
    failed: tuple[ResourceTrace, ...] = ()

    def record(
        self,
        pod: PodDemand,
        container: ContainerDemand | None,
        answers: Iterable[tuple[HintProvider, ProviderHints]],
        decision: Decision,
        policy: TopologyPolicy,
    ) -> None:
        """Note one merge."""
        resources = tuple(
            _resource(provider, answer, resource, wanted)
            for provider, answer in answers
            for resource, wanted in provider.wanted(pod, container).items()
            if wanted
        )
        name = container.name if container else None
        self.alignments.append(AlignmentTrace(name, policy, resources, decision))

    def record_failure(
        self, provider: HintProvider, pod: PodDemand, container: ContainerDemand
    ) -> None:
        """Note what a provider was asked for when it could not allocate."""
        self.failed = tuple(
            ResourceTrace(
                provider.name, resource, wanted, provider.free_by_node(resource), None, True
            )
            for resource, wanted in provider.wanted(pod, container).items()
        )


def amount(resource: str, count: int) -> str:
    """Return an amount of the kubelet model, which counts whole CPUs, for people."""
    return amount_text(resource, count * MILLI_PER_CPU if resource == CPU else count)


def _resource(
    provider: HintProvider, answer: ProviderHints, resource: str, wanted: int
) -> ResourceTrace:
    hints = None if answer is None else answer.get(resource)
    return ResourceTrace(
        provider=provider.name,
        resource=resource,
        wanted=wanted,
        free_by_node=provider.free_by_node(resource),
        hints=hints if hints is None else _some(hints),
        # An empty answer, as opposed to none, is how the memory manager says "nowhere".
        fits_nowhere=(hints is not None and not hints) or answer == {},
    )


def _some(hints: Sequence[Hint] | WideHints) -> tuple[Hint, ...]:
    """Return the hints; of very many, some of those that say most."""
    return tuple(hints.examples() if isinstance(hints, WideHints) else hints)


def _has_no_good_place(resource: ResourceTrace, policy: TopologyPolicy) -> bool:
    if resource.hints is None:
        return False
    masks = resource.preferred_masks
    if policy is TopologyPolicy.SINGLE_NUMA_NODE:
        return not any(mask.bit_count() == 1 for mask in masks)
    return not masks


def _why_preferred(step: AlignmentTrace) -> str:
    if not any(resource.hints for resource in step.resources):
        return "no resource asks for particular NUMA nodes"
    names = ", ".join(resource.resource for resource in step.resources if resource.hints)
    return f"{names} fit together on {_nodes(step.decision.hint.mask)}"


def _why_nowhere(resource: ResourceTrace) -> str:
    name = resource.resource
    return (
        f"{name}: {amount(name, resource.wanted)} wanted, "
        f"{amount(name, resource.free)} free on the whole machine"
    )


def _why_crowded(resource: ResourceTrace) -> str:
    short, name = resource.shortfall, resource.resource
    if short is None:
        return f"{name}: no set of NUMA nodes is as small as it could be on an idle machine"
    return (
        f"{name}: {amount(name, short.wanted)} wanted, the best NUMA node ({short.numa_node}) has "
        f"{amount(name, short.free)} free"
    )


def _why_disagreement(step: AlignmentTrace) -> str:
    wishes = (
        f"{resource.resource} wants {' or '.join(map(_nodes, resource.preferred_masks))}"
        for resource in step.resources
        if resource.preferred_masks
    )
    return "no NUMA nodes suit all resources: " + "; ".join(wishes)


def _nodes(mask: NumaMask | None) -> str:
    if mask is None:
        return "any NUMA node"
    nodes = nodes_of(mask)
    return f"NUMA node{'s' if len(nodes) > 1 else ''} {'+'.join(map(str, nodes))}"
