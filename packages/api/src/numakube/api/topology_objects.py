"""Objects of others that say which node labels are levels of a network, coarse to fine.

Kueue's Topology (``kueue.x-k8s.io``) and KAI's (``kai.scheduler/v1alpha1``) have one form; KAI's
levels may have an alias.
"""

from __future__ import annotations

from numakube.api.codec import Wire
from numakube.api.meta import ObjectMeta


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
