"""What the kubelet checks besides its managers: the node's properties, room, and resizes.

After alignment and resource fit come node selector and node affinity, host ports and NoExecute
taints; the first failure is the reason (Kubernetes 1.35, pkg/kubelet/lifecycle).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import structs

from numakube.api.affinity_and_taints import allows_node, tolerates
from numakube.api.pod_resources import (
    GUARANTEED,
    effective_requests,
    is_sidecar,
    qos_class,
    resources_by_claim,
)
from numakube.kubelet.admission_outcome import Rejected
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    add_amounts,
    amount_of,
    is_extended,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numakube.api.affinity_and_taints import Taint
    from numakube.api.pod import Container, Pod
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.values.resources import Amounts


_OS_LABEL: Final = "kubernetes.io/os"
_LINUX: Final = "linux"


def check_system(pod: Pod) -> Rejected | None:
    """Return why a Linux kubelet rejects *pod* before it looks at resources."""
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


# The resource fit that the kubelet checks after alignment, with its words.
#
# It repeats what a scheduler should have checked: the sum of requests against the node's
# allocatable. Pods that were bound by hand or by two schedulers at once fail here.


# The kubelet reports the first of these that does not fit, then any other resource.
_ORDER = (CPU, MEMORY, EPHEMERAL_STORAGE)


def requested_amounts(pod: Pod) -> dict[str, int]:
    """Return what *pod* counts for: requests of all containers at its peak, and overhead."""
    return {
        name: amount_of(name, str(quantity)) for name, quantity in effective_requests(pod).items()
    }


def check_fit(pod: Pod, others: Iterable[Pod], allocatable: Amounts) -> Rejected | None:
    """Return why *pod* does not fit beside *others* on a node; ``None`` if it does."""
    running = list(others)
    used = add_amounts(*(requested_amounts(other) for other in running))
    left_to_claims = {name for _, name in resources_by_claim(pod)}
    wanted = {
        name: amount
        for name, amount in requested_amounts(pod).items()
        if name not in left_to_claims
    }
    return fit_rejection(wanted, used, len(running), allocatable)


def fit_rejection(
    wanted: Amounts, used: Amounts, running: int, allocatable: Amounts
) -> Rejected | None:
    """Return why a pod that asks for *wanted* does not fit beside others, as `check_fit` does.

    Args:
        wanted: its `requested_amounts`.
        used: those of the others together.
        running: how many others there are.
        allocatable: what pods may use of the node.
    """
    limit = allocatable.get(PODS, 0)
    if running + 1 > limit:
        return _out_of(PODS, 1, running, limit)
    names = [*_ORDER, *(name for name in wanted if name not in _ORDER)]
    for name in names:
        want, capacity = wanted.get(name, 0), allocatable.get(name)
        if capacity is None and is_extended(name):
            continue  # no plugin here knows the resource; the kubelet lets it pass
        if want and want + used.get(name, 0) > (capacity or 0):
            return _out_of(name, want, used.get(name, 0), capacity or 0)
    return None


def _out_of(name: str, requested: int, used: int, capacity: int) -> Rejected:
    return Rejected(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, "
        f"capacity: {capacity}",
    )


# In-place resize of running pods, as far as the static managers have a say.
#
# The managers give out CPUs and memory when a pod is admitted, and never again: a resize that would
# need more, or fewer, of them is infeasible. The gates of exclusive CPUs and exclusive memory
# (KEP-5554, alpha) only lift that; the managers of Kubernetes 1.37 leave what they gave as
# it is all the same. Follows ``pkg/kubelet/allocation`` of Kubernetes 1.33 to 1.37.


INFEASIBLE: Final = "Infeasible"
"""The reason of a resize that the kubelet will not try again."""
DEFERRED: Final = "Deferred"
"""The reason of a resize that waits for room on the node."""

_RESIZED_BY_RESOURCE: Final = (1, 34)
_OLD: Final = "Resize is infeasible for Guaranteed Pods alongside {manager} Manager static policy"
_NEW: Final = (
    'Resize is infeasible for Guaranteed Pods alongside {manager} Manager policy "{policy}"'
)


def resize_refusal(node: KubeletNode, allocated: Pod, wanted: Pod) -> Rejected | None:
    """Return why the kubelet leaves a pod as it was admitted; ``None`` if its managers allow it.

    Args:
        node: the kubelet.
        allocated: the pod with the resources that the kubelet has given it.
        wanted: the pod with the resources that it is to have.
    """
    if not node.settings.gate("InPlacePodVerticalScaling", node.behaviour.version):
        return Rejected(INFEASIBLE, "InPlacePodVerticalScaling is disabled")
    if qos_class(wanted) != GUARANTEED:
        return None
    for resource, manager, policy, gate in _managers(node):
        if not node.settings.gate(gate, node.behaviour.version) and _concerns(
            node, resource, allocated, wanted
        ):
            old = node.behaviour.version < _RESIZED_BY_RESOURCE
            text = (_OLD if old else _NEW).format(manager=manager, policy=policy)
            return Rejected(INFEASIBLE, text)
    return None


def room_refusal(wanted: Pod, others: Iterable[Pod], allocatable: Amounts) -> Rejected | None:
    """Return why the node has no room for a resize; ``None`` if it has."""
    asked = requested_amounts(wanted)
    for name in (MEMORY, CPU):
        if asked.get(name, 0) > allocatable.get(name, 0):
            amounts = f"requested: {asked[name]}, capacity: {allocatable.get(name, 0)}"
            return Rejected(INFEASIBLE, f"Node didn't have enough capacity: {name}, {amounts}")
    rejected = check_fit(wanted, others, allocatable)
    return None if rejected is None else Rejected(DEFERRED, rejected.message)


def _managers(node: KubeletNode) -> Iterator[tuple[str, str, str, str]]:
    """Yield resource, name, policy and gate of each static manager."""
    cpus = "InPlacePodVerticalScalingExclusiveCPUs"
    old = node.behaviour.version < _RESIZED_BY_RESOURCE
    if node.cpus is not None:
        yield CPU, "CPU", "static", cpus
    if node.memory is not None:
        yield MEMORY, "Memory", "Static", cpus if old else cpus.replace("CPUs", "Memory")


def _concerns(node: KubeletNode, resource: str, allocated: Pod, wanted: Pod) -> bool:
    """Tell whether a resize changes what the manager of *resource* looks at; any did in 1.33."""
    if node.behaviour.version < _RESIZED_BY_RESOURCE:
        return True
    before = {container.name: container for container in _resizable(allocated)}
    return any(
        _request(container, resource) != _request(before.get(container.name), resource)
        for container in _resizable(wanted)
    )


def _resizable(pod: Pod) -> Iterator[Container]:
    yield from filter(is_sidecar, pod.spec.init_containers)
    yield from pod.spec.containers


def _request(container: Container | None, resource: str) -> Quantity:
    resources = container.resources if container is not None else None
    return parse_quantity((resources.requests if resources else {}).get(resource, "0"))


def is_resized(allocated: Pod, wanted: Pod) -> bool:
    """Tell whether CPU or memory of any container is to change."""
    before = {container.name: container.resources for container in _resizable(allocated)}
    return any(
        container.resources != before.get(container.name) for container in _resizable(wanted)
    )


def with_resources_of(pod: Pod, allocated: Pod) -> Pod:
    """Return *pod* with the resources that its containers have in *allocated*."""
    before = {container.name: container.resources for container in _resizable(allocated)}
    containers, sidecars = (
        tuple(
            structs.replace(container, resources=before.get(container.name, container.resources))
            for container in some
        )
        for some in (pod.spec.containers, pod.spec.init_containers)
    )
    spec = structs.replace(pod.spec, containers=containers, init_containers=sidecars)
    return structs.replace(pod, spec=spec)
