"""What a pod wishes, read once from its annotations, labels and requests.

Nothing is refused here: what cannot be read is listed in `PodWish.problems`, whose lines serve the
scheduler's refusal, the validating check and the admission webhook alike.

A pod's CPUs are bound because of its QoS label and priority class, whatever its Kubernetes QoS
class is; nodes may demand it as well (`numakube.koordinator.placement_rule`). A container whose
limit of CPU or memory differs from its request is left unaligned with scope container unless an
annotation names a policy for it: so injected sidecars do not block a pod.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.koordinator import keys
from numakube.api.koordinator.pod_annotations import NumaTopologySpec, ResourceSpec
from numakube.api.pod_resources import effective_requests
from numakube.errors import InvalidValue
from numakube.koordinator.annotation_json import annotation, label, read_json, read_word
from numakube.koordinator.annotation_values import BindPolicy, Exclusive, Strategy
from numakube.koordinator.device_resources import device_type_of
from numakube.koordinator.wish.pod_wish import ContainerWish, PodWish
from numakube.koordinator.wish.qos import may_bind, qos_of
from numakube.koordinator.wish.read_containers import (
    container_keys_of,
    container_wishes_of,
    read_exclusive,
    read_policy,
)
from numakube.koordinator.wish.read_cpu_binding import NOT_WHOLE, fraction, read_cpu_rule
from numakube.koordinator.wish.read_devices import device_wish_of
from numakube.values.display import amount_text
from numakube.values.names import qualified_name
from numakube.values.resources import CPU
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numakube.api.pod import Container, Pod, ResourceRequirements
    from numakube.values.quantity import Quantity
    from numakube.values.resources import Amounts

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
    ignored = {one.name for one in containers if one.ignored_under(TopologyScope.POD)}
    requests = _requests_without(pod, ignored, problems)
    wish = replace(
        wish,
        ignored_resources=wish.ignored_resources.union(ignored_resources),
        requests=requests,
        cpus=rule.wish(requests, may_bind=binds),
        containers=tuple(_with_exclusive(one, wish) for one in containers),
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
        keys.CONTAINER_NUMA_TOPOLOGY_SPEC + one.name
        for one in containers
        if one.policy is None and one.exclusive is None
    }
    return tuple(key for key in container_keys_of(pod) if key not in silent)


def _misplaced(spec: NumaTopologySpec, wish: PodWish) -> Iterable[str]:
    """Yield resources that cannot be left out of alignment."""
    bound = wish.cpus.bound or any(one.cpus.bound for one in wish.containers)
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
    return next(one.requests for one in wish.containers if one.name == name)


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
        msgspec.structs.replace(one, resources=_completed(one.resources))
        for one in containers
        if one.name not in ignored
    )


def _completed(resources: ResourceRequirements | None) -> ResourceRequirements | None:
    """Return *resources* with limits standing in for requests that are missing."""
    if resources is None or resources.limits.keys() <= resources.requests.keys():
        return resources
    return msgspec.structs.replace(resources, requests={**resources.limits, **resources.requests})


def _amount(name: str, quantity: Quantity) -> int:
    return quantity.milli_value() if name == CPU else quantity.value()
