"""What the kubelet checks of a pod besides its resources, and its words when a check fails.

After alignment and resource fit come node selector and node affinity, host ports and NoExecute
taints; the first failure is the reason (Kubernetes 1.35, pkg/kubelet/lifecycle).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.affinity_and_taints import allows_node, tolerates
from numakube.api.pod_resources import is_sidecar
from numakube.kubelet.admission_outcome import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.affinity_and_taints import (
        Taint,
    )
    from numakube.api.pod import Pod

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
    if not allows_node(pod.spec, labels, node_name):
        return _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if _ports_clash(pod, others):
        return _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    if not all(_tolerates_any(pod, taint) for taint in taints if taint.effect == "NoExecute"):
        return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def _failed(name: str, text: str) -> Rejected:
    return Rejected(name, f"Predicate {name} failed: {text}")


def _tolerates_any(pod: Pod, taint: Taint) -> bool:
    return any(tolerates(toleration, taint) for toleration in pod.spec.tolerations)


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
