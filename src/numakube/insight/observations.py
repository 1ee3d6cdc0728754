"""What was seen of running pods and of zones, beside what reports say that they were given.

Reports are the kubelet's books. An annex that knows more of what really happens adds an `Observer`
to `numakube.annexes.Group.OBSERVATIONS`; explanations tell its words, and tables and maps show them
when they are asked to. Nothing here decides where a pod goes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from numakube.annexes import Group, added_to, loaded, points
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts
    from numakube.topology.numa_zones import Unusable
    from numakube.topology.topology_view import NodeTopology


UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What was seen of a pod or of a zone.

    Attributes:
        text: in a few words, for a cell of a table; ``unknown`` if nothing was seen.
        words: the same in sentences, for people who look at this one.
        is_bad: whether it is not what was promised.
        since: since when, in RFC 3339; empty if that is not known.
        document: the figures, for programs.
    """

    text: str
    words: tuple[str, ...] = ()
    is_bad: bool = False
    since: str = ""
    document: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def is_known(self) -> bool:
        """Whether anything was seen."""
        return self.text != UNKNOWN


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """What observers look at: a node's report and the pods that are on it.

    Attributes:
        annotations: those of the Node.
    """

    name: str
    report: NodeResourceTopology | None
    view: NodeTopology | Unusable | None
    pods: tuple[Pod, ...]
    annotations: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class Observer(Protocol):
    """What an annex adds to `Group.OBSERVATIONS`, under the name of the option that shows it."""

    def of_pod(self, node: ObservedNode, pod: Pod) -> Observation:
        """Return what was seen of a pod of *node*."""
        ...

    def of_zone(self, node: ObservedNode, zone: int) -> Observation:
        """Return what was seen of a NUMA node of *node*."""
        ...


def observed(facts: ClusterFacts, node: str) -> ObservedNode:
    """Return what observers look at of a node of a cluster."""
    known = facts.nodes.get(node)
    return ObservedNode(
        node,
        facts.topologies.get(node),
        facts.view(node),
        facts.pods_on(node),
        {} if known is None else known.metadata.annotations,
    )


@cache
def observers() -> Mapping[str, Observer]:
    """Return what annexes observe, by name."""
    return loaded(Group.OBSERVATIONS)


def observer(name: str) -> Observer:
    """Return the observer called *name*.

    Raises:
        ConfigError: its annex is not installed.
    """
    if name not in points(Group.OBSERVATIONS):
        extra = added_to(Group.OBSERVATIONS)[name].extra
        raise ConfigError(f"--{name}: pip install 'numakube[{extra}]' brings what it needs")
    return observers()[name]
