"""Do nodes whose NUMA placement the scheduler decides have what that takes?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.koordinator import keys
from numakube.api.pod import has_ended
from numakube.insight.doctor.findings import (
    Finding,
    FindingSubject,
    Rule,
    Severity,
    about_node,
    about_report,
)
from numakube.topology.topology_view import NodeTopology
from numakube.values.cpuset import CpuSet
from numakube_placement.koordinator.allotments import allotment_of
from numakube_placement.koordinator.read_node import facts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.insight import ClusterFacts
    from numakube_placement.koordinator.node_facts import NodeFacts

_LABELS: Final = (
    keys.NODE_POLICY,
    keys.NODE_SCOPE,
    keys.NODE_BIND_POLICY,
    keys.NODE_STRATEGY,
)
_AGENTS: Final = ("koordlet",)
"""Images of others that apply what a scheduler gave a pod."""
_OURS: Final = "enforcer"
_GIVES: Final = "--device-variables"

SETTINGS: Final = Rule(
    id="NUMA-PLACEMENT-SETTINGS",
    severity=Severity.WARNING,
    title="A setting of a node that NUMA placement depends on is not understood",
    why="It counts as not set, so pods are not placed as its owner means.",
    fix="kubectl label node NODE LABEL=VALUE --overwrite"
    "   # docs/reference/policy-by-annotation.md",
)
OVERRULED: Final = Rule(
    id="NUMA-PLACEMENT-OVERRULED",
    severity=Severity.WARNING,
    title="A label of a node contradicts its kubelet",
    why=(
        "A kubelet with a Topology Manager policy aligns all pods by it; the label does not count, "
        "and pods that want what it says are refused there."
    ),
    fix="kubectl label node NODE LABEL-   # or set topologyManagerPolicy: none in the kubelet",
)
NO_ZONES: Final = Rule(
    id="NUMA-PLACEMENT-NO-ZONES",
    severity=Severity.ERROR,
    title="A node should align pods, but its NUMA nodes are not known",
    why="Without a NodeResourceTopology every pod that is to be aligned there is refused.",
    fix="numakube manifests render exporter | kubectl apply -f -   # or run koordlet on the node",
)
NO_LAYOUT: Final = Rule(
    id="NUMA-PLACEMENT-NO-CPU-LAYOUT",
    severity=Severity.ERROR,
    title="A node should bind CPUs, but its CPUs are not known",
    why="Its report has no CPU topology, so every pod whose CPUs are to be bound is refused there.",
    fix="numakube manifests render exporter | kubectl apply -f -   # or run koordlet on the node",
)
NO_ENFORCER: Final = Rule(
    id="NUMA-PLACEMENT-NO-ENFORCER",
    severity=Severity.WARNING,
    title="No agent on the node applies what the scheduler gives pods",
    why=(
        "The scheduler counts NUMA nodes and CPUs for pods, but their containers may run anywhere "
        "on the node as long as no agent confines them."
    ),
    fix="numakube manifests render enforcer | kubectl apply -f -   # or run koordlet on the node",
)

STATIC_CPUS: Final = Rule(
    id="NUMA-PLACEMENT-STATIC-CPUS",
    severity=Severity.WARNING,
    title="Kubelet and scheduler both give out the CPUs of a node",
    why=(
        "The CPU Manager gives containers CPUs of its own choice, where the scheduler has given "
        "them others; what it pins is lost for pods whose CPUs the scheduler binds."
    ),
    fix="cpuManagerPolicy: none   # in the kubelet's configuration; drain the node first",
)
TWICE: Final = Rule(
    id="NUMA-PLACEMENT-CPU-TWICE",
    severity=Severity.ERROR,
    title="Two pods were given the same CPU",
    why=(
        "A binding came late, after its scheduler had given it up, or a user wrote the "
        "annotation by hand; the pods disturb each other."
    ),
    fix="kubectl delete pod -n NAMESPACE POD   # its replacement is given other CPUs",
)

NOT_INJECTED: Final = Rule(
    id="NUMA-PLACEMENT-DEVICES",
    severity=Severity.WARNING,
    title="Devices were counted by container, and no agent gives them to containers",
    why=(
        "CPUs and memory of each container are near its devices, but koordlet lets every container "
        "see all devices of its pod, and the enforcer gives none unless it is told to."
    ),
    fix=(
        "numakube run enforcer --device-variables   # for GPUs; for other devices use one pod for"
        " each container, or claims"
    ),
)

RULES: Final = (
    SETTINGS, OVERRULED, NO_ZONES, NO_LAYOUT, NO_ENFORCER, STATIC_CPUS, TWICE, NOT_INJECTED,
)  # fmt: skip


def check_placement(facts: ClusterFacts) -> Iterator[Finding]:
    """Look at the settings of every node, and at what they need."""
    for name in facts.nodes:
        known = _known(facts, name)
        yield from _settings(name, known)
        if known.kubelet_policy.aligns:
            continue
        if known.label_policy.aligns and not known.zones:
            named = known.label_policy.api_name
            detail = f"label {keys.NODE_POLICY} is {named}; there is no usable report"
            yield about_node(NO_ZONES, name, detail, field=_label(keys.NODE_POLICY))
        elif known.binds_all and known.cpus is None:
            detail = f"label {keys.NODE_BIND_POLICY} is set; annotation {keys.CPU_TOPOLOGY} is not"
            yield about_report(NO_LAYOUT, name, detail, field="metadata.annotations")
        yield from _enforcer(facts, name, known)
        yield from _static_cpus(facts, name, known)
        yield from _twice(facts, name)
        yield from _not_injected(facts, name)


def _known(facts: ClusterFacts, name: str) -> NodeFacts:
    view = facts.view(name)
    usable = view if isinstance(view, NodeTopology) else None
    nrt, device = facts.topologies.get(name), facts.objects.devices.get(name)
    return facts_of(facts.nodes[name], nrt, usable, device)


def _settings(name: str, known: NodeFacts) -> Iterator[Finding]:
    for problem in known.problems:
        text = problem.partition(": ")[2]
        label = next((label for label in _LABELS if label in text), "")
        rule = OVERRULED if "does not count" in text else SETTINGS
        names = {"NODE": name, **({"LABEL": label} if label else {})}
        yield about_node(rule, name, text, field=_label(label), fix=rule.fix_for(**names))


def _enforcer(facts: ClusterFacts, name: str, known: NodeFacts) -> Iterator[Finding]:
    """Tell of a node with results on its pods, or with labels that lead to some, and no agent."""
    if any(_applies(image) for image in _images(facts, name)):
        return
    given = [
        pod.metadata.key
        for pod in facts.pods_on(name)
        if keys.RESOURCE_STATUS in pod.metadata.annotations and not has_ended(pod)
    ]
    if given:
        more = f" and {len(given) - 1} more" if len(given) > 1 else ""
        detail = f"{given[0]}{more} was given NUMA nodes or CPUs there"
        yield about_node(NO_ENFORCER, name, detail)
    elif known.label_policy.aligns or known.binds_all:
        yield about_node(NO_ENFORCER, name, "its labels ask the scheduler to align pods")


def _static_cpus(facts: ClusterFacts, name: str, known: NodeFacts) -> Iterator[Finding]:
    view = facts.view(name)
    static = isinstance(view, NodeTopology) and view.cpu_manager_policy == "static"
    if static and (known.label_policy.aligns or known.binds_all):
        detail = "cpuManagerPolicy is static, and its labels ask the scheduler to align pods"
        yield about_node(STATIC_CPUS, name, detail, field="cpuManagerPolicy")


def _twice(facts: ClusterFacts, name: str) -> Iterator[Finding]:
    """Tell of pods whose CPUs another pod on the node was given before."""
    holders: list[tuple[str, int]] = []
    for pod in facts.pods_on(name):
        held = None if has_ended(pod) else allotment_of(pod, [])
        if held is None or not held.total.cpus:
            continue
        for other, cpus in holders:
            if shared := cpus & held.total.cpus:
                meta = pod.metadata
                detail = f"CPUs {CpuSet(shared)} of {name} are those of {other} too"
                yield Finding(
                    rule=TWICE,
                    subject=FindingSubject("Pod", meta.name, meta.namespace, keys.RESOURCE_STATUS),
                    detail=detail,
                    fix=TWICE.fix_for(NAMESPACE=meta.namespace, POD=meta.name),
                    node=name,
                )
        holders.append((pod.metadata.key, held.total.cpus))


def _not_injected(facts: ClusterFacts, name: str) -> Iterator[Finding]:
    """Tell of pods several of whose containers were given devices."""
    if any(_GIVES in words and _applies(words) for words in _images(facts, name)):
        return
    for pod in facts.pods_on(name):
        held = None if has_ended(pod) else allotment_of(pod, [])
        shares = {} if held is None else held.containers
        given = [container for container, share in shares.items() if share.devices]
        if len(given) > 1:
            meta = pod.metadata
            yield Finding(
                rule=NOT_INJECTED,
                subject=FindingSubject("Pod", meta.name, meta.namespace, keys.RESOURCE_STATUS),
                detail=f"containers {', '.join(given)} each have devices of their own there",
                node=name,
            )


def _images(facts: ClusterFacts, name: str) -> Iterator[tuple[str, ...]]:
    for pod in facts.pods_on(name):
        if not has_ended(pod):
            for container in pod.spec.containers:
                yield (container.image, *container.command, *container.args)


def _applies(words: tuple[str, ...]) -> bool:
    """Tell whether a container is an agent that applies what schedulers give."""
    image = words[0].rpartition("/")[2]
    if any(image.startswith(agent) for agent in _AGENTS):
        return True
    return _OURS in words and any("numakube" in word for word in words)


def _label(key: str) -> str:
    return f"metadata.labels[{key}]" if key else ""


CHECKS: Final = (check_placement,)
