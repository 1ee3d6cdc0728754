"""The pod of a daemon set on one node: whether there should be one, and what it looks like."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from numakube.api.affinity_and_taints import NAME_FIELD
from numakube.api.codec import convert
from numakube.api.pod import Pod
from numakube_lab.controllers.common.owner_references import owner_document
from numakube_lab.controllers.common.pod_states import (
    NO_EXECUTE,
    is_wanted_node,
    named_nodes,
    untolerated,
)
from numakube_lab.controllers.types.workload_types import DAEMON_SETS, DaemonSet
from numakube_lab.controllers.workloads.pod_from_template import pod_from_template
from numakube_lab.controllers.workloads.template_revisions import HASH_LABEL

if TYPE_CHECKING:
    from numakube.api.nodes import Node
    from numakube.api.pod import PodSpec
    from numakube.kube.resource_types import Document

_PREFIX: Final = "node.kubernetes.io/"
_NO_EXECUTE_TOLERATED: Final = ("not-ready", "unreachable")
_NO_SCHEDULE_TOLERATED: Final = (
    "disk-pressure",
    "memory-pressure",
    "pid-pressure",
    "unschedulable",
)
_HOST_NETWORK_TOLERATED: Final = "network-unavailable"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a node is to have the daemon.

    Attributes:
        runs: a pod should be started there.
        stays: a pod that is there may go on.
    """

    runs: bool
    stays: bool


def verdict_on(node: Node, spec: PodSpec) -> Verdict:
    """Tell whether a daemon with *spec* (see `pod_spec`) belongs on *node*."""
    if not is_wanted_node(spec, node):
        return Verdict(runs=False, stays=False)
    if untolerated(node.spec.taints, spec.tolerations) is None:
        return Verdict(runs=True, stays=True)
    evicts = untolerated(node.spec.taints, spec.tolerations, (NO_EXECUTE,)) is not None
    return Verdict(runs=False, stays=not evicts)


def pod_spec(daemon_set: DaemonSet) -> PodSpec:
    """Return the spec that decides about nodes: the template's, with the daemon's tolerations."""
    spec = daemon_set.spec.template.get("spec") or {}
    tolerant = {**spec, "tolerations": _tolerations(spec)}
    about = f"DaemonSet {daemon_set.metadata.key}: spec.template"
    return convert(Pod, {"spec": tolerant}, about).spec


def target_of(pod: Pod) -> str:
    """Return the node that *pod* is on or is meant for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    names = named_nodes(pod.spec)
    return min(names) if names else ""


def pod_for(daemon_set: DaemonSet, node: str, revision_hash: str) -> Document:
    """Return the pod for *node*."""
    pod = pod_from_template(
        daemon_set.spec.template,
        namespace=daemon_set.metadata.namespace,
        owner=owner_document(DAEMON_SETS, daemon_set),
        generate_name=f"{daemon_set.metadata.name}-",
        labels={HASH_LABEL: revision_hash},
    )
    spec = pod["spec"]
    placed = {"tolerations": _tolerations(spec), "affinity": _affinity(spec, node)}
    return {**pod, "spec": {**spec, **placed}}


def _affinity(spec: Document, node: str) -> Document:
    """Return the affinity of the template, with the requirements replaced by the node's name."""
    affinity: Document = spec.get("affinity") or {}
    wanted = {"key": NAME_FIELD, "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [wanted]}]}
    node_affinity = {**(affinity.get("nodeAffinity") or {}), _REQUIRED: required}
    return {**affinity, "nodeAffinity": node_affinity}


def _tolerations(spec: Document) -> list[Document]:
    """Return the tolerations of the template and those that every daemon has."""
    own = list(spec.get("tolerations") or ())
    return own + [each for each in _common(bool(spec.get("hostNetwork"))) if each not in own]


@lru_cache(maxsize=2)
def _common(host_network: bool) -> tuple[Document, ...]:
    no_schedule = _NO_SCHEDULE_TOLERATED + ((_HOST_NETWORK_TOLERATED,) if host_network else ())
    pairs = [(name, "NoExecute") for name in _NO_EXECUTE_TOLERATED]
    pairs += [(name, "NoSchedule") for name in no_schedule]
    return tuple(
        {"key": f"{_PREFIX}{name}", "operator": "Exists", "effect": effect}
        for name, effect in pairs
    )
