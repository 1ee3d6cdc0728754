"""Is there a usable NodeResourceTopology for every node, and does it say what the kubelet says?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.pod import Pod
from numakube.insight.collected import TOPOLOGIES
from numakube.insight.deployed_programs import ProgramRole, deployed
from numakube.insight.doctor.findings import (
    Finding,
    Rule,
    Severity,
    about_cluster,
    about_node,
    about_report,
)
from numakube.insight.doctor.kubelet_config_checks import config_of
from numakube.insight.facts import NOT_READY, troubles_of
from numakube.insight.object_ages import age_seconds
from numakube.scheduling.matching import required_nodes
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology import nrt_names
from numakube.topology.topology_view import NodeTopology, Producer, Unusable
from numakube.values.display import age_words, amount_text
from numakube.values.resources import CPU, MEMORY, MILLI_PER_CPU, amounts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.api.nodes import Node
    from numakube.insight.facts import ClusterFacts

_CLOCKS_SECONDS: Final = 60
_NEW_NODE_SECONDS: Final = 120
_CONTROL_PLANE: Final = (
    "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master",
)  # fmt: skip
_TOLERANCE: Final = 0.05
"""Kernel and cAdvisor do not quite agree on how much memory there is."""
_ABSENT: Final = "does not have it"
_OTHER_EXPORTER: Final = "# run `numakube run exporter` on the node"

CRD_MISSING: Final = Rule(
    id="NUMA-NRT-CRD-MISSING",
    severity=Severity.ERROR,
    title="The kind NodeResourceTopology is not defined",
    why="Exporters cannot publish zones, so no scheduler knows of any.",
    fix="numakube deploy api",
)
OLD_API: Final = Rule(
    id="NUMA-NRT-OLD-API",
    severity=Severity.WARNING,
    title="The definition of NodeResourceTopology is an old one",
    why=(
        "Reports are read, but only topologyPolicies describes a kubelet: no options, no"
        " policies of its CPU and Memory Manager. numakube's exporter cannot write such objects."
    ),
    fix=(
        "numakube deploy api   # adds v1alpha2 and keeps v1alpha1\n"
        "# If objects are in namespaces, delete the definition first, because its scope cannot be\n"
        "# changed; producers write their objects again:\n"
        "# kubectl delete crd noderesourcetopologies.topology.node.k8s.io"
    ),
)
MISSING: Final = Rule(
    id="NUMA-NRT-MISSING",
    severity=Severity.WARNING,
    title="A node has no NodeResourceTopology",
    why="Its zones are not known: pods are placed there without any promise of alignment.",
    fix=(
        "kubectl get pods -A -o wide --field-selector spec.nodeName=NODE   # is an exporter there?"
        " tolerations, nodeSelector?"
    ),
)
UNUSABLE: Final = Rule(
    id="NUMA-NRT-UNUSABLE",
    severity=Severity.ERROR,
    title="A NodeResourceTopology cannot be used",
    why="The node is treated as one whose zones are not known.",
    fix="kubectl numa check reports NODE   # names the fields; mend the program that writes them",
)
ODD: Final = Rule(
    id="NUMA-NRT-ODD",
    severity=Severity.WARNING,
    title="Parts of a NodeResourceTopology are invalid",
    why="They are ignored, and the scheduler does not know what they were meant to say.",
    fix="kubectl numa check reports NODE   # names the fields; mend the program that writes them",
)
STALE: Final = Rule(
    id="NUMA-NRT-STALE",
    severity=Severity.WARNING,
    title="A NodeResourceTopology says itself that it is old",
    why="The exporter cannot reach the kubelet; pods are placed by what was known before.",
    fix="kubectl get node NODE   # is the kubelet up? then the log of the exporter on that node",
)
SILENT: Final = Rule(
    id="NUMA-NRT-SILENT",
    severity=Severity.WARNING,
    title="An exporter that reports only surprises has been silent for too long",
    why=(
        "It promised to write more often (--max-silence). If it is dead, nothing tells of pods that"
        " got something else than the scheduler foresaw."
    ),
    fix=(
        "kubectl get pods -A -o wide --field-selector spec.nodeName=NODE   # does its exporter run?"
        " restart it, and read its log"
    ),
)
DRIFT: Final = Rule(
    id="NUMA-NRT-POLICY-DRIFT",
    severity=Severity.ERROR,
    title="A NodeResourceTopology and its kubelet differ in their configuration",
    why=(
        "The scheduler foresees what a kubelet of the reported configuration would do; the real one"
        " decides otherwise, and rejects pods."
    ),
    fix=(
        "# restart the exporter of the node; some write these attributes only once. If it has\n"
        "# fixed values (--topology-manager-policy, TOPOLOGY_MANAGER_POLICY), remove them. If the\n"
        "# report tells no policy at all, the exporter does not find the kubelet's configuration:\n"
        "# mount the file that the kubelet reads (--config of its command line), and name it\n"
        "# (--kubelet-config-file)"
    ),
)
UNKNOWN_POLICY: Final = Rule(
    id="NUMA-NRT-POLICY-UNKNOWN",
    severity=Severity.ERROR,
    title="A report does not contain the kubelet's policy",
    why=(
        "What the kubelet will do with a pod cannot be foreseen: our schedulers take the node for"
        " one without zones, and others take its policy for none."
    ),
    fix=(
        "# one of these, for the exporter on the node:\n"
        "#  the right to get nodes/configz (kubelets 1.33 and later; `manifests render exporter`\n"
        "#    has it), and a way to port 10250 of its own node; before 1.33: nodes/proxy\n"
        "#  the file that the kubelet reads, mounted, and --kubelet-config-file=PATH;\n"
        "#    on the node, `ps -o args= -C kubelet` tells it (--config)\n"
        "#  --topology-manager-policy and --topology-manager-scope by hand"
    ),
)
CAPACITY: Final = Rule(
    id="NUMA-NRT-CAPACITY",
    severity=Severity.WARNING,
    title="The zones of a node and the node itself differ in size",
    why=(
        "One of them is outdated or wrong: pods are refused that would fit, or sent where they do"
        " not."
    ),
    fix="# restart the exporter of the node; if that does not help, the kubelet",
)
ORPHAN: Final = Rule(
    id="NUMA-NRT-ORPHAN",
    severity=Severity.INFO,
    title="A NodeResourceTopology belongs to no node",
    why="It does no harm, but lists show a node that is gone.",
    fix="kubectl delete noderesourcetopology NODE   # `numakube run gc` does it by itself",
)
NOT_LIVE: Final = Rule(
    id="NUMA-NRT-NOT-LIVE",
    severity=Severity.INFO,
    title="A NodeResourceTopology never says what is in use",
    why=(
        "koordlet reports the size of zones only; what pods hold has to be reckoned, and pods of"
        " other schedulers are guessed at."
    ),
    fix=_OTHER_EXPORTER,
)
INEXACT: Final = Rule(
    id="NUMA-NRT-INEXACT",
    severity=Severity.WARNING,
    title="numakube's exporter publishes no exact data for a node",
    why="Placement goes by amounts; single CPUs, caches and memory groups are not foreseen.",
    fix=(
        "# what the exporter lacks is said above: let it read the kubelet's folder\n"
        "# (--kubelet-state-dir), its configuration, its socket and the pods of the node.\n"
        "# Two sources that disagree come to agree within seconds, or the kubelet needs a restart"
    ),
)

ORPHANED: Final = Rule(
    id="NUMA-NRT-NO-EXPORTER",
    severity=Severity.ERROR,
    title="Nobody keeps a NodeResourceTopology up to date: its exporter is gone",
    why=(
        "What pods hold is reckoned from the last report and the pods that the API server knows."
        " What the kubelet did otherwise is not seen, and other schedulers believe an old report."
    ),
    fix=(
        "kubectl get pods -A -o wide --field-selector spec.nodeName=NODE   # is an exporter there?"
        " tolerations, nodeSelector, affinity? its log"
    ),
)
OVERWRITTEN: Final = Rule(
    id="NUMA-NRT-OVERWRITTEN",
    severity=Severity.WARNING,
    title="Another program has written a report of numakube's exporter",
    why=(
        "Its zones are used, and the exact data that is still on the object is not: placement goes"
        " by amounts. If both programs run, each undoes what the other writes."
    ),
    fix=(
        "# let one of them run on a node:\n"
        "numakube deploy --adopt        # ours; the other is stopped\n"
        "# numakube remove exporter     # the other; takes our data off the reports"
    ),
)

RULES: Final = (
    CRD_MISSING, OLD_API, MISSING, UNUSABLE, ODD, STALE, SILENT, DRIFT, UNKNOWN_POLICY, CAPACITY,
    ORPHAN, NOT_LIVE, INEXACT, OVERWRITTEN, ORPHANED,
)  # fmt: skip


def check_presence(facts: ClusterFacts) -> Iterator[Finding]:
    """Look for nodes without a report, and reports without a node."""
    missing = facts.missing(TOPOLOGIES)
    # Reports of another kind, Volcano's, serve as well.
    if missing is not None and not (facts.topologies and _ABSENT in missing.why):
        if _ABSENT in missing.why:
            detail = (
                "the API server serves noderesourcetopologies of topology.node.k8s.io neither in"
                " v1alpha2 nor in v1alpha1"
            )
            yield about_cluster(CRD_MISSING, detail)
        return
    if facts.old_topologies:
        where = " and in namespaces" if facts.topologies_in_namespaces else ""
        yield about_cluster(OLD_API, f"the API server serves objects in v1alpha1 only{where}")
    chosen = _chosen_by_exporters(facts)
    for name, node in facts.nodes.items():
        if name not in facts.topologies and _should_report(facts, node) and chosen(node):
            fix = MISSING.fix_for(NODE=name)
            yield about_node(MISSING, name, "there is no object of the node's name", fix=fix)
    for name in facts.topologies:
        if name not in facts.nodes:
            fix = ORPHAN.fix_for(NODE=name)
            yield about_report(ORPHAN, name, "there is no node of that name", fix=fix)


def _chosen_by_exporters(facts: ClusterFacts) -> Callable[[Node], bool]:
    """Return what tells whether exporters are meant to run on a node; if unknown, on all.

    Their selectors say so. That a taint keeps them away is no wish, but an oversight.
    """
    rules = [
        required_nodes(PodInfo(Pod(spec=one.workload.spec.template.spec)))
        for one in deployed(facts, ProgramRole.EXPORTER)
        if one.kind == "DaemonSet"
    ]

    def is_chosen(node: Node) -> bool:
        meta = node.metadata
        return not rules or any(rule.matches(meta.labels, meta.name) for rule in rules)

    return is_chosen


def _should_report(facts: ClusterFacts, node: Node) -> bool:
    """Tell whether a node is up, not just new, and meant for pods of users."""
    age = age_seconds(facts, node.metadata.creation_timestamp)
    if age is not None and age < _NEW_NODE_SECONDS:
        return False
    if node.metadata.labels.get("kubernetes.io/os", "linux") != "linux":
        return False
    ready = next(
        (condition.status for condition in node.status.conditions if condition.type == "Ready"),
        "True",
    )
    tainted = {taint.key for taint in node.spec.taints if taint.effect != "PreferNoSchedule"}
    return ready == "True" and not tainted & set(_CONTROL_PLANE)


def check_content(facts: ClusterFacts) -> Iterator[Finding]:
    """Read every report as a scheduler does."""
    for name in facts.topologies:
        if name not in facts.nodes:
            continue
        view = facts.view(name)
        if isinstance(view, Unusable):
            fix = UNUSABLE.fix_for(NODE=name)
            yield about_report(UNUSABLE, name, view.reason, field="zones", fix=fix)
        elif view is not None:
            yield from _content(name, view)
            yield from _silence(facts, name, view)
            # Of a node that is not ready, its pods are not ready either.
            if view.orphaned and NOT_READY not in troubles_of(facts.nodes[name]):
                fix = ORPHANED.fix_for(NODE=name)
                yield about_report(ORPHANED, name, view.orphaned, fix=fix)


def _silence(facts: ClusterFacts, name: str, view: NodeTopology) -> Iterator[Finding]:
    """Tell of an exporter that has missed two heartbeats; clocks may differ a little."""
    if view.heartbeat is None or view.stale:
        return
    age = age_seconds(facts, view.heartbeat.at)
    if age is not None and age > view.heartbeat.overdue_seconds + _CLOCKS_SECONDS:
        promised = age_words(view.heartbeat.seconds)
        detail = f"it wrote {age_words(age)} ago and promised to every {promised}"
        yield about_report(SILENT, name, detail, fix=SILENT.fix_for(NODE=name))


def _content(name: str, view: NodeTopology) -> Iterator[Finding]:
    if view.stale_reason is not None:
        fix = STALE.fix_for(NODE=name)
        yield about_report(STALE, name, view.stale_reason, field="attributes", fix=fix)
    for problem in view.problems:
        yield about_report(ODD, name, problem, fix=ODD.fix_for(NODE=name))
    if view.policy_unknown:
        fix = _OTHER_EXPORTER if view.producer is Producer.VOLCANO else ""
        yield about_report(UNKNOWN_POLICY, name, view.policy_unknown, field="attributes", fix=fix)
    if not view.live:
        yield about_report(NOT_LIVE, name, f"{view.producer} wrote it")
    ours = view.producer is Producer.NUMAKUBE and not view.policy_unknown
    if ours and view.report is None and not view.problems:
        why = view.why_inexact or f"the annotation {nrt_names.EXACT_ANNOTATION} is missing"
        yield about_report(INEXACT, name, why, field="metadata.annotations")
    if view.overwritten:
        yield about_report(OVERWRITTEN, name, view.why_inexact, field="metadata.annotations")


def check_drift(facts: ClusterFacts) -> Iterator[Finding]:
    """Compare what reports say of kubelets with what kubelets say of themselves."""
    for name in facts.nodes:
        view, config = facts.view(name), config_of(facts, name)
        if isinstance(view, NodeTopology) and config is not None and not view.policy_unknown:
            for field, reported, real in _differences(view, config):
                detail = f"{field}: the report says {reported}, the kubelet {real}"
                yield about_report(DRIFT, name, detail, field=f"attributes[{field}]")


def _differences(
    view: NodeTopology, config: KubeletConfiguration
) -> Iterator[tuple[str, str, str]]:
    told: tuple[tuple[str, str | None, str], ...] = (
        ("topologyManagerPolicy", view.policy, config.topology_manager_policy),
        ("topologyManagerScope", view.scope, config.topology_manager_scope),
        ("cpuManagerPolicy", view.cpu_manager_policy, config.cpu_manager_policy),
        ("memoryManagerPolicy", view.memory_manager_policy, config.memory_manager_policy),
    )
    for field, reported, real in told:
        if reported is not None and reported != real:
            yield field, reported, real
    for option, reported in view.cpu_manager_options.items():
        real = config.cpu_manager_policy_options.get(option, "false")
        if reported != real:
            yield f"cpuManagerPolicyOptions.{option}", reported, real


def check_sizes(facts: ClusterFacts) -> Iterator[Finding]:
    """Compare the sum over zones with what the node may give to pods."""
    for name, node in facts.nodes.items():
        view = facts.view(name)
        if isinstance(view, NodeTopology):
            yield from _cpus(name, node, view)
            yield from _memory(name, node, view)


def _cpus(name: str, node: Node, view: NodeTopology) -> Iterator[Finding]:
    offered = amounts_of(node.status.allocatable).get(CPU)
    if offered is None or not _lists(view, CPU):
        return
    listed = sum(zone.allocatable.get(CPU, 0) for zone in view.zones)
    # The CPU Manager keeps whole CPUs for what is reserved in parts.
    if not offered - MILLI_PER_CPU < listed <= _capacity(node, CPU, offered):
        yield _size(name, CPU, listed, offered)


def _memory(name: str, node: Node, view: NodeTopology) -> Iterator[Finding]:
    offered = amounts_of(node.status.allocatable).get(MEMORY)
    if not offered or not _lists(view, MEMORY):
        return
    listed = sum(zone.allocatable.get(MEMORY, 0) for zone in view.zones)
    lowest = offered * (1 - _TOLERANCE)
    highest = _capacity(node, MEMORY, offered) * (1 + _TOLERANCE)
    if not lowest <= listed <= highest:
        yield _size(name, MEMORY, listed, offered)


def _lists(view: NodeTopology, resource: str) -> bool:
    """Tell whether zones have *resource*: with its manager off they have none, which is right."""
    return any(zone.allocatable.get(resource) for zone in view.zones)


def _capacity(node: Node, resource: str, at_least: int) -> int:
    return max(amounts_of(node.status.capacity).get(resource, 0), at_least)


def _size(name: str, resource: str, listed: int, offered: int) -> Finding:
    detail = (
        f"{resource}: all zones together {amount_text(resource, listed)}, the node"
        f" {amount_text(resource, offered)}"
    )
    return about_report(CAPACITY, name, detail, field=f"zones[].resources[{resource}]")


CHECKS: Final = (check_presence, check_content, check_drift, check_sizes)
