"""What a node takes and what it does not: its kubelet, its zones, who waits for it, what is wrong.

Each pod that waits is tried on the node by its own scheduler's plugins and the kubelet model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.pod import has_ended
from numakube.insight.doctor.all_checks import diagnose
from numakube.insight.doctor.findings import Severity
from numakube.insight.explain.explained_pod import pod_subject
from numakube.insight.explain.explanation_document import API_VERSION, Document
from numakube.insight.explain.explanation_summary import unread_notes
from numakube.insight.explain.explanation_text import DATA_WORDS, EMPTY, Line, LineRole, table_lines
from numakube.insight.facts import CORDONED, NOT_READY
from numakube.insight.planned_pods import text_of
from numakube.insight.unknown_zones import why_unknown
from numakube.insight.usage.zone_usage import node_usage
from numakube.scheduling.matching import taint_text
from numakube.scheduling.plugins.pod_gangs import group_named_by
from numakube.topology.numa_zones import Unusable
from numakube.topology.topology_view import NodeTopology
from numakube.values.display import counted, quantity_text, short_name
from numakube.values.safe_text import printable
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numakube.api.affinity_and_taints import Taint
    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube.insight.explain.explained_pod import Subject
    from numakube.insight.explain.explanation_document import Explanation
    from numakube.insight.facts import ClusterFacts
    from numakube.insight.usage.zone_usage import NodeUsage

    ExplainPod = Callable[[Subject], Explanation]

MOST_TRIED: Final = 20
"""Pods that wait and are tried on the node: those with the highest priority first."""
_MOST_FINDINGS: Final = 8
_KEEP_AWAY: Final = ("NoSchedule", "NoExecute")
_OWN_TAINTS: Final = "node.kubernetes.io/"


class NodeZone(Document, frozen=True):
    """What a NUMA zone of the node has, and the largest pod that it has room for in words."""

    zone: int
    allocatable: dict[str, str]
    free: dict[str, str]
    largest: str = ""


class WaitingPod(Document, frozen=True):
    """A pod that waits, and what this node says of it.

    Attributes:
        verdict: ``fits``, ``refused``, ``held`` if it is not even tried, ``unknown`` if zones
            decide that are not known.
        reason: who refused it here and why, in the scheduler's words.
        gang: whether it runs together with others only, which were not asked about.
    """

    pod: str
    priority: int
    verdict: str
    plugin: str = ""
    reason: str = ""
    gang: bool = False


class NodeFinding(Document, frozen=True):
    """What the doctor finds about the node."""

    rule: str
    severity: str
    detail: str
    fix: str


class NodeExplanation(Document, frozen=True, kw_only=True):
    """Everything there is to say of a node.

    Attributes:
        verdict: ``open`` if it takes pods and its zones are known, or do not matter; ``closed`` if
            it takes none; ``unknown`` if it takes pods, and what its kubelet does is not known.
        data: how well its zones are known, as in `Candidate`; so is ``data_reason``.
        taints: those that keep pods away which do not tolerate them.
        waiting: pods that wait, at most `MOST_TRIED`; ``more_waiting`` were not tried.
        notes: what could not be read, so that the answer does not rest on it.
    """

    api_version: str = API_VERSION
    kind: str = "NodeExplanation"
    taken_at: str = ""
    node: str
    verdict: str
    summary: str
    kubelet: str = ""
    policy: str = ""
    scope: str = ""
    cpu_manager_policy: str = ""
    memory_manager_policy: str = ""
    data: str = "none"
    data_reason: str = ""
    troubles: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()
    zones: tuple[NodeZone, ...] = ()
    pods: int = 0
    waiting: tuple[WaitingPod, ...] = ()
    more_waiting: int = 0
    findings: tuple[NodeFinding, ...] = ()
    notes: tuple[str, ...] = ()


def explain_node(facts: ClusterFacts, name: str, explain_pod: ExplainPod) -> NodeExplanation:
    """Return what the node *name* takes, and why not more.

    Args:
        facts: the cluster.
        name: of one of its nodes.
        explain_pod: explains a pod on *facts*, with the node in detail.
    """
    node, view = facts.nodes[name], facts.view(name)
    usage, zones = node_usage(facts, name)
    known = view if isinstance(view, NodeTopology) and not view.policy_unknown else None
    waiting = _waiting(facts)
    verdict, summary = _verdict(usage, node, view)
    return NodeExplanation(
        taken_at=facts.taken_at,
        node=name,
        verdict=verdict,
        summary=summary,
        kubelet=node.status.node_info.kubelet_version if node.status.node_info else "",
        policy=known.policy.value if known else "",
        scope=known.scope.value if known else "",
        cpu_manager_policy=(known.cpu_manager_policy or "") if known else "",
        memory_manager_policy=(known.memory_manager_policy or "") if known else "",
        data=_data(usage, view),
        data_reason=usage.why_unknown or usage.stale,
        troubles=usage.troubles,
        taints=tuple(map(taint_text, _keeping_away(node))),
        zones=tuple(
            NodeZone(
                zone=zone.zone,
                allocatable=_texts(zone.allocatable),
                free=_texts(zone.free),
                largest=zone.largest.text,
            )
            for zone in zones
        ),
        pods=len(facts.pods_on(name)),
        waiting=tuple(_tried(facts, name, pod, explain_pod) for pod in waiting[:MOST_TRIED]),
        more_waiting=max(0, len(waiting) - MOST_TRIED),
        findings=tuple(_findings(facts, name)),
        notes=tuple(unread_notes(facts)),
    )


def _waiting(facts: ClusterFacts) -> list[Pod]:
    """Return the pods without a node, the most important first, the oldest of those first."""
    pods = (pod for pod in facts.pods if not pod.spec.node_name and not has_ended(pod))
    return sorted(
        pods,
        key=lambda pod: (
            -(pod.spec.priority or 0),
            pod.metadata.creation_timestamp or "",
            pod.metadata.key,
        ),
    )


def _tried(facts: ClusterFacts, name: str, pod: Pod, explain_pod: ExplainPod) -> WaitingPod:
    subject = pod_subject(pod)
    found = explain_pod(subject)
    here = next((candidate for candidate in found.candidates if candidate.node == name), None)
    verdict, plugin, reason = "refused", "", ""
    if found.verdict == "held":
        verdict, reason = "held", found.summary
    elif name in found.fitting:
        reason = why_unknown(facts, subject.unbound(), [name]) or _why_unread(facts, pod)
        verdict = "unknown" if reason else "fits"
    elif here is not None and not here.fits:
        plugin, reason = here.plugin, here.reason
    else:
        verdict, reason = "unknown", "its kubelet's model was not asked: too many nodes have room"
    return WaitingPod(
        pod=pod.metadata.key,
        priority=pod.spec.priority or 0,
        verdict=verdict,
        plugin=plugin,
        reason=reason,
        gang=group_named_by(pod) is not None,
    )


def _why_unread(facts: ClusterFacts, pod: Pod) -> str:
    if facts.claims_known or not pod.spec.resource_claims:
        return ""
    return "its resource claims could not be read"


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: text_of(name, amount) for name, amount in amounts.items()}


def _data(usage: NodeUsage, view: NodeTopology | Unusable | None) -> str:
    if usage.why_unknown:
        return "unusable" if isinstance(view, Unusable) else "none"
    if usage.stale:
        return "stale"
    return "exact" if usage.exact else "counts"


def _keeping_away(node: Node) -> Iterator[Taint]:
    """Yield the taints that people have put there; `troubles_of` tells what the others mean."""
    for taint in node.spec.taints:
        if taint.effect in _KEEP_AWAY and not taint.key.startswith(_OWN_TAINTS):
            yield taint


def _verdict(usage: NodeUsage, node: Node, view: NodeTopology | Unusable | None) -> tuple[str, str]:
    """Return whether the node takes pods, and the same in a sentence."""
    name = usage.node
    closed = [trouble for trouble in usage.troubles if trouble in (NOT_READY, CORDONED)]
    if closed:
        return "closed", f"{name} takes no new pods: {', '.join(closed)}."
    taints = [taint_text(taint) for taint in _keeping_away(node)]
    only = f" that tolerate {' and '.join(taints)}" if taints else ""
    if usage.why_unknown:
        return "unknown", (
            f"{name} takes pods{only}, and nothing is known of its NUMA zones: {usage.why_unknown}."
        )
    if isinstance(view, NodeTopology) and view.policy_unknown:
        why = view.policy_unknown
        return (
            "unknown",
            f"{name} takes pods{only}; whether its kubelet aligns them is not known: {why}.",
        )
    aligned = isinstance(view, NodeTopology) and view.policy is not TopologyPolicy.NONE
    how = "its kubelet aligns them" if aligned else "its kubelet aligns none of them"
    if usage.stale:
        old = f"What is known of its zones is out of date: {usage.stale}."
        return "unknown", f"{name} takes pods{only}; {how}. {old}"
    return "open", f"{name} takes pods{only}; {how}."


def _findings(facts: ClusterFacts, name: str) -> Iterator[NodeFinding]:
    for entry in diagnose(facts, node=name).entries:
        if entry.rule.severity is not Severity.INFO:
            for finding in entry.findings:
                yield NodeFinding(
                    rule=entry.rule.id,
                    severity=entry.rule.severity.value,
                    detail=finding.detail,
                    fix=finding.remedy,
                )


def node_lines(found: NodeExplanation) -> Iterator[Line]:
    """Yield the explanation for people."""
    for line in _lines(found):
        yield line._replace(text=printable(line.text))


def _lines(found: NodeExplanation) -> Iterator[Line]:
    policy = [f"policy {found.policy}", f"scope {found.scope}"] if found.policy else []
    kubelet = [f"kubelet {found.kubelet}"] if found.kubelet else []
    about = [*kubelet, *policy, DATA_WORDS[found.data], counted(found.pods, "pod")]
    yield Line(f"Node {found.node} ({', '.join(about)})", LineRole.TITLE)
    yield Line(found.summary)
    if found.zones:
        yield EMPTY
        yield from table_lines(_zone_rows(found.zones))
    if found.waiting:
        yield EMPTY
        yield from _waiting_lines(found)
    for finding in found.findings[:_MOST_FINDINGS]:
        yield EMPTY
        yield Line(f"{finding.severity.upper()} {finding.rule}  {finding.detail}", LineRole.REFUSED)
        yield from (Line(f"  {line}", LineRole.CHANGE) for line in finding.fix.split("\n"))
    if len(found.findings) > _MOST_FINDINGS:
        yield EMPTY
        rest = len(found.findings) - _MOST_FINDINGS
        yield Line(f"{rest} more: kubectl numa doctor --node {found.node}", LineRole.NOTE)
    if found.notes:
        yield EMPTY
        yield from (Line(f"Note: {note}", LineRole.NOTE) for note in found.notes)


def _zone_rows(zones: Sequence[NodeZone]) -> list[list[str]]:
    resources = list(dict.fromkeys(name for zone in zones for name in zone.allocatable))
    rows = [["zone", *(f"{short_name(name)} free" for name in resources), "largest pod"]]
    for zone in zones:
        cells = (
            f"{quantity_text(name, zone.free.get(name, '0'))}"
            f" of {quantity_text(name, zone.allocatable.get(name, '0'))}"
            for name in resources
        )
        rows.append([str(zone.zone), *cells, zone.largest])
    return rows


def _waiting_lines(found: NodeExplanation) -> Iterator[Line]:
    number = len(found.waiting) + found.more_waiting
    fitting = sum(pod.verdict == "fits" for pod in found.waiting)
    words = f"{counted(number, 'pod')} without a node"
    tried = f", of which {len(found.waiting)} were tried here" if found.more_waiting else ""
    yield Line(f"{words}{tried}; {fitting or 'none'} would fit here alone:", LineRole.HEADING)
    rows = [["pod", "priority", "verdict", "why"]]
    for pod in found.waiting:
        by = f"   [{pod.plugin}]" if pod.plugin else ""
        together = "; its gang was not asked about" if pod.gang and pod.verdict == "fits" else ""
        rows.append([pod.pod, str(pod.priority), pod.verdict, f"{pod.reason}{by}{together}"])
    yield from table_lines(rows)
