"""Checks of the doctor: pods whose relations within their node have to hold and do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.node_islands import ISLANDS, read_islands
from numakube.api.zone_relations import zone_wish_of
from numakube.errors import InvalidValue
from numakube.insight.doctor.findings import (
    Finding,
    FindingSubject,
    Rule,
    Severity,
    about_node,
)
from numakube.insight.observations import observed
from numakube.scheduling.snapshot.pods import PodInfo
from numakube_zone_affinity.node_zones import reported, wish_of
from numakube_zone_affinity.observing import zones_of
from numakube_zone_affinity.zone_verdicts import Outlook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod
    from numakube.insight import ClusterFacts

BROKEN: Final = Rule(
    id="NUMA-ZONE-RELATION-BROKEN",
    severity=Severity.WARNING,
    title="Pods are beside pods that they have to avoid, or away from those that they need",
    why=(
        "The kubelet chose another zone than was foreseen, another scheduler placed a pod there, or"
        " the annotations changed after it was bound. Nothing moves a pod that runs."
    ),
    fix="kubectl delete pod POD -n NAMESPACE   # its owner makes another, which is placed anew",
)
UNREADABLE: Final = Rule(
    id="NUMA-ZONE-RELATION-UNREADABLE",
    severity=Severity.ERROR,
    title="Annotations about zones and links cannot be read",
    why="No node is chosen for such pods, and such nodes count as ones without links.",
    fix="kubectl annotate KIND NAME --overwrite KEY=VALUE   # of a pod, its owner's template too",
)
RULES: Final = (BROKEN, UNREADABLE)


def _broken(facts: ClusterFacts) -> Iterator[Finding]:
    for node in facts.nodes:
        wishing = [pod for pod in map(PodInfo, facts.pods_on(node)) if wish_of(pod).is_required]
        if not wishing:
            continue
        zones = zones_of(observed(facts, node))
        for pod in wishing:
            for name, verdict in reported(pod, zones):
                if verdict.outlook is Outlook.BROKEN:
                    yield _about(BROKEN, pod.pod, f"{name} does not hold: {verdict.reason}")


def _unreadable(facts: ClusterFacts) -> Iterator[Finding]:
    for pod in facts.pods:
        if not pod.spec.node_name:
            for mistake in zone_wish_of(pod.metadata.annotations).mistakes:
                yield _about(UNREADABLE, pod, mistake)
    for name, node in facts.nodes.items():
        try:
            read_islands(node.metadata.annotations.get(ISLANDS, ""))
        except InvalidValue as error:
            yield about_node(UNREADABLE, name, f"metadata.annotations[{ISLANDS}]: {error}")


def _about(rule: Rule, pod: Pod, detail: str) -> Finding:
    meta = pod.metadata
    return Finding(
        rule=rule,
        subject=FindingSubject("Pod", meta.name, meta.namespace),
        detail=detail,
        fix=rule.fix_for(POD=meta.name, NAMESPACE=meta.namespace),
        node=pod.spec.node_name,
    )


CHECKS: Final = (_broken, _unreadable)
