"""What the kubelet checks of a pod besides its resources, and its words when a check fails.

After alignment and resource fit come node selector and node affinity, host ports and NoExecute
taints; the first failure is the reason (Kubernetes 1.35, pkg/kubelet/lifecycle).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.pods import is_sidecar
from numakube.kubelet.outcome import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.core import Pod
    from numakube.api.placement import (
        NodeSelectorRequirement,
        NodeSelectorTerm,
        Taint,
        Toleration,
    )

_OS_LABEL: Final = "kubernetes.io/os"
_LINUX: Final = "linux"


def check_system(pod: Pod) -> Rejected | None:
    """Return why a Linux kubelet refuses *pod* before it looks at resources."""
    if pod.metadata.labels.get(_OS_LABEL, _LINUX) != _LINUX:
        return Rejected(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        )
    if pod.spec.os is not None and pod.spec.os.name != _LINUX:
        return Rejected(
            "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
        )
    return None


def check_placement(
    pod: Pod,
    others: Iterable[Pod],
    *,
    node_name: str,
    labels: Mapping[str, str],
    taints: Iterable[Taint],
) -> Rejected | None:
    """Return why *pod* may not run on the node, resources apart; ``None`` if it may."""
    if not matches_node(pod, node_name=node_name, labels=labels):
        return _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if _ports_clash(pod, others):
        return _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    if not all(_tolerates_any(pod, taint) for taint in taints if taint.effect == "NoExecute"):
        return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def matches_node(pod: Pod, *, node_name: str, labels: Mapping[str, str]) -> bool:
    """Tell whether the pod's node selector and required node affinity allow the node."""
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    if affinity is None or affinity.required is None:
        return True
    terms = affinity.required.node_selector_terms
    return any(_matches_term(term, node_name, labels) for term in terms)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Tell whether *toleration* puts up with *taint*."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def _failed(name: str, text: str) -> Rejected:
    return Rejected(name, f"Predicate {name} failed: {text}")


def _tolerates_any(pod: Pod, taint: Taint) -> bool:
    return any(tolerates(toleration, taint) for toleration in pod.spec.tolerations)


def _matches_term(term: NodeSelectorTerm, node_name: str, labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    fields = {"metadata.name": node_name}
    return all(_holds(one, labels) for one in term.match_expressions) and all(
        _holds(one, fields) for one in term.match_fields
    )


def _holds(requirement: NodeSelectorRequirement, values: Mapping[str, str]) -> bool:
    actual = values.get(requirement.key)
    match requirement.operator:
        case "In":
            return actual in requirement.values
        case "NotIn":
            return actual not in requirement.values
        case "Exists":
            return actual is not None
        case "DoesNotExist":
            return actual is None
        case "Gt" | "Lt":
            return _compares(requirement, actual)
        case _:
            return False


def _compares(requirement: NodeSelectorRequirement, actual: str | None) -> bool:
    try:
        (bound,) = map(int, requirement.values)
        number = int(actual or "")
    except ValueError:
        return False
    return number > bound if requirement.operator == "Gt" else number < bound


def _ports_clash(pod: Pod, others: Iterable[Pod]) -> bool:
    wanted = set(_host_ports(pod))
    if not wanted:
        return False
    taken = {port for other in others for port in _host_ports(other)}
    return any(
        protocol == other_protocol
        and port == other_port
        and (address == other_address or "0.0.0.0" in (address, other_address))  # noqa: S104
        for address, protocol, port in wanted
        for other_address, other_protocol, other_port in taken
    )


def _host_ports(pod: Pod) -> Iterable[tuple[str, str, int]]:
    sidecars = filter(is_sidecar, pod.spec.init_containers)
    for container in (*sidecars, *pod.spec.containers):
        for port in container.ports:
            if port.host_port:
                yield port.host_ip or "0.0.0.0", port.protocol, port.host_port  # noqa: S104
