"""In-place resize of running pods, as far as the static managers have a say.

The managers give out CPUs and memory when a pod is admitted, and never again: a resize that would
need more, or fewer, of them is infeasible. The gates of exclusive CPUs and exclusive memory
(KEP-5554, alpha) only lift that refusal; the managers of Kubernetes 1.37 leave what they gave as it
is all the same. Follows ``pkg/kubelet/allocation`` of Kubernetes 1.33 to 1.37.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import structs

from numakube.api.pod_resources import GUARANTEED, is_sidecar, qos_class
from numakube.kubelet.admission_outcome import Rejected
from numakube.kubelet.resource_fit import check_fit, requested_amounts
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numakube.api.pod import Container, Pod
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.values.resources import Amounts

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
    refused = check_fit(wanted, others, allocatable)
    return None if refused is None else Rejected(DEFERRED, refused.message)


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
    before = {one.name: one for one in _resizable(allocated)}
    return any(
        _request(one, resource) != _request(before.get(one.name), resource)
        for one in _resizable(wanted)
    )


def _resizable(pod: Pod) -> Iterator[Container]:
    yield from filter(is_sidecar, pod.spec.init_containers)
    yield from pod.spec.containers


def _request(container: Container | None, resource: str) -> Quantity:
    resources = container.resources if container is not None else None
    return parse_quantity((resources.requests if resources else {}).get(resource, "0"))


def is_resized(allocated: Pod, wanted: Pod) -> bool:
    """Tell whether CPU or memory of any container is to change."""
    before = {one.name: one.resources for one in _resizable(allocated)}
    return any(one.resources != before.get(one.name) for one in _resizable(wanted))


def with_resources_of(pod: Pod, allocated: Pod) -> Pod:
    """Return *pod* with the resources that its containers have in *allocated*."""
    before = {one.name: one.resources for one in _resizable(allocated)}
    containers, sidecars = (
        tuple(structs.replace(one, resources=before.get(one.name, one.resources)) for one in some)
        for some in (pod.spec.containers, pod.spec.init_containers)
    )
    spec = structs.replace(pod.spec, containers=containers, init_containers=sidecars)
    return structs.replace(pod, spec=spec)
