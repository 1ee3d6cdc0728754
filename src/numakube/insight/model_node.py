"""The kubelet of a node as a model, in the state that its exact report tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.topology.numa_zones import Unusable
from numakube.topology.rebuild import node_of

if TYPE_CHECKING:
    from numakube.insight.facts import ClusterFacts
    from numakube.kubelet.node import KubeletNode


NO_REPORT: Final = "the node has no NodeResourceTopology; does its exporter run?"


def model_of(facts: ClusterFacts, node: str) -> KubeletNode | Unusable:
    """Return the kubelet model of *node*, which the caller may change, or why there is none."""
    view = facts.view(node)
    if view is None:
        return Unusable(facts.why_no_reports or NO_REPORT)
    if isinstance(view, Unusable):
        return view
    if view.report is None:
        return Unusable(f"its NodeResourceTopology has no exact report ({view.producer} wrote it)")
    return node_of(view.report)
