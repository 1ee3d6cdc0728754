"""Are nodes and the API server of versions that we know, and complete?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.meta import release_of
from numakube.insight.doctor.findings import Finding, Rule, Severity, about_cluster, about_node
from numakube.kubelet.kubelet_versions import NEWEST, OLDEST
from numakube.values.resources import PODS, amounts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.nodes import Node
    from numakube.insight.facts import ClusterFacts

_OLDEST_API: Final = (1, 31)
_HOSTNAME: Final = "kubernetes.io/hostname"

OLD_KUBELET: Final = Rule(
    id="NUMA-NODE-OLD-KUBELET",
    severity=Severity.WARNING,
    title="A kubelet is older than those we know",
    why=(
        "What it does with pods cannot be foreseen exactly: its zones are judged by counts, and it"
        " may reject a pod that the counts let pass."
    ),
    fix=f"# update the node to Kubernetes {OLDEST[0]}.{OLDEST[1]} or newer",
)
NEW_KUBELET: Final = Rule(
    id="NUMA-NODE-NEW-KUBELET",
    severity=Severity.INFO,
    title="A kubelet is newer than those we know",
    why=f"It is taken for one of {NEWEST[0]}.{NEWEST[1]}, which may be wrong in details.",
    fix="# update numakube",
)
OLD_API: Final = Rule(
    id="NUMA-API-OLD",
    severity=Severity.WARNING,
    title="The API server is older than those we know",
    why="Some of what schedulers and exporters ask of it may be missing.",
    fix="# update the control plane to Kubernetes 1.31 or newer",
)
NO_PODS: Final = Rule(
    id="NUMA-NODE-NO-PODS",
    severity=Severity.ERROR,
    title="A node says that it takes no pods",
    why="Without a number of pods in its allocatable resources no scheduler puts any pod there.",
    fix="kubectl get node NODE -o jsonpath={.status.allocatable}   # the kubelet sets it: maxPods",
)
NO_HOSTNAME: Final = Rule(
    id="NUMA-NODE-NO-HOSTNAME",
    severity=Severity.WARNING,
    title="A node lacks the label kubernetes.io/hostname",
    why="Spreading and affinity by host leave it out, and so do volumes that are bound to a host.",
    fix="kubectl label node NODE kubernetes.io/hostname=NODE",
)

RULES: Final = (OLD_KUBELET, NEW_KUBELET, OLD_API, NO_PODS, NO_HOSTNAME)


def check_nodes(facts: ClusterFacts) -> Iterator[Finding]:
    """Look at every node by itself."""
    for name, node in facts.nodes.items():
        yield from _version(name, node)
        if node.status.allocatable and not amounts_of(node.status.allocatable).get(PODS):
            fix = NO_PODS.fix_for(NODE=name)
            field = "status.allocatable[pods]"
            yield about_node(NO_PODS, name, "allocatable has no pods", field=field, fix=fix)
        if _HOSTNAME not in node.metadata.labels:
            fix = NO_HOSTNAME.fix_for(NODE=name)
            field = "metadata.labels"
            yield about_node(NO_HOSTNAME, name, "the label is missing", field=field, fix=fix)


def _version(name: str, node: Node) -> Iterator[Finding]:
    text = node.status.node_info.kubelet_version if node.status.node_info else ""
    release = release_of(text)
    field = "status.nodeInfo.kubeletVersion"
    if release is not None and release < OLDEST:
        yield about_node(OLD_KUBELET, name, f"kubelet {text}", field=field)
    elif release is not None and release > NEWEST:
        yield about_node(NEW_KUBELET, name, f"kubelet {text}", field=field)


def check_server(facts: ClusterFacts) -> Iterator[Finding]:
    """Look at the version of the API server."""
    release = release_of(facts.version.git_version)
    if release is not None and release < _OLDEST_API:
        yield about_cluster(OLD_API, f"API server {facts.version.git_version}")


CHECKS: Final = (check_nodes, check_server)
