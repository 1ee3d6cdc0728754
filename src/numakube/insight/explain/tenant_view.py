"""An explanation for a user who may read a pod, but nothing of the cluster.

It has no name of a node but the pod's own, none of other pods, no taints and no amounts of nodes:
how many nodes refuse it for which reason, and what of the pod itself would have to change. What is
told is chosen field by field, so that nothing slips through with a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.insight.explain.explanation_document import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.insight.explain.explanation_document import Change, Explanation

KIND: Final = "TenantPodExplanation"
_GENERAL: Final = {"TaintToleration": "node(s) had untolerated taint(s)"}
"""Reasons that would tell more than what kind of trouble it is."""
_OWN: Final = ("fewer-cpus", "less-memory", "fewer-hugepages", "fewer-devices")
"""Changes of the pod itself, which name nothing else."""
_VERDICTS: Final = {
    "fits": "It fits: {} of {} nodes would take it.",
    "refused": "It fits nowhere: {} of {} nodes would take it.",
    "held": "It is not tried yet: {} of {} nodes would take it.",
    "unknown": "Whether it fits is not known: {} of {} nodes have room; their zones are not known.",
}


def tenant_document(one: Explanation) -> dict[str, Any]:
    """Return what a tenant may know of *one*."""
    pod = one.pod
    reasons: dict[tuple[str, str], int] = {}
    for group in one.groups:
        key = (group.plugin, _GENERAL.get(group.plugin, group.reason))
        reasons[key] = reasons.get(key, 0) + len(group.nodes)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "takenAt": one.taken_at,
        "pod": f"{pod.namespace}/{pod.name}",
        "state": pod.state,
        "scheduler": pod.scheduler,
        "verdict": one.verdict,
        "nodes": one.nodes,
        "fitting": len(one.fitting) + one.unchecked,
        "reasons": [
            {"plugin": plugin, "reason": reason, "nodes": count}
            for (plugin, reason), count in reasons.items()
        ],
        "zones": list(one.placement.zones) if one.placement is not None else [],
        "changes": [_change(change) for change in one.changes if change.kind in _OWN],
    }


def _change(change: Change) -> dict[str, str]:
    return {
        "kind": change.kind,
        "container": change.container,
        "resource": change.resource,
        "was": change.was,
        "to": change.to,
    }


def tenant_lines(document: dict[str, Any]) -> Iterator[str]:
    """Yield the document for people."""
    fitting, nodes = document["fitting"], document["nodes"]
    yield f"Pod {document['pod']} ({document['state']}, scheduler {document['scheduler']})"
    yield _VERDICTS[document["verdict"]].format(fitting, nodes)
    if document["zones"]:
        yield f"It is in the NUMA zones {', '.join(map(str, document['zones']))} of its node."
    for reason in document["reasons"]:
        yield f"  {reason['nodes']} x {reason['reason']}   [{reason['plugin']}]"
    for change in document["changes"]:
        where = f"container {change['container']}" if change["container"] else "it"
        yield (
            f"  It would fit if {where} asked for {change['resource']} {change['to']} in place of"
            f" {change['was']}."
        )
    yield "Note: Told by the scheduler, without the nodes: you may not list them (403)."
