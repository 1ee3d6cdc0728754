"""What a pod and its containers wish, read once from annotations, labels and requests.

Nothing is refused here: what cannot be read is listed in `PodWish.problems`, whose lines serve the
scheduler's refusal, the validating check and the admission webhook alike.

A pod's CPUs are bound because of its QoS label and priority class, whatever its Kubernetes QoS
class is; nodes may demand it as well (`placement_rule`). A container whose limit of CPU or memory
differs from its request is left unaligned with scope container unless an annotation names a policy
for it: so injected sidecars do not block a pod.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.koordinator import keys
from numakube.api.koordinator.devices import device_type_of
from numakube.api.koordinator.pod_annotations import NumaTopologySpec, ResourceSpec
from numakube.api.pod_resources import effective_requests, is_sidecar
from numakube.errors import InvalidValue
from numakube.kubelet.pod_demand import ContainerRole
from numakube.topology.allotments import CpuExclusive
from numakube.values.display import amount_text
from numakube.values.names import qualified_name
from numakube.values.quantity import parse_quantity
from numakube.values.resources import CPU, MEMORY, MILLI_PER_CPU, amounts_of
from numakube.values.topology_policy import TopologyPolicy, TopologyScope
from numakube_placement.koordinator.annotation_values import (
    NO_POLICY_NAMES,
    BindPolicy,
    Exclusive,
    Strategy,
    annotation,
    label,
    read_json,
    read_policy_name,
    read_word,
)
from numakube_placement.koordinator.pod_wish import (
    ContainerWish,
    CpuWish,
    PodWish,
    may_bind,
    qos_of,
)
from numakube_placement.koordinator.read_devices import device_wish_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from numakube.api.codec import QuantityText
    from numakube.api.pod import Container, Pod, ResourceRequirements
    from numakube.values.quantity import Quantity
    from numakube.values.resources import Amounts


NOT_WHOLE: Final = "the requested CPUs must be integer"
_DEFAULT: Final = "Default"
_BURST: Final = "ConstrainedBurst"
"""A word of Koordinator's API behind which no behaviour stands: such pods are not bound."""


@dataclass(frozen=True, slots=True)
class CpuRule:
    """What `keys.RESOURCE_SPEC` says, words understood and defaults filled in."""

    required: BindPolicy = BindPolicy.NONE
    preferred: BindPolicy = BindPolicy.NONE
    exclusive: CpuExclusive = CpuExclusive.NONE

    def wish(self, requests: Amounts, *, may_bind: bool) -> CpuWish:
        """Return the wish of a pod or container with *requests*."""
        effective = self.required or self.preferred
        return CpuWish(
            bound=may_bind and effective is not BindPolicy.NONE and requests.get(CPU, 0) > 0,
            required=self.required,
            preferred=self.preferred,
            exclusive=self.exclusive,
        )


def read_cpu_rule(
    spec: ResourceSpec, key: str, default: BindPolicy, problems: list[str]
) -> CpuRule:
    """Return what *spec*, the annotation *key*, says; ``Default`` stands for *default*."""
    required = _bind_policy(
        spec.required_cpu_bind_policy, annotation(key, "requiredCPUBindPolicy"), default, problems
    )
    preferred = _bind_policy(
        spec.preferred_cpu_bind_policy or _DEFAULT,
        annotation(key, "preferredCPUBindPolicy"),
        default,
        problems,
    )
    if spec.required_cpu_bind_policy == _BURST:
        preferred = BindPolicy.NONE
    text = spec.preferred_cpu_exclusive_policy
    exclusive = read_word(
        CpuExclusive,
        "" if text == "None" else text,
        annotation(key, "preferredCPUExclusivePolicy"),
        problems,
        also=("None",),
    )
    return CpuRule(required, preferred, exclusive or CpuExclusive.NONE)


def _bind_policy(text: str, place: str, default: BindPolicy, problems: list[str]) -> BindPolicy:
    if text == _DEFAULT:
        return default
    if text == _BURST:
        return BindPolicy.NONE
    word = read_word(BindPolicy, text, place, problems, also=(_DEFAULT,))
    return word or BindPolicy.NONE


def fraction(wish: PodWish, scope: TopologyScope) -> str | None:
    """Return who, bound by its class, asks for a part of a CPU under *scope*, if anybody does.

    The empty text is the pod as a whole. Plain init containers that do so are not bound.
    """
    if scope is TopologyScope.POD:
        return "" if wish.cpus.bound and wish.requests.get(CPU, 0) % MILLI_PER_CPU else None
    for container in wish.containers:
        asked = container.requests.get(CPU, 0)
        if container.cpus.bound and not container.ignored and asked % MILLI_PER_CPU:
            return container.name
    return None


def is_bindable(role: ContainerRole, requests: Amounts) -> bool:
    """Tell whether a container may be bound at all: init containers only to whole CPUs."""
    return role is not ContainerRole.INIT or requests.get(CPU, 0) % MILLI_PER_CPU == 0


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
    role: ContainerRole,
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


def _all(pod: Pod) -> Iterator[tuple[Container, ContainerRole, str]]:
    for index, container in enumerate(pod.spec.init_containers):
        role = ContainerRole.SIDECAR if is_sidecar(container) else ContainerRole.INIT
        yield container, role, f"spec.initContainers[{index}]"
    for index, container in enumerate(pod.spec.containers):
        yield container, ContainerRole.APP, f"spec.containers[{index}]"


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


_KUBELET_NAMES: Final = tuple(TopologyPolicy)


def wish_of(
    pod: Pod,
    *,
    default_bind: BindPolicy = BindPolicy.FULL_PCPUS,
    ignored_resources: Iterable[str] = (),
) -> PodWish:
    """Return what *pod* wishes.

    Args:
        pod: the pod.
        default_bind: how CPUs are picked if it does not say.
        ignored_resources: what is not aligned for any pod, besides what it says itself.
    """
    problems: list[str] = []
    annotations, labels = pod.metadata.annotations, pod.metadata.labels
    spec = read_json(NumaTopologySpec, annotations, keys.NUMA_TOPOLOGY_SPEC, problems)
    wish = _numa_wish(spec or NumaTopologySpec(), annotations, problems)
    cpu_spec = read_json(ResourceSpec, annotations, keys.RESOURCE_SPEC, problems) or ResourceSpec()
    rule = read_cpu_rule(cpu_spec, keys.RESOURCE_SPEC, default_bind, problems)
    binds = may_bind(labels, pod.spec.priority)
    containers = container_wishes_of(
        pod, rule, may_bind=binds, default_bind=default_bind, problems=problems
    )
    ignored = {
        container.name for container in containers if container.ignored_under(TopologyScope.POD)
    }
    requests = _requests_without(pod, ignored, problems)
    wish = replace(
        wish,
        ignored_resources=wish.ignored_resources.union(ignored_resources),
        requests=requests,
        cpus=rule.wish(requests, may_bind=binds),
        containers=tuple(_with_exclusive(container, wish) for container in containers),
        devices=device_wish_of(annotations, requests, containers, wish.scope, problems),
        container_keys=_scoped_keys(pod, containers),
    )
    problems += _misplaced(spec or NumaTopologySpec(), wish)
    problems += _mismatches(wish, qos_of(labels))
    return replace(wish, problems=tuple(problems))


def _numa_wish(
    spec: NumaTopologySpec, annotations: Mapping[str, str], problems: list[str]
) -> PodWish:
    """Return the part of the wish that is about alignment."""
    key = keys.NUMA_TOPOLOGY_SPEC
    if spec.ignored:
        problems.append(
            f"{annotation(key, 'ignored')}: is for single containers: set it in "
            f"{keys.CONTAINER_NUMA_TOPOLOGY_SPEC}<name>"
        )
    scope, strategy = spec.numa_topology_scope, spec.numa_allocate_strategy
    wish = PodWish(
        policy=read_policy(spec, key, problems) or TopologyPolicy.NONE,
        exclusive=read_exclusive(spec, key, problems),
        scope=read_word(TopologyScope, scope, annotation(key, "numaTopologyScope"), problems)
        if scope
        else None,
        strategy=read_word(Strategy, strategy, annotation(key, "numaAllocateStrategy"), problems)
        if strategy
        else None,
        ignored_resources=frozenset(spec.ignored_resources),
    )
    return wish if spec.numa_topology_policy else _volcano_wish(wish, annotations, problems)


def _volcano_wish(wish: PodWish, annotations: Mapping[str, str], problems: list[str]) -> PodWish:
    """Return *wish* with the policy of Volcano's annotation, which knows no exclusivity."""
    text = annotations.get(keys.VOLCANO_POLICY)
    if text is None:
        return wish
    if text not in _KUBELET_NAMES:
        known = ", ".join(_KUBELET_NAMES)
        place = annotation(keys.VOLCANO_POLICY)
        problems.append(f"{place}: unknown word {text!r}: use one of {known}")
        return wish
    return replace(
        wish,
        policy=TopologyPolicy(text),
        exclusive=Exclusive.NO if wish.exclusive is None else wish.exclusive,
    )


def _with_exclusive(container: ContainerWish, wish: PodWish) -> ContainerWish:
    """Return *container* with the default of exclusivity that a policy of its own brings along."""
    if container.aligns_itself and container.exclusive is None and wish.exclusive is None:
        return replace(container, exclusive=Exclusive.REQUIRED)
    return container


def _scoped_keys(pod: Pod, containers: Iterable[ContainerWish]) -> tuple[str, ...]:
    """Return the annotations that only make sense with scope container."""
    silent = {
        keys.CONTAINER_NUMA_TOPOLOGY_SPEC + container.name
        for container in containers
        if container.policy is None and container.exclusive is None
    }
    return tuple(key for key in container_keys_of(pod) if key not in silent)


def _misplaced(spec: NumaTopologySpec, wish: PodWish) -> Iterable[str]:
    """Yield resources that cannot be left out of alignment."""
    bound = wish.cpus.bound or any(container.cpus.bound for container in wish.containers)
    place = annotation(keys.NUMA_TOPOLOGY_SPEC, "ignoredResources")
    for name in spec.ignored_resources:
        if device_type_of(name):
            yield f"{place}: {name}: devices that the scheduler gives out are always aligned"
        elif name == CPU and bound:
            yield f"{place}: {name}: the pod gets CPUs of its own, which are always aligned"
        else:
            yield from (f"{place}: {name!r}: {problem}" for problem in qualified_name(name))


def _mismatches(wish: PodWish, qos: str) -> Iterable[str]:
    """Yield what is readable by itself but does not go together."""
    if wish.scope is TopologyScope.POD:
        for key in wish.container_keys:
            yield f"{annotation(key)}: needs numaTopologyScope container, but the pod sets pod"
    scopes = (wish.scope,) if wish.scope else (TopologyScope.POD, TopologyScope.CONTAINER)
    culprits = [fraction(wish, scope) for scope in scopes]
    if None in culprits:
        return
    culprit = culprits[-1]
    asked = wish.requests if not culprit else _requests_of(wish, culprit)
    amount = amount_text(CPU, asked.get(CPU, 0))
    whose = f" of container {culprit}" if culprit else ""
    yield f"{label(keys.QOS_CLASS)}: {qos}: {NOT_WHOLE}, not {amount}{whose}"


def _requests_of(wish: PodWish, name: str) -> Amounts:
    return next(container.requests for container in wish.containers if container.name == name)


def _requests_without(pod: Pod, ignored: Collection[str], problems: list[str]) -> Amounts:
    """Return what *pod* as a whole asks for, without its *ignored* containers."""
    spec = msgspec.structs.replace(
        pod.spec,
        resources=_completed(pod.spec.resources),
        containers=_kept(pod.spec.containers, ignored),
        init_containers=_kept(pod.spec.init_containers, ignored),
    )
    try:
        needed = effective_requests(msgspec.structs.replace(pod, spec=spec))
    except InvalidValue as error:
        if not any(".resources: " in problem for problem in problems):
            problems.append(f"spec.resources: {error}")
        return {}
    return {name: _amount(name, quantity) for name, quantity in needed.items() if quantity}


def _kept(containers: tuple[Container, ...], ignored: Collection[str]) -> tuple[Container, ...]:
    return tuple(
        msgspec.structs.replace(container, resources=_completed(container.resources))
        for container in containers
        if container.name not in ignored
    )


def _completed(resources: ResourceRequirements | None) -> ResourceRequirements | None:
    """Return *resources* with limits standing in for requests that are missing."""
    if resources is None or resources.limits.keys() <= resources.requests.keys():
        return resources
    return msgspec.structs.replace(resources, requests={**resources.limits, **resources.requests})


def _amount(name: str, quantity: Quantity) -> int:
    return quantity.milli_value() if name == CPU else quantity.value()
