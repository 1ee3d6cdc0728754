"""Objects of others that say which node labels are levels of a network, coarse to fine.

Kueue's Topology (``kueue.x-k8s.io``) and KAI's (``kai.scheduler/v1alpha1``) have one form; KAI's
levels may have an alias. Volcano's HyperNode (``topology.volcano.sh/v1alpha1``) is a domain itself.
"""

from __future__ import annotations

from numakube.api.codec import Wire
from numakube.api.meta import LabelSelector, ObjectMeta


class TopologyLevel(Wire, frozen=True):
    """One level: nodes with one value of the label are in one domain."""

    node_label: str = ""
    alias: str = ""


class TopologySpec(Wire, frozen=True):
    """The levels, coarse to fine."""

    levels: tuple[TopologyLevel, ...] = ()


class Topology(Wire, frozen=True):
    """A Topology of Kueue or KAI."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TopologySpec = TopologySpec()


class ExactMatch(Wire, frozen=True):
    """One member by its name."""

    name: str = ""


class RegexMatch(Wire, frozen=True):
    """Members whose whole or partial name matches a pattern."""

    pattern: str = ""


class MemberSelector(Wire, frozen=True):
    """Which members; one of these."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(Wire, frozen=True):
    """Nodes, or other domains, that are in a domain."""

    type: str = "Node"
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(Wire, frozen=True):
    """What a domain is: a small tier is a close one."""

    tier: int = 0
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


class HyperNode(Wire, frozen=True):
    """A domain of Volcano's."""

    metadata: ObjectMeta = ObjectMeta()
    spec: HyperNodeSpec = HyperNodeSpec()
