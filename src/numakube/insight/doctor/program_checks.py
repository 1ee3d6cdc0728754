"""Do exporters, schedulers and extenders run, and well?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.api.pod import has_ended
from numakube.insight.deployed_programs import Deployed, ProgramRole, deployed
from numakube.insight.doctor.findings import (
    Finding,
    FindingSubject,
    Rule,
    Severity,
    about_cluster,
    about_node,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import ContainerStatus, Pod
    from numakube.insight.facts import ClusterFacts

_MANY_RESTARTS: Final = 5
_CONDITIONS: Final = ("PodresourcesFetched", "NodeTopologyUpdated")

EXPORTER_NOT_READY: Final = Rule(
    id="NUMA-EXPORTER-NOT-READY",
    severity=Severity.ERROR,
    title="Exporters are not ready",
    why="The zones of their nodes are not published, or only as they were.",
    fix="kubectl get pods -n NAMESPACE -o wide   # then `kubectl logs` of those that are not ready",
)
EXPORTER_CONDITION: Final = Rule(
    id="NUMA-EXPORTER-CONDITION",
    severity=Severity.ERROR,
    title="An exporter says that it cannot do its work",
    why="The zones of its node are not known any more, or what it knows is not published.",
    fix="kubectl logs -n NAMESPACE POD   # the kubelet's socket, or the right to write the object",
)
EXPORTER_TWICE: Final = Rule(
    id="NUMA-EXPORTER-TWICE",
    severity=Severity.ERROR,
    title="Two exporters write the report of one node",
    why=(
        "Each overwrites what the other says, so that schedulers see zones, fingerprints and exact"
        " data come and go."
    ),
    fix="numakube deploy exporter --adopt   # or delete one of the DaemonSets",
)
SCHEDULER_NOT_READY: Final = Rule(
    id="NUMA-SCHEDULER-NOT-READY",
    severity=Severity.ERROR,
    title="A NUMA scheduler or extender is not ready",
    why="Without any that is ready, pods that name it stay Pending.",
    fix="kubectl get pods -n NAMESPACE -o wide   # then `kubectl logs` of those that are not ready",
)
RESTARTS: Final = Rule(
    id="NUMA-PROCESS-RESTARTS",
    severity=Severity.WARNING,
    title="A process of the NUMA stack keeps restarting",
    why="It has to gather what it knows again each time; meanwhile its work is not done.",
    fix="kubectl logs -n NAMESPACE POD --previous",
)
BLOCKED: Final = Rule(
    id="NUMA-SCHEDULER-BLOCKED-NODES",
    severity=Severity.WARNING,
    title="A scheduler lets no pods on a node because it does not trust its report",
    why="The node is lost to pods with exclusive resources until a report settles the doubts.",
    fix="kubectl numa debug cache NODE   # the cache `predict` and our exporter never block a node",
)
MISPREDICTED: Final = Rule(
    id="NUMA-SCHEDULER-MISPREDICTED",
    severity=Severity.WARNING,
    title="A kubelet admitted or rejected pods differently than predicted",
    why=(
        "One now and then is a race with another scheduler. Again and again on one node, its report"
        " or our model of its kubelet is wrong."
    ),
    fix="kubectl numa debug trace pod POD -n NAMESPACE   # what was foreseen, and what came",
)
UNUSABLE_OBJECT: Final = Rule(
    id="NUMA-SCHEDULER-UNUSABLE-OBJECT",
    severity=Severity.ERROR,
    title="A scheduler cannot use an object because of what it says",
    why="The object counts for nothing: a pod holds nothing there, a node gets no pods.",
    fix="# correct or delete the object; if it is honest, report it with `kubectl numa bundle`",
)
NO_TOPOLOGIES: Final = Rule(
    id="NUMA-SCHEDULER-NO-TOPOLOGIES",
    severity=Severity.ERROR,
    title="A scheduler cannot read any NodeResourceTopology",
    why=(
        "Every node counts as one without data: pods are placed blindly, or refused if missingData"
        " is Refuse."
    ),
    fix=(
        "numakube deploy api   # if the definition is missing\n"
        "numakube manifests render scheduler   # has the ClusterRole, if that is missing"
    ),
)
OTHER_ZONES: Final = Rule(
    id="NUMA-SCHEDULER-OTHER-ZONES",
    severity=Severity.INFO,
    title="A kubelet put pods on other zones than predicted",
    why="The pods are aligned and the scheduler has learnt of it; its plans were off meanwhile.",
    fix="kubectl numa debug trace pod POD -n NAMESPACE   # what was foreseen, and what came",
)
RULES: Final = (
    EXPORTER_NOT_READY, EXPORTER_CONDITION, EXPORTER_TWICE, SCHEDULER_NOT_READY, RESTARTS, BLOCKED,
    MISPREDICTED, OTHER_ZONES, UNUSABLE_OBJECT, NO_TOPOLOGIES,
)  # fmt: skip


def check_workloads(facts: ClusterFacts) -> Iterator[Finding]:
    """Count the pods of every program, and their restarts."""
    for one in deployed(facts):
        if one.ready < one.wanted:
            exporter = one.program is ProgramRole.EXPORTER
            rule = EXPORTER_NOT_READY if exporter else SCHEDULER_NOT_READY
            detail = f"{one.program}: {one.ready} of {one.wanted} pods are ready"
            fix = rule.fix_for(NAMESPACE=one.namespace)
            yield Finding(rule=rule, subject=_subject(one), detail=detail, fix=fix)
        for pod in one.pods(facts):
            yield from _restarts(one, pod)
            if one.program is ProgramRole.EXPORTER:
                yield from _conditions(pod)


def check_writers(facts: ClusterFacts) -> Iterator[Finding]:
    """Look for nodes with pods of more than one exporter.

    What a report says of its writers is no evidence: the last writer has taken all fields over.
    """
    writers: dict[str, set[str]] = {}
    for one in deployed(facts, ProgramRole.EXPORTER):
        for pod in one.pods(facts):
            if pod.spec.node_name and not has_ended(pod):
                names = writers.setdefault(pod.spec.node_name, set())
                names.add(f"{one.namespace}/{one.name}")
    for node, names in sorted(writers.items()):
        if len(names) > 1:
            yield about_node(EXPORTER_TWICE, node, f"pods of {' and '.join(sorted(names))}")


def _subject(one: Deployed) -> FindingSubject:
    return FindingSubject(one.kind, one.name, one.namespace, "status")


def _restarts(one: Deployed, pod: Pod) -> Iterator[Finding]:
    for status in pod.status.container_statuses if pod.status else ():
        if status.restart_count >= _MANY_RESTARTS or _is_crashing(status):
            detail = f"container {status.name}: {status.restart_count} restarts"
            yield Finding(
                rule=RESTARTS,
                subject=FindingSubject("Pod", pod.metadata.name, one.namespace, "status"),
                detail=detail + _last_words(status),
                fix=RESTARTS.fix_for(NAMESPACE=one.namespace, POD=pod.metadata.name),
                node=pod.spec.node_name,
            )


def _conditions(pod: Pod) -> Iterator[Finding]:
    for condition in pod.status.conditions if pod.status else ():
        if condition.type in _CONDITIONS and condition.status == "False":
            meta = pod.metadata
            yield Finding(
                rule=EXPORTER_CONDITION,
                subject=FindingSubject("Pod", meta.name, meta.namespace, "status.conditions"),
                detail=f"{condition.type} is False: {condition.reason} {condition.message}".strip(),
                fix=EXPORTER_CONDITION.fix_for(NAMESPACE=meta.namespace, POD=meta.name),
                node=pod.spec.node_name,
            )


def _is_crashing(status: ContainerStatus) -> bool:
    waiting = status.state.waiting if status.state else None
    return waiting is not None and waiting.reason == "CrashLoopBackOff"


def _last_words(status: ContainerStatus) -> str:
    ended = status.last_state.terminated if status.last_state else None
    if ended is None:
        return ""
    return f", the last with exit code {ended.exit_code} ({ended.reason or 'no reason given'})"


def check_caches(facts: ClusterFacts) -> Iterator[Finding]:
    """Look at what schedulers say of their caches."""
    for scheduler in facts.schedulers.values():
        for node in _members(scheduler.documents.get("cache"), "nodes"):
            yield from _blocked(scheduler.name, node)


def _blocked(scheduler: str, node: dict[str, Any]) -> Iterator[Finding]:
    numa = node.get("numa")
    why = numa.get("blocked") if isinstance(numa, dict) else None
    if why:
        name = str(node.get("name"))
        fix = BLOCKED.fix_for(NODE=name)
        yield about_node(BLOCKED, name, f"{scheduler} waits: {why}", fix=fix)


def check_sources(facts: ClusterFacts) -> Iterator[Finding]:
    """Look for schedulers that say that they have no reports at all."""
    for scheduler in facts.schedulers.values():
        document = scheduler.documents.get("cache")
        trouble = document.get("topologyTrouble") if isinstance(document, dict) else None
        if trouble:
            yield about_cluster(NO_TOPOLOGIES, f"{scheduler.name}: {trouble}")


def check_unusable(facts: ClusterFacts) -> Iterator[Finding]:
    """Look at what schedulers could not take over."""
    told: dict[str, str] = {}
    for scheduler in facts.schedulers.values():
        for member in _members(scheduler.documents.get("cache"), "unusable"):
            told[str(member.get("object"))] = str(member.get("reason"))
    for name, reason in told.items():
        kind, _, key = name.partition(" ")
        namespace, _, short = key.rpartition("/")
        yield Finding(
            rule=UNUSABLE_OBJECT, subject=FindingSubject(kind, short, namespace), detail=reason
        )


def check_predictions(facts: ClusterFacts) -> Iterator[Finding]:
    """Look at what schedulers have recorded of pods that came out otherwise."""
    missed: dict[tuple[str, bool], list[str]] = {}
    for scheduler in facts.schedulers.values():
        for flight in _members(scheduler.documents.get("attempts"), "items"):
            for node, verdict in _mispredicted(flight):
                missed.setdefault((node, verdict), []).append(str(flight.get("pod")))
    for (node, verdict), pods in missed.items():
        rule = MISPREDICTED if verdict else OTHER_ZONES
        names = list(dict.fromkeys(pods))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        namespace, _, name = names[0].rpartition("/")
        fix = rule.fix_for(POD=name, NAMESPACE=namespace)
        yield about_node(rule, node, f"{names[0]}{more}", fix=fix)


def _mispredicted(flight: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield the nodes on which a pod came out otherwise, and whether the verdict did."""
    for attempt in _members(flight, "attempts"):
        for event in _members(attempt, "events"):
            if event.get("event") == "mispredicted":
                yield str(event.get("node")), event.get("severity") == "verdict"


def _members(document: object, key: str) -> Iterator[dict[str, Any]]:
    """Yield the objects in a list of foreign JSON; what is not as expected is passed over."""
    listed = document.get(key) if isinstance(document, dict) else None
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict):
            yield one


CHECKS: Final = (
    check_workloads,
    check_writers,
    check_caches,
    check_sources,
    check_unusable,
    check_predictions,
)
