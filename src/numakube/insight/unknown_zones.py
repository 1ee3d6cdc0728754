"""What nobody can say of a pod because nothing is known of the NUMA zones of nodes.

Whether a kubelet admits a pod that it aligns depends on zones. Without reports of them, room on the
whole node is necessary and not enough, so that no tool says of such a pod that it fits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.insight.collected import TOPOLOGIES
from numakube.insight.list_reading import ROLE
from numakube.kubelet.pod_demand import DemandRules, demand_of
from numakube.topology.topology_view import NodeTopology
from numakube.values.resources import is_extended

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts

_RULES: Final = DemandRules()
_NOTHING: Final = "nothing is known of any NUMA zone"
_NAMED: Final = 3


def may_be_aligned(pod: Pod) -> bool:
    """Tell whether some kubelet aligns *pod*: it is Guaranteed, or asks for devices."""
    wanted = demand_of(pod, _RULES)
    return wanted.guaranteed or any(
        count for name, count in wanted.limits.items() if is_extended(name)
    )


def zones_known(facts: ClusterFacts, nodes: Iterable[str]) -> bool:
    """Tell whether the zones of any of *nodes* are known."""
    return any(isinstance(facts.view(name), NodeTopology) for name in nodes)


def why_unknown(facts: ClusterFacts, pod: Pod, nodes: Iterable[str]) -> str:
    """Say why it is not known whether *pod* fits on any of *nodes*, which have room; or nothing."""
    roomy = tuple(nodes)
    if not roomy or not may_be_aligned(pod) or zones_known(facts, roomy):
        return ""
    if not zones_known(facts, facts.nodes):
        return nothing_known(facts)
    more = f" and {len(roomy) - _NAMED} more" if len(roomy) > _NAMED else ""
    return f"nothing is known of the NUMA zones of {', '.join(roomy[:_NAMED])}{more}"


def unknown_cordoned(facts: ClusterFacts, pods: Iterable[Pod] = ()) -> ClusterFacts:
    """Return *facts* with the nodes cordoned of whose zones nothing is known.

    So that no pod is moved to where nobody can say whether the kubelet takes it. *pods* for which
    all this is done, if no kubelet aligns any of them, may go there.
    """
    wanted = list(pods)
    if wanted and not any(map(may_be_aligned, wanted)):
        return facts
    nodes = dict(facts.nodes)
    for name in blind_nodes(facts):
        spec = msgspec.structs.replace(nodes[name].spec, unschedulable=True)
        nodes[name] = msgspec.structs.replace(nodes[name], spec=spec)
    return replace(facts, nodes=nodes)


def blind_nodes(facts: ClusterFacts) -> list[str]:
    """Return the nodes that take pods, and of whose zones nothing is known."""
    return [
        name
        for name, node in facts.nodes.items()
        if not node.spec.unschedulable and not zones_known(facts, [name])
    ]


def nothing_known(facts: ClusterFacts) -> str:
    """Say why nothing is known of any zone; empty if something is, or if there are no nodes."""
    if not facts.nodes or zones_known(facts, facts.nodes):
        return ""
    if facts.why_no_reports:
        return f"{_NOTHING} ({facts.why_no_reports}; the ClusterRole {ROLE} allows it)"
    missing = facts.missing(TOPOLOGIES)
    if missing is not None:
        return f"{_NOTHING} (NodeResourceTopologies: {missing.why}; see kubectl numa doctor)"
    if facts.topologies:
        return f"{_NOTHING} (no NodeResourceTopology is usable: kubectl numa doctor)"
    return f"{_NOTHING} (no node has a NodeResourceTopology; does an exporter run?)"
