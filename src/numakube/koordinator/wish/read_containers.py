"""What the containers of a pod wish one by one, and the annotations that single one out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.koordinator import keys
from numakube.api.koordinator.pod_annotations import NumaTopologySpec, ResourceSpec
from numakube.api.pod_resources import is_sidecar
from numakube.errors import InvalidValue
from numakube.koordinator.annotation_json import (
    NO_POLICY_NAMES,
    annotation,
    read_json,
    read_policy_name,
    read_word,
)
from numakube.koordinator.annotation_values import BindPolicy, Exclusive
from numakube.koordinator.wish.pod_wish import ContainerWish
from numakube.koordinator.wish.read_cpu_binding import CpuRule, is_bindable, read_cpu_rule
from numakube.kubelet.pod_demand import Role
from numakube.values.quantity import parse_quantity
from numakube.values.resources import CPU, MEMORY, amounts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.codec import QuantityText
    from numakube.api.pod import Container, Pod
    from numakube.values.resources import Amounts
    from numakube.values.topology_policy import TopologyPolicy


def container_wishes_of(
    pod: Pod, rule: CpuRule, *, may_bind: bool, default_bind: BindPolicy, problems: list[str]
) -> tuple[ContainerWish, ...]:
    """Return what each container wishes, init containers first.

    Args:
        pod: the pod.
        rule: how the pod's CPUs are bound, unless a container has its own rule.
        may_bind: whether its class gets CPUs of its own.
        default_bind: what ``Default`` stands for.
        problems: where to note what cannot be understood.
    """
    annotations = pod.metadata.annotations
    _note_strangers(pod, problems)
    return tuple(
        _wish_of(
            container,
            role,
            requests_of(container, place, problems),
            _own_rule(container.name, annotations, default_bind, problems) or rule,
            _own_spec(container.name, annotations, problems),
            may_bind=may_bind,
            problems=problems,
        )
        for container, role, place in _all(pod)
    )


def container_keys_of(pod: Pod) -> tuple[str, ...]:
    """Return the annotations of *pod* that single out a container, sorted."""
    return tuple(sorted(key for key in pod.metadata.annotations if _prefix_of(key)))


def requests_of(container: Container, place: str, problems: list[str]) -> Amounts:
    """Return what *container* asks for; limits stand in, as they do in the API server."""
    resources = container.resources
    if resources is None:
        return {}
    try:
        asked = amounts_of({**resources.limits, **resources.requests})
    except InvalidValue as error:
        problems.append(f"{place}.resources: {error}")
        return {}
    return {name: amount for name, amount in asked.items() if amount > 0}


def _wish_of(
    container: Container,
    role: Role,
    requests: Amounts,
    rule: CpuRule,
    own: NumaTopologySpec,
    *,
    may_bind: bool,
    problems: list[str],
) -> ContainerWish:
    key = keys.CONTAINER_NUMA_TOPOLOGY_SPEC + container.name
    policy = read_policy(own, key, problems)
    exclusive = read_exclusive(own, key, problems)
    named = policy is not None and policy.aligns
    uneven = "" if named or own.ignored else _unevenness(container)
    return ContainerWish(
        name=container.name,
        role=role,
        requests=requests,
        cpus=rule.wish(requests, may_bind=may_bind and is_bindable(role, requests)),
        policy=policy,
        exclusive=exclusive,
        ignored=own.ignored or bool(uneven),
        why_ignored=f"annotation {key}" if own.ignored else uneven,
        uneven=bool(uneven),
    )


def read_policy(spec: NumaTopologySpec, key: str, problems: list[str]) -> TopologyPolicy | None:
    """Return the policy that *spec* names; ``None`` if it names none or an unknown one."""
    text = spec.numa_topology_policy
    place = annotation(key, "numaTopologyPolicy")
    return read_policy_name(text, place, problems) if text else None


def read_exclusive(spec: NumaTopologySpec, key: str, problems: list[str]) -> Exclusive | None:
    """Return what *spec* says of exclusivity; ``None`` if nothing, or an unknown word."""
    text = spec.single_numa_node_exclusive
    place = annotation(key, "singleNUMANodeExclusive")
    return read_word(Exclusive, text, place, problems) if text else None


def _own_spec(name: str, annotations: Mapping[str, str], problems: list[str]) -> NumaTopologySpec:
    key = keys.CONTAINER_NUMA_TOPOLOGY_SPEC + name
    spec = read_json(NumaTopologySpec, annotations, key, problems) or NumaTopologySpec()
    of_pods = {
        "numaTopologyScope": spec.numa_topology_scope,
        "numaAllocateStrategy": spec.numa_allocate_strategy,
        "ignoredResources": spec.ignored_resources,
    }
    problems += [
        f"{annotation(key, field)}: is for pods: set it in {keys.NUMA_TOPOLOGY_SPEC}"
        for field, text in of_pods.items()
        if text
    ]
    if spec.ignored and spec.numa_topology_policy not in ("", *NO_POLICY_NAMES):
        problems.append(f"{annotation(key, 'ignored')}: a container with a policy is not ignored")
    return spec


def _own_rule(
    name: str, annotations: Mapping[str, str], default_bind: BindPolicy, problems: list[str]
) -> CpuRule | None:
    key = keys.CONTAINER_RESOURCE_SPEC + name
    spec = read_json(ResourceSpec, annotations, key, problems)
    return None if spec is None else read_cpu_rule(spec, key, default_bind, problems)


def _unevenness(container: Container) -> str:
    """Say which limit differs from its request; empty if none does."""
    resources = container.resources
    if resources is None:
        return ""
    for name in (CPU, MEMORY):
        request, limit = resources.requests.get(name), resources.limits.get(name)
        if request is not None and limit is not None and _differ(request, limit):
            return f"its {name} limit differs from its request"
    return ""


def _differ(one: QuantityText, other: QuantityText) -> bool:
    try:
        return parse_quantity(one) != parse_quantity(other)
    except InvalidValue:
        return False


def _all(pod: Pod) -> Iterator[tuple[Container, Role, str]]:
    for index, container in enumerate(pod.spec.init_containers):
        role = Role.SIDECAR if is_sidecar(container) else Role.INIT
        yield container, role, f"spec.initContainers[{index}]"
    for index, container in enumerate(pod.spec.containers):
        yield container, Role.APP, f"spec.containers[{index}]"


def _prefix_of(key: str) -> str:
    prefixes = (keys.CONTAINER_NUMA_TOPOLOGY_SPEC, keys.CONTAINER_RESOURCE_SPEC)
    return next((prefix for prefix in prefixes if key.startswith(prefix)), "")


def _note_strangers(pod: Pod, problems: list[str]) -> None:
    """Note annotations for containers that the pod does not have."""
    names = {container.name for container, _, _ in _all(pod)}
    for key in container_keys_of(pod):
        name = key.removeprefix(_prefix_of(key))
        if name not in names:
            known = ", ".join(sorted(names))
            problems.append(f"{annotation(key)}: no container {name!r}: the pod has {known}")
