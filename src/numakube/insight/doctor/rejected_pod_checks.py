"""Do kubelets reject pods or new sizes of them, and do controllers make the same ones again?"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from numakube.api.pod import has_ended, is_rejected
from numakube.api.pod_resources import is_resize_infeasible, pending_resize
from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.insight.doctor.findings import Finding, FindingSubject, Rule, Severity, maker_of
from numakube.insight.known_schedulers import numa_schedulers
from numakube.insight.object_ages import pod_age
from numakube.scheduling.plugins.rejection_guard import OWNER_LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts

_RECENT_SECONDS: Final = 86400

REJECTED: Final = Rule(
    id="NUMA-POD-REJECTED",
    severity=Severity.WARNING,
    title="Kubelets have rejected pods",
    why="A rejected pod has failed for good: it was placed where there was no room for it.",
    fix="kubectl numa explain pod POD -n NAMESPACE   # what the kubelet missed",
)
RUNAWAY: Final = Rule(
    id="NUMA-POD-RUNAWAY",
    severity=Severity.ERROR,
    title="Kubelets keep rejecting the pods of a workload",
    why=(
        "Its controller makes a new pod each time, without a pause: failed pods pile up by the"
        " hundred, and none will ever run."
    ),
    fix="kubectl numa explain pod POD -n NAMESPACE   # what the kubelet misses",
)

RESIZE: Final = Rule(
    id="NUMA-POD-RESIZE-INFEASIBLE",
    severity=Severity.WARNING,
    title="A kubelet refuses to change the size of a running pod",
    why="The pod keeps what it has; the kubelet does not try again until the pod's spec changes.",
    fix="kubectl numa explain pod POD -n NAMESPACE   # or make a new pod of the new size",
)

RULES: Final = (REJECTED, RUNAWAY, RESIZE)


def check_rejections(facts: ClusterFacts) -> Iterator[Finding]:
    """Count the pods of each workload that kubelets rejected within a day."""
    rejected: dict[FindingSubject, list[Pod]] = {}
    for pod in facts.pods:
        if not is_rejected(pod):
            continue
        if (pod_age(facts, pod) or 0) < _RECENT_SECONDS:
            rejected.setdefault(maker_of(pod), []).append(pod)
    schedulers = numa_schedulers(facts)
    for maker, pods in rejected.items():
        yield _finding(maker, pods, schedulers)


def _finding(maker: FindingSubject, pods: list[Pod], schedulers: frozenset[str]) -> Finding:
    rule = RUNAWAY if maker.kind != "Pod" and len(pods) >= OWNER_LIMIT else REJECTED
    reasons = Counter(pod.status.reason for pod in pods if pod.status)
    nodes = sorted({pod.spec.node_name for pod in pods})
    where = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
    told = ", ".join(f"{count} with {reason}" for reason, count in reasons.most_common())
    last = pods[-1]
    fix = rule.fix_for(POD=last.metadata.name, NAMESPACE=last.metadata.namespace)
    if last.spec.scheduler_name not in schedulers:
        fix += f"\nschedulerName: {SCHEDULER_NAME}   # the present one does not look at zones"
    return Finding(
        rule=rule,
        subject=FindingSubject(maker.kind, maker.name, maker.namespace, "status.reason"),
        detail=f"{told}, by {where}",
        fix=fix,
        node=nodes[0] if len(nodes) == 1 else "",
    )


def check_resizes(facts: ClusterFacts) -> Iterator[Finding]:
    """Look for pods whose new size their kubelet has called infeasible."""
    for pod in facts.pods:
        pending = pending_resize(pod)
        if has_ended(pod) or pending is None or not is_resize_infeasible(pod):
            continue
        meta = pod.metadata
        yield Finding(
            rule=RESIZE,
            subject=FindingSubject("Pod", meta.name, meta.namespace, "spec.containers[].resources"),
            detail=f"infeasible on {pod.spec.node_name}: {pending.message or 'no reason is given'}",
            fix=RESIZE.fix_for(POD=meta.name, NAMESPACE=meta.namespace),
            node=pod.spec.node_name,
        )


CHECKS: Final = (check_rejections, check_resizes)
